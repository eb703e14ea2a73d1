//! The folder beside the final names in which a transfer is received: `DIR/.terahaul-<transfer id>/`.
//!
//! | in it | is |
//! |---|---|
//! | `journal` | which blocks are durable; made first, removed first, so the rest means nothing without it |
//! | `tree/` | files at their paths |
//! | `again/` | files named by their entry's index, where the path itself cannot be used twice |
//! | `moving` | publishing has begun: how many entries were ready |
//!
//! It lies in DIR so that publishing is a rename, and only its owner may look inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::{ByteCount, TransferId};

use crate::beneath::{Purpose, open_child};
use crate::fault;
use crate::listing::{is_one, mode_of, names_in};
use crate::read_only::OpenedUp;
use crate::sink::remove_all;

/// Why a transfer cannot be received into a folder.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be made or written to.
    #[error("{path} cannot be written to ({source}): check its permissions, or receive into another folder")]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else made it, or others may write to it.
    #[error("{0} was not made by you, or others can enter it: remove it, or receive into another folder")]
    NotOurs(PathBuf),
    /// Another process receives this transfer into this folder.
    #[error("{0} is in use: this transfer is being received into this folder already; wait for it to end")]
    Busy(PathBuf),
    /// What is in it belongs to something else.
    #[error("{0} holds parts of another version of this transfer: remove it and run the same command again")]
    Stale(PathBuf),
}

pub(crate) struct Staging {
    /// The user's folder.
    pub(crate) root: OwnedFd,
    pub(crate) path: PathBuf,
    /// Where the staging folder is: by path it might be another's by the time it is removed.
    parent: OwnedFd,
    /// That one, where it lets this process write only until this is removed.
    opened_up: OpenedUp,
    name: String,
    /// Locked as long as it is open: one process at a time receives a transfer into a folder.
    pub(crate) folder: OwnedFd,
    pub(crate) tree: Arc<OwnedFd>,
    pub(crate) again: Arc<OwnedFd>,
    /// No earlier run has left anything.
    pub(crate) anew: bool,
    /// Which permission bits a new file gets of those asked for (the umask, or what a default ACL grants).
    pub(crate) granted: u32,
    /// The file system takes different names for the same one (case, or Unicode composition).
    pub(crate) folds_names: bool,
}

const PRIVATE: u32 = 0o700;
/// A process that was just told to end may still be making durable what it has.
const PATIENCE: Duration = Duration::from_secs(5);

impl Staging {
    /// Opens or makes the staging folder of `transfer` in `dir`, which is made too.
    pub(crate) fn open(dir: &Path, transfer: TransferId) -> Result<Self, OpenError> {
        Self::open_in(dir, dir, transfer)
    }

