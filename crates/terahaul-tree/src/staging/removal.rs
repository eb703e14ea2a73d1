//! How a staging folder goes: with all that is in it, or if nothing is, and late where a file system has files there that are being closed.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{BESIDE, LOCK, OPEN, PROBE, Staging, set_time, time_of};
use crate::failpoint;
use crate::listing::names_in;
use crate::read_only::opening_up;
use crate::sink::remove_all;

impl Staging {
    /// Removes it, and gives the folder that it was made in the time from before, unless something else has been done there since.
    pub(crate) fn remove_without_a_trace(&self) -> io::Result<()> {
        let (before, made) = self.parent_times;
        self.remove_content()?;
        let is_alone = time_of(&self.parent)? == made;
        self.remove_folder_now_or_later();
        if is_alone {
            // It may be somebody else's.
            let _ = set_time(&self.parent, before);
        }
        Ok(())
    }

    /// Removes all of it, the journal first: without it nothing of the rest is believed. That the rest cannot be removed is no
    /// reason to call a copy failed whose files all have their names.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.remove_content()?;
        self.remove_folder_now_or_later();
        Ok(())
    }

    fn remove_content(&self) -> io::Result<()> {
        remove_all(self.folder.as_fd(), b"journal")?;
        failpoint::point()?;
        // The lock goes last: whoever comes before that finds it held.
        let names = names_in(self.folder.as_fd(), b"")?;
        let (lock, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name == LOCK.as_bytes());
        for name in others.into_iter().chain(lock) {
            if let Err(error) = remove_all(self.folder.as_fd(), &name) {
                tracing::debug!("{} in {} stays: {error}", name.escape_ascii(), self.path.display());
            }
        }
        Ok(())
    }

    /// Removes it if nothing was received, and nothing is to be closed again or removed in the receiving folder: of that nobody would
    /// know without it.
    pub(crate) fn remove_empty(&self) -> io::Result<()> {
        if !self.read_left(OPEN)?.is_empty() || !self.read_left(BESIDE)?.is_empty() {
            return Ok(());
        }
        for name in ["tree", "again", "making"] {
            match rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                // A run to come makes the other one again.
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        for name in ["journal", "journal.new", PROBE, BESIDE, LOCK] {
            remove_all(self.folder.as_fd(), name.as_bytes())?;
        }
        self.remove_folder_now_or_later();
        Ok(())
    }

    /// On NFS a file that is open when it is removed keeps a name in its folder until it is closed, and the journal is open for as
    /// long as anybody may record in it.
    fn remove_folder_now_or_later(&self) {
        // What it lies in may have the time already that it is to have.
        let time = time_of(&self.parent);
        match (self.remove_folder(), time) {
            (Ok(()), Ok(time)) => {
                let _ = set_time(&self.parent, time);
            }
            (Ok(()), Err(_)) => {}
            (Err(error), _) => {
                tracing::debug!("{} stays for now: {error}", self.path.display());
                self.stays.store(true, Ordering::Relaxed);
            }
        }
    }

    /// File systems in user space hear late that a file was closed, and have it in the folder until then.
    fn remove_folder_patiently(&self) -> io::Result<()> {
        const ATTEMPTS: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(100);
        for _ in 1..ATTEMPTS {
            match self.remove_folder() {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && !self.is_locked_again() => {
                    std::thread::sleep(PAUSE);
                    if !self.is_locked_again() {
                        let _ = self.remove_content();
                    }
                }
                removed => return removed,
            }
        }
        self.remove_folder()
    }

    /// Another run has it by now.
    fn is_locked_again(&self) -> bool {
        rustix::fs::statat(&self.folder, LOCK, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn remove_folder(&self) -> io::Result<()> {
        // It may have got a read-only folder's permission bits meanwhile.
        opening_up(self.parent.as_fd(), || {
            match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            }
        })
    }
}

/// The journal holds on to its sink, and so to this, until it is closed.
impl Drop for Staging {
    fn drop(&mut self) {
        if !self.stays.load(Ordering::Relaxed) {
            return;
        }
        // As open as the journal was.
        self.lock = None;
        // What it lies in may have got the time by now that it is to have.
        let time = time_of(&self.parent);
        match (self.remove_folder_patiently(), time) {
            (Ok(()), Ok(time)) => {
                let _ = set_time(&self.parent, time);
            }
            (Ok(()), Err(_)) => {}
            (Err(_), _) if self.is_locked_again() => {}
            (Err(error), _) => tracing::warn!(
                "{} could not be removed ({error}): nothing needs it any more, remove it by hand",
                self.path.display()
            ),
        }
    }
}
