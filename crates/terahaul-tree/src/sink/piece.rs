//! Blocks of large files: positional writes into a file that stays open.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use rustix::fs::OFlags;
use terahaul_core::EntryIndex;
use terahaul_store::{BlockWriter, SinkError};

use super::folders::unknown;
use super::parts::{Parts, write_all};
use super::{OpenBasis, TreeSink, said_of_name, sync_files};
use crate::listing::{is_file, size_of_file};
use crate::read_only::open_own;

/// Most file systems share multiples of this, at multiples of it; where they do not the system copies.
const SHARED: u64 = 4096;

pub(super) struct PieceWriter<'a> {
    sink: &'a TreeSink,
    entry: EntryIndex,
    /// `None`: the entry is not wanted.
    file: Option<Arc<OwnedFd>>,
    at: u64,
}

impl TreeSink {
    pub(super) fn begin_piece(&self, entry: EntryIndex, offset: u64) -> Result<PieceWriter<'_>, SinkError> {
        let unwanted = match self.manifest().marks.get(entry.0 as usize) {
            Some(mark) => mark.unwanted,
            None => return Err(unknown(entry)),
        };
        let file = match (!unwanted).then(|| self.open_large(entry)).transpose() {
            // It was lost while it was opened, and this may have made it anew: an earlier run's record would fit what comes of that.
            Ok(Some(_)) if self.is_lost(entry) => {
                self.files.remove(entry);
                self.remove_staged(entry).map_err(SinkError::from)?;
                None
            }
            Ok(file) => file,
            // What was staged of it has just gone, whatever it is now.
            Err(_) if self.is_lost(entry) => None,
            Err(error) => {
                self.refuse_name(entry, error)?;
                None
            }
        };
        Ok(PieceWriter { sink: self, entry, file, at: offset })
    }

    fn open_large(&self, entry: EntryIndex) -> Result<Arc<OwnedFd>, SinkError> {
        if let Some(file) = self.files.find(entry) {
            return Ok(file);
        }
        let (folder, name) = self.staged_place(entry)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NONBLOCK;
        let tampered =
            |detail: &str| SinkError::Tampered { path: self.staged_text(entry), detail: detail.into() };
        let file = match open_own(&folder, &name, flags) {
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO) => {
                return Err(tampered("it is not a regular file any more"));
            }
            opened => opened.map_err(|errno| io::Error::from(said_of_name(&folder, errno)))?,
        };
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
        let size = self.manifest().table.row(entry).map_or(0, |row| row.size);
        if !is_file(&stat) || stat.st_nlink != 1 {
            return Err(tampered("it is not a regular file with one name any more"));
        }
        if size_of_file(&stat) > size {
            return Err(tampered("it is longer than it can be"));
        }
        let file = Arc::new(file);
        // First: whoever finds the file there may finish a block of it, whose sync is to cover its name.
        self.dirty().everything = true;
        self.files.insert(entry, Arc::clone(&file));
        Ok(file)
    }
}

impl TreeSink {
    /// Where the entry is staged, for a message that says what to remove: by its path alone that would be the user's file.
    fn staged_text(&self, entry: EntryIndex) -> String {
        let staging = self.staging.path.display();
        match self.name_in_again(entry) {
            Some(name) => format!("{staging}/again/{}", name.escape_ascii()),
            None => format!("{staging}/tree/{}", self.path_text(entry)),
        }
    }
}

impl BlockWriter for PieceWriter<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError> {
        let Some(file) = &self.file else { return Ok(()) };
        let _turn = self.sink.turn(self.entry);
        let mut parts = Parts::new(parts);
        let mut slices = Vec::new();
        while !parts.is_empty() {
            let taken = parts.take(usize::MAX, &mut slices);
            if let Err(error) = write_all(file, &mut slices, Some(self.at)) {
                self.sink.refuse_length(self.entry, error.into())?;
                self.file = None;
                return Ok(());
            }
            self.at += taken as u64;
        }
        Ok(())
    }

    fn share(&mut self, from: u64, buffer: &mut [u8]) -> Result<bool, SinkError> {
        let (Some(file), true) = (&self.file, self.sink.shares.load(Ordering::Relaxed)) else {
            return Ok(false);
        };
        let len = buffer.len() as u64;
        let is_even = [from, self.at, len].iter().all(|bytes| bytes.is_multiple_of(SHARED));
        let fits = |basis: &Arc<OpenBasis>| {
            is_even && basis.is_settled() && from.checked_add(len).is_some_and(|end| end <= basis.size())
        };
        let Some(basis) = self.sink.basis(self.entry).filter(fits) else { return Ok(false) };
        let shared = {
            let _turn = self.sink.turn(self.entry);
            basis.share(from, file, self.at, buffer.len())
        };
        if let Err(error) = shared {
            tracing::debug!("nothing is shared with {}: {error}", self.sink.path_text(self.entry));
            // An old file that ends too soon says nothing of the others.
            if error.kind() != io::ErrorKind::UnexpectedEof {
                self.sink.shares.store(false, Ordering::Relaxed);
            }
            return Ok(false);
        }
        // What cannot be read is said by whoever reads it next.
        let is_shared = basis.read_unchanged(from, buffer).unwrap_or(false);
        self.at += if is_shared { len } else { 0 };
        Ok(is_shared)
    }

    fn skip(&mut self, len: u32) -> Result<(), SinkError> {
        self.at += u64::from(len);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        let Some(file) = self.file else { return Ok(()) };
        let _ahead = self.sink.ahead_of_sync.read().unwrap_or_else(PoisonError::into_inner);
        let answers_by_file = self.sink.staging.answers_by_file;
        let overdue = self.sink.dirty().add(self.entry, file, answers_by_file);
        if let Err(error) = sync_files(&overdue, answers_by_file) {
            // They are of earlier blocks, too, which wait for the next sync, and hear of it there.
            self.sink.dirty().failed = Some(error);
        }
        Ok(())
    }
}
