//! Removing from a receiving folder what the sender has not (`--delete`).
//!
//! | what is found | becomes |
//! |---|---|
//! | in the manifest, copied or not | stays; a folder is looked into |
//! | left out by the filter rules | stays, with all that is in it |
//! | what another transfer has not completed: its staging folder, a part beside its name | stays |
//! | a mount point (also of the same file system) | stays |
//! | anything in a folder where an entry is found under a name that is not listed | stays: it may be that entry |
//! | anything else in a folder of the manifest | is removed; a folder from its inside, as far as nothing in it stays |
//!
//! Folders are read a piece at a time, so memory does not grow with what is in them. No link is followed. They are looked through by
//! several threads ([`looking`]); only where something is to go one removes it.

mod looking;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rayon::ThreadPool;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use terahaul_core::{EntryIndex, MAX_DEPTH};

use crate::beneath::{Purpose, joined, open_child, open_folder};
use crate::listing::{is_folder, mtime_of};
use crate::read_only::{close_again, open_up};
use crate::sink::times;
use crate::staging::is_unfinished_name;
use crate::table::FolderId;
use crate::{EntryTable, Filter, Survey, TableFull, TreeSink};
use looking::{Known, is_absent, is_denied};

/// Names that are removed before more are read.
const AT_ONCE: usize = 4096;

/// What may be removed.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// What its rules leave out is not touched.
    pub filter: &'a Filter,
    /// The sender copied the content of a folder: what lies at the top and is not in the manifest is removed too.
    pub top: bool,
    /// Most files and folders to remove.
    pub most: Option<u64>,
    /// Only tell what would be removed.
    pub dry_run: bool,
}

/// What was done with something that the sender has not.
#[derive(Debug)]
pub enum Swept<'a> {
    /// It was removed, or would be.
    Removed {
        /// Where it was, relative to the receiving folder.
        path: &'a [u8],
        /// It was a folder.
        folder: bool,
    },
    /// It stays, and why; not an error.
    Stays {
        /// Where it is.
        path: &'a [u8],
        /// Why.
        reason: &'static str,
    },
    /// It could not be removed, or not looked at.
    Failed {
        /// Where it is.
        path: &'a [u8],
        /// What the system said.
        error: io::Error,
    },
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweeping {
    /// Files, links, folders removed, or that would be.
    pub removed: u64,
    /// What could not be removed.
    pub failed: u64,
    /// More was there to remove than was allowed.
    pub limited: bool,
}

/// Sweeps `root`, of which `table` is the whole manifest; folders are looked through by `threads`, and `open_up` says whether one that
/// may not be now is open. `tell` hears of everything that the manifest has not.
pub(crate) fn sweep(
    root: BorrowedFd<'_>,
    table: &EntryTable,
    rules: &Sweep<'_>,
    threads: &ThreadPool,
    open_up: &dyn Fn(&[u8]) -> bool,
    tell: &mut dyn FnMut(Swept<'_>),
) -> Sweeping {
    let mut tell = |swept: Swept<'_>| match swept {
        Swept::Failed { path, error } => tell(Swept::Failed { path, error: with_remedy(error) }),
        other => tell(other),
    };
    let (keeps_unfinished, opens_up) = (true, !rules.dry_run);
    let (by_folder, done) = (None, Sweeping::default());
    let mut sweeper = Sweeper { table, rules, tell: &mut tell, keeps_unfinished, opens_up, by_folder, done };
    let top = Known { path: Vec::new(), id: Some(FolderId::TOP), listed: rules.top };
    let with_strangers =
        looking::find_strangers(root, table, rules.filter, top, threads, open_up, &mut |path, error| {
            sweeper.fail(path, error);
        });
    for folder in with_strangers {
        if sweeper.done.limited {
            break;
        }
        let swept = open_folder(root, &folder.path, Purpose::List)
            .and_then(|opened| sweeper.remove_strangers(&folder, &opened));
        match swept {
            Err(error) if !is_absent(&error) => sweeper.fail(&folder.path, error),
            Ok(()) | Err(_) => {}
        }
    }
    sweeper.done
}

/// The error, with what helps where it says that something came there after it was looked at.
fn with_remedy(error: io::Error) -> io::Error {
    const CAME: [Errno; 5] = [Errno::NOTEMPTY, Errno::EXIST, Errno::ISDIR, Errno::NOTDIR, Errno::LOOP];
    match Errno::from_io_error(&error) {
        Some(errno) if CAME.contains(&errno) => {
            io::Error::other(format!("{error}: something came there meanwhile, run the same command again"))
        }
        _ => error,
    }
}

