//! The renames that make what was received visible.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use terahaul_core::EntryKind;

use super::{Collision, Overwrite, PublishError};
use crate::TreeSink;
use crate::beneath::{Purpose, open_folder, printable};
use crate::fault;
use crate::listing::{Status, names_in, status_of};
use crate::table::RowKind;

enum Step {
    /// Move what is in this folder.
    Enter(Vec<u8>),
    /// It is empty: remove it from staging.
    Leave(Vec<u8>),
}

impl TreeSink {
    pub(crate) fn move_all(&self, overwrite: Overwrite) -> Result<(), PublishError> {
        let mut steps = vec![Step::Enter(Vec::new())];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(path) => self.move_content(&path, overwrite, &mut steps)?,
                Step::Leave(path) => self.remove_emptied(&path)?,
            }
        }
        self.move_again(overwrite)
    }

    /// Moves each item of a staged folder by one rename; folders that exist already become further steps.
    fn move_content(
        &self,
        path: &[u8],
        overwrite: Overwrite,
        steps: &mut Vec<Step>,
    ) -> Result<(), PublishError> {
        let names = names_in(self.staging.tree.as_fd(), path)?;
        let from = open_folder(self.staging.tree.as_fd(), path, Purpose::Pass)?;
        let to = open_folder(self.staging.root.as_fd(), path, Purpose::Pass)?;
        for name in names {
            fault::point()?;
            let mut inner = path.to_vec();
            if !inner.is_empty() {
                inner.push(b'/');
            }
            inner.extend_from_slice(&name);
            match rename_new(&from, &name, &to, &name) {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    let both_folders = is_folder(&from, &name)? && is_folder(&to, &name)?;
                    if both_folders && !(path.is_empty() && crate::staging::is_staging_name(&name)) {
                        steps.push(Step::Leave(inner.clone()));
                        steps.push(Step::Enter(inner));
                    } else {
                        replace(&from, &name, &to, &name, overwrite, &inner)?;
                    }
                }
                Err(errno) => return Err(failed(errno, &inner)),
            }
        }
        Ok(())
    }

    fn remove_emptied(&self, path: &[u8]) -> Result<(), PublishError> {
        let cut = path.iter().rposition(|&b| b == b'/');
        let (above, name) = cut.map_or((&b""[..], path), |cut| (&path[..cut], &path[cut + 1..]));
        let above = open_folder(self.staging.tree.as_fd(), above, Purpose::Pass)?;
        fault::point()?;
        Ok(rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR)?)
    }

    /// Files that are staged under their index go where their path says.
    fn move_again(&self, overwrite: Overwrite) -> Result<(), PublishError> {
        for item in
            self.wanted(0..self.entry_count()).filter(|item| item.kind == RowKind::File && item.mark.again)
        {
            fault::point()?;
            let staged = item.index.to_string().into_bytes();
            let path = self.manifest().table.folder_path(item.folder);
            let to = open_folder(self.staging.root.as_fd(), &path, Purpose::Pass)?;
            match rename_new(&self.staging.again, &staged, &to, &item.name) {
                // An interrupted publishing has moved it already.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::EXIST) => {
                    let text = self.path_text(item.index);
                    replace(&self.staging.again, &staged, &to, &item.name, overwrite, text.as_bytes())?;
                }
                Err(errno) => return Err(failed(errno, self.path_text(item.index).as_bytes())),
            }
        }
        Ok(())
    }
}

fn is_folder(folder: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    Ok(matches!(status_of(folder.as_fd(), name)?, Status::Entry { kind: EntryKind::Directory, .. }))
}

fn failed(errno: Errno, path: &[u8]) -> PublishError {
    match errno {
        Errno::XDEV => PublishError::OtherFileSystem { path: printable(path) },
        errno => errno.into(),
    }
}

/// Renames, unless something has the new name.
fn rename_new(from: &OwnedFd, name: &[u8], to: &OwnedFd, new_name: &[u8]) -> rustix::io::Result<()> {
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

/// Something that is not a folder on both sides has the name.
fn replace(
    from: &OwnedFd,
    name: &[u8],
    to: &OwnedFd,
    new_name: &[u8],
    overwrite: Overwrite,
    path: &[u8],
) -> Result<(), PublishError> {
    let replaceable = !is_folder(from, name)? && !is_folder(to, new_name)?;
    if !replaceable || overwrite == Overwrite::Refuse {
        let existing = if is_folder(to, new_name)? { "a folder" } else { "something else" };
        let path = printable(path);
        return Err(PublishError::Collisions(vec![Collision { path, existing, replaceable }]));
    }
    fault::point()?;
    rustix::fs::renameat(from, name, to, new_name).map_err(|errno| failed(errno, path))
}
