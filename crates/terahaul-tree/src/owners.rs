//! Users and groups: names for a sender's numbers, and a receiver's numbers for names.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::{Group, User};
use rustix::fs::Stat;
use terahaul_core::{MAX_NAME, Owner};

/// Answers that were asked for before; the system's are slow, and there are few different ones.
struct Known<K, V>(Mutex<HashMap<K, V>>);

impl<K: Eq + Hash + Clone, V: Clone> Known<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn find_or(&self, key: &K, ask: impl FnOnce() -> V) -> V {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.get(key) {
            return value.clone();
        }
        let value = ask();
        known.insert(key.clone(), value.clone());
        value
    }
}

/// Where the home of this user is, if there is one.
pub fn home_of(user: &str) -> Option<PathBuf> {
    User::from_name(user).ok().flatten().map(|user| user.dir)
}

/// A sender's owners, each made once.
pub(crate) struct Owners {
    known: Known<(u32, u32), Arc<Owner>>,
    numeric: bool,
}

impl Owners {
    pub(crate) fn new(numeric: bool) -> Self {
        Self { known: Known::new(), numeric }
    }

    pub(crate) fn of(&self, user: u32, group: u32) -> Arc<Owner> {
        self.known.find_or(&(user, group), || {
            let fits = |name: String| {
                let name = name.into_bytes();
                ((1..=MAX_NAME).contains(&name.len())).then(|| name.into_boxed_slice())
            };
            // Root's number means the same everywhere, whatever it is called.
            let asked = |number: u32| !self.numeric && number != 0;
            let user_name = asked(user).then(|| User::from_uid(user.into()).ok().flatten()).flatten();
            let group_name = asked(group).then(|| Group::from_gid(group.into()).ok().flatten()).flatten();
            Arc::new(Owner {
                user,
                group,
                user_name: user_name.and_then(|user| fits(user.name)),
                group_name: group_name.and_then(|group| fits(group.name)),
            })
        })
    }
}

/// The last owner that was found. Few entries in a row have different ones, and asking [`Owners`] takes a lock.
#[derive(Clone, Default)]
pub(crate) struct LastFound(Option<((u32, u32), Arc<Owner>)>);

impl LastFound {
    pub(crate) fn of(&mut self, owners: &Owners, user: u32, group: u32) -> &Owner {
        let known = self.0.take().filter(|(ids, _)| *ids == (user, group));
        let found = known.unwrap_or_else(|| ((user, group), owners.of(user, group)));
        &self.0.insert(found).1
    }
}

/// Whose a file shall be here. `None`: as the system makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

impl Ids {
    /// Whether what has this status is another user's than it shall be.
    pub(crate) fn change_user(self, stat: &Stat) -> bool {
        self.user.is_some_and(|user| user != stat.st_uid)
    }

    /// The same of its group.
    pub(crate) fn change_group(self, stat: &Stat) -> bool {
        self.group.is_some_and(|group| group != stat.st_gid)
    }
}

/// What a receiver makes of senders' owners, as far as the system lets this process.
pub(crate) struct Resolver {
    known: Known<Arc<Owner>, Ids>,
    numeric: bool,
    /// Root may give files to anybody.
    root: bool,
    groups: Vec<u32>,
}

impl Resolver {
    pub(crate) fn new(numeric: bool) -> Self {
        let mut groups: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
        groups.push(rustix::process::getegid().as_raw());
        Self { known: Known::new(), numeric, root: rustix::process::geteuid().is_root(), groups }
    }

    pub(crate) fn resolve(&self, owner: &Arc<Owner>) -> Ids {
        self.known.find_or(owner, || {
            let name = |name: &Option<Box<[u8]>>| {
                name.as_deref()
                    .filter(|_| !self.numeric)
                    .and_then(|name| str::from_utf8(name).ok())
                    .map(str::to_owned)
            };
            let user = name(&owner.user_name).and_then(|name| User::from_name(&name).ok().flatten());
            let group = name(&owner.group_name).and_then(|name| Group::from_name(&name).ok().flatten());
            let user = user.map_or(owner.user, |user| user.uid.as_raw());
            let group = group.map_or(owner.group, |group| group.gid.as_raw());
            Ids {
                user: self.root.then_some(user),
                group: (self.root || self.groups.contains(&group)).then_some(group),
            }
        })
    }
}

/// The last owner that was resolved. Few entries in a row have different ones, and asking [`Resolver`] takes a lock.
#[derive(Default)]
pub(crate) struct LastOwner(Option<(Arc<Owner>, Ids)>);

impl LastOwner {
    /// What `owner` comes to here.
    pub(crate) fn resolve(&mut self, owners: &Resolver, owner: &Arc<Owner>) -> Ids {
        match &self.0 {
            Some((last, ids)) if Arc::ptr_eq(last, owner) => *ids,
            _ => self.0.insert((Arc::clone(owner), owners.resolve(owner))).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(root: bool, numeric: bool) -> Resolver {
        Resolver { known: Known::new(), numeric, root, groups: vec![7] }
    }

    fn owner(user: u32, group: u32, user_name: Option<&str>) -> Arc<Owner> {
        let user_name = user_name.map(|name| name.as_bytes().into());
        Arc::new(Owner { user, group, user_name, group_name: None })
    }

    #[test]
    fn root_goes_by_names_and_then_by_numbers() {
        let ids = |user, group| Ids { user: Some(user), group: Some(group) };
        // Every system has a root; what it is called by a sender of another number is what counts.
        assert_eq!(resolver(true, false).resolve(&owner(4_000, 5, Some("root"))), ids(0, 5));
        assert_eq!(resolver(true, true).resolve(&owner(4_000, 5, Some("root"))), ids(4_000, 5));
        assert_eq!(resolver(true, false).resolve(&owner(4_000, 5, Some("no such user"))), ids(4_000, 5));
    }

    #[test]
    fn others_keep_what_is_theirs_and_their_own_groups() {
        let ids = resolver(false, false).resolve(&owner(0, 7, None));
        assert_eq!(ids, Ids { user: None, group: Some(7) });
        assert_eq!(resolver(false, false).resolve(&owner(0, 8, None)), Ids::default());
    }

    #[test]
    fn an_owner_is_made_once_and_root_has_no_name() {
        let owners = Owners::new(false);
        assert!(Arc::ptr_eq(&owners.of(0, 0), &owners.of(0, 0)));
        assert_eq!(owners.of(0, 0).user_name, None);
        let named = Owners::new(true).of(1, 1);
        assert_eq!((&named.user_name, &named.group_name), (&None, &None));
    }
}
