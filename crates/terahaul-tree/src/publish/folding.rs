//! Different names that are one name to the file system (case, or Unicode composition): the second of two entries is refused, lest
//! it takes the place of the first.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::AtFlags;
use terahaul_core::{EntryIndex, EntryPath};

use crate::TreeSink;
use crate::beneath::{joined, printable, split};
use crate::listing::{is_one, names_in};
use crate::sink::Refusal;

/// The names in the last folder that was asked about, by its device and number.
#[derive(Debug, Default)]
pub(crate) struct LastListed {
    folder: Option<(u64, u64)>,
    names: BTreeSet<Vec<u8>>,
}

impl LastListed {
    /// Whether the folder has this very name. What was not there a moment ago is looked for `again` where it may have come since.
    fn has(&mut self, folder: BorrowedFd<'_>, name: &[u8], again: bool) -> io::Result<bool> {
        let stat = rustix::fs::fstat(folder)?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let asked = Some((stat.st_dev as u64, stat.st_ino as u64));
        if self.folder == asked && (!again || self.names.contains(name)) {
            return Ok(self.names.contains(name));
        }
        self.names = names_in(folder, b"")?.into_iter().collect();
        self.folder = asked;
        Ok(self.names.contains(name))
    }
}

impl TreeSink {
    /// Refuses the entry at `path`, for which something is found in `folder`, if that has the name of another entry; `true` if it
    /// has. Only where the file system takes some names for the same.
    pub(crate) fn refuses_second_name(
        &self,
        entry: Option<EntryIndex>,
        folder: &OwnedFd,
        path: &[u8],
    ) -> io::Result<bool> {
        if !self.staging.folds_names {
            return Ok(false);
        }
        // What has just got its name may be the first.
        let Named::AsEntry(other) = self.name_of(folder.as_fd(), path, true)? else { return Ok(false) };
        let Some(entry) = entry.or_else(|| self.entry_at(path)) else { return Ok(false) };
        self.refuse_second_name(entry, &other);
        Ok(true)
    }

    /// Refuses an entry that has something in its place which stays, if that has the name of another entry; `true` if it has. Asked
    /// before anything gets its name.
    pub(crate) fn is_second_name(&self, entry: EntryIndex) -> bool {
        if !self.staging.folds_names {
            return false;
        }
        let Some(path) = self.manifest().table.path(entry) else { return false };
        match self.name_of_what_stays(&path) {
            Ok(Named::AsEntry(other)) => {
                self.refuse_second_name(entry, &other);
                true
            }
            Ok(Named::Otherwise) => {
                self.named_otherwise.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
                false
            }
            // What cannot be looked at now is told when something is to be placed in it.
            Ok(Named::So) | Err(_) => false,
        }
    }

    /// Refuses what stays under the name of an entry that came later. The manifest is whole.
    pub(super) fn refuse_second_names(&self) {
        let named_otherwise = {
            let mut entries = self.named_otherwise.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *entries)
        };
        named_otherwise.into_iter().for_each(|entry| {
            self.is_second_name(entry);
        });
    }

    fn name_of_what_stays(&self, path: &EntryPath) -> io::Result<Named> {
        let mut opened = self.looked_into.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = opened.reach(self.staging.root.as_fd(), path.split().0.unwrap_or_default())?;
        self.name_of(folder, path.as_bytes(), false)
    }

    fn refuse_second_name(&self, entry: EntryIndex, first: &[u8]) {
        let detail = format!("this file system takes its name and that of {} for the same", printable(first));
        self.refuse(Refusal { entry, detail });
    }

    /// What name that has which is found under this path. `again`: some may have come since the folder was listed.
    fn name_of(&self, folder: BorrowedFd<'_>, path: &[u8], again: bool) -> io::Result<Named> {
        let (above, name) = split(path);
        let mut listed = self.last_listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.has(folder, name, again)? {
            return Ok(Named::So);
        }
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        for other in listed.names.iter().filter(|other| may_be_one(other, name)) {
            let path = if above.is_empty() { other.clone() } else { joined(above, other) };
            if self.entry_at(&path).is_none_or(|entry| self.manifest().marks[entry.0 as usize].lost) {
                continue;
            }
            if is_one(&rustix::fs::statat(folder, other.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?, &found) {
                return Ok(Named::AsEntry(path));
            }
        }
        Ok(Named::Otherwise)
    }
}

/// How a folder lists what is found in it under some name.
enum Named {
    /// By that name.
    So,
    /// By the name of another entry, which has this path.
    AsEntry(Vec<u8>),
    /// By one that no entry has.
    Otherwise,
}

/// Spares a look at each name of a large folder: what is composed differently is not all ASCII.
fn may_be_one(a: &[u8], b: &[u8]) -> bool {
    !a.is_ascii() && !b.is_ascii() || a.eq_ignore_ascii_case(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_file_system_takes_for_the_same_are_not_looked_at() {
        assert!(may_be_one(b"Makefile", b"makefile"));
        assert!(may_be_one("\u{e9}".as_bytes(), "e\u{301}".as_bytes()));
        assert!(!may_be_one(b"a", b"b") && !may_be_one(b"a", "\u{e9}".as_bytes()));
    }

    #[test]
    fn a_name_that_came_meanwhile_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(dir.path()).unwrap();
        let mut listed = LastListed::default();
        let mut has = |name: &[u8], again| listed.has(folder.as_fd(), name, again).unwrap();
        assert!(!has(b"a", true));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(!has(b"a", false), "where none can have come it is not listed again");
        assert!(has(b"a", true) && has(b"a", false) && !has(b"A", true));
    }
}
