//! The receiver's manifest: what is wanted of it, and where each file is staged.

use terahaul_core::{Entry, EntryIndex, EntryPath};

use crate::staging::key_name;
use crate::table::{FolderId, RowKind, Spot};
use crate::{EntryTable, TableFull};

/// Why an entry cannot be part of what is received.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The path is taken by an earlier entry that has not failed.
    #[error("the manifest has {0} twice: the sender is at fault, and nothing more of it is taken")]
    Duplicate(EntryPath),
    /// It lies in what another entry says is not a folder.
    #[error(
        "the manifest has {0} as a file and as a folder: the sender is at fault, and nothing more of it is taken"
    )]
    FileAndFolder(EntryPath),
    /// Too many names.
    #[error(transparent)]
    Full(#[from] TableFull),
}

/// The name under which an entry's file is staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StagedAs {
    /// Its path, in `tree/`.
    #[default]
    Path,
    /// Its index, in `again/`: its path may hold what is left of an earlier entry.
    Index,
    /// Its path's key, in `again/`: the file system takes different paths for the same one, and a copy's next run has other indices.
    Key,
}

impl Mark {
    /// Whether it is staged in `again/`.
    pub(crate) fn is_again(&self) -> bool {
        self.staged_as != StagedAs::Path
    }
}

/// What is known of an entry beyond its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// It is not written and not published.
    pub(crate) unwanted: bool,
    /// Where it is staged.
    pub(crate) staged_as: StagedAs,
    /// A folder that was in the receiving folder before: it is not staged as an entry.
    pub(crate) there: bool,
    /// One that lacked nothing when it was looked at.
    pub(crate) same: bool,
    /// It failed, or was refused: what has its name is not the sender's, and something may be staged of it.
    pub(crate) lost: bool,
    /// An interrupted publishing has given it its name.
    pub(crate) moved: bool,
    /// A folder that was not chosen, and leads to what was.
    pub(crate) leads: bool,
    /// A small file that this process has staged whole, with its time and mode.
    pub(crate) written: bool,
}

#[derive(Default)]
pub(crate) struct Manifest {
    pub(crate) table: EntryTable,
    pub(crate) marks: Vec<Mark>,
    /// For each folder, how many wanted entries are in it, however deep.
    wanted_in: Vec<u32>,
}

impl Manifest {
    /// `folded`: how files are staged where the file system takes different paths for the same one, as this one does.
    pub(super) fn append(
        &mut self,
        entry: &Entry,
        folded: Option<StagedAs>,
    ) -> Result<EntryIndex, AppendError> {
        let folders = self.table.folder_count();
        let spot = self.table.spot(&entry.path)?;
        let Spot { folder, earlier, below, .. } = spot;
        self.wanted_in.resize(self.table.folder_count(), 0);
        if earlier.is_some_and(|earlier| self.is_wanted(earlier)) {
            return Err(AppendError::Duplicate(entry.path.clone()));
        }
        let new_folders = folders..self.table.folder_count();
        let index = self.table.push_at(spot, entry)?;
        let staged_as = match entry.file_size() {
            Some(_) if earlier.is_some() || below.is_some() => StagedAs::Index,
            Some(_) => folded.unwrap_or_default(),
            None => StagedAs::Path,
        };
        self.marks.push(Mark { staged_as, ..Mark::default() });
        self.count(folder, 1);
        let is_folder = matches!(entry.kind, terahaul_core::EntryKind::Directory);
        if !is_folder && below.is_some_and(|folder| self.has_wanted(folder)) {
            return Err(AppendError::FileAndFolder(entry.path.clone()));
        }
        match new_folders.filter_map(|folder| self.file_in_place_of(FolderId(folder as u32))).next() {
            Some(file) => Err(AppendError::FileAndFolder(file)),
            None => Ok(index),
        }
    }

    pub(super) fn mark_unwanted(&mut self, entry: EntryIndex) {
        self.set_unwanted(entry, true);
    }

