//! Metadata of what stays where it is: times, permission bits, owner and attributes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Item, PublishError};
use crate::beneath::{Purpose, open_folder, read_flags};
use crate::decision::{Compare, Leeway, Rules, same_time};
use crate::failpoint;
use crate::listing::{ctime_of, is_one, mode_of, mtime_of, size_of_file};
use crate::sink::times;
use crate::table::RowKind;
use crate::{Permissions, TreeSink};

/// What an item may fall short of.
pub(super) const METADATA: &str = "its time, permissions or owner";

impl TreeSink {
    /// Gives files and links that stay what they were found to lack.
    pub(super) fn touch_all(&self, rules: &Rules) -> Result<(), PublishError> {
        for index in self.touched() {
            let Some(item) = self.item(index.0 as usize).filter(|item| !item.mark.lost) else { continue };
            let path = self.manifest().table.folder_path(item.folder);
            let touched = open_folder(self.staging.root.as_fd(), &path, Purpose::Pass).and_then(|folder| {
                let stat = rustix::fs::statat(&folder, item.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
                if item.kind == RowKind::File && !self.stays_the_same(&item, &stat, rules) {
                    return Ok(());
                }
                let mode = (self.permissions() == Permissions::Exact).then_some(item.mode);
                // Somebody may have put it there since it was looked at.
                let lends = || self.lends(folder.as_fd(), &item.name, item.index, mode, &stat);
                if item.kind == RowKind::File && lends()? {
                    return Err(Errno::PERM.into());
                }
                self.give(folder.as_fd(), &item, &stat, mode)
            });
            touched.or_else(|error| self.fall_short(&item, error))?;
        }
        Ok(())
    }

    /// Gives `item`, which is in `folder` and has this status, its metadata. The mode comes after the owner, who takes
    /// bits of it away: until then others would have what it gives to its group.
    pub(super) fn give(
        &self,
        folder: BorrowedFd<'_>,
        item: &Item,
        stat: &Stat,
        mode: Option<u32>,
    ) -> io::Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let fits = match item.kind {
            RowKind::File => kind == FileType::RegularFile,
            RowKind::Directory => kind == FileType::Directory,
            RowKind::Symlink => kind == FileType::Symlink,
        };
        if !fits {
            // Somebody has put something else there, whose metadata is their own.
            return Ok(());
        }
        let (is_link, name) = (kind == FileType::Symlink, item.name.as_slice());
        let status = || rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let set_time = || {
            if mtime_of(stat) == item.mtime || is_link && self.staging.follows_links {
                return Ok(());
            }
            failpoint::point()?;
            rustix::fs::utimensat(folder, name, &times(item.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
            self.handle_change();
            Ok(())
        };
        let wanted = self.manifest().table.xattrs(item.index).to_vec();
        let dress = || self.dress(folder, name, item.index);
        let mode = mode.filter(|_| !is_link);
        before_or_after(set_time, || {
            let mut stat = *stat;
            // What is given away may not be this user's to change. To take bits away opens it to nobody.
            if let Some(mode) = mode.filter(|mode| mode_of(&stat) & !mode != 0)
                && self.gives_away(item.index, &stat)
                && set_mode(folder, name, mode_of(&stat) & mode).is_ok()
            {
                stat = status()?;
            }
            let dressed = self.opened_up_to_dress(folder, name, &stat, &wanted, dress)?;
            let now = if dressed { status()? } else { stat };
            let mode = mode.map(|mode| self.mode_given(item.index, mode, &now));
            if let Some(mode) = mode.filter(|&mode| mode != mode_of(&now)) {
                failpoint::point()?;
                set_mode(folder, name, mode)?;
                self.handle_change();
            }
            Ok(())
        })
    }

    /// The permission bits, of which these are [applied](Self::applied_mode), of a new folder that has this status: one in a folder that
    /// hands its group on does the same, unless permissions are kept.
    pub(crate) fn folder_mode(&self, mode: u32, stat: &Stat) -> u32 {
        match self.permissions() {
            Permissions::Basic => mode | mode_of(stat) & SET_GROUP,
            Permissions::Exact => mode,
        }
    }

    /// Goes on where only this item's metadata cannot be set.
    pub(super) fn fall_short(&self, item: &Item, error: io::Error) -> Result<(), PublishError> {
        Ok(self.fall_short_of(item.index, METADATA, error)?)
    }

    /// Notes how files that stay are before this run gives them names or takes any away, where that tells later whether somebody has edited them:
    /// those of several names, and those whose time is not past.
    pub(super) fn note_what_stays(&self, rules: &Rules) {
        if matches!(rules.compare, Compare::SizeAndTime { .. }) {
            return;
        }
        let noted = self.touched().into_iter().filter_map(|index| {
            let item = self.item(index.0 as usize).filter(|item| item.kind == RowKind::File)?;
            let path = self.manifest().table.folder_path(item.folder);
            let folder = open_folder(self.staging.root.as_fd(), &path, Purpose::Pass).ok()?;
            let stat = rustix::fs::statat(&folder, item.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            (stat.st_nlink > 1 || mtime_of(&stat) > self.staging.begun).then_some((index, stat))
        });
        let noted: HashMap<_, _> = noted.collect();
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = noted;
    }

    /// How the file was before this run gave it names or took any away, where that was noted.
    fn noted(&self, item: &Item, stat: &Stat) -> Option<Stat> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get(&item.index).filter(|before| is_one(before, stat)).copied()
    }

    /// Whether the file still is what was found to lack nothing but metadata. One that was edited since, which may be hours, must
    /// not get the sender's time: the next run would take it for the sender's.
    fn stays_the_same(&self, item: &Item, stat: &Stat, rules: &Rules) -> bool {
        let is_untouched = match rules.compare {
            Compare::SizeAndTime { window } => {
                same_time(item.mtime, mtime_of(stat), Leeway { window, even_seconds: self.even_seconds })
            }
            // Its time was another one all along. Names that this run has given it or taken from it are no edits.
            Compare::Size | Compare::Content | Compare::Never => {
                let (begun, before) = (self.staging.begun, self.noted(item, stat));
                let renamed = stat.st_nlink > 1 || before.is_some_and(|before| before.st_nlink > 1);
                // A clock that is ahead, or anybody, has given it a time that is still to come.
                let as_before =
                    |before: Stat| ctime_of(&before) <= begun && mtime_of(&before) == mtime_of(stat);
                ctime_of(stat) <= begun
                    || renamed && (mtime_of(stat) <= begun || before.is_some_and(as_before))
            }
        };
        is_untouched && size_of_file(stat) == item.size
    }
}

/// Does `act` before a `change` which may give away what it is done to, or after one without which it may not be done.
pub(crate) fn before_or_after<T>(
    act: impl Fn() -> io::Result<()>,
    change: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let acted = act();
    let changed = change()?;
    acted.or_else(|_| act()).map(|()| changed)
}

/// The set-group-id bit.
pub(crate) const SET_GROUP: u32 = 0o2000;

/// Sets the permission bits of what is no link. It is opened for it, since a name could become a link at any moment.
pub(crate) fn set_mode(folder: BorrowedFd<'_>, name: &[u8], mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode as _);
    match rustix::fs::openat(folder, name, read_flags(), Mode::empty()) {
        Ok(opened) => Ok(rustix::fs::fchmod(&opened, mode)?),
        // It may not be read, and yet be ours; or somebody has a lease of it, which this is no reason to take back.
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS | Errno::AGAIN) => {
            use std::os::fd::AsRawFd;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", opened.as_raw_fd()), mode)?)
        }
        Err(errno) => Err(errno.into()),
    }
}
