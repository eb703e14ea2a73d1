//! Different names that are one name to the file system (case, or Unicode composition): the second of two entries is refused, lest
//! it takes the place of the first.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, Stat};
use terahaul_core::{EntryIndex, EntryPath};

use crate::TreeSink;
use crate::beneath::{is_within, joined, printable, split};
use crate::listing::{file_of, is_folder, is_one, names_in};
use crate::sink::Refusal;
use crate::staging::without_ending;

/// The names in the folder that was asked about last and in those above it, outermost first: things come in an order that leads back to
/// them.
#[derive(Debug, Default)]
pub(crate) struct Listings(Vec<Listing>);

#[derive(Debug)]
struct Listing {
    path: Vec<u8>,
    /// By its device and number: a staged folder has the path of the one in whose place it is to be.
    folder: (u64, u64),
    names: BTreeSet<Vec<u8>>,
}

impl Listings {
    /// Of the folder at `path`; whether it was listed just now.
    fn of(&mut self, folder: BorrowedFd<'_>, path: &[u8]) -> io::Result<(&mut Listing, bool)> {
        let stat = rustix::fs::fstat(folder)?;
        let asked = file_of(&stat);
        let is_above = |listing: &Listing| listing.path.is_empty() || is_within(path, &listing.path);
        let leads_there = |listing: &Listing| match listing.path.len() == path.len() {
            true => listing.path == path && listing.folder == asked,
            false => is_above(listing),
        };
        while self.0.pop_if(|listing| !leads_there(listing)).is_some() {}
        let is_listed = self.0.last().is_some_and(|last| last.path == path);
        if !is_listed {
            let names = names_in(folder, b"")?.into_iter().collect();
            self.0.push(Listing { path: path.to_vec(), folder: asked, names });
        }
        let last = self.0.last_mut().ok_or(io::ErrorKind::NotFound)?;
        Ok((last, !is_listed))
    }

    /// The listing of the folder at `path`. Where `name` was not in it a moment ago, it is looked for `again` if it may have come since.
    fn seeking(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
        again: bool,
    ) -> io::Result<&BTreeSet<Vec<u8>>> {
        let (listing, is_new) = self.of(folder, path)?;
        if again && !is_new && !listing.names.contains(name) {
            listing.names = names_in(folder, b"")?.into_iter().collect();
        }
        Ok(&listing.names)
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
        let mut listed = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let names = listed.seeking(folder, above, name, again)?;
        if names.contains(name) {
            return Ok(Named::So);
        }
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_linked = may_have_other_names(&found);
        for other in names.iter().filter(|other| may_be_one(other, name, is_linked)) {
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

/// With several names, one that is much like another may be another, and not that one as the folder lists it. A folder has one: what is
/// counted as its links are the folders in it.
fn may_have_other_names(found: &Stat) -> bool {
    found.st_nlink > 1 && !is_folder(found)
}

/// Spares a look at each name of a large folder: names of ASCII alone are one where they differ in case, or in dots and spaces at their
/// ends, which FAT leaves out. A name that is not may be one with such a name, too: `ß` folds to `ss`, and the Kelvin sign is a `K`. That
/// is not gone by where the file `is_linked`: found by both, it may have both.
fn may_be_one(a: &[u8], b: &[u8], is_linked: bool) -> bool {
    match (a.is_ascii(), b.is_ascii()) {
        (false, false) => true,
        (true, true) => without_ending(a).eq_ignore_ascii_case(without_ending(b)),
        _ => !is_linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_that_no_file_system_takes_for_the_same_are_not_looked_at() {
        let may_be_one = |a: &[u8], b: &[u8]| may_be_one(a, b, false);
        assert!(may_be_one(b"Makefile", b"makefile"));
        assert!(may_be_one("\u{e9}".as_bytes(), "e\u{301}".as_bytes()));
        assert!(may_be_one(b"Strasse", "stra\u{df}e".as_bytes()) && may_be_one("\u{212a}".as_bytes(), b"k"));
        assert!(may_be_one(b"Notes", b"notes. ."));
        assert!(!may_be_one(b"a", b"b") && !may_be_one(b"a.b", b"ab"));
        assert!(!super::may_be_one(b"z", "\u{e4}".as_bytes(), true), "both may be names of one file");
    }

    /// `Straße` took the place of `Strasse`, where both are folders.
    #[test]
    fn a_folder_has_one_name_whatever_is_counted_as_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("folder/in it")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let other_names = |path: &str| may_have_other_names(&rustix::fs::lstat(at(path)).unwrap());
        assert!(!other_names("folder") && !other_names("file"));
        std::fs::hard_link(at("file"), at("other")).unwrap();
        assert!(other_names("file"));
    }

    fn open(folder: &Path) -> OwnedFd {
        std::fs::File::open(folder).unwrap().into()
    }

    #[test]
    fn a_name_that_came_meanwhile_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(dir.path());
        let mut listings = Listings::default();
        let mut has =
            |name: &[u8], again| listings.seeking(folder.as_fd(), b"", name, again).unwrap().contains(name);
        assert!(!has(b"a", true));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(!has(b"a", false), "where none can have come it is not listed again");
        assert!(has(b"a", true) && has(b"a", false) && !has(b"A", true));
    }

    /// The top was listed for each folder in it that has one in it.
    #[test]
    fn a_folder_is_listed_once_for_all_that_is_in_it_however_deep() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["a/b", "a/c", "aa/b", "b/b"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        let mut listings = Listings::default();
        let mut lists = |folder: &str, path: &str| {
            let opened = open(&at(folder));
            listings.of(opened.as_fd(), path.as_bytes()).unwrap().1
        };
        let first = ["", "a", "a/b", "a", "a/c", "", "aa", "aa/b", "", "b"].map(|path| lists(path, path));
        assert_eq!(first, [true, true, true, false, true, false, true, true, false, true]);
        assert!(lists("a", "b") && !lists("a", "b") && !lists("", ""), "a staged folder is another one");
    }
}
