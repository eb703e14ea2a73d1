//! What an interrupted receive has left in the staging folder, and what of it counts.
//!
//! A journal says which blocks are durable, not which of their files were wanted by the run that received them: others were passed
//! over. And a file that was moved to its final name is not staged any more.

use std::io;
use std::os::fd::AsFd;

use terahaul_core::{BlockContent, BlockSet, BlockShape, Entry, EntryIndex, EntryKind};
use terahaul_store::LedgerError;

use crate::beneath::{Purpose, is_blocked, open_folder};
use crate::listing::{Status, size_of_file, status_of};
use crate::staging::Staged;
use crate::{Journal, TreeSink};

/// Why it cannot be told what of an earlier run counts.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// What is there cannot be looked at.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// What is not there cannot be forgotten.
    #[error(transparent)]
    Record(#[from] LedgerError),
}

impl TreeSink {
    /// Which of these blocks, which the journal says are durable, are still where they were put. The journal forgets the others, before
    /// anything of them comes once more: of a file that is made anew, what another interruption leaves can be as long as it was, with
    /// holes.
    pub fn restore(&self, journal: &Journal, shapes: &[BlockShape]) -> Result<BlockSet, RestoreError> {
        let (mut here, mut gone) = (BlockSet::new(), Vec::new());
        for shape in shapes {
            if self.holds(shape)? {
                here.insert(shape.number);
            } else {
                gone.push(shape.number);
            }
        }
        journal.forget(&gone)?;
        Ok(here)
    }

    /// Whether all that is wanted of this block is still where it was put: staged, or [moved](Self::was_moved) since. Otherwise it has to
    /// come once more.
    fn holds(&self, shape: &BlockShape) -> io::Result<bool> {
        match &shape.content {
            BlockContent::Piece { entry, offset, .. } => {
                let end = offset + u64::from(shape.len);
                self.holds_file(*entry, |staged| staged >= end)
            }
            BlockContent::Packed { files, .. } => {
                for file in files {
                    if !self.holds_file(file.entry, |staged| staged == u64::from(file.len))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn holds_file(&self, entry: EntryIndex, suffices: impl Fn(u64) -> bool) -> io::Result<bool> {
        if !self.manifest().is_wanted(entry) {
            return Ok(true);
        }
        match self.look_at_staged(entry)? {
            Staged::There { stat, .. } => Ok(suffices(size_of_file(&stat))),
            Staged::Absent | Staged::Blocked => self.was_moved(entry),
        }
    }

    /// Whether an interrupted publishing has given the file or link its name: it was ready, is not staged any more, and what is in
    /// its place is the same by kind, size and time, as far as the file system keeps that. It is not published once more.
    pub fn was_moved(&self, index: EntryIndex) -> io::Result<bool> {
        if !self.ready.contains(index) {
            return Ok(false);
        }
        let Some(entry) = self.entry(index).filter(|entry| entry.kind != EntryKind::Directory) else {
            return Ok(false);
        };
        let is_staged = matches!(self.look_at_staged(index)?, Staged::There { .. });
        let moved = !is_staged && self.is_in_place(&entry)?;
        // Its user may have removed it since it was looked at before.
        if let Some(mark) = self.manifest_mut().marks.get_mut(index.0 as usize) {
            mark.moved = moved;
        }
        Ok(moved)
    }

    fn is_in_place(&self, entry: &Entry) -> io::Result<bool> {
        let (folder, name) = entry.path.split();
        let folder = open_folder(self.staging.root.as_fd(), folder.unwrap_or_default(), Purpose::Pass);
        let status = match folder.and_then(|folder| status_of(folder.as_fd(), name)) {
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_blocked(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(match status {
            Status::Entry { kind, mtime, .. } => {
                let is_dated = matches!(kind, EntryKind::File { .. });
                kind == entry.kind && (!is_dated || self.has_time(entry, mtime))
            }
            Status::Special(_) => false,
        })
    }
}
