//! Going on from what an interrupted copy left in the staging folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Stat};
use terahaul_core::{BLOCK_SIZE, Entry, EntryIndex, EntryKind, Mtime};

use crate::TreeSink;
use crate::beneath::{Purpose, is_blocked, joined, open_folder, split};
use crate::decision::{Leeway, same_time};
use crate::file_journal::{FileJournal, Pieces};
use crate::listing::{is_file, is_folder, mtime_of, names_in, size_of_file};
use crate::sink::{Mark, remove_all};
use crate::staging::Staged;
use crate::table::{FolderId, RowKind};

impl TreeSink {
    /// What of this entry, already appended, is durable in staging from an earlier run. Whatever else is staged under
    /// its path is removed, and whatever else is recorded of it is forgotten: its staged file may be gone (it failed, or has got
    /// its name), and what is staged next would have holes where the record has durable pieces. Before that
    /// [`FileJournal::settle`] has to return.
    pub fn salvage(
        &self,
        index: EntryIndex,
        entry: &Entry,
        journal: &FileJournal,
    ) -> io::Result<Option<Pieces>> {
        // Not only where something is recorded: an earlier run may have been killed before its first record.
        if self.staging.anew {
            return Ok(None);
        }
        // Of a file in `again/` what is under its path is another's, and goes when things are moved.
        let staged = self.look_at_staged(index)?;
        if let Staged::There { stat, .. } = &staged
            && let Some(pieces) = self.pieces_in(stat, entry, journal)
        {
            journal.adopt(entry, &pieces);
            return Ok(Some(pieces));
        }
        if matches!(staged, Staged::Blocked) {
            self.clear_above(entry.path.as_bytes())?;
        }
        journal.forget(entry);
        if let Staged::There { folder, name, stat } = staged
            && !(entry.kind == EntryKind::Directory && is_folder(&stat))
        {
            remove_all(folder.as_fd(), &name)?;
        }
        Ok(None)
    }

    /// Whether the entry's time is that of what was found, as far as the file system keeps it.
    pub(crate) fn has_time(&self, entry: &Entry, found: Mtime) -> bool {
        same_time(entry.mtime, found, Leeway { window: 0, even_seconds: self.even_seconds })
    }

    /// What is recorded of the entry, if `staged` can be the file that has it.
    fn pieces_in(&self, staged: &Stat, entry: &Entry, journal: &FileJournal) -> Option<Pieces> {
        let EntryKind::File { size } = entry.kind else { return None };
        let is_file = is_file(staged) && staged.st_nlink == 1;
        let pieces = journal.pieces(entry)?;
        let fits = match &pieces {
            Pieces::Whole => size_of_file(staged) == size.0 && self.has_time(entry, mtime_of(staged)),
            // One that was begun anew just before its end is too short for what is recorded.
            Pieces::Some(pieces) => {
                let last = pieces.last_key_value().map_or(0, |(last, _)| u64::from(*last) + 1);
                ((last * BLOCK_SIZE).min(size.0)..=size.0).contains(&size_of_file(staged))
            }
        };
        (is_file && fits).then_some(pieces)
    }

    /// Removes what is staged above this path and is no folder: it was something else when an earlier run staged it.
    fn clear_above(&self, path: &[u8]) -> io::Result<()> {
        let (above, _) = split(path);
        let (folder, name) = split(above);
        match open_folder(self.staging.tree.as_fd(), folder, Purpose::Pass) {
            Ok(folder) => remove_all(folder.as_fd(), name),
            Err(error) if is_blocked(&error) => self.clear_above(above),
            Err(error) => Err(error),
        }
    }

