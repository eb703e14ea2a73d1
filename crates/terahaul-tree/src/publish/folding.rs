//! Different names that are one name to the file system (case, or Unicode composition): the second of two entries is refused, lest
//! it takes the place of the first.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;
use terahaul_core::EntryIndex;

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
    /// Whether the folder has this very name. What was not there a moment ago is looked for again.
    fn has(&mut self, folder: &OwnedFd, name: &[u8]) -> io::Result<bool> {
        let stat = rustix::fs::fstat(folder)?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let asked = Some((stat.st_dev as u64, stat.st_ino as u64));
        if self.folder == asked && self.names.contains(name) {
            return Ok(true);
        }
        self.names = names_in(folder.as_fd(), b"")?.into_iter().collect();
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
        let Some(other) = self.first_of_names(folder, path)? else { return Ok(false) };
        let Some(entry) = entry.or_else(|| self.entry_at(path)) else { return Ok(false) };
        let detail =
            format!("this file system takes its name and that of {} for the same", printable(&other));
        self.refuse(Refusal { entry, detail });
        Ok(true)
    }

    /// The path of the entry whose name is that of what is found under this path, if it is another one.
    fn first_of_names(&self, folder: &OwnedFd, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let (above, name) = split(path);
        let mut listed = self.last_listed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if listed.has(folder, name)? {
            return Ok(None);
        }
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        for other in listed.names.iter().filter(|other| may_be_one(other, name)) {
            let path = if above.is_empty() { other.clone() } else { joined(above, other) };
            if self.entry_at(&path).is_none_or(|entry| self.manifest().marks[entry.0 as usize].lost) {
                continue;
            }
            if is_one(&rustix::fs::statat(folder, other.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?, &found) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
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
        let folder = std::fs::File::open(dir.path()).unwrap().into();
        let mut listed = LastListed::default();
        assert!(!listed.has(&folder, b"a").unwrap());
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(listed.has(&folder, b"a").unwrap() && !listed.has(&folder, b"A").unwrap());
    }
}
