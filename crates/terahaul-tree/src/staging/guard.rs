//! Who else may look into a staging folder.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, Stat};

use super::{PREFIX, PRIVATE};
use crate::listing::mode_of;

/// Who else may do what in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nobody else anything.
    Private,
    /// Others may read.
    Readable,
    /// Others may write, or it is theirs.
    Open,
}

impl Guard {
    pub(super) fn of(stat: &Stat) -> Self {
        let mode = mode_of(stat);
        if stat.st_uid != rustix::process::geteuid().as_raw() || mode & 0o022 != 0 {
            Self::Open
        } else if mode & 0o077 != 0 {
            Self::Readable
        } else {
            Self::Private
        }
    }
}

/// Whether a folder that is made there now is not this user's alone either: FAT, and shares of Windows, give all that is on
/// them the owner and the permissions that they were mounted with.
pub(super) fn made_unprivate(parent: &OwnedFd) -> io::Result<bool> {
    let name = format!("{PREFIX}probe-{}", rustix::process::getpid().as_raw_nonzero());
    let _ = rustix::fs::unlinkat(parent, &name, AtFlags::REMOVEDIR);
    rustix::fs::mkdirat(parent, &name, Mode::from_raw_mode(PRIVATE as _))?;
    let found = rustix::fs::statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW);
    rustix::fs::unlinkat(parent, &name, AtFlags::REMOVEDIR)?;
    Ok(Guard::of(&found?) != Guard::Private)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// As FAT is mounted for a user: everything is 0755, whatever is asked for.
    #[test]
    fn what_others_can_only_read_is_told_from_what_they_can_write_to() {
        let dir = tempfile::tempdir().unwrap();
        let guard = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            Guard::of(&rustix::fs::stat(dir.path()).unwrap())
        };
        let guards = [0o700, 0o755, 0o770, 0o777].map(guard);
        assert_eq!(guards, [Guard::Private, Guard::Readable, Guard::Open, Guard::Open]);
        let parent = std::fs::File::open(dir.path()).unwrap().into();
        assert!(!made_unprivate(&parent).unwrap(), "this one keeps what is asked for");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
