//! Staged folders: opened without following links, made when they are missing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use terahaul_core::EntryIndex;
use terahaul_store::SinkError;

use super::{TreeSink, said_of_name};
use crate::beneath::{Purpose, is_blocked, open_child, open_folder, printable, split};
use crate::failpoint;
use crate::listing::mode_of;
use crate::publish::rename_new;
use crate::read_only::make_open;
use crate::staging::{PRIVATE, hand_list_on, hand_on, hands_on_the_same};
use crate::table::FolderId;

impl TreeSink {
    /// The staged folder, made with all above it where missing.
    pub(crate) fn staged_folder(&self, folder: FolderId) -> Result<Arc<OwnedFd>, SinkError> {
        if folder == FolderId::TOP {
            return Ok(Arc::clone(&self.staging.tree));
        }
        if let Some(open) = self.folders.find(folder) {
            return Ok(open);
        }
        let (parent, path) = {
            let manifest = self.manifest();
            (manifest.table.folder(folder).0, manifest.table.folder_path(folder))
        };
        let opened = match open_folder(self.staging.tree.as_fd(), &path, Purpose::Pass) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
                let parent = self.staged_folder(parent)?;
                match self.make_staged_folder(folder, &parent, &path) {
                    Ok(()) => self.dirty().everything = true,
                    // Another channel was faster.
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(io::Error::from(said_of_name(&parent, errno)).into()),
                }
                open_child(parent.as_fd(), name, Purpose::Pass)
            }
            opened => opened,
        };
        let opened = Arc::new(opened.map_err(|error| refused(&path, error))?);
        self.folders.insert(folder, Arc::clone(&opened));
        Ok(opened)
    }

    /// Makes the folder at `path`, in `parent`. One that stands for a folder of the receiving folder has its permission bits, as far as
    /// the umask leaves them: should that one be removed before the end, it gets its name. One that is no entry gets no others later: it has what
    /// the umask leaves of all. What is made in it gets the group that it would get there.
    fn make_staged_folder(&self, folder: FolderId, parent: &OwnedFd, path: &[u8]) -> rustix::io::Result<()> {
        let (_, name) = split(path);
        failpoint::name(name)?;
        let known = self.known_of(folder);
        let is_new = known.is_some_and(|known| known.is_wanted && !known.was_there);
        let there = if is_new { None } else { self.status_there(path) };
        let mode = match (&there, known) {
            (Some(there), _) => mode_of(there),
            // It gets its own once all is in it.
            (None, Some(Known { is_wanted: true, was_there: false, .. })) => 0,
            // It has gone since it was looked at, or only leads to what is wanted.
            (None, Some(Known { mode, .. })) => mode,
            (None, None) => 0o777,
        };
        let mode = PRIVATE | mode & 0o777;
        let Some(there) = there.filter(|there| !hands_on_the_same(parent, there)) else {
            return make_open(parent, name, mode);
        };
        // Elsewhere first: whoever finds it in its place may make files in it at once.
        let _turn = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = &self.staging.folder;
        match make_open(staging, MAKING.as_bytes(), PRIVATE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let handed_on = open_child(staging.as_fd(), MAKING.as_bytes(), Purpose::Pass)
            .and_then(|made| hand_list_on(parent.as_fd(), made.as_fd()))
            .and_then(|()| hand_on(staging, MAKING, &there, mode_of(&there) & 0o777));
        if let Err(error) = handed_on {
            tracing::debug!("what is new in {} has not what it would have there: {error}", printable(path));
        }
        let renamed = rename_new(staging, MAKING.as_bytes(), parent, name);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(staging, MAKING, AtFlags::REMOVEDIR);
        }
        renamed
    }

    /// What is known of a folder that is an entry.
    fn known_of(&self, folder: FolderId) -> Option<Known> {
        let manifest = self.manifest();
        let (parent, name) = manifest.table.folder(folder);
        let entry = manifest.table.find_in(parent, name)?;
        let row = manifest.table.row(entry)?;
        let mark = &manifest.marks[entry.0 as usize];
        Some(Known { is_wanted: !mark.unwanted, was_there: mark.there, mode: self.applied_mode(row.mode) })
    }

    /// What is at `path` in the receiving folder, if that is a folder.
    pub(crate) fn status_there(&self, path: &[u8]) -> Option<Stat> {
        let there = open_folder(self.staging.root.as_fd(), path, Purpose::Pass).ok()?;
        rustix::fs::fstat(&there).ok()
    }

    /// Where `entry`'s file is staged: a folder and the name in it.
    pub(crate) fn staged_place(&self, entry: EntryIndex) -> Result<(Arc<OwnedFd>, Vec<u8>), SinkError> {
        let (folder, name) = {
            let manifest = self.manifest();
            let row = manifest.table.row(entry).ok_or_else(|| unknown(entry))?;
            if let Some(name) = manifest.name_in_again(entry) {
                return Ok((Arc::clone(&self.staging.again), name));
            }
            (row.folder, row.name.to_vec())
        };
        Ok((self.staged_folder(folder)?, name))
    }
}

/// A folder that is an entry.
#[derive(Clone, Copy)]
struct Known {
    is_wanted: bool,
    /// The receiving folder had it.
    was_there: bool,
    /// The permission bits that it has at the sender, as far as they are applied.
    mode: u32,
}

/// A staged folder on its way to its place.
const MAKING: &str = "making";

/// A block of an entry that the sink was never told of: the caller's mistake, not the user's.
pub(super) fn unknown(entry: EntryIndex) -> SinkError {
    SinkError::Io(io::Error::other(format!("entry {entry} was not declared")))
}

/// An error on the way into a staged folder; what is no folder there was put there by somebody else.
pub(crate) fn refused(path: &[u8], error: io::Error) -> SinkError {
    if is_blocked(&error) || error.kind() == io::ErrorKind::CrossesDevices {
        return SinkError::Tampered { path: printable(path), detail: "it is not a folder any more".into() };
    }
    error.into()
}