/// A folder whose place something else is to have.
#[derive(Clone, Copy)]
pub(crate) struct InTheWay<'a> {
    pub(crate) above: BorrowedFd<'a>,
    pub(crate) name: &'a [u8],
    pub(crate) path: &'a [u8],
}

/// What became of a folder that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// It is gone, or would be: so many files and folders, itself among them.
    Gone(u64),
    /// Rules leave something in it out, or something is mounted in it. Nothing was removed.
    Stays,
    /// There is more in it than may be removed. Nothing was removed.
    TooMuch,
}

impl Sweeping {
    /// Removes a folder with all that is in it, within what this leaves of the rules' `most`, and counts what goes, also where an
    /// error ends it.
    pub(crate) fn clear(
        &mut self,
        folder: InTheWay<'_>,
        rules: &Sweep<'_>,
        tell: &mut dyn FnMut(Swept<'_>),
    ) -> io::Result<Cleared> {
        let most = rules.most.map(|most| most.saturating_sub(self.removed));
        let cleared = clear(folder, &Sweep { most, ..*rules }, &mut |swept| {
            self.removed += u64::from(matches!(swept, Swept::Removed { .. }));
            tell(swept);
        })?;
        self.limited |= cleared == Cleared::TooMuch;
        Ok(cleared)
    }
}

/// Removes a folder with all that is in it, or nothing of it, unless the system refuses something in the middle. `tell` hears of what goes.
pub(crate) fn clear(
    folder: InTheWay<'_>,
    rules: &Sweep<'_>,
    tell: &mut dyn FnMut(Swept<'_>),
) -> io::Result<Cleared> {
    let InTheWay { above, name, path } = folder;
    if rules.filter.leaves_out(path, true) {
        return Ok(Cleared::Stays);
    }
    let opens_up = !rules.dry_run;
    let (all, looked) = empty(folder, &Sweep { dry_run: true, ..*rules }, opens_up, &mut |_| {})?;
    let count = looked.removed + 1;
    if looked.limited || rules.most.is_some_and(|most| count > most) {
        return Ok(Cleared::TooMuch);
    }
    if !all {
        return Ok(Cleared::Stays);
    }
    empty(folder, rules, opens_up, tell)?;
    if !rules.dry_run {
        rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?;
    }
    tell(Swept::Removed { path, folder: true });
    Ok(Cleared::Gone(count))
}

/// Removes what is in the folder; `false` where something stays.
fn empty(
    folder: InTheWay<'_>,
    rules: &Sweep<'_>,
    opens_up: bool,
    tell: &mut dyn FnMut(Swept<'_>),
) -> io::Result<(bool, Sweeping)> {
    let mut first = None;
    let mut tell = |swept: Swept<'_>| match swept {
        Swept::Failed { error, .. } => drop(first.get_or_insert(error)),
        Swept::Removed { .. } => tell(swept),
        Swept::Stays { .. } => {}
    };
    let table = EntryTable::new();
    // What is to have its place was asked for with force.
    let (keeps_unfinished, by_folder, done) = (false, None, Sweeping::default());
    let mut sweeper =
        Sweeper { table: &table, rules, tell: &mut tell, keeps_unfinished, opens_up, by_folder, done };
    let all = sweeper.empty(folder.above, folder.name, folder.path)?;
    let done = sweeper.done;
    first.map_or(Ok((all, done)), Err)
}

struct Sweeper<'a> {
    table: &'a EntryTable,
    rules: &'a Sweep<'a>,
    tell: &'a mut dyn FnMut(Swept<'_>),
    /// What other transfers have not completed stays: nothing says which of them are still at work.
    keeps_unfinished: bool,
    /// Read-only folders of this user's own are opened up where that is needed; not where all that is asked is what would be removed.
    opens_up: bool,
    /// The manifest's entries in the order of their folders, once that was needed.
    by_folder: Option<Vec<EntryIndex>>,
    done: Sweeping,
}

