//! Times and modes of published folders, which moving things in and out has touched.

use std::cmp::Reverse;
use std::os::fd::AsFd;

use rustix::fs::Mode;

use super::PublishError;
use crate::TreeSink;
use crate::beneath::{Purpose, open_folder};
use crate::fault;
use crate::listing::{mode_of, mtime_of};
use crate::sink::times;
use crate::table::RowKind;

/// What the owner may do with a folder until everything is in its place.
pub(super) const OWNER: u32 = 0o700;

impl TreeSink {
    /// Folders get the sender's times. Modes are given only to folders that came with this transfer: those that still
    /// have the mode from staging. A folder that was there before keeps its own.
    pub(crate) fn settle(&self) -> Result<(), PublishError> {
        let entries = self.entry_count();
        let folders = self.wanted(0..entries).filter(|item| item.kind == RowKind::Directory);
        let mut folders: Vec<_> =
            folders.filter_map(|item| Some((self.manifest().table.path(item.index)?, item))).collect();
        // Inner ones first: a mode may forbid to reach what is in the folder.
        folders.sort_by_key(|(path, _)| Reverse(path.components().count()));
        for (path, item) in folders {
            let folder = match open_folder(self.staging.root.as_fd(), path.as_bytes(), Purpose::List) {
                Ok(folder) => folder,
                Err(error) => {
                    // Its owner has moved or closed it since it was published; it is theirs now.
                    tracing::debug!(%path, %error, "a published folder was not given its time");
                    continue;
                }
            };
            let stat = rustix::fs::fstat(&folder)?;
            if mtime_of(&stat) != item.mtime {
                fault::point()?;
                rustix::fs::futimens(&folder, &times(item.mtime))?;
            }
            let mode = mode_of(&stat);
            if mode != item.mode && mode == item.mode | OWNER {
                fault::point()?;
                rustix::fs::fchmod(&folder, Mode::from_raw_mode(item.mode as _))?;
            }
        }
        Ok(())
    }
}
