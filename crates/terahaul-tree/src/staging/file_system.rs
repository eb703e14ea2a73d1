//! What the file system of a staging folder, and of the folder that it is for, does and has room for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::{ByteCount, Mtime};
use terahaul_store::free_space;

use super::Staging;
use crate::TreeSink;
use crate::beneath::{Purpose, open_child};
use crate::listing::{is_folder, mode_of, names_in};
use crate::sink::times;

/// The kernel's numbers of file systems in user space, and of NFS.
const FUSE: u64 = 0x6573_5546;
const NFS: u64 = 0x6969;

/// How a file system treats what is made there.
pub(super) struct Probed {
    /// Which permission bits a new file gets of those asked for.
    pub granted: u32,
    /// Names that differ in case, or in Unicode composition, are the same one.
    pub folds: bool,
    /// What is said of a link is done to what it leads to, as over SFTP.
    pub follows: bool,
}

impl Staging {
    /// What the file system still takes.
    pub(crate) fn available(&self) -> io::Result<ByteCount> {
        available_on(&self.root)
    }

    /// Whether the file system is one on which two files may share bytes.
    pub(crate) fn shares_files(&self) -> bool {
        /// The kernel's numbers of XFS, Btrfs and bcachefs (`linux/magic.h`). The call that shares is one that copies elsewhere, and says
        /// nothing of what it has done.
        const SHARING: [u64; 3] = [0x5846_5342, 0x9123_683e, 0xca45_1a4e];
        is_of_kind(&self.folder, &SHARING)
    }

    /// The longest file that goes there. On FAT it would be known only when four gigabytes of it are here.
    pub(crate) fn longest_file(&self) -> ByteCount {
        ByteCount(if self.is_fat() { u64::from(u32::MAX) } else { u64::MAX })
    }

    /// Whether what is received lies on FAT, be it for a while.
    pub(crate) fn is_fat(&self) -> bool {
        is_fat(&self.folder) || is_fat(&self.root)
    }

    /// Whether a file that is open when its last name is removed gets another one there, until it is closed.
    pub(crate) fn names_open_files(&self) -> bool {
        is_of_kind(&self.root, &[FUSE, NFS])
    }

    /// Whether what a file system failed to write is told of by syncing or closing that file alone: it passes on no wish that all of it be
    /// durable. So it is with those in user space, and with NFS on older systems.
    pub(super) fn answers_by_file(folder: &OwnedFd) -> bool {
        cfg!(not(target_os = "linux")) || is_of_kind(folder, &[FUSE, NFS])
    }

    /// The staging folder is on another file system than the receiving one.
    pub(crate) fn is_apart(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstat(&self.root)?.st_dev != rustix::fs::fstat(&self.folder)?.st_dev)
    }

    /// What is staged takes so much of the disk.
    pub(crate) fn taken(&self) -> io::Result<ByteCount> {
        Ok(ByteCount(taken_by(self.tree.as_fd())? + taken_by(self.again.as_fd())?))
    }
}

impl TreeSink {
    /// Whether the file system takes different names for the same one (case, or Unicode composition).
    pub fn folds_names(&self) -> bool {
        self.staging.folds_names
    }

    /// What the file system takes on which things wait for their names, where that is another one than the receiving folder's.
    pub fn available_apart(&self) -> io::Result<Option<ByteCount>> {
        let staging = &self.staging;
        Ok(if staging.is_apart()? { Some(available_on(&staging.folder)?) } else { None })
    }

    /// Whether what stays the same in a file takes no room again.
    pub fn shares_with_bases(&self) -> bool {
        self.shares.load(Ordering::Relaxed) && self.staging.is_apart().is_ok_and(|apart| !apart)
    }
}

/// Anything, where it does not say.
fn available_on(folder: &OwnedFd) -> io::Result<ByteCount> {
    Ok(ByteCount(free_space(folder)?.unwrap_or(u64::MAX)))
}

/// Whether a folder's file system is a program of this machine.
pub(crate) fn is_in_user_space(folder: &OwnedFd) -> bool {
    is_of_kind(folder, &[FUSE])
}

/// Whether a folder is on FAT. It takes no file of 4 GiB, and has every other second alone.
pub(crate) fn is_fat(folder: &OwnedFd) -> bool {
    const FAT: u64 = 0x4d44;
    is_of_kind(folder, &[FAT])
}

/// By the kernel's numbers of file systems. Other systems have others.
#[cfg(target_os = "linux")]
fn is_of_kind(folder: &OwnedFd, kinds: &[u64]) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|stat| kinds.contains(&(stat.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn is_of_kind(_: &OwnedFd, _: &[u64]) -> bool {
    false
}

fn taken_by(folder: BorrowedFd<'_>) -> io::Result<u64> {
    names_in(folder, b"")?.iter().map(|name| taken_as(folder, name)).sum()
}

/// What has this name takes so much. A file that fails goes at once, maybe since the folder was listed.
fn taken_as(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<u64> {
    /// Of `st_blocks`, whatever the file system's own are.
    const UNIT: u64 = 512;
    let found = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(0),
        found => found?,
    };
    let inner =
        if is_folder(&found) { taken_by(open_child(folder, name, Purpose::List)?.as_fd())? } else { 0 };
    Ok(found.st_blocks as u64 * UNIT + inner)
}

/// Finds out how the file system treats modes, names and links, by a file and a link that are there for a moment and whose names nobody else
/// uses.
pub(super) fn probe(folder: &OwnedFd, prefix: &str) -> io::Result<Probed> {
    const SAME_TO_SOME: [&str; 2] = ["PROBE-\u{e9}", "probe-e\u{301}"];
    let name = format!("{prefix}probe-\u{e9}");
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let everything = Mode::from_raw_mode(0o777);
    let link = format!("{prefix}probe-link");
    for name in [&name, &link] {
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let file = rustix::fs::openat(folder, &name, flags | OFlags::EXCL, everything)?;
    let granted = mode_of(&rustix::fs::fstat(&file)?);
    // One that is removed while it is open comes back on some.
    drop(file);
    let seen = |other: &&str| {
        rustix::fs::statat(folder, format!("{prefix}{other}"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    let folds = SAME_TO_SOME.iter().any(seen);
    rustix::fs::unlinkat(folder, &name, AtFlags::empty())?;
    // It leads to nothing by now.
    let follows = follows_links(folder, &name, &link);
    Ok(Probed { granted, folds, follows })
}

/// Whether the time of a link to nothing cannot be set, as there is nothing there.
fn follows_links(folder: &OwnedFd, nothing: &str, link: &str) -> bool {
    let followed = || -> io::Result<bool> {
        rustix::fs::symlinkat(nothing, folder, link)?;
        let set = rustix::fs::utimensat(folder, link, &times(Mtime::default()), AtFlags::SYMLINK_NOFOLLOW);
        rustix::fs::unlinkat(folder, link, AtFlags::empty())?;
        Ok(set == Err(Errno::NOENT))
    };
    // Where there are no links none is dated.
    followed().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_does_not_say_how_much_it_takes_has_room() {
        let folder = OwnedFd::from(std::fs::File::open("/proc").unwrap());
        assert_eq!(available_on(&folder).unwrap(), ByteCount(u64::MAX));
    }

    /// It ended a copy onto a disk that was nearly full.
    #[test]
    fn what_goes_while_it_is_counted_takes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        assert_eq!(taken_as(folder.as_fd(), b"gone").unwrap(), 0);
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::fs::write(dir.path().join("inner/file"), [1; 100_000]).unwrap();
        assert!(taken_by(folder.as_fd()).unwrap() >= 100_000);
    }
}
