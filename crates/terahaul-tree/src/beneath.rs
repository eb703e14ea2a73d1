//! Opening what lies below a folder, without ever being led out of it.
//!
//! No symbolic link is followed on the way, and no `..` above the folder, so a folder that was swapped for a link between two
//! steps is refused and not entered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::EntryPath;

use crate::failpoint;

#[cfg(target_os = "linux")]
use crate::listing::is_file;

/// What a folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To reach what is in it: search permission is enough.
    Pass,
    /// To list, sync or change it.
    List,
}

impl Purpose {
    pub(crate) fn flags(self) -> OFlags {
        let access = match self {
            #[cfg(target_os = "linux")]
            Self::Pass => OFlags::PATH,
            #[cfg(not(target_os = "linux"))]
            Self::Pass => OFlags::RDONLY,
            Self::List => OFlags::RDONLY,
        };
        access | OFlags::DIRECTORY | OFlags::CLOEXEC
    }
}

/// How every file is opened that is read: a FIFO that took its place must not block, a link must not be followed.
pub(crate) fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC
}

/// Opens the file `name` in `folder` to read it. One that somebody has a lease of, as a server of Windows shares has for its clients, is
/// waited for: the system takes it back, within 45 s unless it was told otherwise.
pub(crate) fn open_to_read(folder: impl AsFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    match failpoint::open().and_then(|()| rustix::fs::openat(&folder, name, read_flags(), Mode::empty())) {
        #[cfg(target_os = "linux")]
        Err(Errno::AGAIN) => open_leased(folder.as_fd(), name),
        opened => opened,
    }
}

/// To wait for nothing else it is held before it is opened: what has the name may become a FIFO, this cannot.
#[cfg(target_os = "linux")]
fn open_leased(folder: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;

    let held =
        rustix::fs::openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if !is_file(&rustix::fs::fstat(&held)?) {
        return Err(Errno::AGAIN);
    }
    let itself = format!("/proc/self/fd/{}", held.as_raw_fd());
    let open = || rustix::fs::open(&itself, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    match rustix::io::retry_on_intr(open) {
        // Where nothing is mounted at /proc. The file is there.
        Err(Errno::NOENT) => Err(Errno::AGAIN),
        opened => opened,
    }
}

/// The folder that a path is in, empty for the top, and its name there.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    slash.map_or((&b""[..], path), |slash| (&path[..slash], &path[slash + 1..]))
}

/// The path of `name` in `folder`: the inverse of [`split`].
pub(crate) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(folder.len() + 1 + name.len());
    path.extend_from_slice(folder);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Whether `path` is `folder` or in it.
pub(crate) fn is_within(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
}

/// The system takes at most 4,095 bytes at once; an entry's path may have one more.
const LONGEST_HOP: usize = 3500;

/// Opens the folder `path`, relative to `root`; an empty path is `root` itself.
pub(crate) fn open_folder(root: BorrowedFd<'_>, path: &[u8], purpose: Purpose) -> io::Result<OwnedFd> {
    if path.len() <= LONGEST_HOP {
        return open_hop(root, path, purpose);
    }
    let cut = path[..LONGEST_HOP].iter().rposition(|&b| b == b'/').ok_or(io::ErrorKind::InvalidFilename)?;
    let between = open_hop(root, &path[..cut], Purpose::Pass)?;
    open_folder(between.as_fd(), &path[cut + 1..], purpose)
}

/// The folder that was looked into last and those above it, outermost first: a manifest comes back to them.
#[derive(Default)]
pub(crate) struct OpenFolders(Vec<(Vec<u8>, OwnedFd)>);

impl OpenFolders {
    /// How many are kept open.
    const MOST: usize = 8;

    pub(crate) fn reach<'a>(&'a mut self, root: BorrowedFd<'a>, folder: &[u8]) -> io::Result<BorrowedFd<'a>> {
        while self.0.pop_if(|(path, _)| !is_within(folder, path)).is_some() {}
        let (above, base) = self.0.last().map_or((0, root), |(path, opened)| (path.len(), opened.as_fd()));
        if above < folder.len() {
            let rest = if above == 0 { folder } else { &folder[above + 1..] };
            let opened = open_folder(base, rest, Purpose::Pass)?;
            if self.0.len() == Self::MOST {
                self.0.remove(0);
            }
            self.0.push((folder.to_vec(), opened));
        }
        Ok(self.0.last().map_or(root, |(_, opened)| opened.as_fd()))
    }
}

