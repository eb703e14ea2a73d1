//! Completing what is staged: empty files, folders, links, times and modes. Doing it twice changes nothing.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use terahaul_core::EntryIndex;

use super::touch::METADATA;
use super::{Item, PublishError, set_mode};
use crate::beneath::{Purpose, open_child, open_folder, split};
use crate::failpoint;
use crate::listing::{mode_of, mtime_of, size_of_file};
use crate::read_only::{OWNER, make_open};
use crate::sink::{Mark, PERMISSIONS, Refusal, said_of_name, times};
use crate::staging::{PRIVATE, is_in_user_space};
use crate::table::{FolderId, RowKind};
use crate::{TreeSink, xattrs};

impl TreeSink {
    pub(crate) fn prepare(&self, entries: Range<usize>) -> Result<(), PublishError> {
        self.clear_unwanted(entries.clone(), |_| true)?;
        self.complete(entries)
    }

    /// As [`prepare`](Self::prepare) for a copy, whose manifest need not have what an earlier one left.
    pub(super) fn prepare_copy(&self) -> Result<(), PublishError> {
        self.clear_strays()?;
        let entries = 0..self.entry_count();
        self.clear_unwanted(entries.clone(), |item| item.mark.lost)?;
        self.complete(entries)
    }

    fn complete(&self, entries: Range<usize>) -> Result<(), PublishError> {
        // What this process has just written need not be looked at again: on a file system far away that is a round
        // trip a file.
        let is_written = |mark: &Mark| mark.written && !mark.is_again();
        let lacking = |kind, mark: &Mark| kind != RowKind::Symlink && !is_written(mark) && !mark.moved;
        let mut refused = HashSet::new();
        for item in self.wanted_where(entries.clone(), lacking) {
            if self.is_within(item.folder, &refused) {
                continue;
            }
            match item.kind {
                RowKind::File if self.first_name(&item).is_some() => drop(self.prepare_above(&item)?),
                RowKind::File => self.prepare_file(&item)?,
                RowKind::Directory if !item.mark.there && !self.prepare_folder(&item)? => {
                    refused.extend(self.manifest().table.find_child(item.folder, &item.name));
                }
                RowKind::Directory | RowKind::Symlink => {}
            }
        }
        // Nor is anything in a folder that was refused.
        self.lose_below_refused();
        // Links last: until now nothing in staging leads anywhere.
        for item in self.wanted_where(entries.clone(), |kind, mark| kind == RowKind::Symlink && !mark.moved) {
            self.prepare_link(&item)?;
        }
        for item in self.wanted_where(entries, |kind, mark| kind == RowKind::Directory && !mark.there) {
            self.date_folder(&item)?;
        }
        Ok(())
    }

