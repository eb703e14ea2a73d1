//! Further names of files (hard links), once the first ones are in their places.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use terahaul_core::EntryIndex;

use super::across::clear_part;
use super::way::{Move, Way};
use super::{Item, PublishError};
use crate::TreeSink;
use crate::beneath::{Purpose, open_folder, split};
use crate::failpoint;
use crate::listing::is_one;
use crate::sink::Refusal;
use crate::staging::is_in_user_space;
use crate::table::RowKind;

impl TreeSink {
    /// The file that this item is another name of, where hard links are kept.
    pub(super) fn first_name(&self, item: &Item) -> Option<EntryIndex> {
        if !self.keeps_hard_links() || item.kind != RowKind::File {
            return None;
        }
        self.manifest().table.same_as(item.index)
    }

    pub(super) fn name_again(&self, way: Way<'_>) -> Result<(), PublishError> {
        if !self.keeps_hard_links() {
            return Ok(());
        }
        for item in self.wanted(0..self.entry_count()) {
            let Some(first) = self.first_name(&item) else { continue };
            let (first_path, path) = {
                let table = &self.manifest().table;
                (table.path(first), table.path(item.index))
            };
            let (Some(first_path), Some(path)) = (first_path, path) else { continue };
            if self.manifest().marks.get(first.0 as usize).is_some_and(|mark| mark.lost) {
                let detail = format!(
                    "the file that it is another name of, {first_path}, was not copied: run the same command again"
                );
                self.refuse(Refusal { entry: item.index, detail });
                continue;
            }
            let part = self.part_name();
            let to = match self.link_beside(first_path.as_bytes(), &item, (path.as_bytes(), &part), way) {
                Ok(Beside::Linked(to)) => to,
                Ok(Beside::There) => continue,
                Ok(Beside::Refused(errno)) => {
                    let more = if errno == Errno::MLINK { "no more" } else { "no" };
                    let detail = format!(
                        "{more} hard links of {first_path} can be made there, {}: copy without -H to have it as a file of its own",
                        io::Error::from(errno)
                    );
                    self.refuse(Refusal { entry: item.index, detail });
                    continue;
                }
                Err(error)
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::NOENT | Errno::XDEV | Errno::LOOP)
                    ) =>
                {
                    let detail = format!(
                        "the file that it is another name of, {first_path}, cannot be linked to ({error})"
                    );
                    self.refuse(Refusal { entry: item.index, detail });
                    continue;
                }
                Err(error) => {
                    self.refuse_place(path.as_bytes(), error, way)?;
                    continue;
                }
            };
            let named = Move { from: &to, name: &part, to: &to, new_name: &item.name, path: path.as_bytes() };
            self.replace_or_rename(&named, way)?;
        }
        Ok(())
    }

    /// Links to the first name beside the final one, which is at `path`.
    fn link_beside(
        &self,
        first: &[u8],
        item: &Item,
        (path, part): (&[u8], &[u8]),
        way: Way<'_>,
    ) -> io::Result<Beside> {
        let root = self.staging.root.as_fd();
        let (folder, first) = split(first);
        let from = open_folder(root, folder, Purpose::Pass)?;
        let (above, _) = split(path);
        let to = open_folder(root, above, Purpose::Pass)?;
        let at = |folder: &OwnedFd, name: &[u8]| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let there = at(&from, first)?;
        match at(&to, &item.name) {
            Ok(here) if is_one(&here, &there) => {
                // By the first name itself, where that is the same to the file system.
                self.refuses_second_name(Some(item.index), &to, path)?;
                return Ok(Beside::There);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.open_up(&to, above)?;
        self.note_beside(path, way);
        clear_part(&to, part)?;
        failpoint::point()?;
        match failpoint::link().and_then(|()| rustix::fs::linkat(&from, first, &to, part, AtFlags::empty())) {
            Ok(()) => Ok(Beside::Linked(to)),
            Err(errno @ (Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK)) => {
                Ok(Beside::Refused(errno))
            }
            // So says rclone. Of a disk it would mean another thing.
            Err(Errno::IO) if is_in_user_space(&to) => Ok(Beside::Refused(Errno::IO)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What has come of linking to a file beside the further name that it is to have.
enum Beside {
    /// It has that name already.
    There,
    /// It has another one in this folder now.
    Linked(OwnedFd),
    /// The file system has no hard links, or no more of one file; or the system makes none of what is somebody else's.
    Refused(Errno),
}