impl Sweeper<'_> {
    fn fail(&mut self, path: &[u8], error: io::Error) {
        self.done.failed += 1;
        (self.tell)(Swept::Failed { path, error });
    }

    /// Removes from a folder of the manifest what that has not.
    fn remove_strangers(&mut self, folder: &Known, opened: &OwnedFd) -> io::Result<()> {
        let mut listing = Dir::read_from(opened)?;
        let mut there = HashSet::new();
        while let Some(found) = listing.read() {
            let found = found?;
            there.extend(folder.id.and_then(|id| self.table.find_in(id, found.file_name().to_bytes())));
        }
        if self.is_folding(folder, opened, &there) {
            return Err(io::Error::other(
                "the file system takes different names for the same one: remove what is too much by hand",
            ));
        }
        listing.rewind();
        let (before, removed) = (rustix::fs::fstat(opened)?, self.done.removed);
        let mut strangers = Vec::new();
        while !self.done.limited
            && let Some(found) = listing.read()
        {
            let found = found?;
            let name = found.file_name().to_bytes();
            if looking::is_passed_over(name) || folder.has(self.table, name) {
                continue;
            }
            strangers.push((name.to_vec(), found.file_type()));
            if strangers.len() >= AT_ONCE {
                self.remove_all(opened, &folder.path, &mut strangers);
            }
        }
        self.remove_all(opened, &folder.path, &mut strangers);
        if self.done.removed > removed && !self.rules.dry_run {
            keep_time(opened, &before, &folder.path);
        }
        Ok(())
    }

    /// Whether an entry can be reached in the folder by a name that is not listed there. It is listed by another then, such as one
    /// in capitals, and nobody can tell which: other file systems than the destination's own may be mounted in it, and folders of
    /// one may differ in this.
    fn is_folding(&mut self, folder: &Known, opened: &OwnedFd, there: &HashSet<EntryIndex>) -> bool {
        let (table, Some(id)) = (self.table, folder.id) else { return false };
        let folder_of = |entry: &EntryIndex| table.row(*entry).map(|row| row.folder.0);
        let by_folder = self.by_folder.get_or_insert_with(|| {
            let mut entries: Vec<_> = (0..table.len() as u32).map(EntryIndex).collect();
            entries.sort_unstable_by_key(folder_of);
            entries
        });
        let start = by_folder.partition_point(|entry| folder_of(entry) < Some(id.0));
        let mut rows =
            by_folder[start..].iter().map_while(|entry| table.row(*entry).filter(|row| row.folder == id));
        rows.any(|row| {
            // Of several entries of one name only the last is known by it.
            let is_there = table.find_in(id, row.name).is_some_and(|entry| there.contains(&entry));
            // What is not complete comes and goes, and is no entry of a copy.
            !is_there
                && !is_unfinished_name(row.name)
                && rustix::fs::statat(opened, row.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// Removes these; `false` where something stays.
    fn remove_all(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        strangers: &mut Vec<(Vec<u8>, FileType)>,
    ) -> bool {
        strangers.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut all, mut closed) = (true, None);
        for (name, kind) in strangers.drain(..) {
            if self.done.limited {
                all = false;
                break;
            }
            let path = joined(path, &name);
            let mut removed = self.remove(folder.as_fd(), &name, kind, &path);
            if self.opens_up
                && removed.as_ref().is_err_and(is_denied)
                && let Ok(Some(mode)) = open_up(folder.as_fd())
            {
                closed = Some(mode);
                removed = self.remove(folder.as_fd(), &name, kind, &path);
            }
            all &= match removed {
                Ok(removed) => removed,
                // Somebody else was faster.
                Err(_) if is_gone(folder, &name) => true,
                Err(error) => {
                    self.fail(&path, error);
                    false
                }
            };
        }
        if let Some(Err(error)) = closed.map(|mode| close_again(folder.as_fd(), mode)) {
            tracing::debug!("{} stays writable: {error}", path.escape_ascii());
        }
        all
    }

    /// Removes `name`; `false` where it stays.
    fn remove(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        kind: FileType,
        path: &[u8],
    ) -> io::Result<bool> {
        let is_folder = match kind {
            FileType::Unknown => is_folder(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?),
            kind => kind == FileType::Directory,
        };
        if self.rules.filter.leaves_out(path, is_folder) {
            return Ok(false);
        }
        if is_folder && !self.empty(folder, name, path)? {
            return Ok(false);
        }
        if self.rules.most.is_some_and(|most| self.done.removed >= most) {
            self.done.limited = true;
            return Ok(false);
        }
        if !self.rules.dry_run {
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(folder, name, flags)?;
        }
        self.done.removed += 1;
        (self.tell)(Swept::Removed { path, folder: is_folder });
        Ok(true)
    }

    /// Removes what is in the folder `name`; `false` where something stays.
    fn empty(&mut self, above: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> io::Result<bool> {
        // So many are open at once, which no entry needs more of.
        if path.iter().filter(|byte| **byte == b'/').count() >= MAX_DEPTH {
            let detail = format!("more than {MAX_DEPTH} folders lie within each other: remove it by hand");
            return Err(io::Error::other(detail));
        }
        let opened = open_child(above, name, Purpose::List)?;
        if is_mounted(&opened, above)? {
            (self.tell)(Swept::Stays { path, reason: "something is mounted there" });
            return Ok(false);
        }
        let (mut strangers, mut all) = (Vec::new(), true);
        for found in Dir::read_from(&opened)? {
            let found = found?;
            let inner = found.file_name().to_bytes();
            if matches!(inner, b"." | b"..") {
                continue;
            }
            if self.keeps_unfinished && is_unfinished_name(inner) {
                all = false;
                continue;
            }
            strangers.push((inner.to_vec(), found.file_type()));
            if strangers.len() >= AT_ONCE {
                all &= self.remove_all(&opened, path, &mut strangers);
            }
        }
        all &= self.remove_all(&opened, path, &mut strangers);
        if !all && !self.done.limited {
            (self.tell)(Swept::Stays { path, reason: "something in it stays" });
        }
        Ok(all)
    }
}

fn is_gone(folder: &OwnedFd, name: &[u8]) -> bool {
    matches!(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Whether something is mounted at the folder `opened`, which lies in `above`. The number of the file system does not tell where a
/// folder of the same one is mounted, so the kernel is asked: what it says of the folder, and where that does not know (before 5.8, or in
/// some sandboxes), what it says of the two descriptors.
fn is_mounted(opened: &OwnedFd, above: BorrowedFd<'_>) -> io::Result<bool> {
    let is_other = rustix::fs::fstat(opened)?.st_dev != rustix::fs::fstat(above)?.st_dev;
    Ok(is_other || is_bound(opened.as_fd(), above)?)
}

#[cfg(target_os = "linux")]
fn is_bound(opened: BorrowedFd<'_>, above: BorrowedFd<'_>) -> io::Result<bool> {
    use rustix::fs::{StatxAttributes, StatxFlags, statx};

    match statx(opened, c"", AtFlags::EMPTY_PATH, StatxFlags::empty()) {
        Ok(found) if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        }
        _ => Ok(mount_of(opened)? != mount_of(above)?),
    }
}

#[cfg(not(target_os = "linux"))]
fn is_bound(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(false)
}

/// The number of the mount that a descriptor is of, as proc(5) has it since Linux 3.15.
#[cfg(target_os = "linux")]
pub(crate) fn mount_of(descriptor: BorrowedFd<'_>) -> io::Result<u64> {
    let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let number = said.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("whether something is mounted there is not known"))
}

/// Gives a folder back the time that it had `before` something was removed from it: it is the sender's, or the sender's comes later.
fn keep_time(folder: &OwnedFd, before: &Stat, path: &[u8]) {
    if let Err(error) = rustix::fs::futimens(folder, &times(mtime_of(before))) {
        tracing::debug!("{} is newer than at the sender: {error}", path.escape_ascii());
    }
}

/// Why nothing is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// Too many names.
    #[error("nothing was removed: {0}")]
    Full(#[from] TableFull),
    /// What is called differently there may be what was copied.
    #[error(
        "the receiving file system takes different names for the same one, so nothing was removed: remove what is too much by hand"
    )]
    FoldsNames,
}

impl TreeSink {
    /// Removes from the receiving folder, which `survey` has threads to look through, what is neither in the manifest nor in `alike`,
    /// which together must be all that the sender has. Called once everything has its place, and before folders get their times.
    pub fn sweep(
        &self,
        survey: &Survey,
        alike: EntryTable,
        rules: &Sweep<'_>,
        tell: &mut dyn FnMut(Swept<'_>),
    ) -> Result<Sweeping, SweepError> {
        if self.staging.folds_names {
            return Err(SweepError::FoldsNames);
        }
        let (root, threads) = (self.staging.root.as_fd(), &survey.threads);
        let open_up = |path: &[u8]| self.open_up_to_sweep(path).unwrap_or(false);
        let manifest = self.manifest();
        let done = match alike.is_empty() {
            true => sweep(root, &manifest.table, rules, threads, &open_up, tell),
            false => sweep(root, &alike.followed_by(&manifest.table)?, rules, threads, &open_up, tell),
        };
        drop(manifest);
        if done.removed > 0 {
            self.handle_change();
        }
        Ok(done)
    }
}

impl Survey {
    /// Tells what a sweep of the receiving folder would remove, where `table` is all that the sender has.
    pub fn sweep(&self, table: &EntryTable, rules: &Sweep<'_>, tell: &mut dyn FnMut(Swept<'_>)) -> Sweeping {
        let rules = Sweep { dry_run: true, ..*rules };
        let sweep = |root| sweep(root, table, &rules, &self.threads, &|_| false, tell);
        self.root().map_or_else(Sweeping::default, sweep)
    }
}
