//! Which folders have something in them that the sender has not. Only looks.

use std::io;
use std::os::fd::BorrowedFd;

use rayon::ThreadPool;
use rayon::prelude::*;
use rustix::fs::{Dir, FileType};

use crate::beneath::{Purpose, is_blocked, joined, open_folder};
use crate::staging::is_unfinished_name;
use crate::table::{FolderId, RowKind};
use crate::{EntryTable, Filter};

/// Folders that are looked through before those in them are: what waits is a few times as many, however large the tree is.
const AT_ONCE: usize = 256;

/// A folder of the manifest.
pub(super) struct Known {
    pub path: Vec<u8>,
    /// `None`: nothing of the manifest is in it.
    pub id: Option<FolderId>,
    /// It is an entry, so that all that the sender has in it is in the manifest.
    pub listed: bool,
}

/// What is in a folder.
#[derive(Default)]
struct Inside {
    /// Those that are in the manifest, too.
    folders: Vec<Known>,
    /// Something is there that the manifest has not, and that it would have if the sender had it.
    has_strangers: bool,
}

/// What is in every folder, or is nobody's business.
pub(super) fn is_passed_over(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || is_unfinished_name(name)
}

/// Looks through `top` and the manifest's folders in it, but for those that `filter` leaves alone; returns those that have strangers, in the
/// order of their paths. One that this process may not look through is tried again where `open_up` has changed that; `fail` hears of what
/// cannot be looked through.
pub(super) fn find_strangers(
    root: BorrowedFd<'_>,
    table: &EntryTable,
    filter: &Filter,
    top: Known,
    threads: &ThreadPool,
    open_up: &dyn Fn(&[u8]) -> bool,
    fail: &mut dyn FnMut(&[u8], io::Error),
) -> Vec<Known> {
    let (mut folders, mut found) = (vec![top], Vec::new());
    while !folders.is_empty() {
        let some = folders.split_off(folders.len().saturating_sub(AT_ONCE));
        let look = |folder: Known| (folder.look(root, table, filter), folder);
        let looked: Vec<_> = threads.install(|| some.into_par_iter().map(look).collect());
        for (inside, folder) in looked {
            match inside {
                Ok(inside) => {
                    folders.extend(inside.folders);
                    found.extend(inside.has_strangers.then_some(folder));
                }
                Err(error) if is_denied(&error) && open_up(&folder.path) => folders.push(folder),
                Err(error) => fail(&folder.path, error),
            }
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    found
}

pub(super) fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether there is no such folder here: then nothing is in it.
pub(super) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_blocked(error)
}

impl Known {
    fn look(&self, root: BorrowedFd<'_>, table: &EntryTable, filter: &Filter) -> io::Result<Inside> {
        let mut inside = Inside::default();
        let opened = match open_folder(root, &self.path, Purpose::List) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(inside),
            Err(error) => return Err(error),
        };
        for found in Dir::new(opened)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if is_passed_over(name) {
                continue;
            }
            if !self.has(table, name) {
                inside.has_strangers = self.listed;
            } else if matches!(found.file_type(), FileType::Directory | FileType::Unknown) {
                let known = self.folder(table, name);
                inside.folders.extend(known.filter(|known| !filter.leaves_out(&known.path, true)));
            }
        }
        Ok(inside)
    }

    /// Whether the manifest has something of this name in the folder.
    pub(super) fn has(&self, table: &EntryTable, name: &[u8]) -> bool {
        let is_in = |id| table.find_in(id, name).is_some() || table.find_child(id, name).is_some();
        self.id.is_some_and(is_in)
    }

    /// The manifest's folder of this name in it.
    fn folder(&self, table: &EntryTable, name: &[u8]) -> Option<Self> {
        let parent = self.id?;
        let id = table.find_child(parent, name);
        let row = table.find_in(parent, name).and_then(|entry| table.row(entry));
        let listed = row.is_some_and(|row| row.kind == RowKind::Directory);
        (listed || id.is_some()).then(|| Self { path: joined(&self.path, name), id, listed })
    }
}
