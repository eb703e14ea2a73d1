//! What is done about something that has an item's name already, and about items that cannot be placed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use terahaul_core::EntryPath;

use super::{Collision, Overwrite, PublishError, moves};
use crate::beneath::printable;
use crate::decision::MakeWay;
use crate::fault;
use crate::sink::Refusal;
use crate::{Filter, TreeSink};

/// How things get their names.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Only files and links are replaced. Whatever else is in the way stops everything.
    Receive(Overwrite),
    /// What is in the way goes, as far as it may. What cannot be placed is refused, and the rest goes on.
    Copy(Copying<'a>),
}

/// What a copy may remove to make way.
#[derive(Clone, Copy, Debug)]
pub struct Copying<'a> {
    /// Whether folders with something in them are replaced by files.
    pub make_way: MakeWay,
    /// What its rules leave out is not removed, not even to make way.
    pub filter: &'a Filter,
}

/// Something to be placed: a folder and the name in it, the name that it shall have, and its path.
pub(super) struct Move<'a> {
    pub(super) from: &'a OwnedFd,
    pub(super) name: &'a [u8],
    pub(super) to: &'a OwnedFd,
    pub(super) new_name: &'a [u8],
    pub(super) path: &'a [u8],
}

impl TreeSink {
    /// Places an item whose name something has that is not a folder on both sides.
    pub(super) fn replace(&self, item: &Move<'_>, way: Way<'_>) -> Result<(), PublishError> {
        match way {
            Way::Receive(overwrite) => replace_file(item, overwrite),
            Way::Copy(copying) => match self.make_way(item, copying) {
                Ok(()) => Ok(()),
                Err(error) => self.refuse_place(item.path, error, way),
            },
        }
    }

    fn make_way(&self, item: &Move<'_>, copying: Copying<'_>) -> io::Result<()> {
        let Move { from, name, to, new_name, path } = *item;
        let arrives_folder = moves::is_folder(from, name)?;
        fault::point()?;
        match (arrives_folder, moves::is_folder(to, new_name)?) {
            (true, true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (true, false) => rustix::fs::unlinkat(to, new_name, AtFlags::empty())?,
            (false, true) => {
                if copying.make_way == MakeWay::Whole {
                    crate::sweep::clear(to.as_fd(), new_name, path, copying.filter)?;
                }
                rustix::fs::unlinkat(to, new_name, AtFlags::REMOVEDIR)?;
            }
            (false, false) => {}
        }
        fault::point()?;
        Ok(rustix::fs::renameat(from, name, to, new_name)?)
    }

    /// Goes on without an item that cannot be placed, where the way is a copy's and nothing worse than that is wrong.
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
                | Errno::MLINK,
            ) => true,
            Some(_) => false,
            None => error.kind() == io::ErrorKind::AlreadyExists,
        };
        let entry = EntryPath::new(path).ok().and_then(|path| self.manifest().table.find(&path));
        match (way, entry) {
            (Way::Copy(_), Some(entry)) if only_this => {
                let detail = match errno {
                    Some(Errno::NOTEMPTY) => "a folder that is not empty is in its place".to_owned(),
                    _ => error.to_string(),
                };
                self.refuse(Refusal { entry, detail });
                Ok(())
            }
            _ if errno == Some(Errno::XDEV) => Err(PublishError::OtherFileSystem { path: printable(path) }),
            _ => Err(error.into()),
        }
    }
}

fn replace_file(item: &Move<'_>, overwrite: Overwrite) -> Result<(), PublishError> {
    let Move { from, name, to, new_name, path } = *item;
    let replaceable = !moves::is_folder(from, name)? && !moves::is_folder(to, new_name)?;
    if !replaceable || overwrite == Overwrite::Refuse {
        let existing = if moves::is_folder(to, new_name)? { "a folder" } else { "something else" };
        let path = printable(path);
        return Err(PublishError::Collisions(vec![Collision { path, existing, replaceable }]));
    }
    fault::point()?;
    rustix::fs::renameat(from, name, to, new_name).map_err(|errno| moves::failed(errno, path))
}
