//! Placing an item in a folder on another file system, where a rename does not reach: a copy beside its final name, made
//! durable, and then renamed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use terahaul_core::{EntryIndex, Mtime};
use terahaul_store::is_full;

use super::PublishError;
use super::left_beside::tell_left;
use super::moves::is_folder;
use super::touch::{METADATA, SET_GROUP, set_mode};
use super::way::{Move, Way};
use crate::TreeSink;
use crate::beneath::{Purpose, open_child, printable, read_flags, split};
use crate::failpoint;
use crate::listing::{mode_of, mtime_of};
use crate::read_only::{OWNER, make_open};
use crate::rights::LENDING;
use crate::sink::{Refusal, close, remove_unless_folder, times, unless_no_folder};
use crate::staging::{PART, PRIVATE, is_in_user_space};

/// What is copied is called so until it is complete.
const INSIDE: &[u8] = b"part";

impl TreeSink {
    /// Makes a folder whose content will be placed. `false`: it cannot be had, and is refused.
    pub(super) fn make_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<bool, PublishError> {
        match self.make_folder(item, way) {
            Ok(made) => Ok(made),
            Err(error) => self.refuse_place(item.path, error, way).map(|()| false),
        }
    }

    fn make_folder(&self, item: &Move<'_>, way: Way<'_>) -> io::Result<bool> {
        let &Move { from, name, to, new_name, path } = item;
        let make = || make_open(to, new_name, OWNER);
        match make() {
            Err(Errno::EXIST) if self.refuses_second_name(None, to, path)? => return Ok(false),
            Err(Errno::EXIST) if is_folder(to, new_name)? => return Ok(true),
            Err(Errno::EXIST) => {
                if let Way::Copy(clearing) = way {
                    self.check_stays(item, clearing)?;
                }
                // Made first: on a full disk what is there stays.
                let part = self.part_name();
                self.note_beside(path, way);
                clear_part(to, &part)?;
                make_open(to, &part, OWNER)?;
                let placed = rustix::fs::unlinkat(to, new_name, AtFlags::empty())
                    .and_then(|()| rustix::fs::renameat(to, part.as_slice(), to, new_name));
                if let Err(errno) = placed {
                    self.clear_or_tell(item, &part);
                    return Err(errno.into());
                }
            }
            made => made?,
        }
        note_elsewhere(to, way)?;
        // Not by making it, which would take away what the umask says. What this folder hands on is not what staging did.
        let made = rustix::fs::statat(to, new_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let staged = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let entry = self.entry_at(path);
        let mode = self.to_give(entry, &staged).mode & !LENDING | mode_of(&made) & SET_GROUP | OWNER;
        set_mode(to.as_fd(), new_name, mode).or_else(|error| self.fall_short_here(entry, error))?;
        Ok(true)
    }

    /// Places a file or a link. The staged one is removed.
    pub(super) fn carry_across(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let part = self.part_name();
        note_elsewhere(item.to, way)?;
        self.note_beside(item.path, way);
        let copied = self.copy_beside(item, &part);
        let placed = match copied {
            Ok(Beside { folder, name, .. }) => {
                self.replace_or_rename(&Move { from: &folder, name: &name, ..*item }, way).map(|()| true)
            }
            Err(error) if is_full(&error) => {
                Err(PublishError::FullBelow { path: printable(item.path), source: error })
            }
            Err(error) => self.refuse_place(item.path, error, way).map(|()| false),
        };
        // It may be what has filled the disk.
        if failpoint::point().is_ok() {
            self.clear_or_tell(item, &part);
        }
        if placed? {
            rustix::fs::unlinkat(item.from, item.name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// What is no use any more beside the item's name.
    fn clear_or_tell(&self, item: &Move<'_>, part: &[u8]) {
        // On a read-only file system the removal of nothing is refused, too.
        let is_there = rustix::fs::statat(item.to, part, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_there && let Err(error) = clear_part(item.to, part) {
            tell_left(split(item.path).0, part, &error);
        }
    }

    /// A name beside final ones for something that is not complete. One at a time is used, by whoever holds the lock of the
    /// staging folder.
    pub(crate) fn part_name(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        let staging = self.staging.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        [staging, PART.as_bytes()].concat()
    }

    /// Gives what is complete beside its final name that name.
    pub(super) fn replace_or_rename(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        let placed = match super::moves::rename_new(item.from, item.name, item.to, item.new_name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.replace(item, way),
            Err(errno) => self.refuse_place(item.path, errno.into(), way),
        };
        // What was refused must not stay under this name.
        match rustix::fs::unlinkat(item.from, item.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => placed,
            Err(errno) => placed.and(Err(errno.into())),
        }
    }

    fn fall_short_here(&self, entry: Option<EntryIndex>, error: io::Error) -> io::Result<()> {
        match entry {
            Some(entry) => self.fall_short_of(entry, METADATA, error),
            None => Err(error),
        }
    }

    /// By the manifest: where it is staged a file system may keep less of both.
    fn to_give(&self, entry: Option<EntryIndex>, staged: &Stat) -> ToGive {
        let manifest = self.manifest();
        match entry.and_then(|entry| manifest.table.row(entry)) {
            Some(row) => ToGive { mode: self.applied_mode(row.mode), mtime: row.mtime },
            None => ToGive { mode: mode_of(staged), mtime: mtime_of(staged) },
        }
    }

    /// Returns where it is.
    fn copy_beside(&self, item: &Move<'_>, part: &[u8]) -> io::Result<Beside> {
        let stat = rustix::fs::statat(item.from, item.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let beside = Beside::make(item.to, part)?;
        let Beside { folder, name, is_private } = &beside;
        let copied = if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = rustix::fs::readlinkat(item.from, item.name, Vec::new())?;
            match rustix::fs::symlinkat(target, folder, name.as_slice()) {
                // So says rclone, which has no links.
                Err(Errno::IO) if is_in_user_space(folder) => return Err(Errno::NOTSUP.into()),
                made => made?,
            }
            None
        } else {
            Some(copy_content(item, &beside)?)
        };
        failpoint::point()?;
        let entry = self.entry_at(item.path);
        let ToGive { mode, mtime } = self.to_give(entry, &stat);
        // It may be minutes until it is durable and has its name.
        let mode = mode & self.bits_unnamed(item)? & if *is_private { 0o7777 } else { 0o777 };
        // First: what is given away may not be this user's to change.
        if let Some(file) = &copied {
            let _ = rustix::fs::fchmod(file, Mode::from_raw_mode((self.mode_to_make(mode) & 0o777) as _));
        }
        if copied.is_some() || !self.staging.follows_links {
            // Where every file is somebody else's, whoever has made it, only that one sets a time.
            rustix::fs::utimensat(folder, name.as_slice(), &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
                .or_else(|errno| self.fall_short_here(entry, errno.into()))?;
        }
        if let Some(entry) = entry {
            if *is_private {
                self.dress(folder.as_fd(), name, entry)?;
            } else if self.keeps_dress() {
                let detail =
                    "its owner and attributes could not be set, as no folder that only this user may enter could be made there".to_owned();
                self.note_shortfall(Refusal { entry, detail });
            }
        }
        if let Some(file) = &copied {
            // A new owner takes bits of it away.
            let now = rustix::fs::fstat(file)?;
            let mode = entry.map_or(mode & !LENDING, |entry| self.mode_given(entry, mode, &now));
            if mode != mode_of(&now)
                && let Err(errno) = rustix::fs::fchmod(file, Mode::from_raw_mode(mode as _))
            {
                self.fall_short_here(entry, errno.into())?;
                // Never with more than it is to have: where it is made, that is its owner's alone.
                let _ = rustix::fs::fchmod(file, Mode::from_raw_mode((mode & 0o777) as _));
            }
        }
        if let Some(file) = copied {
            file.sync_all()?;
            close(file.into())?;
        }
        Ok(beside)
    }
}

/// What is set of what is placed.
struct ToGive {
    mode: u32,
    mtime: Mtime,
}

/// Where something is made before it has its name.
struct Beside {
    folder: OwnedFd,
    name: Vec<u8>,
    /// Only this user may enter that folder. What is made in the open could be exchanged for something else between what is done to it by its
    /// name and what is done to the file that was made, and so somebody's content be given root's rights.
    is_private: bool,
}

impl Beside {
    /// In a folder of its own in `to`, or in `to` itself where none can be made that is this user's alone.
    fn make(to: &OwnedFd, part: &[u8]) -> io::Result<Self> {
        clear_part(to, part)?;
        match make_open(to, part, PRIVATE) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::PERM | Errno::NOTSUP) => return Self::in_the_open(to, part),
            Err(errno) => return Err(errno.into()),
        }
        let folder = open_child(to.as_fd(), part, Purpose::List)?;
        let stat = rustix::fs::fstat(&folder)?;
        // A file system may keep no owners and modes, and whoever may write to `to` may have put another folder in its place.
        if is_mine(&stat) && mode_of(&stat) & 0o022 == 0 {
            return Ok(Self { folder, name: INSIDE.to_vec(), is_private: true });
        }
        // What was left in one that is not this user's own would not be removed.
        rustix::fs::unlinkat(to, part, AtFlags::REMOVEDIR)?;
        Self::in_the_open(to, part)
    }

    fn in_the_open(to: &OwnedFd, part: &[u8]) -> io::Result<Self> {
        Ok(Self { folder: to.try_clone()?, name: part.to_vec(), is_private: false })
    }
}

fn is_mine(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Removes what this program has left under this name, which is a file, or a folder with no more than [`INSIDE`] in it. Anything else that is
/// there somebody has put there.
pub(super) fn clear_part(to: &OwnedFd, part: &[u8]) -> io::Result<()> {
    let Some(said) = remove_unless_folder(to.as_fd(), part)? else { return Ok(()) };
    let folder =
        open_child(to.as_fd(), part, Purpose::List).map_err(|error| unless_no_folder(error, said))?;
    if is_mine(&rustix::fs::fstat(&folder)?) {
        match rustix::fs::unlinkat(&folder, INSIDE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(rustix::fs::unlinkat(to, part, AtFlags::REMOVEDIR)?)
}

fn note_elsewhere(folder: &OwnedFd, way: Way<'_>) -> io::Result<()> {
    match way {
        Way::Copy(clearing) => clearing.note_elsewhere(folder),
        Way::Receive(_) => Ok(()),
    }
}

fn copy_content(item: &Move<'_>, Beside { folder, name, .. }: &Beside) -> io::Result<File> {
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |folder: &OwnedFd, name: &[u8], flags| {
        rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600)).map(File::from)
    };
    let (mut from, mut to) = (open(item.from, item.name, read_flags())?, open(folder, name, write)?);
    io::copy(&mut from, &mut to)?;
    Ok(to)
}
