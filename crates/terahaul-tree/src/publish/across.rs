//! Placing an item in a folder on another file system, where a rename does not reach: a copy beside its final name, made
//! durable, and then renamed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::EntryPath;
use terahaul_store::is_full;

use super::PublishError;
use super::moves::is_folder;
use super::touch::{SET_GROUP, set_mode};
use super::way::{Move, Way};
use crate::TreeSink;
use crate::beneath::{printable, read_flags};
use crate::listing::{look_at, mode_of, mtime_of};
use crate::read_only::OWNER;
use crate::sink::times;
use crate::staging::PART;

impl TreeSink {
    /// Makes a folder whose content will be placed. `false`: it cannot be had, and is refused.
    pub(super) fn make_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<bool, PublishError> {
        match self.make_folder(item, way) {
            Ok(made) => Ok(made),
            Err(error) => self.refuse_place(item.path, error, way).map(|()| false),
        }
    }

    fn make_folder(&self, item: &Move<'_>, way: Way<'_>) -> io::Result<bool> {
        let &Move { from, name, to, new_name, path } = item;
        let make = || rustix::fs::mkdirat(to, new_name, Mode::from_raw_mode(OWNER as _));
        match make() {
            Err(Errno::EXIST) if self.refuses_second_name(None, to, path)? => return Ok(false),
            Err(Errno::EXIST) if is_folder(to, new_name)? => return Ok(true),
            Err(Errno::EXIST) => {
                if let Way::Copy(clearing) = way {
                    self.check_stays(item, clearing)?;
                }
                rustix::fs::unlinkat(to, new_name, AtFlags::empty())?;
                make()?;
            }
            made => made?,
        }
        note_elsewhere(to, way)?;
        // Not by making it, which would take away what the umask says. What this folder hands on is not what staging did.
        let made = rustix::fs::statat(to, new_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = mode_of(&look_at(from.as_fd(), name)?.0) & !SET_GROUP | mode_of(&made) & SET_GROUP;
        set_mode(to.as_fd(), new_name, mode)?;
        Ok(true)
    }

    /// Places a file or a link. The staged one is removed.
    pub(super) fn carry_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let part = self.part_name();
        note_elsewhere(item.to, way)?;
        if let Err(error) = self.copy_beside(item, &part) {
            // It may be what has filled the disk.
            let _ = rustix::fs::unlinkat(item.to, &part, AtFlags::empty());
            if is_full(&error) {
                return Err(PublishError::FullBelow { path: printable(item.path), source: error });
            }
            return self.refuse_place(item.path, error, way);
        }
        self.replace_or_rename(&Move { from: item.to, name: &part, ..*item }, way)?;
        Ok(rustix::fs::unlinkat(item.from, item.name, AtFlags::empty())?)
    }

    /// A name beside final ones for something that is not complete. One at a time is used, by whoever holds the lock of the
    /// staging folder.
    pub(super) fn part_name(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        let staging = self.staging.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        [staging, PART.as_bytes()].concat()
    }

    /// Gives what is complete beside its final name that name.
    pub(super) fn replace_or_rename(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let placed = match super::moves::rename_new(item.from, item.name, item.to, item.new_name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.replace(item, way),
            Err(errno) => self.refuse_place(item.path, errno.into(), way),
        };
        // What was refused must not stay under this name.
        match rustix::fs::unlinkat(item.from, item.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => placed,
            Err(errno) => placed.and(Err(errno.into())),
        }
    }

    fn copy_beside(&self, item: &Move<'_>, part: &[u8]) -> io::Result<()> {
        let (stat, _) = look_at(item.from.as_fd(), item.name)?;
        match rustix::fs::unlinkat(item.to, part, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let copied = if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = rustix::fs::readlinkat(item.from, item.name, Vec::new())?;
            rustix::fs::symlinkat(target, item.to, part)?;
            None
        } else {
            Some(copy_content(item, part)?)
        };
        if let Ok(path) = EntryPath::new(item.path)
            && let Some(entry) = self.manifest().table.find(&path)
        {
            self.dress(item.to.as_fd(), part, entry)?;
        }
        if let Some(file) = &copied {
            // A new owner takes bits of it away. It may be minutes until it is durable and has its name.
            let mode = mode_of(&stat) & self.bits_unnamed(item)?;
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode as _))?;
        }
        let times = times(mtime_of(&stat));
        rustix::fs::utimensat(item.to, part, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        copied.map_or(Ok(()), |file| file.sync_all())
    }
}

fn note_elsewhere(folder: &OwnedFd, way: Way<'_>) -> io::Result<()> {
    match way {
        Way::Copy(clearing) => clearing.note_elsewhere(folder),
        Way::Receive(_) => Ok(()),
    }
}

fn copy_content(item: &Move<'_>, part: &[u8]) -> io::Result<File> {
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |folder: &OwnedFd, name: &[u8], flags| {
        rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600)).map(File::from)
    };
    let (mut from, mut to) = (open(item.from, item.name, read_flags())?, open(item.to, part, write)?);
    io::copy(&mut from, &mut to)?;
    Ok(to)
}
