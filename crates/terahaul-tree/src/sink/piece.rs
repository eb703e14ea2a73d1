//! Blocks of large files: positional writes into a file that stays open.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use rustix::fs::{FileType, Mode, OFlags};
use terahaul_core::EntryIndex;
use terahaul_store::{BlockWriter, SinkError};

use super::TreeSink;
use super::folders::unknown;
use super::parts::{Parts, write_all};
use crate::listing::size_of_file;

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
            Ok(file) => file,
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
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tampered =
            |detail: &str| SinkError::Tampered { path: self.path_text(entry), detail: detail.into() };
        let file = match rustix::fs::openat(&folder, name.as_slice(), flags, Mode::from_raw_mode(0o600)) {
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO) => {
                return Err(tampered("it is not a regular file any more"));
            }
            opened => opened.map_err(io::Error::from)?,
        };
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
        let size = self.manifest().table.row(entry).map_or(0, |row| row.size);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(tampered("it is not a regular file with one name any more"));
        }
        if size_of_file(&stat) > size {
            return Err(tampered("it is longer than it can be"));
        }
        let file = Arc::new(file);
        self.files.insert(entry, Arc::clone(&file));
        self.dirty().everything = true;
        Ok(file)
    }
}

impl BlockWriter for PieceWriter<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError> {
        let Some(file) = &self.file else { return Ok(()) };
        let turns = &self.sink.turns;
        let _turn = turns[self.entry.0 as usize % turns.len()].lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts = Parts::new(parts);
        let mut slices = Vec::new();
        while !parts.is_empty() {
            let taken = parts.take(usize::MAX, &mut slices);
            write_all(file, &mut slices, Some(self.at))?;
            self.at += taken as u64;
        }
        Ok(())
    }

    fn skip(&mut self, len: u32) -> Result<(), SinkError> {
        self.at += u64::from(len);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        if let Some(file) = self.file {
            self.sink.dirty().add(self.entry, file);
        }
        Ok(())
    }
}