    /// An unwanted folder leads to what is wanted.
    pub(crate) fn mark_leading(&mut self, entry: EntryIndex) {
        self.set_unwanted(entry, false);
        if let Some(mark) = self.marks.get_mut(entry.0 as usize) {
            mark.leads = true;
        }
    }

    fn set_unwanted(&mut self, entry: EntryIndex, unwanted: bool) {
        let Some(mark) = self.marks.get_mut(entry.0 as usize) else { return };
        if std::mem::replace(&mut mark.unwanted, unwanted) != unwanted
            && let Some(folder) = self.table.row(entry).map(|row| row.folder)
        {
            self.count(folder, if unwanted { -1 } else { 1 });
        }
    }

    /// It will not be in its place, because it failed or was refused. `false`: that was known.
    pub(super) fn mark_lost(&mut self, entry: EntryIndex) -> bool {
        self.mark_unwanted(entry);
        let Some(mark) = self.marks.get_mut(entry.0 as usize) else { return false };
        !std::mem::replace(&mut mark.lost, true)
    }

    /// Marks what is wanted below folders among these entries as lost; returns how much is below each.
    pub(super) fn lose_below(&mut self, entries: impl Iterator<Item = EntryIndex>) -> Vec<u64> {
        let folder_of = |entry| {
            let row = self.table.row(entry).filter(|row| row.kind == RowKind::Directory)?;
            self.table.find_child(row.folder, row.name)
        };
        let folders: Vec<_> = entries.map(folder_of).collect();
        let mut below = vec![0; folders.len()];
        if folders.iter().all(Option::is_none) {
            return below;
        }
        // For each folder the one among the entries that it is, or is in.
        let mut within = vec![None; self.table.folder_count()];
        for (at, folder) in folders.into_iter().enumerate() {
            if let Some(folder) = folder {
                within[folder.0 as usize] = Some(at);
            }
        }
        // A folder comes behind the one that it is in.
        for folder in 1..within.len() {
            let (parent, _) = self.table.folder(FolderId(folder as u32));
            within[folder] = within[folder].or(within[parent.0 as usize]);
        }
        for index in 0..self.marks.len() {
            let entry = EntryIndex(index as u32);
            let folder = self.table.row(entry).map_or(FolderId::TOP, |row| row.folder);
            if let Some(at) = within[folder.0 as usize].filter(|_| self.is_wanted(entry)) {
                below[at] += 1;
                self.mark_lost(entry);
            }
        }
        below
    }

    /// The entry's name in `again/`, if it is staged there.
    pub(crate) fn name_in_again(&self, entry: EntryIndex) -> Option<Vec<u8>> {
        match self.marks.get(entry.0 as usize)?.staged_as {
            StagedAs::Path => None,
            StagedAs::Index => Some(entry.to_string().into_bytes()),
            StagedAs::Key => Some(key_name(self.table.path(entry)?.as_bytes())),
        }
    }

    pub(crate) fn is_wanted(&self, entry: EntryIndex) -> bool {
        self.marks.get(entry.0 as usize).is_some_and(|mark| !mark.unwanted)
    }

    /// Whether anything in the folder is wanted.
    pub(crate) fn has_wanted(&self, folder: FolderId) -> bool {
        self.wanted_in.get(folder.0 as usize).is_some_and(|&wanted| wanted > 0)
    }

    fn file_in_place_of(&self, folder: FolderId) -> Option<EntryPath> {
        let (parent, name) = self.table.folder(folder);
        let entry = self.table.find_in(parent, name).filter(|&entry| self.is_wanted(entry))?;
        let is_file = self.table.row(entry).is_some_and(|row| row.kind != RowKind::Directory);
        if is_file { self.table.path(entry) } else { None }
    }

    fn count(&mut self, folder: FolderId, change: i32) {
        let mut at = folder;
        loop {
            if let Some(wanted) = self.wanted_in.get_mut(at.0 as usize) {
                *wanted = wanted.saturating_add_signed(change);
            }
            if at == FolderId::TOP {
                return;
            }
            at = self.table.folder(at).0;
        }
    }
}