    fn clear_unwanted(
        &self,
        entries: Range<usize>,
        may_be_staged: impl Fn(&Item) -> bool,
    ) -> Result<(), PublishError> {
        let unwanted = |range: Range<usize>| {
            range.filter_map(|index| self.item(index)).filter(|item| item.mark.unwanted)
        };
        let files = unwanted(entries.clone()).filter(|item| item.kind != RowKind::Directory);
        for item in files.filter(|item| may_be_staged(item)) {
            failpoint::point()?;
            self.remove_staged(item.index)?;
        }
        for folder in self.unwanted_folders(entries) {
            let (above, name) = split(&folder);
            if let Ok(above) = open_folder(self.staging.tree.as_fd(), above, Purpose::Pass) {
                match rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR) {
                    // It stays if something is in it: then it is wanted.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    /// Paths at which a folder may be staged that is not published, inner ones before those they are in.
    fn unwanted_folders(&self, entries: Range<usize>) -> Vec<Vec<u8>> {
        let manifest = self.manifest();
        let table = &manifest.table;
        let is_entry = |entry: Option<EntryIndex>| {
            let entry = entry.filter(|&entry| manifest.is_wanted(entry)).and_then(|entry| table.row(entry));
            entry.is_some_and(|row| row.kind == RowKind::Directory)
        };
        let listed = entries.map(|index| EntryIndex(index as u32)).filter_map(|index| {
            let row = table.row(index).filter(|row| row.kind == RowKind::Directory)?;
            let empty = table.find_child(row.folder, row.name).is_none();
            let unwanted =
                empty && !manifest.is_wanted(index) && !is_entry(table.find_in(row.folder, row.name));
            if unwanted { Some(table.path(index)?.as_bytes().to_vec()) } else { None }
        });
        let implied =
            (1..table.folder_count()).rev().map(|folder| FolderId(folder as u32)).filter_map(|folder| {
                let (parent, name) = table.folder(folder);
                let unwanted = !manifest.has_wanted(folder) && !is_entry(table.find_in(parent, name));
                unwanted.then(|| table.folder_path(folder))
            });
        listed.chain(implied).collect()
    }

    /// Whether the folder is one of these, or in one.
    fn is_within(&self, mut folder: FolderId, folders: &HashSet<FolderId>) -> bool {
        if folders.is_empty() {
            return false;
        }
        let manifest = self.manifest();
        while folder != FolderId::TOP && !folders.contains(&folder) {
            folder = manifest.table.folder(folder).0;
        }
        folder != FolderId::TOP
    }

    /// The folder in which something will get its name. `None`: this file system cannot have it, and the item is refused.
    fn prepare_above(&self, item: &Item) -> Result<Option<Arc<OwnedFd>>, PublishError> {
        match self.staged_folder(item.folder) {
            Ok(above) => Ok(Some(above)),
            Err(error) => Ok(self.refuse_name(item.index, error).map(|()| None)?),
        }
    }

    fn prepare_file(&self, item: &Item) -> Result<(), PublishError> {
        // Also where it is staged elsewhere its folder has to be there when it is moved.
        if self.prepare_above(item)?.is_none() {
            return Ok(());
        }
        let (folder, name) = self.staged_place(item.index)?;
        if item.size == 0 {
            failpoint::point()?;
            let file = match self.make_file(&folder, &name, item.mode) {
                Ok(file) => file,
                Err(error) => return Ok(self.refuse_name(item.index, error)?),
            };
            rustix::fs::futimens(&file, &times(item.mtime))?;
            self.give_plain_bits(&file, item.mode);
            self.dress(folder.as_fd(), &name, item.index)?;
            return Ok(self.give_mode(&file, item.index, item.mode, PERMISSIONS)?);
        }
        let stat = match rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Err(self.incomplete(item)),
            // A name that this file system does not take, refused by an earlier run.
            Err(errno) => return Ok(self.refuse_name(item.index, io::Error::from(errno).into())?),
        };
        if size_of_file(&stat) != item.size {
            return Err(self.incomplete(item));
        }
        failpoint::point()?;
        // First: what is given away may not be this user's to change. Until it is moved nobody else gets at it.
        if mtime_of(&stat) != item.mtime {
            let (at, of) = (AtFlags::SYMLINK_NOFOLLOW, times(item.mtime));
            rustix::fs::utimensat(&folder, name.as_slice(), &of, at)
                .or_else(|errno| self.fall_short(item, errno.into()))?;
        }
        if mode_of(&stat) != item.mode {
            set_mode(folder.as_fd(), &name, self.mode_to_make(item.mode) & 0o777)
                .or_else(|error| self.fall_short(item, error))?;
        }
        // What an earlier run has staged has what was kept then, of what the sender's file was then.
        let wanted = self.manifest().table.xattrs(item.index).to_vec();
        let dress = || self.dress(folder.as_fd(), &name, item.index);
        self.opened_up_to_dress(folder.as_fd(), &name, &stat, &wanted, dress)?;
        if let Err(error) = self.list_as_made(folder.as_fd(), &name) {
            self.fall_short(item, error)?;
        }
        // A new owner, and a list, takes bits of the mode away.
        let stat = rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = self.mode_given(item.index, item.mode, &stat);
        if mode == mode_of(&stat) {
            return Ok(());
        }
        set_mode(folder.as_fd(), &name, mode).or_else(|error| self.fall_short(item, error))
    }

    /// Gives a staged file the access control list that it was made with, which its folder hands on: an earlier run may have given it that of a
    /// file which it was [to replace](Self::keep_mode), and which need not be there any more.
    fn list_as_made(&self, folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        // Where lists are kept it has the sender's.
        if self.keeps_lists() {
            return Ok(());
        }
        // A file system that cannot be asked has none.
        let handed_on = xattrs::default_list(folder).ok().flatten();
        let is = xattrs::access_list(folder, name).ok().flatten();
        match (handed_on, is) {
            (None, None) => {}
            (None, Some(_)) => xattrs::remove_access_list(folder, name)?,
            (Some(list), _) => xattrs::set_access_list(folder, name, &list)?,
        }
        Ok(())
    }

    fn incomplete(&self, item: &Item) -> PublishError {
        PublishError::Incomplete { path: self.path_text(item.index) }
    }

    /// `false`: this file system cannot have it, and it is refused.
    fn prepare_folder(&self, item: &Item) -> Result<bool, PublishError> {
        let Some(above) = self.prepare_above(item)? else { return Ok(false) };
        failpoint::point()?;
        let make = || make_open(&above, &item.name, PRIVATE);
        match failpoint::name(&item.name).and_then(|()| make()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(!self.refuse_second(item, &above)?),
            Err(errno) => {
                let error = io::Error::from(said_of_name(&above, errno));
                Ok(self.refuse_name(item.index, error.into()).map(|()| false)?)
            }
        }
    }

    /// Refuses an item in whose place another one is staged; `true` if there is one.
    fn refuse_second(&self, item: &Item, above: &OwnedFd) -> Result<bool, PublishError> {
        let path = self.manifest().table.path(item.index);
        let Some(path) = path else { return Ok(false) };
        Ok(self.refuses_second_name(Some(item.index), above, path.as_bytes())?)
    }

    fn prepare_link(&self, item: &Item) -> Result<(), PublishError> {
        let Some(above) = self.prepare_above(item)? else { return Ok(()) };
        let (name, target) = (item.name.as_slice(), item.target.as_slice());
        failpoint::point()?;
        let make = || failpoint::link().and_then(|()| rustix::fs::symlinkat(target, &above, name));
        let made = match make() {
            Err(Errno::EXIST) => {
                if self.refuse_second(item, &above)? {
                    return Ok(());
                }
                failpoint::point()?;
                rustix::fs::unlinkat(&above, name, AtFlags::empty())?;
                make()
            }
            made => made,
        };
        let says_none = |errno| match errno {
            Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::NOSYS => true,
            // So does rclone. Of a disk it would mean another thing.
            Errno::IO => is_in_user_space(&above),
            _ => false,
        };
        if let Err(errno) = made
            && says_none(errno)
        {
            let detail = format!("this file system takes no symbolic links: {}", io::Error::from(errno));
            self.refuse(Refusal { entry: item.index, detail });
            return Ok(());
        }
        if let Err(errno) = made {
            // Neither an empty target nor one with a NUL can be a link's, whatever its sender says.
            let errno = if errno == Errno::NOENT { Errno::INVAL } else { errno };
            return Ok(self.refuse_name(item.index, io::Error::from(errno).into())?);
        }
        failpoint::point()?;
        if !self.staging.follows_links {
            rustix::fs::utimensat(&above, name, &times(item.mtime), AtFlags::SYMLINK_NOFOLLOW)
                .or_else(|errno| self.fall_short(item, errno.into()))?;
        }
        Ok(self.dress(above.as_fd(), name, item.index).map(drop)?)
    }

    fn date_folder(&self, item: &Item) -> Result<(), PublishError> {
        let above = self.staged_folder(item.folder)?;
        let folder = open_child(above.as_fd(), &item.name, Purpose::List)?;
        failpoint::point()?;
        self.dress_staged(above.as_fd(), &item.name, item.index)?;
        rustix::fs::futimens(&folder, &times(item.mtime))?;
        // Its owner may have to move things out of it once more; `settle` takes these bits away.
        let mode = self.folder_mode(item.mode, &rustix::fs::fstat(&folder)?) | OWNER;
        // In the words of `settle`, which tries it again.
        Ok(self.give_mode(&folder, item.index, mode, METADATA)?)
    }
}
