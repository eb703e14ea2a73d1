//! Going on from what an interrupted copy left in the staging folder.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use terahaul_core::{Entry, EntryIndex, EntryKind};

use crate::TreeSink;
use crate::beneath::{Purpose, joined, open_folder};
use crate::file_journal::{FileJournal, Pieces};
use crate::listing::{mtime_of, names_in, size_of_file};
use crate::sink::remove_all;

impl TreeSink {
    /// What of this entry, already appended, is durable in staging from an earlier run. Whatever else is staged under
    /// its path is removed, and whatever else is recorded of it is forgotten: its staged file may be gone (it failed, or has got
    /// its name), and what is staged next would have holes where the record has durable pieces.
    pub fn salvage(
        &self,
        index: EntryIndex,
        entry: &Entry,
        journal: &FileJournal,
    ) -> io::Result<Option<Pieces>> {
        if !journal.is_resumed() {
            return Ok(None);
        }
        let staged = self.staged(entry)?;
        let salvaged = staged.as_ref().and_then(|(_, stat)| self.pieces_in(stat, index, entry, journal));
        if salvaged.is_some() {
            return Ok(salvaged);
        }
        // First: a record without its file is as bad as one with another's.
        journal.forget(entry).map_err(|error| io::Error::other(error.to_string()))?;
        let is_folder = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if let Some((folder, stat)) = staged
            && !(entry.kind == EntryKind::Directory && is_folder(&stat))
        {
            remove_all(folder.as_fd(), entry.path.split().1)?;
        }
        Ok(None)
    }

    /// What is staged under the entry's path, and the folder that it is in.
    fn staged(&self, entry: &Entry) -> io::Result<Option<(OwnedFd, Stat)>> {
        let (folder, name) = entry.path.split();
        let folder = match open_folder(self.staging.tree.as_fd(), folder.unwrap_or_default(), Purpose::Pass) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((folder, stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What is recorded of the entry, if `staged` can be the file that has it.
    fn pieces_in(
        &self,
        staged: &Stat,
        index: EntryIndex,
        entry: &Entry,
        journal: &FileJournal,
    ) -> Option<Pieces> {
        let EntryKind::File { size } = entry.kind else { return None };
        let is_file =
            FileType::from_raw_mode(staged.st_mode) == FileType::RegularFile && staged.st_nlink == 1;
        let pieces = journal.pieces(entry)?;
        let fits = match pieces {
            Pieces::Whole => size_of_file(staged) == size.0 && mtime_of(staged) == entry.mtime,
            Pieces::Some(_) => size_of_file(staged) <= size.0 && !self.is_again(index),
        };
        (is_file && fits).then_some(pieces)
    }

    /// Removes what is staged and not of this manifest, which is whole.
    pub fn clear_strays(&self) -> io::Result<()> {
        let mut folders = vec![Vec::new()];
        while let Some(path) = folders.pop() {
            let folder = open_folder(self.staging.tree.as_fd(), &path, Purpose::Pass)?;
            for name in names_in(self.staging.tree.as_fd(), &path)? {
                let inner = joined(&path, &name);
                match self.staged_is_wanted(&inner) {
                    Staged::Entry => {}
                    Staged::Folder => folders.push(inner),
                    Staged::Stray => remove_all(folder.as_fd(), &name)?,
                }
            }
        }
        Ok(())
    }

    fn staged_is_wanted(&self, path: &[u8]) -> Staged {
        let manifest = self.manifest();
        match manifest.table.find_folder(path) {
            Some(folder) if manifest.has_wanted(folder) => return Staged::Folder,
            _ => {}
        }
        let Ok(path) = terahaul_core::EntryPath::new(path) else { return Staged::Stray };
        match manifest.table.find(&path) {
            Some(entry) if manifest.is_wanted(entry) => Staged::Entry,
            _ => Staged::Stray,
        }
    }
}

enum Staged {
    Entry,
    Folder,
    Stray,
}
