//! What an interrupted receive has left in the staging folder, and what of it counts.
//!
//! A journal says which blocks are durable, not which of their files were wanted by the run that received them: others were passed
//! over. And a file that was moved to its final name is not staged any more.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use terahaul_core::{BlockContent, BlockShape, Entry, EntryIndex, EntryKind};

use crate::TreeSink;
use crate::beneath::{Purpose, open_folder};
use crate::decision::same_time;
use crate::listing::{Status, size_of_file, status_of};

impl TreeSink {
    /// Whether all that is wanted of this block, which the journal says is durable, is still where it was put: staged, or
    /// [moved](Self::was_moved) since. Otherwise it has to come once more.
    pub fn holds(&self, shape: &BlockShape) -> io::Result<bool> {
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
        match self.staged_file(entry)? {
            Some(stat) => Ok(suffices(size_of_file(&stat))),
            None => self.was_moved(entry),
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
        let moved = self.staged_file(index)?.is_none() && self.is_in_place(&entry)?;
        if moved && let Some(mark) = self.manifest_mut().marks.get_mut(index.0 as usize) {
            mark.moved = true;
        }
        Ok(moved)
    }

    fn is_in_place(&self, entry: &Entry) -> io::Result<bool> {
        let (folder, name) = entry.path.split();
        let folder = open_folder(self.staging.root.as_fd(), folder.unwrap_or_default(), Purpose::Pass);
        let status = match folder.and_then(|folder| status_of(folder.as_fd(), name)) {
            Err(error) => return absent(error),
            Ok(status) => status,
        };
        Ok(match status {
            Status::Entry { kind, mtime, .. } => {
                let is_dated = matches!(kind, EntryKind::File { .. });
                kind == entry.kind && (!is_dated || same_time(entry.mtime, mtime, 0))
            }
            Status::Special(_) => false,
        })
    }

    /// What is staged of the entry; what a publishing makes, links and empty files, included.
    fn staged_file(&self, index: EntryIndex) -> io::Result<Option<Stat>> {
        let found = if self.is_again(index) {
            rustix::fs::statat(&self.staging.again, index.to_string(), AtFlags::SYMLINK_NOFOLLOW)
        } else {
            let Some(path) = self.manifest().table.path(index) else { return Ok(None) };
            let (folder, name) = path.split();
            match open_folder(self.staging.tree.as_fd(), folder.unwrap_or_default(), Purpose::Pass) {
                Ok(folder) => rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW),
                Err(error) => return absent(error).map(|_| None),
            }
        };
        found.map(Some).or_else(|errno| absent(errno.into()).map(|_| None))
    }
}

/// `false` where nothing is there, or in what is not a folder.
fn absent(error: io::Error) -> io::Result<bool> {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
        _ => Err(error),
    }
}
