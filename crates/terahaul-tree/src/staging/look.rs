//! Looking at what is staged of an entry, and removing it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use terahaul_core::{EntryIndex, EntryPath};

use super::Staging;
use crate::TreeSink;
use crate::beneath::{Purpose, is_blocked, open_folder};
use crate::listing::is_folder;
use crate::sink::NAME_ERRORS;
use crate::table::RowKind;

/// What is where something may have been staged.
pub(crate) enum Staged {
    /// Nothing.
    Absent,
    /// Nothing, and nothing can be: something above it is no folder.
    Blocked,
    /// This, in this folder.
    There { folder: Arc<OwnedFd>, name: Vec<u8>, stat: Stat },
}

impl Staged {
    fn in_folder(folder: Arc<OwnedFd>, name: Vec<u8>) -> io::Result<Self> {
        match rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Self::There { folder, name, stat }),
            Err(errno) if is_absence(errno) => Ok(Self::Absent),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Whether nothing has a name of which a file system says this: what it does not take as one nothing can have.
fn is_absence(errno: Errno) -> bool {
    errno == Errno::NOENT || NAME_ERRORS.contains(&errno)
}

impl Staging {
    /// What is at this path in `tree/`.
    pub(crate) fn look(&self, path: &EntryPath) -> io::Result<Staged> {
        let (folder, name) = path.split();
        match open_folder(self.tree.as_fd(), folder.unwrap_or_default(), Purpose::Pass) {
            Ok(folder) => Staged::in_folder(Arc::new(folder), name.to_vec()),
            Err(error) if Errno::from_io_error(&error).is_some_and(is_absence) => Ok(Staged::Absent),
            Err(error) if is_blocked(&error) => Ok(Staged::Blocked),
            Err(error) => Err(error),
        }
    }
}

impl TreeSink {
    /// What is staged of the entry, links and empty files, which a publishing makes, included.
    pub(crate) fn look_at_staged(&self, entry: EntryIndex) -> io::Result<Staged> {
        if let Some(name) = self.name_in_again(entry) {
            return Staged::in_folder(Arc::clone(&self.staging.again), name);
        }
        let path = self.manifest().table.path(entry);
        path.map_or(Ok(Staged::Absent), |path| self.staging.look(&path))
    }

    /// Removes what is staged of the entry, unless that is a folder.
    pub(crate) fn remove_staged(&self, entry: EntryIndex) -> io::Result<()> {
        if self.manifest().table.row(entry).is_none_or(|row| row.kind == RowKind::Directory) {
            return Ok(());
        }
        match self.look_at_staged(entry)? {
            // A folder there is a later entry's, and so is what is no folder above it.
            Staged::There { folder, name, stat } if !is_folder(&stat) => {
                match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
                    Err(errno) => Err(errno.into()),
                }
            }
            Staged::There { .. } | Staged::Blocked | Staged::Absent => Ok(()),
        }
    }
}