#[cfg(target_os = "linux")]
fn open_hop(root: BorrowedFd<'_>, path: &[u8], purpose: Purpose) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let name = if path.is_empty() { b".".as_slice() } else { path };
    match rustix::fs::openat2(root, name, purpose.flags(), Mode::empty(), resolve) {
        // Kernels before 5.6 do not know the call, and some sandboxes refuse it.
        Err(Errno::NOSYS | Errno::PERM) => open_by_component(root, path, purpose),
        opened => Ok(opened?),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_hop(root: BorrowedFd<'_>, path: &[u8], purpose: Purpose) -> io::Result<OwnedFd> {
    open_by_component(root, path, purpose)
}

fn open_by_component(root: BorrowedFd<'_>, path: &[u8], purpose: Purpose) -> io::Result<OwnedFd> {
    let Some(slash) = path.iter().rposition(|&b| b == b'/') else { return open_child(root, path, purpose) };
    let mut folder = None::<OwnedFd>;
    for name in path[..slash].split(|&b| b == b'/') {
        let at = folder.as_ref().map_or(root, |folder| folder.as_fd());
        folder = Some(open_child(at, name, Purpose::Pass)?);
    }
    open_child(folder.as_ref().map_or(root, |folder| folder.as_fd()), &path[slash + 1..], purpose)
}

/// Opens the folder `name` (one component, or empty for the folder itself), which must not be a link.
pub(crate) fn open_child(folder: BorrowedFd<'_>, name: &[u8], purpose: Purpose) -> io::Result<OwnedFd> {
    if name == b".." {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let name = if name.is_empty() { b".".as_slice() } else { name };
    Ok(rustix::fs::openat(folder, name, purpose.flags() | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Whether a folder could not be opened because it, or one above it, is something else, such as a file or a link.
pub(crate) fn is_blocked(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// A path for a message, in which no control character is left.
pub(crate) fn printable(path: &[u8]) -> String {
    EntryPath::new(path).map_or_else(|_| path.escape_ascii().to_string(), |path| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_through_a_link_or_above_the_root() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        symlink("b", dir.path().join("a/link")).unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        for open in [open_hop, open_by_component] {
            assert!(open(root.as_fd(), b"a/b/c", Purpose::List).is_ok());
            assert!(open(root.as_fd(), b"", Purpose::List).is_ok());
            for path in [&b"a/link"[..], b"a/link/c", b"..", b"../x", b"a/b/c/../../../.."] {
                assert!(open(root.as_fd(), path, Purpose::Pass).is_err(), "{}", path.escape_ascii());
            }
        }
    }

    /// It was called unreadable.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_somebody_has_a_lease_of_is_waited_for() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};

        // Whoever is asked for a lease and does not listen is ended, and its lease with it.
        const HOLD: &str =
            "$| = 1; open(F, '+<', $ARGV[0]); fcntl(F, 1024, 1) or exit 2; print \"held\\n\"; sleep 60";
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "content").unwrap();
        let mut perl = Command::new("perl");
        let perl = perl.args(["-e", HOLD]).arg(dir.path().join("file")).stdout(Stdio::piped()).spawn();
        // Not everywhere is there one, or are there leases.
        let Ok(mut holder) = perl else { return };
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let folder = fs::File::open(dir.path()).unwrap();
        if said == "held\n" {
            let refused = rustix::fs::openat(&folder, "file", read_flags(), Mode::empty());
            assert_eq!(refused.unwrap_err(), Errno::AGAIN);
        }
        let opened = open_to_read(&folder, b"file");
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(std::io::read_to_string(fs::File::from(opened.unwrap())).unwrap(), "content");
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        assert_eq!(open_to_read(&folder, b"link").unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn what_is_no_folder_is_in_the_way_wherever_it_lies_and_what_is_not_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        symlink("folder", dir.path().join("link")).unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        for open in [open_hop, open_by_component] {
            for purpose in [Purpose::Pass, Purpose::List] {
                let blocked = |path: &[u8]| is_blocked(&open(root.as_fd(), path, purpose).unwrap_err());
                for path in [&b"file"[..], b"file/below", b"link", b"link/below"] {
                    assert!(blocked(path), "{}", path.escape_ascii());
                }
                assert!(!blocked(b"none") && !blocked(b"folder/none/below"));
            }
        }
    }
}
