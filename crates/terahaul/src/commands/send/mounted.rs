//! Whether the disks are there that an earlier run has read from.
//!
//! A disk that is not mounted looks like a folder in which everything was removed, or is gone. So nothing is read, and nothing fails, before
//! something of what was below each path of the command line was seen again. Of several folders that stand for their content nobody knows any more which
//! one held what is gone; if something is that the depot has not all of, none of them may be empty. A path that led to a file or a link may
//! lead nowhere once all of that is at the depot.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use terahaul_core::{EntryIndex, EntryKind, TransferId};
use terahaul_net::client::Stored;
use terahaul_tree::{RootError, Roots};

use super::root_failure;
use crate::exit::{Exit, Failure};
use crate::output::counted;

/// What an earlier run has found below one path.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    /// Some of it is there, or cannot be looked at.
    is_there: bool,
    gone: Gone,
}

/// Entries that an earlier run has found and that are not here any more.
#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    entries: u64,
    /// Those of which the depot has all.
    durable: u64,
}

impl Gone {
    fn add(&mut self, is_durable: bool) {
        self.entries += 1;
        self.durable += u64::from(is_durable);
    }

    fn is_all_durable(self) -> bool {
        self.durable == self.entries
    }
}

/// Nobody is to take what was only declared for safe.
impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the depot has {} of {}", self.durable, counted(self.entries, "entry", "entries"))
    }
}

/// Fails where a disk may be missing. Others may be there in place of what was sent and removed, if all of that has arrived.
pub fn check(
    roots: &Roots,
    stored: &Stored,
    has_durable: impl Fn(EntryIndex) -> bool,
    transfer: TransferId,
) -> Result<(), Failure> {
    check_gone(roots, stored, &has_durable, transfer)?;
    let mut below: BTreeMap<&Path, Below> = BTreeMap::new();
    let mut nowhere = Gone::default();
    for (index, entry) in (0..).map(EntryIndex).zip(&stored.entries) {
        if roots.is_nowhere(&entry.path) && !stored.failed.contains(&index) {
            nowhere.add(has_durable(index));
        }
        let Some(root) = roots.root_above(&entry.path) else { continue };
        let below = below.entry(root).or_default();
        if below.is_there || stored.failed.contains(&index) {
            continue;
        }
        if roots.has(&entry.path) {
            below.is_there = true;
            continue;
        }
        below.gone.add(has_durable(index));
    }
    let missing = |root: &Path, Below { is_there, gone }: &Below| {
        !is_there && gone.entries > 0 && (!gone.is_all_durable() || is_empty(root))
    };
    if let Some((root, Below { gone, .. })) = below.iter().find(|(root, below)| missing(root, below)) {
        let how = if is_empty(root) { "is empty" } else { "has nothing of what was in it" };
        let what = format!("{} {how}, and {gone} found there before", root.display());
        return Err(is_mounted(&what, transfer));
    }
    match roots.contents().find(|root| !nowhere.is_all_durable() && is_empty(root)) {
        Some(root) => {
            let what = format!("{} is empty, and {nowhere} that may have been in it", root.display());
            Err(is_mounted(&what, transfer))
        }
        None => Ok(()),
    }
}

/// What an earlier run has found of one name at the top of the transfer.
#[derive(Default)]
struct Named {
    is_folder: bool,
    gone: Gone,
}

/// Fails where what is gone may come back, or was never there.
fn check_gone(
    roots: &Roots,
    stored: &Stored,
    has_durable: impl Fn(EntryIndex) -> bool,
    transfer: TransferId,
) -> Result<(), Failure> {
    if roots.gone().next().is_none() {
        return Ok(());
    }
    let mut all: HashMap<&[u8], Named> = HashMap::new();
    for (index, entry) in (0..).map(EntryIndex).zip(&stored.entries) {
        let mut components = entry.path.components();
        let named = all.entry(components.next().unwrap_or_default()).or_default();
        // What has failed is known, and says nothing of what is there now.
        if !stored.failed.contains(&index) {
            named.is_folder |= components.next().is_some() || entry.kind == EntryKind::Directory;
            named.gone.add(has_durable(index));
        }
    }
    for (root, name) in roots.gone() {
        let what = match all.get(name.as_bytes()) {
            None => return Err(root_failure(&RootError::Missing(root.into()))),
            // More may have been in it than what was found by then.
            Some(Named { is_folder: true, gone }) => {
                format!("{} is gone, and {gone} found there before", root.display())
            }
            Some(Named { gone, .. }) if gone.is_all_durable() => continue,
            Some(_) => format!("{} is gone, and the depot has not all of it", root.display()),
        };
        return Err(is_mounted(&what, transfer));
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none())
}

fn is_mounted(what: &str, transfer: TransferId) -> Failure {
    let message = format!(
        "{what}: is its disk mounted? Run the same command again once it is; if what is gone is not wanted any more, 'terahaul remove {transfer}' and send again"
    );
    Failure::new(Exit::NotFound, message)
}

