//! Which mount a folder is in: one that goes while the walk is under way leaves a folder of the same name, with nothing in it.
//!
//! Devices do not tell, as those of a mount bound to another place are the same, nor do inodes, which some file systems number anew. A mount
//! that comes is no reason to doubt what it brings: an automounter's does so when it is entered, and is in another one's place, which stays.

use std::os::fd::BorrowedFd;

/// A mount, by the number that the system has for it as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mount(u64);

#[cfg(target_os = "linux")]
impl Mount {
    /// That of `name` in `folder`, or of `folder` itself where that is empty. `None` where the system does not say (Linux 5.8).
    pub(super) fn of(folder: BorrowedFd<'_>, name: &[u8]) -> Option<Self> {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(folder, name, flags, StatxFlags::MNT_ID).ok()?;
        let is_said = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        is_said.then_some(Self(found.stx_mnt_id))
    }

    /// Whether the folder that was found in it and is open now is in another one, as this one is gone.
    pub(super) fn has_left(self, opened: BorrowedFd<'_>) -> bool {
        Self::of(opened, b"").is_some_and(|now| now != self) && !self.is_there()
    }

    /// As far as anybody can say.
    fn is_there(self) -> bool {
        let number = self.0.to_string();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo");
        mounts.map_or(true, |mounts| mounts.lines().any(|mount| mount.split(' ').next() == Some(&number)))
    }
}

#[cfg(not(target_os = "linux"))]
impl Mount {
    pub(super) fn of(_: BorrowedFd<'_>, _: &[u8]) -> Option<Self> {
        None
    }

    pub(super) fn has_left(self, _: BorrowedFd<'_>) -> bool {
        false
    }
}
