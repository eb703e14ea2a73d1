//! What waits beside its final name, on another file system than what is staged or as a further name of a file: what a killed process has
//! left there is removed by the next run, whether that places anything there or not.
//!
//! The file `beside` of the staging folder says where: a `/`, and the path of the folder that something was carried into last. One thing
//! at a time waits so.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, OFlags};

use super::across::clear_part;
use super::settle::is_gone;
use super::way::{Clearing, Way};
use crate::TreeSink;
use crate::beneath::{Purpose, joined, open_child, open_folder, printable, split};
use crate::failpoint;
use crate::read_only::open_own;
use crate::sink::sync_file_system;
use crate::staging::BESIDE;

/// Before the path: the receiving folder itself has an empty one.
const TOP: &[u8] = b"/";

/// Tells of something beside a final name that cannot be removed.
pub(super) fn tell_left(folder: &[u8], part: &[u8], why: &io::Error) {
    let path = printable(&joined(folder, part));
    tracing::warn!("{path} could not be removed ({why}): nothing needs it any more, remove it by hand");
}

impl TreeSink {
    /// Notes that something will wait in the folder that `path` is in.
    pub(super) fn note_beside(&self, path: &[u8], way: Way<'_>) {
        if let Way::Copy(clearing) = way {
            self.note_waiting(path, clearing);
        }
    }

    /// The same of a copy.
    pub(super) fn note_waiting(&self, path: &[u8], clearing: &Clearing<'_>) {
        let (folder, _) = split(path);
        let noted = clearing.note_beside(folder, || self.write_beside(folder));
        // Where there is no room for this, there may be for the file.
        if let Err(error) = noted {
            tracing::debug!("what is left in {} would stay: {error}", printable(folder));
        }
    }

    fn write_beside(&self, folder: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = open_own(&self.staging.folder, BESIDE.as_bytes(), flags)?;
        // Not synced: a killed process leaves it to the next run, and what a power cut leaves is not worth waiting for a disk at each folder.
        File::from(file).write_all(&[TOP, folder].concat())
    }

    /// Removes what an interrupted publishing has left beside a final name. Only what has the name that this copy's parts have goes, and no
    /// link is followed to it: whose file system it is may have put anything there since.
    pub(crate) fn clear_left_beside(&self) -> io::Result<()> {
        let left = self.staging.read_left(BESIDE)?;
        let Some(path) = left.strip_prefix(TOP) else { return Ok(()) };
        let part = self.part_name();
        let cleared = open_folder(self.staging.root.as_fd(), path, Purpose::Pass).and_then(|folder| {
            // On a file system that is read-only by now the removal of nothing is refused, too.
            rustix::fs::statat(&folder, part.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            clear_part(&folder, &part)?;
            let listed = open_child(folder.as_fd(), b"", Purpose::List);
            sync_file_system(listed.as_ref().unwrap_or(&folder))
        });
        match cleared {
            Err(error) if !is_gone(&error) => {
                tell_left(path, &part, &error);
                Ok(())
            }
            Ok(()) | Err(_) => {
                failpoint::point()?;
                Ok(rustix::fs::unlinkat(&self.staging.folder, BESIDE, AtFlags::empty())?)
            }
        }
    }
}