#[cfg(test)]
mod tests {
    use terahaul_core::{Entry, EntryKind, EntryPath, Mtime};
    use terahaul_tree::Filter;

    use super::*;

    fn entry(path: &str) -> Entry {
        let (kind, mtime) = (EntryKind::Directory, Mtime { seconds: 0, nanos: 0 });
        Entry { path: EntryPath::new(path.as_bytes()).unwrap(), kind, mtime, mode: 0o755, extra: None }
    }

    #[test]
    fn a_folder_without_anything_of_what_was_in_it_is_not_believed_to_have_been_emptied() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/x", "b", "c/new"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let roots = Roots::open(&["a", "b", "c"].map(|root| folder.path().join(root))).unwrap();
        let check = |found: &[&str], failed: &[u32], durable: &[u32]| {
            let entries = found.iter().map(|path| entry(path)).collect();
            let stored = Stored { entries, failed: failed.iter().copied().map(EntryIndex).collect() };
            let is_durable = |entry: EntryIndex| durable.contains(&entry.0);
            let checked = check(&roots, &stored, is_durable, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        assert!(check(&["a", "b", "c"], &[], &[]).is_ok(), "nothing was in them");
        assert!(check(&["a", "a/gone", "a/x"], &[], &[]).is_ok(), "some of it is there");
        assert!(check(&["b", "b/gone"], &[1], &[]).is_ok(), "it has failed");
        let said = check(&["b", "b/gone", "b/too"], &[], &[0, 1, 2]).unwrap_err();
        assert!(said.contains("b is empty, and the depot has 2 of 2 entries found there"), "{said}");
        let said = check(&["b", "b/gone", "b/too"], &[], &[0, 2]).unwrap_err();
        assert!(said.contains("b is empty, and the depot has 1 of 2 entries found there"), "{said}");
        assert!(check(&["c", "c/gone"], &[], &[0, 1]).is_ok(), "sent, and cleared away");
        let said = check(&["c", "c/gone"], &[], &[0]).unwrap_err();
        assert!(said.contains("c has nothing of what was in it, and the depot has 0 of 1 entry"), "{said}");
    }

    #[test]
    fn of_what_is_gone_only_files_that_are_durable_are_believed_to_have_been_removed() {
        let folder = tempfile::tempdir().unwrap();
        let roots =
            Roots::open_some(&["a", "b"].map(|root| folder.path().join(root)), &Filter::default()).unwrap();
        let link = |path: &str| Entry { kind: EntryKind::Symlink { target: b"x"[..].into() }, ..entry(path) };
        let check = |entries: &[Entry], failed: &[u32], durable: &[u32]| {
            let failed = failed.iter().copied().map(EntryIndex).collect();
            let stored = Stored { entries: entries.to_vec(), failed };
            let is_durable = |entry: EntryIndex| durable.contains(&entry.0);
            let checked = check(&roots, &stored, is_durable, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        assert!(check(&[link("a"), link("b")], &[], &[0, 1]).is_ok());
        assert!(
            check(&[link("a"), link("b"), link("b")], &[1], &[0, 2]).is_ok(),
            "its newer version is there"
        );
        assert!(check(&[link("a"), link("b")], &[1], &[0]).is_ok(), "it has failed, which is said later");
        let said = check(&[link("a"), link("b")], &[], &[0]).unwrap_err();
        assert!(said.contains("b is gone, and the depot has not all of it"), "{said}");
        let said = check(&[link("a"), entry("b"), entry("b/c")], &[], &[0, 1, 2]).unwrap_err();
        assert!(said.contains("b is gone, and the depot has 2 of 2 entries"), "{said}");
        let said = check(&[link("a"), entry("b"), entry("b/c")], &[], &[0, 1]).unwrap_err();
        assert!(said.contains("b is gone, and the depot has 1 of 2 entries"), "{said}");
        let said = check(&[link("a")], &[], &[0]).unwrap_err();
        assert!(said.contains("b does not exist"), "{said}");
    }

    #[test]
    fn one_of_several_folders_that_stand_for_their_content_is_not_believed_to_have_been_emptied_either() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["c/x", "d"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let check = |failed: &[u32], is_durable: bool| {
            let roots = Roots::open(&["c/", "d/"].map(|root| folder.path().join(root))).unwrap();
            let entries = ["x", "gone", "gone/too"].map(entry).into();
            let stored = Stored { entries, failed: failed.iter().copied().map(EntryIndex).collect() };
            let checked = check(&roots, &stored, |entry| is_durable || entry.0 < 2, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        let said = check(&[], false).unwrap_err();
        assert!(said.contains("d/ is empty, and the depot has 1 of 2 entries that may have been"), "{said}");
        assert!(check(&[], true).is_ok(), "sent, and cleared away");
        assert!(check(&[1, 2], false).is_ok(), "they have failed");
        std::fs::create_dir(folder.path().join("d/new")).unwrap();
        assert!(check(&[], false).is_ok(), "there is something in each");
    }
}
