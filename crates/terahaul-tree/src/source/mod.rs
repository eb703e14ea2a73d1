//! Blocks read from a user's files.

mod ahead;
mod other_names;
mod outlet;
mod piece;
mod small;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::Stat;
use rustix::io::Errno;
use terahaul_core::{
    BlockContent, BlockShape, Changed, Entry, EntryIndex, EntryPath, FailureCause, Hash, Mtime,
};
use terahaul_store::{BlockSource, EntryFailure, remedy_of_too_many_files};

use crate::beneath::{Purpose, open_folder};
use crate::listing::{cause_of, is_file, mtime_of, size_of_file};
use crate::recent::Recent;
use crate::table::FolderId;
use crate::{EntryTable, Roots, TableFull};
use ahead::Ahead;
pub use ahead::LargeFile;
use other_names::OtherNames;
use outlet::Outlet;

/// Folders kept open. A block's files are mostly of one folder or two.
const OPEN_FOLDERS: usize = 32;
/// Large files kept open: one for each channel, and the next one.
const OPEN_FILES: usize = 32;

/// The sender's manifest and the files behind it. Called by all data channels at once.
///
/// A file is sent only as the manifest has it: its size and modification time are compared once it has been read.
pub struct TreeSource {
    roots: Arc<Roots>,
    table: RwLock<EntryTable>,
    folders: Recent<FolderId, OwnedFd>,
    files: Recent<EntryIndex, OwnedFd>,
    /// Large files, as they were when they were opened first.
    first_opened: Mutex<HashMap<EntryIndex, Changed>>,
    ahead: Ahead,
    other_names: Mutex<OtherNames>,
}

/// Why a file's bytes are not those of its entry.
struct Problem {
    cause: FailureCause,
    detail: String,
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        let remedy = remedy_of_too_many_files(&error).map(|remedy| format!(": {remedy}"));
        Self { cause: cause_of(&error), detail: format!("{error}{}", remedy.unwrap_or_default()) }
    }
}

impl From<Errno> for Problem {
    fn from(errno: Errno) -> Self {
        io::Error::from(errno).into()
    }
}

impl Problem {
    fn changed(detail: impl Into<String>) -> Self {
        Self { cause: FailureCause::Changed, detail: detail.into() }
    }

    /// What it says of itself has not changed: so are files that a file system makes while they are read.
    fn ended_early(left: usize) -> Self {
        Self::changed(format!(
            "it ended {left} bytes early: if it always does, as in /sys, write it to an ordinary file with 'cat', and send the file"
        ))
    }

    fn of(self, entry: EntryIndex) -> EntryFailure {
        EntryFailure { entry, cause: self.cause, detail: self.detail }
    }
}

/// Whether the file is still what the manifest says.
fn compare(stat: &Stat, size: u64, mtime: Mtime) -> Result<(), Problem> {
    if !is_file(stat) {
        return Err(Problem::changed("it is not a regular file any more"));
    }
    let now = size_of_file(stat);
    if now != size {
        return Err(Problem::changed(format!("its size went from {size} to {now} bytes")));
    }
    if mtime_of(stat) != mtime {
        return Err(Problem::changed("its modification time changed"));
    }
    Ok(())
}

impl TreeSource {
    /// An empty manifest over these roots.
    pub fn new(roots: Arc<Roots>) -> Self {
        Self {
            roots,
            table: RwLock::new(EntryTable::new()),
            folders: Recent::new(OPEN_FOLDERS),
            files: Recent::new(OPEN_FILES),
            first_opened: Mutex::default(),
            ahead: Ahead::default(),
            other_names: Mutex::default(),
        }
    }

    fn table(&self) -> RwLockReadGuard<'_, EntryTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The manifest's next entries, in order; returns the first one's index. On a resume these are first those that
    /// the receiver has already, whether or not they are still there.
    pub fn append<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<EntryIndex, TableFull> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let first = EntryIndex(table.len() as u32);
        for entry in entries {
            table.push(entry)?;
        }
        Ok(first)
    }

    /// How many entries the manifest has.
    pub fn entry_count(&self) -> usize {
        self.table().len()
    }

    /// An entry of the manifest.
    pub fn entry(&self, index: EntryIndex) -> Option<Entry> {
        self.table().entry(index)
    }

    /// An entry's path.
    pub fn path(&self, index: EntryIndex) -> Option<EntryPath> {
        self.table().path(index)
    }

    /// The last entry with this path.
    pub fn find(&self, path: &EntryPath) -> Option<EntryIndex> {
        self.table().find(path)
    }

    fn folder(&self, folder: FolderId, first_name: &[u8]) -> io::Result<Arc<OwnedFd>> {
        self.folders.find_or_open(folder, || {
            let path = self.table().folder_path(folder);
            let whole = if path.is_empty() { first_name } else { path.as_slice() };
            let base = self.roots.base_of(whole).ok_or(Errno::NOENT)?;
            open_folder(base, &path, Purpose::Pass)
        })
    }

    /// A top-level file's folder depends on its root, so it is not cached under one number.
    fn folder_of(&self, folder: FolderId, name: &[u8]) -> io::Result<Arc<OwnedFd>> {
        if folder != FolderId::TOP {
            return self.folder(folder, name);
        }
        let base = self.roots.base_of(name).ok_or(Errno::NOENT)?;
        Ok(Arc::new(base.try_clone_to_owned()?))
    }
}

impl BlockSource for TreeSource {
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let mut outlet = Outlet::new(buffer, shape.len, emit);
        let mut failures = Vec::new();
        match &shape.content {
            BlockContent::Piece { entry, offset, .. } => {
                let problem = self.read_piece(*entry, *offset, shape.len, &mut outlet)?;
                failures.extend(problem.map(|problem| problem.of(*entry)));
            }
            BlockContent::Packed { files, .. } => self.read_packed(files, &mut outlet, &mut failures)?,
        }
        outlet.flush()?;
        Ok(failures)
    }

    fn known_groups(&self, shape: &BlockShape, group: u32) -> Option<Arc<[Hash]>> {
        let BlockContent::Piece { entry, offset, .. } = shape.content else { return None };
        self.find_ahead(entry, offset, group)
    }

    fn read_around(&self, entry: EntryIndex, offset: u64, buffer: &mut [u8]) -> usize {
        self.read_some(entry, offset, buffer)
    }
}
