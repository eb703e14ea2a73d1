//! What is done about something that has an item's name already, and about items that cannot be placed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use terahaul_core::ByteCount;

use super::touch::set_mode;
use super::{Collision, Overwrite, PublishError, across, moves};
use crate::beneath::{Purpose, open_child};
use crate::decision::{Decision, Differs, Found, FoundKind, MakeWay, Reason, Rules, decide};
use crate::failpoint;
use crate::listing::{is_file, is_one, mode_of, mtime_of, size_of_file};
use crate::read_only::{OWNER, make_open};
use crate::sink::{NAME_ERRORS, Refusal, sync_file_system};
use crate::sweep::{Cleared, InTheWay, Sweep, Sweeping, Swept};
use crate::{Filter, Permissions, TreeSink, xattrs};

/// How things get their names.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Only files and links are replaced. Whatever else is in the way stops everything.
    Receive(Overwrite),
    /// What is in the way goes, as far as it may. What cannot be placed is refused, and the rest goes on.
    Copy(&'a Clearing<'a>),
}

/// What a copy may remove to make way.
#[derive(Clone, Copy, Debug)]
pub struct Copying<'a> {
    /// What the user asked for about what is there: whether folders with something in them are replaced by files, and what
    /// stays that was made or changed since that was decided.
    pub rules: Rules,
    /// What its rules leave out is not removed, not even to make way.
    pub filter: &'a Filter,
    /// Most files and folders to remove with folders that make way.
    pub most: Option<u64>,
}

/// A copy's publishing, which counts and tells what it removes to make way.
pub(crate) struct Clearing<'a> {
    copying: Copying<'a>,
    tell: RefCell<&'a mut dyn FnMut(Swept<'_>)>,
    done: Cell<Sweeping>,
    /// Other file systems that something was placed on, by their numbers: a folder on each, unless it may not be read.
    elsewhere: RefCell<BTreeMap<u64, Option<OwnedFd>>>,
    /// The path of the folder that was noted last as one in which something waits.
    beside: RefCell<Option<Vec<u8>>>,
    /// The folder in which something was to be replaced last, and whether a rename leads there.
    reached: RefCell<Option<(Stat, bool)>>,
}

impl<'a> Clearing<'a> {
    pub(super) fn new(copying: Copying<'a>, tell: &'a mut dyn FnMut(Swept<'_>)) -> Self {
        Self {
            copying,
            tell: RefCell::new(tell),
            done: Cell::default(),
            elsewhere: RefCell::default(),
            beside: RefCell::default(),
            reached: RefCell::default(),
        }
    }

    pub(super) fn done(&self) -> Sweeping {
        self.done.get()
    }

    /// Whether a rename leads to this folder, as `find` has found for it: one after the other of what is in it is asked about.
    pub(super) fn reaches(
        &self,
        folder: &OwnedFd,
        find: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<bool> {
        let stat = rustix::fs::fstat(folder)?;
        if let Some((last, reached)) = &*self.reached.borrow()
            && is_one(last, &stat)
        {
            return Ok(*reached);
        }
        let reached = find()?;
        self.reached.replace(Some((stat, reached)));
        Ok(reached)
    }

    /// Something is placed in this folder, which is on another file system than what is staged.
    pub(super) fn note_elsewhere(&self, folder: &OwnedFd) -> io::Result<()> {
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let device = rustix::fs::fstat(folder)?.st_dev as u64;
        let mut elsewhere = self.elsewhere.borrow_mut();
        elsewhere.entry(device).or_insert_with(|| open_child(folder.as_fd(), b"", Purpose::List).ok());
        Ok(())
    }

    /// Something will wait in the folder at this path, which `write` notes: one after the other of what is placed there does.
    pub(super) fn note_beside(
        &self,
        folder: &[u8],
        write: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if self.beside.borrow().as_deref() != Some(folder) {
            write()?;
            self.beside.replace(Some(folder.to_vec()));
        }
        Ok(())
    }

    /// Makes names on other file systems durable: what is staged goes next.
    pub(super) fn sync_elsewhere(&self) -> io::Result<()> {
        self.elsewhere.borrow().values().try_for_each(|folder| match folder {
            Some(folder) => sync_file_system(folder),
            None => {
                rustix::fs::sync();
                Ok(())
            }
        })
    }

    /// Removes a folder that is in the way, if it may go.
    fn remove(&self, folder: InTheWay<'_>) -> io::Result<()> {
        let Copying { rules, filter, most } = self.copying;
        if rules.make_way == MakeWay::Empty {
            return Ok(rustix::fs::unlinkat(folder.above, folder.name, AtFlags::REMOVEDIR)?);
        }
        let mut done = self.done.get();
        let rules = Sweep { filter, top: false, most, dry_run: false };
        let cleared = done.clear(folder, &rules, &mut **self.tell.borrow_mut());
        self.done.set(done);
        match cleared? {
            Cleared::Gone(_) => Ok(()),
            Cleared::Stays => Err(Errno::NOTEMPTY.into()),
            Cleared::TooMuch => Err(io::Error::new(io::ErrorKind::AlreadyExists, TOO_MUCH)),
        }
    }
}

/// Why something is not replaced that was not there, or was older, when that was decided.
const CHANGED: &str =
    "something that was not seen there when this was decided is in its place, and stays as it is";

/// Why a folder with too much in it is not replaced.
pub const TOO_MUCH: &str = "a folder with more in it than may be removed is in its place";

/// Something to be placed: a folder and the name in it, the name that it shall have, and its path.
pub(super) struct Move<'a> {
    pub(super) from: &'a OwnedFd,
    pub(super) name: &'a [u8],
    pub(super) to: &'a OwnedFd,
    pub(super) new_name: &'a [u8],
    pub(super) path: &'a [u8],
}

impl TreeSink {
    /// Places an item whose name something has that is not a folder on both sides, unless that is another entry.
    pub(super) fn replace(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        if self.refuses_second_name(None, item.to, item.path)? {
            return Ok(());
        }
        match way {
            Way::Receive(overwrite) => replace_file(item, overwrite),
            Way::Copy(clearing) => match self.make_way(item, clearing) {
                Ok(()) => Ok(()),
                Err(error) => self.refuse_place(item.path, error, way),
            },
        }
    }

