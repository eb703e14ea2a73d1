//! Times and modes of published folders, which moving things in and out has touched.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;

use rustix::fs::AtFlags;

use super::PublishError;
use super::touch::set_mode;
use crate::beneath::{Purpose, is_blocked, open_folder};
use crate::failpoint;
use crate::listing::{is_folder, mode_of};
use crate::read_only::{OWNER, close_again};
use crate::sink::Mark;
use crate::table::RowKind;
use crate::{Permissions, TreeSink};

impl TreeSink {
    /// Takes from folders that are there what others could read by what is placed in them, where the sender's let nobody do so:
    /// [`settle`](Self::settle) may come hours later.
    pub(super) fn close_to_others(&self) -> Result<(), PublishError> {
        if self.permissions() != Permissions::Exact {
            return Ok(());
        }
        let others = |kind, mark: &Mark| kind == RowKind::Directory && mark.there && !mark.same;
        for item in self.wanted_where(0..self.entry_count(), others) {
            let path = self.manifest().table.folder_path(item.folder);
            let closed = open_folder(self.staging.root.as_fd(), &path, Purpose::Pass).and_then(|above| {
                let stat = rustix::fs::statat(&above, item.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
                if !is_folder(&stat) {
                    return Ok(());
                }
                let (is, shall) = (mode_of(&stat), closed_to_others(mode_of(&stat), item.mode));
                if is == shall {
                    return Ok(());
                }
                failpoint::point()?;
                set_mode(above.as_fd(), &item.name, shall)
            });
            match closed {
                // It comes back from staging, as it is to be.
                Err(error) if is_gone(&error) => {}
                closed => closed.or_else(|error| self.fall_short(&item, error))?,
            }
        }
        Ok(())
    }

    /// Folders get the sender's times. Modes are given only to folders that came with this transfer, which still have the
    /// mode from staging, unless modes are kept of what exists too.
    pub(crate) fn settle(&self) -> Result<(), PublishError> {
        let entries = self.entry_count();
        // What an earlier run has left undone is not seen in a folder's time alone.
        let untouched = self.staging.anew && !self.has_changed();
        let folders = self
            .wanted_where(0..entries, |kind, mark| kind == RowKind::Directory && !(untouched && mark.same));
        let mut folders: Vec<_> =
            folders.filter_map(|item| Some((self.manifest().table.path(item.index)?, item))).collect();
        let mut given = HashSet::new();
        // Inner ones first: a mode may forbid to reach what is in the folder.
        folders.sort_by_key(|(path, _)| Reverse(path.components().count()));
        for (path, item) in folders {
            let (above, name) = path.split();
            let looked = open_folder(self.staging.root.as_fd(), above.unwrap_or_default(), Purpose::Pass)
                .and_then(|above| Ok((rustix::fs::statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?, above)));
            let (stat, above) = match looked {
                Ok(looked) => looked,
                Err(error) if is_gone(&error) => {
                    // Its owner has moved it since it was published; it is theirs now.
                    tracing::debug!(%path, %error, "a published folder was not given its time");
                    continue;
                }
                Err(error) => {
                    self.fall_short(&item, error)?;
                    continue;
                }
            };
            let mode = match self.permissions() {
                Permissions::Exact => Some(item.mode),
                Permissions::Basic => {
                    let mode = self.folder_mode(item.mode, &stat);
                    (!item.mark.there && mode_of(&stat) == mode | OWNER).then_some(mode)
                }
            };
            if mode.is_some() {
                given.insert(Box::from(path.as_bytes()));
            }
            self.give(above.as_fd(), &item, &stat, mode).or_else(|error| self.fall_short(&item, error))?;
        }
        self.close_again(&given)
    }

    /// Folders that were opened up get back the bits that they had, where they were not `given` others.
    fn close_again(&self, given: &HashSet<Box<[u8]>>) -> Result<(), PublishError> {
        let mut opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        opened.retain(|(path, _)| !given.contains(path));
        opened.sort_by_key(|(path, _)| Reverse(path.iter().filter(|&&byte| byte == b'/').count()));
        for (path, mode) in opened {
            let closed = open_folder(self.staging.root.as_fd(), &path, Purpose::Pass)
                .and_then(|folder| close_again(folder.as_fd(), mode));
            let Err(error) = closed else { continue };
            match self.entry_at(&path).and_then(|entry| self.item(entry.0 as usize)) {
                Some(item) if !is_gone(&error) => self.fall_short(&item, error)?,
                None if !is_gone(&error) => tracing::warn!(
                    "{} was made writable to its owner for this, and stays so ({error}): its permissions were {mode:o}",
                    self.staging.dir.join(OsStr::from_bytes(&path)).display()
                ),
                _ => tracing::debug!("{} stays writable: {error}", path.escape_ascii()),
            }
        }
        Ok(())
    }
}

/// What a folder has of these permission bits while it waits for those that it shall have.
pub(crate) fn closed_to_others(is: u32, shall: u32) -> u32 {
    is & (shall | !0o077)
}

/// Whether somebody has moved, removed or replaced what could not be reached. Anything else is no reason to leave it as it is and to
/// say nothing.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_blocked(error)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// A folder that could not be looked at kept the wrong time and permission bits, and the copy was called a success.
    #[test]
    fn only_what_is_not_there_any_more_is_left_without_its_time() {
        let is_gone = |errno: Errno| is_gone(&errno.into());
        assert!([Errno::NOENT, Errno::NOTDIR, Errno::LOOP].into_iter().all(is_gone));
        assert!(![Errno::IO, Errno::ACCESS, Errno::MFILE, Errno::STALE].into_iter().any(is_gone));
    }
}
