//! Where publishing may be interrupted: tests make it stop at each of these points in turn. And where it meets what some file systems
//! lack, which tests have the one that they run on lack, too.

use std::io;

#[cfg(test)]
use rustix::io::Errno;

#[cfg(test)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
    static PAST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static LACKING: std::cell::Cell<Lacking> = const { std::cell::Cell::new(Lacking { links: None, folders: None, byte: None, one_device: false, closed: None, opened: None }) };
}

/// What the file system lacks.
#[cfg(test)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Lacking {
    /// It says this where a link is to be made, of whichever kind.
    pub(crate) links: Option<Errno>,
    /// It says this where a folder is to be made in one that is there.
    pub(crate) folders: Option<Errno>,
    /// It takes no name with this byte, and says this.
    pub(crate) byte: Option<(u8, Errno)>,
    /// What is mounted is no other device: that a rename does not lead there is said only once nothing has the new name.
    pub(crate) one_device: bool,
    /// It says this where a file that was written to is closed.
    pub(crate) closed: Option<Errno>,
    /// It says this where a file is opened to be read.
    pub(crate) opened: Option<Errno>,
}

/// Called before each change to the file system. A test may have it fail, which leaves the disk as a crash would.
#[inline]
pub(crate) fn point() -> io::Result<()> {
    #[cfg(test)]
    if let Some(left) = LEFT.get() {
        let Some(fewer) = left.checked_sub(1) else {
            PAST.set(true);
            return Err(io::Error::other("crash"));
        };
        LEFT.set(Some(fewer));
    }
    Ok(())
}

/// Lets `points` changes pass on this thread, then fails; `None` lets all pass.
#[cfg(test)]
pub(crate) fn crash_after(points: Option<u32>) {
    LEFT.set(points);
    PAST.set(false);
}

/// Whether a test has had it stop: a process that is killed puts nothing right any more.
#[inline]
pub(crate) fn is_past() -> bool {
    #[cfg(test)]
    return PAST.get();
    #[cfg(not(test))]
    false
}

/// Has the file system lack this from now on, on this thread.
#[cfg(test)]
pub(crate) fn lack(lacking: Lacking) {
    LACKING.set(lacking);
}

/// Called before a link is made.
#[inline]
pub(crate) fn link() -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some(errno) = LACKING.get().links {
        return Err(errno);
    }
    Ok(())
}

/// Called before it is found out whether a folder takes another one.
#[inline]
pub(crate) fn folder() -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some(errno) = LACKING.get().folders {
        return Err(errno);
    }
    Ok(())
}

/// Called before a file is opened to be read.
#[inline]
pub(crate) fn open() -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some(errno) = LACKING.get().opened {
        return Err(errno);
    }
    Ok(())
}

/// Called before a file is closed.
#[inline]
pub(crate) fn close() -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some(errno) = LACKING.get().closed {
        return Err(errno);
    }
    Ok(())
}

/// Called before a name is given that nothing is to have.
#[inline]
pub(crate) fn taken(_folder: &std::os::fd::OwnedFd, _name: &[u8]) -> rustix::io::Result<()> {
    #[cfg(test)]
    if LACKING.get().one_device
        && rustix::fs::statat(_folder, _name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    {
        return Err(Errno::EXIST);
    }
    Ok(())
}

/// Called before something gets this name.
#[inline]
pub(crate) fn name(_name: &[u8]) -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some((byte, errno)) = LACKING.get().byte
        && _name.contains(&byte)
    {
        return Err(errno);
    }
    Ok(())
}