    fn make_way(&self, item: &Move<'_>, clearing: &Clearing<'_>) -> io::Result<()> {
        let Move { from, name, to, new_name, path } = *item;
        let arrives_folder = moves::is_folder(from, name)?;
        self.check_stays(item, clearing)?;
        failpoint::point()?;
        match (arrives_folder, moves::is_folder(to, new_name)?) {
            (true, true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (true, false) => {
                self.check_takes_folder(item, clearing)?;
                rustix::fs::unlinkat(to, new_name, AtFlags::empty())?;
            }
            (false, true) => clearing.remove(InTheWay { above: to.as_fd(), name: new_name, path })?,
            (false, false) => self.keep_mode(item)?,
        }
        failpoint::point()?;
        Ok(rustix::fs::renameat(from, name, to, new_name)?)
    }

    /// An error if what is there would go and no folder could come: some file systems take so many in a folder, and no more.
    fn check_takes_folder(&self, item: &Move<'_>, clearing: &Clearing<'_>) -> io::Result<()> {
        let part = self.part_name();
        self.note_waiting(item.path, clearing);
        across::clear_part(item.to, &part)?;
        match failpoint::folder().and_then(|()| make_open(item.to, &part, OWNER)) {
            Err(Errno::MLINK) => Err(Errno::MLINK.into()),
            Ok(()) => Ok(rustix::fs::unlinkat(item.to, part, AtFlags::REMOVEDIR)?),
            // A new folder may need what one that is moved there does not.
            Err(_) => Ok(()),
        }
    }

    /// An error if what has the name now is to stay, which was not so when that was decided: hours may have passed.
    pub(super) fn check_stays(&self, item: &Move<'_>, clearing: &Clearing<'_>) -> io::Result<()> {
        let rules = &clearing.copying.rules;
        let stays = rules.only_new || rules.update && self.is_newer(item, rules)?;
        if stays { Err(io::Error::new(io::ErrorKind::AlreadyExists, CHANGED)) } else { Ok(()) }
    }

    /// Whether the name has a file now that by these rules is newer than the one to be placed.
    fn is_newer(&self, item: &Move<'_>, rules: &Rules) -> io::Result<bool> {
        let stat = rustix::fs::statat(item.to, item.new_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let entry = self.entry_at(item.path).and_then(|index| self.entry(index));
        let Some(entry) = entry else { return Ok(false) };
        if !is_file(&stat) {
            return Ok(false);
        }
        let kind = FoundKind::File { size: ByteCount(size_of_file(&stat)) };
        let found = Found { kind, mtime: mtime_of(&stat), mode: mode_of(&stat) };
        let rules = Rules { even_seconds: self.even_seconds, ..*rules };
        Ok(decide(&entry, Some(&found), Differs::default(), &rules) == Decision::Skip(Reason::Newer))
    }

    /// A file that replaces another keeps its permission bits and its access control list, unless the sender's are asked for.
    /// Set-user-id and the like were for the content that goes.
    fn keep_mode(&self, item: &Move<'_>) -> io::Result<()> {
        if self.permissions() == Permissions::Exact {
            return Ok(());
        }
        let Move { from, name, to, new_name, .. } = *item;
        let at = |folder: &OwnedFd, name: &[u8]| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let (new, old) = (at(from, name)?, at(to, new_name)?);
        // What has another name already has its place, and the bits of what was there.
        if !is_file(&new) || !is_file(&old) || new.st_nlink > 1 {
            return Ok(());
        }
        let (mode, list) = bits_of(&old, to, new_name)?;
        if let Some(list) = list
            && xattrs::set_access_list(from.as_fd(), name, &list).is_ok()
        {
            return Ok(());
        }
        // The folder that it was made in may have given it a list, by which others could read it whom the old one let not. What is said to
        // have none is let alone: a file system in user space may refuse even to take away nothing.
        let has_list = xattrs::access_list(from.as_fd(), name).is_ok_and(|list| list.is_some());
        if has_list {
            xattrs::remove_access_list(from.as_fd(), name)?;
        }
        if has_list || mode != mode_of(&new) { set_mode(from.as_fd(), name, mode) } else { Ok(()) }
    }

    /// The permission bits that an item may have before it has its name: none that a file which is there, and whose bits it is to
    /// [keep](Self::keep_mode), has not.
    pub(super) fn bits_unnamed(&self, item: &Move<'_>) -> io::Result<u32> {
        let Move { to, new_name, .. } = *item;
        match rustix::fs::statat(to, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) if is_file(&old) && self.permissions() != Permissions::Exact => {
                Ok(bits_of(&old, to, new_name)?.0)
            }
            Ok(_) | Err(Errno::NOENT) => Ok(0o7777),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Goes on without an item that cannot be placed, where its name is what is wrong, or the way is a copy's and nothing worse is.
    pub(super) fn refuse_place(
        &self,
        path: &[u8],
        error: io::Error,
        way: Way<'_>,
    ) -> Result<(), PublishError> {
        let errno = Errno::from_io_error(&error);
        let only_this = match errno {
            Some(
                Errno::ACCESS
                | Errno::PERM
                | Errno::ROFS
                | Errno::NOTEMPTY
                | Errno::BUSY
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::LOOP
                | Errno::NOENT
                | Errno::NAMETOOLONG
                | Errno::ILSEQ
                | Errno::INVAL
                | Errno::TXTBSY
                | Errno::EXIST
                | Errno::FBIG
                | Errno::MLINK
                | Errno::NOTSUP
                | Errno::NOSYS,
            ) => true,
            Some(_) => false,
            None => error.kind() == io::ErrorKind::AlreadyExists,
        };
        let entry = self.entry_at(path);
        let goes_on = match way {
            Way::Copy(_) => only_this,
            Way::Receive(_) => errno.is_some_and(|errno| NAME_ERRORS.contains(&errno)),
        };
        match entry {
            Some(entry) if goes_on => {
                let detail = match errno {
                    Some(Errno::NOTEMPTY) => "a folder that is not empty is in its place".to_owned(),
                    _ => error.to_string(),
                };
                self.refuse(Refusal { entry, detail });
                Ok(())
            }
            _ => Err(moves::failed(error, path)),
        }
    }
}

/// The permission bits of a file's group.
const GROUP: u32 = 0o070;

/// The permission bits of a file without its access control list, and that.
fn bits_of(file: &Stat, folder: &OwnedFd, name: &[u8]) -> io::Result<(u32, Option<Vec<u8>>)> {
    let mode = mode_of(file) & 0o777;
    // Where the bits give the group nothing, a list gives nothing to anybody.
    let list = if mode & GROUP == 0 { None } else { xattrs::access_list(folder.as_fd(), name)? };
    let mode = match &list {
        // The bits of the group were for others.
        Some(list) => mode & !GROUP | mode & xattrs::bits_of_group(list),
        None => mode,
    };
    Ok((mode, list))
}

fn replace_file(item: &Move<'_>, overwrite: Overwrite) -> Result<(), PublishError> {
    let Move { from, name, to, new_name, path } = *item;
    let replaceable = !moves::is_folder(from, name)? && !moves::is_folder(to, new_name)?;
    if !replaceable || overwrite == Overwrite::Refuse {
        let existing = if moves::is_folder(to, new_name)? { "a folder" } else { "something else" };
        let path = path.to_vec();
        return Err(PublishError::Collisions(vec![Collision { path, existing, replaceable }]));
    }
    failpoint::point()?;
    rustix::fs::renameat(from, name, to, new_name).map_err(|errno| moves::failed(errno.into(), path))
}
