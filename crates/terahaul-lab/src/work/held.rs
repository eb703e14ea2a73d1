//! A folder that one run uses, and others leave alone until that has ended: a lock tells, also where it runs on another host or in
//! another container, whose processes have numbers of their own.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::remove_all;

/// Stays when dropped, and is somebody else's to remove from then on.
#[derive(Debug)]
pub(crate) struct HeldFolder {
    pub(crate) path: PathBuf,
    _locked: File,
}

impl HeldFolder {
    /// A new one in `parent`, named `prefix` and something, which nobody else may enter. What runs that have ended left under such names
    /// is removed.
    pub(crate) fn make(parent: &Path, prefix: &str) -> io::Result<Self> {
        for entry in fs::read_dir(parent)?.flatten() {
            let is_one = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
            if is_one && File::open(entry.path()).is_ok_and(|folder| lock(&folder).is_ok()) {
                remove_all(&entry.path());
            }
        }
        loop {
            let mut named = tempfile::Builder::new();
            named.prefix(prefix).permissions(Permissions::from_mode(0o700));
            let path = named.tempdir_in(parent)?.keep();
            let locked = File::open(&path)?;
            // Another run may have taken it for a leftover just now.
            if lock(&locked) != Err(Errno::WOULDBLOCK) && path.exists() {
                return Ok(Self { path, _locked: locked });
            }
        }
    }
}

fn lock(folder: &File) -> rustix::io::Result<()> {
    flock(folder, FlockOperation::NonBlockingLockExclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a file system that two hosts share, the second one's run removed what the first one was measuring.
    #[test]
    fn what_is_in_use_stays_whoever_looks_and_what_was_left_goes() {
        let parent = tempfile::tempdir().unwrap();
        let [left, other] = ["run-left", "mine"].map(|name| parent.path().join(name));
        fs::create_dir_all(left.join("data")).unwrap();
        fs::create_dir(&other).unwrap();
        let first = HeldFolder::make(parent.path(), "run-").unwrap();
        let second = HeldFolder::make(parent.path(), "run-").unwrap();
        assert!(!left.exists() && other.exists() && first.path.exists() && second.path.exists());
        drop(first);
        let _third = HeldFolder::make(parent.path(), "run-").unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 3);
    }
}
