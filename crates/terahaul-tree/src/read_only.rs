//! Folders of this user's own that do not let it write, such as copies of read-only ones: opened up while something in them
//! is placed or removed, and closed again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode};
use rustix::io::Errno;
use terahaul_store::unless_there;

use crate::beneath::{Purpose, open_child};
use crate::listing::{is_folder, mode_of};
use crate::publish::set_mode;

/// What an owner needs to change what is in a folder.
pub(crate) const OWNER: u32 = 0o700;

/// What a process needs of a folder to change what is in it.
pub(crate) const TO_CHANGE: Access = Access::WRITE_OK.union(Access::EXEC_OK);
/// What it needs to look through it, and to remove what is in it.
pub(crate) const TO_SWEEP: Access = TO_CHANGE.union(Access::READ_OK);

/// Lets this process change what is in the folder, where that is its user's. Returns the permission bits that it had before,
/// if it has others now.
pub(crate) fn open_up(folder: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let closed = closed_mode(folder, TO_CHANGE)?;
    closed.map(|mode| open(folder, mode).map(|()| mode)).transpose()
}

/// The permission bits of a folder that is this process's user's and does not let it do what is `needed`.
pub(crate) fn closed_mode(folder: BorrowedFd<'_>, needed: Access) -> io::Result<Option<u32>> {
    match rustix::fs::accessat(folder, ".", needed, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => {}
        // Root may, whatever the bits say.
        Ok(()) | Err(_) => return Ok(None),
    }
    let stat = rustix::fs::fstat(folder)?;
    let mode = mode_of(&stat);
    if stat.st_uid != rustix::process::geteuid().as_raw() || mode & OWNER == OWNER {
        return Ok(None);
    }
    Ok(Some(mode))
}

/// Opens up a folder that has [these bits](closed_mode).
pub(crate) fn open(folder: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    set_mode_of(folder, mode | OWNER)
}

/// Sets the permission bits of an open folder, also of one that lets nobody reach what is in it, `.` included.
fn set_mode_of(folder: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let itself = format!("/proc/self/fd/{}", folder.as_raw_fd());
        if rustix::fs::chmod(itself, rustix::fs::Mode::from_raw_mode(mode as _)).is_ok() {
            return Ok(());
        }
    }
    set_mode(folder, b".", mode)
}

/// Makes a folder that this process can change things in, whatever the umask, or a default access control list of `parent`, takes from
/// its owner.
pub(crate) fn make_open(parent: &OwnedFd, name: &[u8], mode: u32) -> rustix::io::Result<()> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode as _))?;
    open_up_made(parent.as_fd(), name);
    Ok(())
}

/// Opens up a folder that was made by this program, now or by an earlier run. That it stays closed is found out, and said, by whoever
/// enters it.
pub(crate) fn open_up_made(parent: BorrowedFd<'_>, name: &[u8]) {
    let opened_up = || -> io::Result<()> {
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_folder(&stat) || mode_of(&stat) & OWNER == OWNER {
            return Ok(());
        }
        let folder = open_child(parent, name, Purpose::Pass)?;
        let closed = closed_mode(folder.as_fd(), TO_SWEEP)?;
        closed.map_or(Ok(()), |mode| open(folder.as_fd(), mode))
    };
    if let Err(error) = opened_up() {
        tracing::debug!("{} was made and stays closed to its owner: {error}", name.escape_ascii());
    }
}

/// Makes a folder and what it lies in, each as open to its owner as [`make_open`] makes it.
pub fn make_folders(path: &Path) -> io::Result<()> {
    let make = || match std::fs::create_dir(path) {
        Ok(()) => {
            open_up_made(CWD, path.as_os_str().as_bytes());
            Ok(())
        }
        Err(error) => unless_there(path, error),
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    match (make(), above) {
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(above)?;
            make()
        }
        (made, _) => made,
    }
}

/// A folder that is to be opened up, if it has to be, until this is dropped.
pub(crate) struct OpenedUp {
    folder: OwnedFd,
    before: Option<u32>,
}

impl OpenedUp {
    pub(crate) fn of(folder: &OwnedFd) -> io::Result<Self> {
        Ok(Self { folder: folder.try_clone()?, before: None })
    }

    fn at(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let folder = rustix::fs::openat(CWD, path, Purpose::Pass.flags(), Mode::empty())?;
        Ok(Self { folder, before: None })
    }

    /// Opens it up, also where somebody else who had done so has closed it since.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.before = open_up(self.folder.as_fd())?.or(self.before);
        Ok(())
    }
}

impl Drop for OpenedUp {
    fn drop(&mut self) {
        if let Some(mode) = self.before
            && let Err(error) = close_again(self.folder.as_fd(), mode)
        {
            tracing::debug!("a read-only folder stays open to its owner: {error}");
        }
    }
}

/// Makes a folder and what it lies in, also in one of this user's own that does not let it write.
pub(crate) fn make_opening_up(path: &Path) -> io::Result<()> {
    match make_folders(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        made => return made,
    }
    let there = path.ancestors().skip(1).find(|above| above.as_os_str().is_empty() || above.is_dir());
    let Some(there) = there else { return Err(Errno::NOENT.into()) };
    let mut opened_up = OpenedUp::at(there)?;
    opened_up.open()?;
    make_folders(path)
}

/// Removes an empty folder, also from one of this user's own that does not let it write.
pub fn remove_opening_up(path: &Path) -> io::Result<()> {
    let Some(above) = path.parent() else { return Err(Errno::INVAL.into()) };
    let mut opened_up = OpenedUp::at(above)?;
    opened_up.open()?;
    std::fs::remove_dir(path)
}

/// Gives it back the permission bits from before, unless somebody has given it others.
pub(crate) fn close_again(folder: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // Opening it up may have taken its set-group-id bit.
    let bits = |mode: u32| mode & 0o777;
    let is = mode_of(&rustix::fs::fstat(folder)?);
    if bits(is) == bits(mode | OWNER) { set_mode_of(folder, mode) } else { Ok(()) }
}
