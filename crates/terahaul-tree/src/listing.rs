//! One folder's names, and what each of them is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use terahaul_core::{ByteCount, Changed, EntryKind, FailureCause, Mtime};

use crate::beneath::{Purpose, open_folder};

/// The names in the folder `path` below `base`, sorted by their bytes.
pub(crate) fn names_in(base: BorrowedFd<'_>, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    Ok(listed(base, path)?.0)
}

/// As [`names_in`], with the folder still open, to look at what they stand for.
pub(crate) fn listed(base: BorrowedFd<'_>, path: &[u8]) -> io::Result<(Vec<Vec<u8>>, OwnedFd)> {
    let folder = open_folder(base, path, Purpose::List)?;
    let mut names = Vec::new();
    for_each_name(folder.as_fd(), |name| {
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    })?;
    Ok((each_once(names), folder))
}

/// Whether the folder was removed since somebody began to hold it, as a working folder may be: it opens as before. One that cannot be
/// listed counts as there.
pub(crate) fn is_removed(folder: BorrowedFd<'_>) -> bool {
    let listed = open_folder(folder, b"", Purpose::List).and_then(|folder| has_listing(folder.as_fd()));
    listed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// That it has no links is not asked: some file systems say that of every folder.
#[cfg(target_os = "linux")]
fn has_listing(folder: BorrowedFd<'_>) -> io::Result<()> {
    let mut room = Vec::with_capacity(1 << 10);
    rustix::fs::RawDir::new(folder, room.spare_capacity_mut()).next().transpose()?;
    Ok(())
}

/// An error where it has none, though it be an empty one to whoever lists it.
#[cfg(not(target_os = "linux"))]
fn has_listing(folder: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::fs::fstat(folder)?.st_nlink {
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}

/// Not by `rustix::fs::Dir`, to which a folder that was removed is an empty one: a copy would be emptied like it.
#[cfg(target_os = "linux")]
fn for_each_name(folder: BorrowedFd<'_>, mut see: impl FnMut(&[u8])) -> io::Result<()> {
    /// As much as the system is asked for at a time.
    const ROOM: usize = 32 << 10;
    let mut room = Vec::with_capacity(ROOM);
    let mut listing = rustix::fs::RawDir::new(folder, room.spare_capacity_mut());
    while let Some(found) = listing.next() {
        see(found?.file_name().to_bytes());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn for_each_name(folder: BorrowedFd<'_>, mut see: impl FnMut(&[u8])) -> io::Result<()> {
    for found in rustix::fs::Dir::read_from(folder)? {
        see(found?.file_name().to_bytes());
    }
    Ok(())
}

/// In the order of their bytes. A name that is removed and made again meanwhile may be listed twice, and some file systems list two things
/// of one name at all times.
fn each_once(mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    names.sort_unstable();
    names.dedup();
    names
}

/// What a name stands for.
pub(crate) enum Status {
    /// It can be an entry.
    Entry { kind: EntryKind, mtime: Mtime, mode: u32 },
    /// Never an entry; the word says what it is.
    Special(&'static str),
}

/// Looks at `name` in `folder` without following it.
pub(crate) fn status_of(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Status> {
    Ok(look_at(folder, name)?.1)
}

/// As [`status_of`], with all that the system says of it.
pub(crate) fn look_at(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<(Stat, Status)> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let status = status_from(folder, name, &stat)?;
    Ok((stat, status))
}

fn status_from(folder: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> io::Result<Status> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File { size: ByteCount(size_of_file(stat)) },
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder.as_fd(), name, Vec::new())?;
            EntryKind::Symlink { target: target.into_bytes().into() }
        }
        FileType::Fifo => return Ok(Status::Special("a FIFO")),
        FileType::Socket => return Ok(Status::Special("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => return Ok(Status::Special("a device")),
        FileType::Unknown => return Ok(Status::Special("of an unknown kind")),
    };
    Ok(Status::Entry { kind, mtime: mtime_of(stat), mode: mode_of(stat) })
}

/// Whether both are of one thing, whatever its names.
pub(crate) fn is_one(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Whether both are of one thing that nobody has changed in between, though its size and time be what they were. If the first
/// [is settled](is_settled), that is sure.
pub(crate) fn is_unchanged(before: &Stat, now: &Stat) -> bool {
    is_one(before, now) && ctime_of(before) == ctime_of(now)
}

/// Whether every change from now on has another time than the last one.
pub(crate) fn is_settled(stat: &Stat) -> bool {
    has_settled(ctime_of(stat), SystemTime::now())
}

fn has_settled(changed: Mtime, now: SystemTime) -> bool {
    /// Whatever changes later than so long after a change has another time: systems count in steps of some milliseconds, and some file
    /// systems keep whole seconds.
    const STEPS: Duration = Duration::from_millis(200);
    const WHOLE_SECONDS: Duration = Duration::from_secs(2);
    let steps = if changed.nanos == 0 { WHOLE_SECONDS } else { STEPS };
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Duration::new(u64::try_from(changed.seconds).unwrap_or_default(), changed.nanos) + steps < since_epoch
}

pub(crate) fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// The permission bits.
pub(crate) fn mode_of(stat: &Stat) -> u32 {
    // Not every system has it in 32 bits.
    #[allow(clippy::useless_conversion)]
    let mode = u32::from(stat.st_mode);
    mode & 0o7777
}

pub(crate) fn mtime_of(stat: &Stat) -> Mtime {
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Mtime { seconds: i64::from(stat.st_mtime), nanos: stat.st_mtime_nsec as u32 }
}

/// When it was last changed in any way, which nobody can set.
pub(crate) fn ctime_of(stat: &Stat) -> Mtime {
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Mtime { seconds: i64::from(stat.st_ctime), nanos: stat.st_ctime_nsec as u32 }
}

/// Which file or folder it is: its device and number.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
pub(crate) fn file_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Which file it is, and when it was last changed.
pub(crate) fn change_of(stat: &Stat) -> Changed {
    Changed { at: ctime_of(stat), file: Some(file_of(stat)) }
}

pub(crate) fn size_of_file(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

/// What it means for an entry that reaching it failed in this way.
pub(crate) fn cause_of(error: &io::Error) -> FailureCause {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => FailureCause::Vanished,
        // Something of another kind, such as a link, is in its place or in that of a folder above it.
        Some(Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::XDEV) => FailureCause::Changed,
        _ => FailureCause::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_listed_twice_is_one_name() {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(each_once(names(&["b", "a", "b"])), names(&["a", "b"]));
    }

    /// What was copied of it was emptied, too.
    #[test]
    fn a_folder_that_was_removed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        std::fs::create_dir(&path).unwrap();
        let folder = std::fs::File::open(&path).unwrap();
        assert!(names_in(folder.as_fd(), b"").unwrap().is_empty());
        assert!(!is_removed(folder.as_fd()));
        std::fs::remove_dir(&path).unwrap();
        assert!(is_removed(folder.as_fd()));
        assert_eq!(names_in(folder.as_fd(), b"").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_change_a_moment_ago_may_have_the_time_of_the_next() {
        let changed = Mtime { seconds: 1_000_000_000, nanos: 900_000_000 };
        let after = |millis: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_900 + millis);
        assert!(!has_settled(changed, after(0)) && !has_settled(changed, after(150)));
        assert!(has_settled(changed, after(250)) && has_settled(Mtime::default(), after(0)));
        assert!(!has_settled(changed, SystemTime::UNIX_EPOCH), "a clock that was put back");
        let whole = Mtime { nanos: 0, ..changed };
        assert!(!has_settled(whole, after(500)) && has_settled(whole, after(1_200)), "of a whole second");
    }
}
