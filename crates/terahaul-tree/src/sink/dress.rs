//! What an item gets besides content, time and permission bits: its owner, extended attributes, access control lists.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;
use terahaul_core::{EntryIndex, Owner, Xattr};
use terahaul_store::SinkError;

use super::packed::create;
use super::{Refusal, TreeSink};
use crate::listing::mode_of;
use crate::owners::Ids;
use crate::publish::set_mode;
use crate::read_only::FILE_OWNER;
use crate::rights;
use crate::xattrs;

/// What could not be set of a file that was made.
pub(crate) const PERMISSIONS: &str = "its permissions";

impl TreeSink {
    /// The permission bits to make a file with that is to have `mode`. Only who may write it may set its attributes.
    pub(crate) fn mode_to_make(&self, mode: u32) -> u32 {
        if self.keep.xattrs || self.keep.acls { mode | FILE_OWNER } else { mode }
    }

    /// Those that one [has](Self::make_file) then: what setting attributes takes, whatever is granted.
    pub(super) fn mode_made(&self, mode: u32) -> u32 {
        self.mode_to_make(mode) & (self.staging.granted | self.mode_to_make(0))
    }

    /// Makes a new file that is to have `mode`.
    pub(crate) fn make_file(&self, folder: &OwnedFd, name: &[u8], mode: u32) -> Result<OwnedFd, SinkError> {
        let made = create(folder, name, self.mode_to_make(mode))?;
        if self.mode_to_make(0) & !self.staging.granted != 0 {
            // What cannot be set for the lack of it is named.
            let _ = rustix::fs::fchmod(&made, Mode::from_raw_mode((self.mode_made(mode) & 0o777) as _));
        }
        Ok(made)
    }

    /// Whether access control lists are the sender's.
    pub(crate) fn keeps_lists(&self) -> bool {
        self.keep.acls
    }

    /// Whether anything of that kind is kept.
    pub(crate) fn keeps_dress(&self) -> bool {
        self.keep.owner || self.keep.xattrs || self.keep.acls
    }

    /// Gives `name` in `folder` what is kept of `entry`'s owner and attributes, following no link. Returns whether the owner
    /// or a list was changed, which changes permission bits.
    pub(crate) fn dress(&self, folder: BorrowedFd<'_>, name: &[u8], entry: EntryIndex) -> io::Result<bool> {
        self.dress_but(folder, name, entry, |ids| ids)
    }

    /// As [`dress`](Self::dress) for a folder that is still to be moved, which takes the right to write to it: it stays this user's.
    pub(crate) fn dress_staged(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        entry: EntryIndex,
    ) -> io::Result<bool> {
        self.dress_but(folder, name, entry, |ids| Ids { user: None, ..ids })
    }

    fn dress_but(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        entry: EntryIndex,
        of_ids: impl FnOnce(Ids) -> Ids,
    ) -> io::Result<bool> {
        if !self.keeps_dress() {
            return Ok(false);
        }
        let (owner, wanted) = self.dress_of(entry);
        let ids = of_ids(self.ids_of(owner.as_ref()));
        let (dressed, short) = self.dress_as(folder, name, ids, &wanted)?;
        short.into_iter().for_each(|detail| self.note_shortfall(Refusal { entry, detail }));
        if dressed {
            self.handle_change();
        }
        Ok(dressed)
    }

    /// Has `dress` give these attributes to what is there already, `name` with this status, and opens it up for as long as that takes
    /// where it has others, is this user's own and read-only: only who may write something may set its attributes.
    pub(crate) fn opened_up_to_dress<T>(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
        wanted: &[Xattr],
        dress: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let lacks = self.mode_to_make(mode_of(stat)) & !mode_of(stat);
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if lacks == 0 || is_link || rustix::process::geteuid().as_raw() != stat.st_uid {
            return dress();
        }
        // Root may, whatever the bits say.
        let needed = Access::READ_OK | Access::WRITE_OK;
        if rustix::fs::accessat(folder, name, needed, AtFlags::EACCESS) != Err(Errno::ACCESS) {
            return dress();
        }
        if xattrs::differ(folder, name, wanted, self.keep)? == (false, false) {
            return dress();
        }
        set_mode(folder, name, mode_of(stat) | lacks)?;
        let dressed = dress();
        // Not as it was: a list may have changed it.
        let now = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        set_mode(folder, name, mode_of(&now) & !lacks)?;
        dressed
    }

