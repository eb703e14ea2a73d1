//! What is made in a folder takes from that folder: its group, where it is set-group-id, and its default access control list.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Stat};

use super::PRIVATE;
use crate::listing::mode_of;
use crate::publish::{SET_GROUP, set_mode};
use crate::xattrs;

/// The bit that says whether a folder hands its group on.
pub(crate) fn hands_on(folder: &Stat) -> u32 {
    mode_of(folder) & SET_GROUP
}

/// Whether a folder that is made in `parent` gives what is made in it the same group as `there` does.
pub(crate) fn hands_on_the_same(parent: &OwnedFd, there: &Stat) -> bool {
    rustix::fs::fstat(parent).is_ok_and(|parent| {
        let same_group = hands_on(there) == 0 || parent.st_gid == there.st_gid;
        hands_on(&parent) == hands_on(there) && same_group
    })
}

/// Has the folder `name` of `folder` hand its group on as `there` does, and gives it the permission bits in `mode` besides its owner's. A
/// group that this user is not in cannot be had.
pub(crate) fn hand_on(folder: &OwnedFd, name: &str, there: &Stat, mode: u32) -> io::Result<()> {
    if hands_on(there) != 0 {
        let group = Some(Gid::from_raw(there.st_gid));
        rustix::fs::chownat(folder, name, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    set_mode(folder.as_fd(), name.as_bytes(), PRIVATE | mode | hands_on(there))
}

/// Has what is made in the staged folder `name` of `folder` get what it would get in `root`.
pub(super) fn hand_on_as_in(
    root: &OwnedFd,
    folder: &OwnedFd,
    name: &str,
    staged: &OwnedFd,
) -> io::Result<()> {
    // A group that cannot be had is no reason to be without the list.
    hand_list_on(root.as_fd(), staged.as_fd())?;
    let there = rustix::fs::fstat(root)?;
    if !hands_on_the_same(staged, &there) {
        hand_on(folder, name, &there, 0)?;
    }
    Ok(())
}

/// Has what is made in `to` get the access control list that it would get in `from`.
pub(crate) fn hand_list_on(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let list = xattrs::default_list(from)?;
    if xattrs::default_list(to)? != list {
        xattrs::set_default_list(to, list.as_deref())?;
    }
    Ok(())
}
