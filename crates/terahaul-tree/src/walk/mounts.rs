//! Whether a folder is still in the mount in which it was found: one that goes while the walk is under way leaves a folder of the same name, with
//! nothing in it.
//!
//! Inodes do not tell, as some file systems number them anew. What was below a mount is older than it. One that comes, or comes back, is no
//! reason to doubt what it shows: an automounter's does so when it is entered.

use std::io;
use std::os::fd::BorrowedFd;

#[cfg(target_os = "linux")]
use rustix::fs::StatxFlags;
use rustix::fs::{AtFlags, Stat, fstat};

/// Where a folder was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The mount's number, where the system says it.
    mount: Option<u64>,
    /// It is of another device than the folder above it.
    is_mount: bool,
}

impl Found {
    /// `name` in `folder`.
    pub(super) fn at(folder: BorrowedFd<'_>, name: &[u8], is_mount: bool) -> Self {
        Self { mount: mount_of(folder, name), is_mount }
    }

    /// Whether the folder that is open now, with this status, is in what was below that mount. Where mounts have no numbers that is known only of
    /// one of another device.
    pub(super) fn has_gone(&self, opened: BorrowedFd<'_>, stat: &Stat) -> bool {
        match (self.mount, mount_of(opened, b"")) {
            (Some(then), Some(now)) => now < then,
            _ => self.is_mount && is_like_above(opened, stat),
        }
    }
}

fn is_like_above(opened: BorrowedFd<'_>, stat: &Stat) -> bool {
    rustix::fs::statat(opened, "..", AtFlags::empty()).is_ok_and(|above| above.st_dev == stat.st_dev)
}

/// The number of the mount that `name` in `folder`, or an empty one for `folder` itself, is in: they only rise, and none is used again (Linux 6.8).
#[cfg(target_os = "linux")]
fn mount_of(folder: BorrowedFd<'_>, name: &[u8]) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE` (linux/stat.h).
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    number(folder, name, UNIQUE)
}

#[cfg(not(target_os = "linux"))]
fn mount_of(_: BorrowedFd<'_>, _: &[u8]) -> Option<u64> {
    None
}

/// Whether `name` in `folder`, or that itself, is in the mount that `root` is in: no rename leads to another one, though it be of the same file
/// system. Where mounts have no numbers (before Linux 5.8) devices tell.
pub(crate) fn is_in_mount_of(root: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    let is_same_device = fstat(root)?.st_dev == fstat(folder)?.st_dev;
    #[cfg(target_os = "linux")]
    if let (Some(one), Some(other)) =
        (number(root, b"", StatxFlags::MNT_ID), number(folder, name, StatxFlags::MNT_ID))
    {
        return Ok(is_same_device && one == other);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = name;
    Ok(is_same_device)
}

#[cfg(target_os = "linux")]
fn number(folder: BorrowedFd<'_>, name: &[u8], kind: StatxFlags) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(folder, name, flags, kind).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask).contains(kind).then_some(found.stx_mnt_id)
}
