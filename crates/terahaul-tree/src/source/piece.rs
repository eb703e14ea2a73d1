//! Blocks of large files: positional reads from a file that stays open.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;
use terahaul_core::{Changed, EntryIndex, Hash, Mtime};
use terahaul_store::EntryFailure;

use super::{Outlet, Problem, TreeSource, compare};
use crate::beneath::open_to_read;
use crate::listing::{change_of, ctime_of, mtime_of};
use crate::table::FolderId;

struct OpenPiece {
    file: Arc<OwnedFd>,
    size: u64,
    mtime: Mtime,
}

impl TreeSource {
    /// Emits exactly `len` bytes of `entry` from `offset`, zeros from where reading failed.
    pub(super) fn read_piece(
        &self,
        entry: EntryIndex,
        offset: u64,
        len: u32,
        outlet: &mut Outlet<'_>,
    ) -> io::Result<Option<Problem>> {
        let mut left = len as usize;
        let piece = match self.open_large(entry) {
            Ok(piece) => piece,
            Err(problem) => {
                outlet.zeros(left)?;
                return Ok(Some(problem));
            }
        };
        let mut at = offset;
        let mut failed = None;
        while left > 0 {
            let space = outlet.space(left)?;
            match rustix::io::pread(piece.file.as_fd(), &mut *space, at) {
                Ok(0) => break,
                Ok(read) => {
                    outlet.advance(read);
                    left -= read;
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => {
                    failed = Some(Problem::from(errno));
                    break;
                }
            }
        }
        let same = match rustix::fs::fstat(&piece.file) {
            Ok(stat) => compare(&stat, piece.size, piece.mtime),
            Err(errno) => Err(errno.into()),
        };
        let mut problem = same.err().or(failed);
        if left > 0 {
            outlet.zeros(left)?;
            problem.get_or_insert_with(|| Problem::ended_early(left));
        }
        if problem.is_some() {
            self.files.remove(entry);
        }
        Ok(problem)
    }

    /// Reads what can be read of `buffer.len()` bytes from `offset` on.
    pub(super) fn read_some(&self, entry: EntryIndex, offset: u64, buffer: &mut [u8]) -> usize {
        let Ok(piece) = self.open_large(entry) else { return 0 };
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(piece.file.as_fd(), &mut buffer[filled..], offset + filled as u64) {
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
                Ok(read) => filled += read,
            }
        }
        filled
    }

    /// When another file may last have come into the place of a large one, by its file system's clock: the latest change of the status of the
    /// file, which also tells of one that was dated back, and of the folders that it is in, which came with it if they were renamed. An error
    /// where it cannot be read, or is not what the manifest says.
    pub fn place_changed(&self, entry: EntryIndex) -> Result<Mtime, EntryFailure> {
        self.latest_change(entry).map_err(|problem| problem.of(entry))
    }

    fn latest_change(&self, entry: EntryIndex) -> Result<Mtime, Problem> {
        let unknown = || Problem::from(Errno::NOENT);
        let OpenPiece { file, .. } = self.open_large(entry)?;
        let mut latest = rustix::fs::fstat(&file)?;
        let mut take = |stat: Stat| {
            if ctime_of(&stat) > ctime_of(&latest) {
                latest = stat;
            }
        };
        let path = self.path(entry).ok_or_else(unknown)?;
        let mut folder = self.table().row(entry).ok_or_else(unknown)?.folder;
        while folder != FolderId::TOP {
            take(rustix::fs::fstat(self.folder(folder, b"")?)?);
            folder = self.table().folder(folder).0;
        }
        let base = rustix::fs::fstat(self.roots.base_of(path.as_bytes()).ok_or_else(unknown)?)?;
        // Things come and go beside what was named, and above it, which moves both times of a folder.
        let is_renamed = |stat: &Stat| ctime_of(stat) != mtime_of(stat);
        if self.roots.is_content(path.as_bytes()) || is_renamed(&base) {
            take(base);
        }
        self.roots.folders_above(path.as_bytes()).into_iter().filter(is_renamed).for_each(&mut take);
        Ok(ctime_of(&latest))
    }

    /// What was hashed ahead of a block, if its file is as it is to be.
    pub(super) fn find_ahead(&self, entry: EntryIndex, offset: u64, group: u32) -> Option<Arc<[Hash]>> {
        if self.ahead.is_empty() {
            return None;
        }
        let OpenPiece { file, size, mtime } = self.open_large(entry).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        compare(&stat, size, mtime).ok()?;
        self.ahead.find(&self.path(entry)?, &stat, offset, group)
    }

    /// An error if another file has taken the place of the one that was found, or opened first: what is read of both would make one that never
    /// was, though they be of one size and time. Some file systems have new numbers for what they have forgotten meanwhile.
    fn check_same(&self, entry: EntryIndex, found: Option<Changed>, stat: &Stat) -> Result<(), Problem> {
        let now = change_of(stat);
        let mut first = self.first_opened.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first.entry(entry).or_insert(found.unwrap_or(now));
        match first.file == now.file || first.at == now.at {
            true => Ok(()),
            false => Err(Problem::changed("another file has taken its place")),
        }
    }

    fn open_large(&self, entry: EntryIndex) -> Result<OpenPiece, Problem> {
        let (folder, name, size, mtime, found) = {
            let table = self.table();
            let row = table.row(entry).ok_or_else(|| Problem::from(Errno::NOENT))?;
            (row.folder, row.name.to_vec(), row.size, row.mtime, table.changed(entry))
        };
        let file = match self.files.find(entry) {
            Some(file) => file,
            None => {
                let opened =
                    self.folder_of(folder, &name).and_then(|folder| Ok(open_to_read(&folder, &name)?));
                let file = opened.or_else(|error| self.open_by_another_name(entry, error))?;
                let stat = rustix::fs::fstat(&file)?;
                compare(&stat, size, mtime)?;
                self.check_same(entry, found, &stat)?;
                let file = Arc::new(file);
                self.files.insert(entry, Arc::clone(&file));
                file
            }
        };
        Ok(OpenPiece { file, size, mtime })
    }
}
