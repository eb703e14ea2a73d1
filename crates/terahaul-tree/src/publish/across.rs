//! Placing an item in a folder on another file system, where a rename does not reach: a copy beside its final name, made
//! durable, and then renamed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use terahaul_core::EntryPath;

use super::PublishError;
use super::way::{Move, Way};
use crate::TreeSink;
use crate::listing::{look_at, mode_of};
use crate::read_only::open_up;

impl TreeSink {
    /// Makes a folder whose content will be placed.
    pub(super) fn make_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let mode = mode_of(&look_at(item.from.as_fd(), item.name)?.0);
        match rustix::fs::mkdirat(item.to, item.new_name, Mode::from_raw_mode(mode as _)) {
            Ok(()) => {}
            Err(Errno::EXIST) if super::moves::is_folder(item.to, item.new_name)? => {}
            Err(errno) => self.refuse_place(item.path, errno.into(), way)?,
        }
        Ok(())
    }

    /// Lets this process write into the folder at `path` until [`settle`](Self::settle).
    pub(super) fn open_up(&self, folder: &OwnedFd, path: &[u8], way: Way<'_>) -> io::Result<()> {
        if matches!(way, Way::Copy(_))
            && let Some(mode) = open_up(folder.as_fd())?
        {
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).push((path.into(), mode));
        }
        Ok(())
    }

    /// Places a file or a link. The staged one is removed.
    pub(super) fn carry_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let part = self.part_name();
        if let Err(error) = self.copy_beside(item, &part) {
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
        [staging, b".part"].concat()
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
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = rustix::fs::readlinkat(item.from, item.name, Vec::new())?;
            rustix::fs::symlinkat(target, item.to, part)?;
        } else {
            let file = copy_content(item, part)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode_of(&stat) as _))?;
            file.sync_all()?;
        }
        if let Ok(path) = EntryPath::new(item.path)
            && let Some(entry) = self.manifest().table.find(&path)
        {
            self.dress(item.to.as_fd(), part, entry)?;
        }
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ },
        };
        Ok(rustix::fs::utimensat(item.to, part, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn copy_content(item: &Move<'_>, part: &[u8]) -> io::Result<File> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |folder: &OwnedFd, name: &[u8], flags| {
        rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600)).map(File::from)
    };
    let (mut from, mut to) = (open(item.from, item.name, read)?, open(item.to, part, write)?);
    io::copy(&mut from, &mut to)?;
    Ok(to)
}
