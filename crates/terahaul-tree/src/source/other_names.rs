//! Files that are gone under the first of their names, which alone are read, and still there under another (hard links).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

use rustix::io::Errno;
use terahaul_core::EntryIndex;

use super::{TreeSource, compare};
use crate::beneath::open_to_read;

/// Which entries are other names of which, as far as anybody has asked: mostly nobody does.
#[derive(Default)]
pub(super) struct OtherNames {
    /// Where the entries end that were looked at.
    known: EntryIndex,
    /// A first name and another.
    pairs: BTreeSet<(EntryIndex, EntryIndex)>,
}

impl TreeSource {
    /// The entry's file, opened by another of its names if it is not found under the first, as the `error` says. Where a name is there, and
    /// none has what the entry says, that one is opened all the same, or fails: the file has changed then, or cannot be read, and is not gone.
    pub(super) fn open_by_another_name(&self, entry: EntryIndex, error: io::Error) -> io::Result<OwnedFd> {
        let is_gone = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::NOENT);
        let mut found = Err(error);
        if !found.as_ref().is_err_and(is_gone) {
            return found;
        }
        for name in self.other_names(entry) {
            match self.open_as(name) {
                Ok(file) if self.is_as_it_was(entry, &file) => return Ok(file),
                Err(error) if is_gone(&error) => {}
                other => found = other,
            }
        }
        found
    }

    fn open_as(&self, name: EntryIndex) -> io::Result<OwnedFd> {
        let (folder, name) = {
            let table = self.table();
            let row = table.row(name).ok_or(Errno::NOENT)?;
            (row.folder, row.name.to_vec())
        };
        Ok(open_to_read(&self.folder_of(folder, &name)?, &name)?)
    }

    fn is_as_it_was(&self, entry: EntryIndex, file: &OwnedFd) -> bool {
        let (table, stat) = (self.table(), rustix::fs::fstat(file));
        let (Some(row), Ok(stat)) = (table.row(entry), stat) else { return false };
        compare(&stat, row.size, row.mtime).is_ok()
    }

    fn other_names(&self, entry: EntryIndex) -> Vec<EntryIndex> {
        let table = self.table();
        let mut names = self.other_names.lock().unwrap_or_else(PoisonError::into_inner);
        let new = table.other_names(names.known);
        names.pairs.extend(new);
        names.known = EntryIndex(table.len() as u32);
        names.pairs.range((entry, EntryIndex(0))..=(entry, EntryIndex(u32::MAX))).map(|pair| pair.1).collect()
    }
}