    fn dress_of(&self, entry: EntryIndex) -> (Option<Arc<Owner>>, Vec<Xattr>) {
        let manifest = self.manifest();
        (manifest.table.owner(entry).cloned(), manifest.table.xattrs(entry).to_vec())
    }

    /// Whose something of this owner is to be here.
    pub(crate) fn ids_of(&self, owner: Option<&Arc<Owner>>) -> Ids {
        owner.filter(|_| self.keep.owner).map(|owner| self.owners.resolve(owner)).unwrap_or_default()
    }

    fn ids_of_entry(&self, entry: EntryIndex) -> Ids {
        let owner = self.manifest().table.owner(entry).cloned();
        self.ids_of(owner.as_ref())
    }

    /// What an entry's file or folder with this status is [given](rights::given) of the permission bits `mode`.
    pub(crate) fn mode_given(&self, entry: EntryIndex, mode: u32, stat: &Stat) -> u32 {
        if mode & rights::LENDING == 0 {
            return mode;
        }
        rights::given(mode, self.ids_of_entry(entry), stat)
    }

    /// Whether what is the entry's, and has this status, will be another user's once it is dressed.
    pub(crate) fn gives_away(&self, entry: EntryIndex, stat: &Stat) -> bool {
        self.ids_of_entry(entry).change_user(stat)
    }

    /// Gives what was made, where nobody else gets at it, its plain permission bits, as far as it has them not: once it is given away it may
    /// not be this user's to change. What cannot be set so is tried again.
    pub(crate) fn give_plain_bits(&self, made: &OwnedFd, mode: u32) {
        if self.mode_made(mode) != mode {
            let _ = rustix::fs::fchmod(made, Mode::from_raw_mode((self.mode_to_make(mode) & 0o777) as _));
        }
    }

    /// Gives what was made for `entry`, and is whose it will be, its permission bits. `what` could not be set where it does not take them.
    pub(crate) fn give_mode(
        &self,
        made: &OwnedFd,
        entry: EntryIndex,
        mode: u32,
        what: &str,
    ) -> io::Result<()> {
        let stat = rustix::fs::fstat(made)?;
        let shall = self.mode_given(entry, mode, &stat);
        if mode_of(&stat) == shall {
            return Ok(());
        }
        // It may take none of these bits, such as set-user-id; and what was given away may not be this user's to change.
        rustix::fs::fchmod(made, Mode::from_raw_mode(shall as _))
            .or_else(|errno| self.fall_short_of(entry, what, errno.into()))
    }

    /// Whether `name` in `folder`, which has this status, would have [rights lent](crate::rights) to it, if it got this mode and the entry's
    /// owner and attributes.
    pub(crate) fn lends(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        entry: EntryIndex,
        mode: Option<u32>,
        stat: &Stat,
    ) -> io::Result<bool> {
        if rights::is_own(stat) {
            return Ok(false);
        }
        let (owner, xattrs) = self.dress_of(entry);
        let wanted = self.ids_of(owner.as_ref());
        let is_given_away = wanted.change_user(stat);
        let capabilities = self.keep.xattrs
            && rights::has_capabilities(&xattrs)
            && (is_given_away || xattrs::differ(folder, name, &xattrs, self.keep)?.1);
        Ok(rights::lends(mode.unwrap_or_default(), capabilities, wanted, stat))
    }

    /// As [`dress`](Self::dress) for what is no entry. Returns also what could not be set.
    pub(crate) fn dress_as(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        ids: Ids,
        wanted: &[Xattr],
    ) -> io::Result<(bool, Vec<String>)> {
        let (mut changed, mut short) = (false, Vec::new());
        if ids != Ids::default() {
            let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink && self.staging.follows_links {
                return Ok((false, Vec::new()));
            }
            let user = ids.user.filter(|&user| user != stat.st_uid);
            let group = ids.group.filter(|&group| group != stat.st_gid);
            if user.is_some() || group.is_some() {
                let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
                match rustix::fs::chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(()) => changed = true,
                    Err(errno @ (Errno::PERM | Errno::INVAL)) => {
                        short.push(format!(
                            "its owner could not be set ({errno}): copy with --no-owner --no-perms"
                        ));
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        let applied = xattrs::apply(folder, name, wanted, self.keep)?;
        if applied.changed {
            self.handle_change();
        }
        if applied.too_many {
            short.push("it has more attributes there than are kept of an entry, and they stay".into());
        }
        short.extend(applied.shortfalls());
        Ok((changed || applied.lists_changed, short))
    }
}