    /// Removes what an earlier run has staged and this one does not want: whatever lies there when things are moved gets its
    /// name, and half a file would replace a whole one. The manifest is whole, and so is what has arrived.
    pub(crate) fn clear_strays(&self) -> io::Result<()> {
        if self.staging.anew {
            return Ok(());
        }
        let mut folders = vec![(FolderId::TOP, Vec::new())];
        while let Some((id, path)) = folders.pop() {
            let folder = open_folder(self.staging.tree.as_fd(), &path, Purpose::Pass)?;
            let look = |name: &[u8]| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            for name in names_in(self.staging.tree.as_fd(), &path)? {
                match self.staged_is_wanted(id, &name) {
                    Left::Entry => {}
                    Left::Folder(id) if is_folder(&look(&name)?) => {
                        folders.push((id, joined(&path, &name)));
                    }
                    Left::Folder(_) | Left::Stray => remove_all(folder.as_fd(), &name)?,
                }
            }
        }
        Ok(())
    }

    /// Where something from an interrupted run lies of which now no file or link came: the staging folder, where none came at all and nothing
    /// of the source was `found` here either, or what is staged of one source, under a name that `is_source`, with nothing here that is `alike`
    /// and so did not come. Where
    /// that run had [recorded](FileJournal::is_resumed) parts of files, it is more likely that a disk is not mounted than that all of them were
    /// removed, and what is staged may have taken days.
    pub fn orphan(
        &self,
        found: bool,
        is_source: impl Fn(&[u8]) -> bool,
        alike: &BTreeSet<Vec<u8>>,
    ) -> io::Result<Option<PathBuf>> {
        if self.staging.anew {
            return Ok(None);
        }
        let seen = self.manifest().table.tops_with_leaves();
        let has_again = || Ok::<_, io::Error>(!names_in(self.staging.again.as_fd(), b"")?.is_empty());
        if !found && seen.is_empty() && (has_again()? || self.has_staged_leaf(Vec::new())?) {
            return Ok(Some(self.staging.path.clone()));
        }
        let names = names_in(self.staging.tree.as_fd(), b"")?;
        let is_missing = |name: &Vec<u8>| is_source(name) && !seen.contains(name) && !alike.contains(name);
        for name in names.into_iter().filter(is_missing) {
            let stat = rustix::fs::statat(&*self.staging.tree, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            if !is_folder(&stat) || self.has_staged_leaf(name.clone())? {
                return Ok(Some(self.staging.path.join("tree").join(OsStr::from_bytes(&name))));
            }
        }
        Ok(None)
    }

    /// Whether anything but folders is staged below `folder`.
    fn has_staged_leaf(&self, folder: Vec<u8>) -> io::Result<bool> {
        let mut folders = vec![folder];
        while let Some(path) = folders.pop() {
            let folder = open_folder(self.staging.tree.as_fd(), &path, Purpose::Pass)?;
            for name in names_in(self.staging.tree.as_fd(), &path)? {
                let stat = rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
                if !is_folder(&stat) {
                    return Ok(true);
                }
                folders.push(joined(&path, &name));
            }
        }
        Ok(false)
    }

    /// What is staged as `name` in this folder. A wanted folder with nothing wanted in it is a stray too: it is made once
    /// more, without what an earlier run has left in it.
    fn staged_is_wanted(&self, folder: FolderId, name: &[u8]) -> Left {
        let manifest = self.manifest();
        let table = &manifest.table;
        if let Some(below) = table.find_child(folder, name).filter(|&below| manifest.has_wanted(below)) {
            return Left::Folder(below);
        }
        let is_staged_here = |&entry: &EntryIndex| {
            let again = manifest.marks.get(entry.0 as usize).is_none_or(Mark::is_again);
            let other_name = self.keeps_hard_links() && table.same_as(entry).is_some();
            let is_folder = table.row(entry).is_none_or(|row| row.kind == RowKind::Directory);
            manifest.is_wanted(entry) && !again && !other_name && !is_folder
        };
        match table.find_in(folder, name).filter(is_staged_here) {
            Some(_) => Left::Entry,
            None => Left::Stray,
        }
    }
}

/// What is staged under a name, as this run sees it.
enum Left {
    /// A file or a link.
    Entry,
    /// Something in it is wanted.
    Folder(FolderId),
    Stray,
}
