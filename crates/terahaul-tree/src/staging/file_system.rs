//! What the file system of a staging folder, and of the folder that it is for, does and has room for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::ByteCount;

use super::Staging;
use crate::TreeSink;
use crate::beneath::{Purpose, open_child};
use crate::listing::{is_folder, mode_of, names_in};

impl Staging {
    /// What the file system still takes.
    pub(crate) fn available(&self) -> io::Result<ByteCount> {
        available_on(&self.root)
    }

    /// Whether the file system is one on which two files may share bytes.
    pub(crate) fn shares_files(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            /// The kernel's numbers of XFS, Btrfs and bcachefs (`linux/magic.h`). The call that shares is one that copies elsewhere,
            /// and says nothing of what it has done.
            const SHARING: [u64; 3] = [0x5846_5342, 0x9123_683e, 0xca45_1a4e];
            is_of_kind(&self.folder, &SHARING)
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Whether a file that is open when its last name is removed gets another one there, until it is closed.
    pub(crate) fn names_open_files(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            const NFS: u64 = 0x6969;
            is_of_kind(&self.root, &[NFS])
        }
        #[cfg(not(target_os = "linux"))]
        false
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

fn available_on(folder: &OwnedFd) -> io::Result<ByteCount> {
    let stat = rustix::fs::fstatvfs(folder)?;
    Ok(ByteCount(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// By the kernel's numbers of file systems.
#[cfg(target_os = "linux")]
fn is_of_kind(folder: &OwnedFd, kinds: &[u64]) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|stat| kinds.contains(&(stat.f_type as u64)))
}

fn taken_by(folder: BorrowedFd<'_>) -> io::Result<u64> {
    /// Of `st_blocks`, whatever the file system's own are.
    const UNIT: u64 = 512;
    let mut sum = 0;
    for name in names_in(folder, b"")? {
        let found = rustix::fs::statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        sum += found.st_blocks as u64 * UNIT;
        if is_folder(&found) {
            sum += taken_by(open_child(folder, &name, Purpose::List)?.as_fd())?;
        }
    }
    Ok(sum)
}

/// Finds out how the file system treats modes and names, by a file that is there for a moment.
pub(super) fn probe(folder: &OwnedFd) -> io::Result<(u32, bool)> {
    const NAME: &str = "probe-\u{e9}";
    const SAME_TO_SOME: [&str; 2] = ["PROBE-\u{e9}", "probe-e\u{301}"];
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let everything = Mode::from_raw_mode(0o777);
    match rustix::fs::unlinkat(folder, NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let file = rustix::fs::openat(folder, NAME, flags | OFlags::EXCL, everything)?;
    let granted = mode_of(&rustix::fs::fstat(&file)?);
    let seen = |name: &&str| rustix::fs::statat(folder, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let folds = SAME_TO_SOME.iter().any(seen);
    rustix::fs::unlinkat(folder, NAME, AtFlags::empty())?;
    Ok((granted, folds))
}
