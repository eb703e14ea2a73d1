//! A folder that one run uses, and others leave alone until that has ended: a lock tells, also where it runs on another host or in
//! another container, whose processes have numbers of their own.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::remove_all;

/// Removed when dropped; what a killed run has left is removed by the next.
#[derive(Debug)]
pub(crate) struct HeldFolder {
    pub(crate) path: PathBuf,
    _locked: File,
}

/// The file in it that is locked: a folder's own lock holds on one host only, where the file system is another's (NFS).
const LOCK: &str = "lock";

impl HeldFolder {
    /// A new one in `parent`, named `prefix` and something, which nobody else may enter. What runs that have ended left under such names
    /// is removed.
    pub(crate) fn make(parent: &Path, prefix: &str) -> io::Result<Self> {
        for entry in fs::read_dir(parent)?.flatten() {
            let is_named = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
            // Locked until it is gone: whoever makes one just now sees that.
            if let Some(_locked) = is_named.then(|| left_over(&entry.path())).flatten() {
                remove_all(&entry.path());
            }
        }
        loop {
            let mut named = tempfile::Builder::new();
            named.prefix(prefix).permissions(Permissions::from_mode(0o700));
            let path = named.tempdir_in(parent)?.keep();
            let locked = File::create_new(path.join(LOCK))?;
            // Another run may have taken it for a leftover just now.
            if lock(&locked) != Err(Errno::WOULDBLOCK) && path.join(LOCK).exists() {
                return Ok(Self { path, _locked: locked });
            }
        }
    }
}

impl Drop for HeldFolder {
    fn drop(&mut self) {
        remove_all(&self.path);
    }
}

/// The lock of a folder that such a run of this user's has left.
fn left_over(folder: &Path) -> Option<File> {
    let is_own = |status: &fs::Metadata| status.uid() == rustix::process::geteuid().as_raw();
    folder.symlink_metadata().ok().filter(|status| status.is_dir() && is_own(status))?;
    let mut open = OpenOptions::new();
    // What has the name may be anything, such as a pipe, of which opening would wait for somebody else.
    open.read(true).write(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = open.open(folder.join(LOCK)).ok()?;
    let is_one = file.metadata().is_ok_and(|status| status.is_file() && is_own(&status));
    (is_one && lock(&file).is_ok()).then_some(file)
}

fn lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    /// On a file system that two hosts share, the second one's run removed what the first one was measuring.
    #[test]
    fn what_is_in_use_stays_whoever_looks_and_what_was_left_goes() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("run-left");
        fs::create_dir_all(left.join("data")).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let [first, second] = [(); 2].map(|()| HeldFolder::make(parent.path(), "run-").unwrap());
        assert!(first.path.exists() && second.path.exists());
        assert_eq!(names(parent.path()), 2);
        drop(first);
        let _third = HeldFolder::make(parent.path(), "run-").unwrap();
        assert!(second.path.exists());
        assert_eq!(names(parent.path()), 2);
    }

    #[test]
    fn what_only_has_such_a_name_stays() {
        let parent = tempfile::tempdir().unwrap();
        let [notes, link] = ["run-notes", "run-link"].map(|name| parent.path().join(name));
        fs::create_dir(&notes).unwrap();
        std::os::unix::fs::symlink(&notes, &link).unwrap();
        fs::write(parent.path().join("run-2026.json"), "{}").unwrap();
        let piped = parent.path().join("run-piped");
        fs::create_dir(&piped).unwrap();
        let pipe = piped.join(LOCK);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let _held = HeldFolder::make(parent.path(), "run-").unwrap();
        assert_eq!(names(parent.path()), 5);
    }
}
