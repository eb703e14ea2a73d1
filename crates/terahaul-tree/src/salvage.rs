//! Going on from what an interrupted copy left in the staging folder.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType};
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
        let salvaged = self.staged_of(index, entry, journal)?;
        if salvaged.is_none() {
            forget(entry, journal)?;
        }
        Ok(salvaged)
    }

    fn staged_of(
        &self,
        index: EntryIndex,
        entry: &Entry,
        journal: &FileJournal,
    ) -> io::Result<Option<Pieces>> {
        let (folder, name) = entry.path.split();
        let folder = match open_folder(self.staging.tree.as_fd(), folder.unwrap_or_default(), Purpose::Pass) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let staged = FileType::from_raw_mode(stat.st_mode);
        let is_file = staged == FileType::RegularFile && stat.st_nlink == 1;
        match (&entry.kind, journal.pieces(entry)) {
            (EntryKind::Directory, _) if staged == FileType::Directory => return Ok(None),
            (EntryKind::File { size }, Some(Pieces::Whole))
                if is_file && size_of_file(&stat) == size.0 && mtime_of(&stat) == entry.mtime =>
            {
                return Ok(Some(Pieces::Whole));
            }
            (EntryKind::File { size }, Some(pieces @ Pieces::Some(_)))
                if is_file && size_of_file(&stat) <= size.0 && !self.is_again(index) =>
            {
                return Ok(Some(pieces));
            }
            _ => {}
        }
        // First: a record without its file is as bad as one with another's.
        forget(entry, journal)?;
        remove_all(folder.as_fd(), name)?;
        Ok(None)
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

fn forget(entry: &Entry, journal: &FileJournal) -> io::Result<()> {
    journal.forget(entry).map_err(|error| io::Error::other(error.to_string()))
}

enum Staged {
    Entry,
    Folder,
    Stray,
}
