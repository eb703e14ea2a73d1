//! Files that say that they are empty and have content, which their file system makes while it is read, as most in `/proc` do.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, Stat};

use crate::beneath::{Purpose, read_flags};
use crate::listing::{is_file, size_of_file};

/// Which devices are pseudo file systems. Each is asked once.
#[derive(Default)]
pub(super) struct PseudoFileSystems {
    known: Mutex<HashMap<u64, bool>>,
}

impl PseudoFileSystems {
    /// Whether `name` in `folder` says that it is empty and is not. An error is of opening it, where only that would tell.
    pub(super) fn hides_content(&self, folder: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> io::Result<bool> {
        if !is_file(stat) || size_of_file(stat) > 0 || !self.hold(folder, name, stat) {
            return Ok(false);
        }
        let opened = rustix::fs::openat(folder, name, read_flags(), Mode::empty())?;
        // What waits for content, or gives it only in other pieces, is not empty either.
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&opened, &mut [0]));
        // On a disk in memory without a limit it may have grown meanwhile, as any file may.
        Ok(read != Ok(0) && size_of_file(&rustix::fs::fstat(&opened)?) == 0)
    }

    /// Whether the file lies on one: on a file system of no blocks at all. So say all of the kernel's that make files up
    /// (`simple_statfs` in its `fs/libfs.c`: procfs, cgroup, debugfs, tracefs, securityfs, bpf and more), and `df` leaves them out by it.
    fn hold(&self, folder: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> bool {
        // Not every system has it in 64 bits.
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let device = stat.st_dev as u64;
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holds) = known().get(&device) {
            return *holds;
        }
        // Not its folder: a single file may be mounted there. Linux lets what may not be read be asked, too.
        let flags = Purpose::Pass.flags().difference(OFlags::DIRECTORY) | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let Ok(opened) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return false };
        let holds = rustix::fs::fstatvfs(&opened).is_ok_and(|stat| stat.f_blocks == 0);
        known().insert(device, holds);
        holds
    }
}