    /// As [`open`](Self::open), with the staging folder in `above`, which is made too.
    pub(crate) fn open_in(dir: &Path, above: &Path, transfer: TransferId) -> Result<Self, OpenError> {
        let root = make_and_open(dir)?;
        let parent = make_and_open(above)?;
        let unwritable = |source: io::Error| OpenError::Unwritable { path: above.into(), source };
        let opened_up = OpenedUp::of(&parent).map_err(unwritable)?;
        let name = staging_name(transfer);
        let path = above.join(&name);
        let folder = loop {
            opened_up.open().map_err(unwritable)?;
            let folder =
                make_folder(&parent, name.as_bytes()).map_err(|error| {
                    match Errno::from_io_error(&error) {
                        Some(Errno::NOTDIR | Errno::LOOP) => OpenError::NotOurs(path.clone()),
                        _ => unwritable(error),
                    }
                })?;
            let stat = rustix::fs::fstat(&folder).map_err(|errno| unwritable(errno.into()))?;
            if stat.st_uid != rustix::process::geteuid().as_raw() || mode_of(&stat) & 0o077 != 0 {
                return Err(OpenError::NotOurs(path));
            }
            if !lock(&folder).map_err(unwritable)? {
                return Err(OpenError::Busy(path));
            }
            // Whoever had it until now may have come to its end meanwhile, and removed it.
            match rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) if is_one(&there, &stat) => break folder,
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(unwritable(errno.into())),
            }
        };
        let journal = rustix::fs::statat(&folder, "journal", AtFlags::SYMLINK_NOFOLLOW);
        let anew = matches!(journal, Err(Errno::NOENT));
        if anew {
            for left_over in ["tree", "again", "moving"] {
                remove_all(folder.as_fd(), left_over.as_bytes()).map_err(unwritable)?;
            }
        }
        let tree = Arc::new(make_folder(&folder, b"tree").map_err(unwritable)?);
        let again = Arc::new(make_folder(&folder, b"again").map_err(unwritable)?);
        let (granted, folds_names) = probe(&folder).map_err(unwritable)?;
        Ok(Self { root, path, parent, opened_up, name, folder, tree, again, anew, granted, folds_names })
    }

    /// A copy's manifest is made anew each time, so where an earlier one's publishing stopped says nothing, nor does what was
    /// named by its entries' indices.
    pub(crate) fn forget_manifest(&self) -> Result<(), OpenError> {
        let forget = || {
            remove_all(self.folder.as_fd(), b"moving")?;
            let names = names_in(self.again.as_fd(), b"")?;
            names.iter().try_for_each(|name| remove_all(self.again.as_fd(), name))
        };
        forget().map_err(|source| OpenError::Unwritable { path: self.path.clone(), source })
    }

    /// What the file system still takes.
    pub(crate) fn available(&self) -> io::Result<ByteCount> {
        let stat = rustix::fs::fstatvfs(&self.root)?;
        Ok(ByteCount(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    /// Whether the file system is one on which two files may share bytes.
    pub(crate) fn shares_files(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            /// The kernel's numbers of XFS, Btrfs and bcachefs (`linux/magic.h`). The call that shares is one that copies elsewhere,
            /// and says nothing of what it has done.
            const SHARING: [u64; 3] = [0x5846_5342, 0x9123_683e, 0xca45_1a4e];
            rustix::fs::fstatfs(&self.folder).is_ok_and(|stat| SHARING.contains(&(stat.f_type as u64)))
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// What is staged takes so much of the disk.
    pub(crate) fn taken(&self) -> io::Result<ByteCount> {
        Ok(ByteCount(taken_by(self.tree.as_fd())? + taken_by(self.again.as_fd())?))
    }

    /// Removes all of it, the journal first: without it nothing of the rest is believed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_all(self.folder.as_fd(), b"journal")?;
        fault::point()?;
        for name in names_in(self.folder.as_fd(), b"")? {
            remove_all(self.folder.as_fd(), &name)?;
        }
        self.remove_folder()
    }

    /// Removes it if nothing was received.
    pub(crate) fn remove_empty(&self) -> io::Result<()> {
        for name in ["tree", "again"] {
            match rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                // A run to come makes the other one again.
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        remove_all(self.folder.as_fd(), b"journal")?;
        self.remove_folder()
    }

    /// The receiving folder has got the permission bits that it is to have.
    pub(crate) fn leave_mode(&self) -> io::Result<()> {
        if is_one(&rustix::fs::fstat(&self.root)?, &rustix::fs::fstat(&self.parent)?) {
            self.opened_up.leave();
        }
        Ok(())
    }

    fn remove_folder(&self) -> io::Result<()> {
        // It may have got a read-only folder's permission bits meanwhile.
        let opened_up = OpenedUp::of(&self.parent)?;
        opened_up.open()?;
        match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

const PREFIX: &str = ".terahaul-";

fn staging_name(transfer: TransferId) -> String {
    format!("{PREFIX}{transfer}")
}

/// Whether a folder of this name in a receiving folder is somebody's staging folder.
pub(crate) fn is_staging_name(name: &[u8]) -> bool {
    let id = name.strip_prefix(PREFIX.as_bytes()).and_then(|id| str::from_utf8(id).ok());
    id.is_some_and(|id| id.parse::<TransferId>().is_ok())
}

fn taken_by(folder: BorrowedFd<'_>) -> io::Result<u64> {
    /// Of `st_blocks`, whatever the file system's own are.
    const UNIT: u64 = 512;
    let mut sum = 0;
    for name in names_in(folder, b"")? {
        let found = rustix::fs::statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        sum += found.st_blocks as u64 * UNIT;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            sum += taken_by(open_child(folder, &name, Purpose::List)?.as_fd())?;
        }
    }
    Ok(sum)
}

/// Whether this process has the folder for itself now.
fn lock(folder: &OwnedFd) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(PATIENCE / 250),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn make_and_open(dir: &Path) -> Result<OwnedFd, OpenError> {
    let unwritable = |source: io::Error| OpenError::Unwritable { path: dir.into(), source };
    std::fs::create_dir_all(dir).map_err(unwritable)?;
    rustix::fs::openat(CWD, dir, Purpose::List.flags(), Mode::empty())
        .map_err(|errno| unwritable(errno.into()))
}

fn make_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(PRIVATE as _)) {
        Ok(()) | Err(Errno::EXIST) => open_child(parent.as_fd(), name, Purpose::List),
        Err(errno) => Err(errno.into()),
    }
}

/// Finds out how the file system treats modes and names, by a file that is there for a moment.
fn probe(folder: &OwnedFd) -> io::Result<(u32, bool)> {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Two runs of one command: the second waits, and the first ends as it should.
    #[test]
    fn a_folder_that_goes_with_its_last_owner_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let transfer = TransferId([7; 16]);
        let first = Staging::open(dir.path(), transfer).unwrap();
        let path = dir.path().canonicalize().unwrap().join(&first.name);
        let handles = || {
            let links =
                std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.ok()?.path().read_link().ok());
            links.filter(|link| *link == path).count()
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Staging::open(dir.path(), transfer));
            // Once it has the first one's folder open, that one goes.
            while handles() < 2 {
                std::thread::yield_now();
            }
            first.remove().unwrap();
            rustix::fs::flock(&first.folder, FlockOperation::Unlock).unwrap();
            let second = second.join().unwrap().unwrap();
            assert!(path.join("tree").is_dir() && path.join("again").is_dir());
            assert!(second.anew);
        });
    }
}
