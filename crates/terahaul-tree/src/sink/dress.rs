//! What an item gets besides content, time and permission bits: its owner, extended attributes, access control lists.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Uid};
use rustix::io::Errno;
use terahaul_core::EntryIndex;

use super::{Refusal, TreeSink};
use crate::owners::Ids;
use crate::xattrs;

impl TreeSink {
    /// Gives `name` in `folder` what is kept of `entry`'s owner and attributes, following no link. Returns whether the owner
    /// or a list was changed, which changes permission bits.
    pub(crate) fn dress(&self, folder: BorrowedFd<'_>, name: &[u8], entry: EntryIndex) -> io::Result<bool> {
        if !self.keep.owner && !self.keep.xattrs && !self.keep.acls {
            return Ok(false);
        }
        let (owner, wanted) = {
            let manifest = self.manifest();
            (manifest.table.owner(entry).cloned(), manifest.table.xattrs(entry).to_vec())
        };
        let ids =
            owner.filter(|_| self.keep.owner).map(|owner| self.owners.resolve(&owner)).unwrap_or_default();
        let mut changed = false;
        if ids != Ids::default() {
            let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let user = ids.user.filter(|&user| user != stat.st_uid);
            let group = ids.group.filter(|&group| group != stat.st_gid);
            if user.is_some() || group.is_some() {
                let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
                match rustix::fs::chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(()) => changed = true,
                    Err(Errno::PERM | Errno::INVAL) => {
                        self.note_shortfall(Refusal { entry, detail: "its owner could not be set".into() });
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        let failed = xattrs::apply(folder, name, &wanted, self.keep)?;
        if !failed.is_empty() {
            let names: Vec<_> = failed.iter().map(|name| name.escape_ascii().to_string()).collect();
            let detail = format!("its attributes {} could not be set", names.join(", "));
            self.note_shortfall(Refusal { entry, detail });
        }
        if changed || self.keep.acls {
            self.handle_change();
        }
        Ok(changed || self.keep.acls)
    }
}
