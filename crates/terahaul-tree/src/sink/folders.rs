//! Staged folders: opened without following links, made when they are missing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::io::Errno;
use terahaul_core::EntryIndex;
use terahaul_store::SinkError;

use super::TreeSink;
use crate::beneath::{Purpose, is_blocked, open_child, open_folder, printable};
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
                match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
                    Ok(()) => self.dirty().everything = true,
                    // Another channel was faster.
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(io::Error::from(errno).into()),
                }
                open_child(parent.as_fd(), name, Purpose::Pass)
            }
            opened => opened,
        };
        let opened = Arc::new(opened.map_err(|error| refused(&path, error))?);
        self.folders.insert(folder, Arc::clone(&opened));
        Ok(opened)
    }

    /// Where `entry`'s file is staged: a folder and the name in it.
    pub(crate) fn staged_place(&self, entry: EntryIndex) -> Result<(Arc<OwnedFd>, Vec<u8>), SinkError> {
        let (folder, name, again) = {
            let manifest = self.manifest();
            let row = manifest.table.row(entry).ok_or_else(|| unknown(entry))?;
            (row.folder, row.name.to_vec(), manifest.marks[entry.0 as usize].again)
        };
        if again {
            return Ok((Arc::clone(&self.staging.again), entry.to_string().into_bytes()));
        }
        Ok((self.staged_folder(folder)?, name))
    }
}

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
