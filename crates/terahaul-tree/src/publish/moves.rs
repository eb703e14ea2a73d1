//! The renames that make what was received visible.

use std::cmp::Ordering;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use terahaul_store::SinkError;

use super::PublishError;
use super::way::{Move, Way};
use crate::TreeSink;
use crate::beneath::{Purpose, joined, open_folder, printable, split};
use crate::failpoint;
use crate::listing::names_in;
use crate::sink::said_of_name;
use crate::staging::{PROBE, make_probe};
use crate::table::RowKind;

enum Step {
    /// Move what is in this folder.
    Enter(Vec<u8>),
    /// It is empty: remove it from staging.
    Leave(Vec<u8>),
}

impl TreeSink {
    pub(crate) fn move_all(&self, way: Way<'_>) -> Result<(), PublishError> {
        let mut steps = vec![Step::Enter(Vec::new())];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(path) => self.move_content(&path, way, &mut steps)?,
                Step::Leave(path) => self.remove_emptied(&path, way)?,
            }
        }
        self.move_again(way)
    }

    /// Moves each item of a staged folder by one rename; folders that exist already become further steps, in [the order](in_moving_order) in
    /// which a dry run counts what makes way.
    fn move_content(&self, path: &[u8], way: Way<'_>, steps: &mut Vec<Step>) -> Result<(), PublishError> {
        let names = names_in(self.staging.tree.as_fd(), path)?;
        let from = open_folder(self.staging.tree.as_fd(), path, Purpose::Pass)?;
        let to = match open_folder(self.staging.root.as_fd(), path, Purpose::Pass) {
            Ok(to) => to,
            Err(error) if matches!(way, Way::Copy(_)) => return self.refuse_place(path, error, way),
            Err(error) => return Err(failed(error, path)),
        };
        self.open_up(&to, path)?;
        let mut folders = Vec::new();
        for name in names {
            failpoint::point()?;
            let inner = joined(path, &name);
            let item = Move { from: &from, name: &name, to: &to, new_name: &name, path: &inner };
            match rename_new(&from, &name, &to, &name) {
                Ok(()) => {}
                // What cannot be looked at any more is refused further down.
                Err(Errno::EXIST) if is_folder(&from, &name)? && is_folder(&to, &name).unwrap_or(false) => {
                    if !self.refuses_second_name(None, &to, &inner)? {
                        folders.push(inner);
                    }
                }
                Err(Errno::EXIST) if self.reaches(&to, way)? => self.replace(&item, way)?,
                Err(Errno::XDEV | Errno::EXIST) if matches!(way, Way::Copy(_)) => {
                    if is_folder(&from, &name)? {
                        if self.make_across(&item, way)? {
                            folders.push(inner);
                        }
                    } else {
                        self.carry_across(&item, way)?;
                    }
                }
                Err(errno) => self.refuse_place(&inner, errno.into(), way)?,
            }
        }
        // The first one is entered first.
        for inner in folders.into_iter().rev() {
            steps.extend([Step::Leave(inner.clone()), Step::Enter(inner)]);
        }
        Ok(())
    }

    /// Whether what is staged gets into this folder by a rename: asked before anything in it makes way. To a mount the system refuses one
    /// first of all; a subvolume of Btrfs, or a folder with a quota or a key of its own, says first that the name is taken.
    fn reaches(&self, to: &OwnedFd, way: Way<'_>) -> io::Result<bool> {
        match way {
            // Receiving replaces nothing but by a rename.
            Way::Receive(_) => Ok(true),
            Way::Copy(clearing) => clearing.reaches(to, || self.find_reach(to)),
        }
    }

    fn find_reach(&self, to: &OwnedFd) -> io::Result<bool> {
        let (staging, there) = (&self.staging.folder, self.part_name());
        failpoint::point()?;
        let renamed = match rustix::fs::renameat(staging, PROBE, to, &there) {
            // It did not come back from elsewhere.
            Err(Errno::NOENT) => {
                make_probe(staging).and_then(|()| rustix::fs::renameat(staging, PROBE, to, &there))
            }
            renamed => renamed,
        };
        // It is needed again, and there may be no room for another one.
        if renamed.is_ok() && rustix::fs::renameat(to, &there, staging, PROBE).is_err() {
            let _ = rustix::fs::unlinkat(to, &there, AtFlags::empty());
        }
        // Where that is not known, what is to be placed is copied there before anything makes way.
        Ok(renamed.is_ok())
    }

    fn remove_emptied(&self, path: &[u8], way: Way<'_>) -> Result<(), PublishError> {
        let (above, name) = split(path);
        let above = open_folder(self.staging.tree.as_fd(), above, Purpose::Pass)?;
        failpoint::point()?;
        match rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR) {
            // What could not be placed is still in it; it goes with the staging folder.
            Err(Errno::NOTEMPTY) if matches!(way, Way::Copy(_)) || self.has_refused() => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Files that are not staged under their path go where it says.
    fn move_again(&self, way: Way<'_>) -> Result<(), PublishError> {
        let again = |item: &super::Item| {
            item.kind == RowKind::File && item.mark.is_again() && self.first_name(item).is_none()
        };
        for item in self.wanted(0..self.entry_count()).filter(again) {
            failpoint::point()?;
            let (folder, path, staged) = {
                let manifest = self.manifest();
                let (table, staged) = (&manifest.table, manifest.name_in_again(item.index));
                (table.folder_path(item.folder), table.path(item.index), staged)
            };
            let (Some(path), Some(staged)) = (path, staged) else { continue };
            let to = match open_folder(self.staging.root.as_fd(), &folder, Purpose::Pass) {
                Ok(to) => to,
                // The folder itself may have been refused.
                Err(error) => {
                    self.refuse_place(path.as_bytes(), error, way)?;
                    continue;
                }
            };
            self.open_up(&to, &folder)?;
            let from: &OwnedFd = &self.staging.again;
            let named = Move { from, name: &staged, to: &to, new_name: &item.name, path: path.as_bytes() };
            match rename_new(from, &staged, &to, &item.name) {
                Ok(()) => {}
                // An interrupted publishing has moved it already.
                Err(Errno::NOENT) if !is_there(from, &staged)? => {}
                Err(Errno::EXIST) if self.reaches(&to, way)? => self.replace(&named, way)?,
                Err(Errno::XDEV | Errno::EXIST) if matches!(way, Way::Copy(_)) => {
                    self.carry_across(&named, way)?;
                }
                Err(errno) => self.refuse_place(path.as_bytes(), said_of_name(&to, errno).into(), way)?,
            }
        }
        Ok(())
    }
}

