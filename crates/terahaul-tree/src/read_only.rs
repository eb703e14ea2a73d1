//! Folders of this user's own that do not let it write, such as copies of read-only ones: opened up while something in them
//! is placed or removed, and closed again. And what this program makes for itself, which would not let it write where a umask or a
//! default access control list says so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use terahaul_store::unless_there;

use crate::beneath::{Purpose, open_child};
use crate::failpoint;
use crate::listing::{is_file, is_folder, mode_of};
use crate::publish::set_mode;
use crate::staging::{set_time, time_of};

/// What an owner needs to change what is in a folder.
pub(crate) const OWNER: u32 = 0o700;
/// What an owner needs to go on with a file.
pub(crate) const FILE_OWNER: u32 = 0o600;

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

/// Opens a file that this program makes for itself, or makes it, where `flags` say so, for its owner alone: whatever the umask, or a default
/// access control list of `folder`, takes from that, it can be opened again.
pub(crate) fn open_own(folder: &OwnedFd, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(FILE_OWNER as _));
    let file = match open() {
        // Whoever has made it has not given it these bits yet, or was killed before that.
        Err(Errno::ACCESS) => {
            if let Some(mode) =
                closed_file_mode(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
            {
                let _ = set_mode(folder.as_fd(), name, mode | FILE_OWNER);
            }
            open()?
        }
        opened => opened?,
    };
    if let Some(mode) = closed_file_mode(&rustix::fs::fstat(&file)?) {
        // It is open in any case.
        let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode((mode | FILE_OWNER) as _));
    }
    Ok(file)
}

/// The permission bits of a file that is this process's user's, under no other name, and lacks some for its owner.
fn closed_file_mode(stat: &Stat) -> Option<u32> {
    let is_own = is_file(stat) && stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw();
    Some(mode_of(stat)).filter(|mode| is_own && mode & FILE_OWNER != FILE_OWNER)
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

/// Does what is done in `folder` alone, and where that refuses it and is this user's own, does it again while the folder is opened up. Nothing
/// says how that was, should this process be killed then: it has to be little, or to be noted before.
pub(crate) fn opening_up<T>(folder: BorrowedFd<'_>, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        done => return done,
    }
    let before = open_up(folder)?;
    let done = act();
    if let Some(mode) = before
        && !failpoint::is_past()
        && let Err(error) = close_again(folder, mode)
    {
        tracing::debug!("a read-only folder stays open to its owner: {error}");
    }
    done
}

/// [Opens it up](opening_up) to do something that is to be no change of its own: it keeps its time.
fn opening_up_unseen<T>(folder: &Path, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = rustix::fs::openat(CWD, folder, Purpose::Pass.flags(), Mode::empty())?;
    let time = time_of(&folder)?;
    let done = opening_up(folder.as_fd(), act)?;
    // It may be somebody else's.
    let _ = set_time(&folder, time);
    Ok(done)
}

/// Makes a folder and what it lies in, also in one of this user's own that does not let it write. That keeps its time.
pub(crate) fn make_opening_up(path: &Path) -> io::Result<()> {
    let is_there = |path: &Path| path.as_os_str().is_empty() || path.is_dir();
    if is_there(path) {
        return Ok(());
    }
    let there = path.ancestors().find(|above| is_there(above)).ok_or(Errno::NOENT)?;
    opening_up_unseen(there, || make_folders(path))
}

/// Removes an empty folder, also from one of this user's own that does not let it write. That keeps its time.
pub fn remove_opening_up(path: &Path) -> io::Result<()> {
    let above = path.parent().ok_or(Errno::INVAL)?;
    opening_up_unseen(above, || std::fs::remove_dir(path))
}

/// Gives it back the permission bits from before, unless somebody has given it others.
pub(crate) fn close_again(folder: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // Opening it up may have taken its set-group-id bit.
    let bits = |mode: u32| mode & 0o777;
    let is = mode_of(&rustix::fs::fstat(folder)?);
    if bits(is) == bits(mode | OWNER) { set_mode_of(folder, mode) } else { Ok(()) }
}