/// The order in which items get to their places: those in a folder, then those in its folders one after the other.
pub(crate) fn in_moving_order(one: &[u8], other: &[u8]) -> Ordering {
    fn steps(path: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
        let (folder, name) = split(path);
        let folders = folder.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        folders.map(|name| (true, name)).chain([(false, name)])
    }
    steps(one).cmp(steps(other))
}

fn is_there(folder: &OwnedFd, name: &[u8]) -> rustix::io::Result<bool> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(super) fn is_folder(folder: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    Ok(crate::listing::is_folder(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Why the item at this path has not its name, which ends the publishing.
pub(super) fn failed(error: io::Error, path: &[u8]) -> PublishError {
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => PublishError::OtherFileSystem { path: printable(path) },
        // The receiving folder itself.
        _ if path.is_empty() => error.into(),
        _ => SinkError::from(error).at(|| printable(path)).into(),
    }
}

/// Renames, unless something has the new name.
pub(crate) fn rename_new(
    from: &OwnedFd,
    name: &[u8],
    to: &OwnedFd,
    new_name: &[u8],
) -> rustix::io::Result<()> {
    failpoint::name(new_name)?;
    failpoint::taken(to, new_name)?;
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // The file system cannot do both at once; a name that appears between these two calls is replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match rustix::fs::statat(to, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(from, name, to, new_name),
                Err(errno) => Err(errno),
            }
        }
        renamed => renamed,
    }
}
