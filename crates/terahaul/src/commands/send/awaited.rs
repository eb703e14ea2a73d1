//! What an earlier run has told the depot of and this one has not found yet. A dry run foretells by the same rules as a run goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terahaul_core::{
    Absent, Disposition, Entry, EntryIndex, EntryKind, EntryPath, FailureCause, Resume, take_below,
};
use terahaul_tree::Skipped;

use crate::output::{Output, counted};

/// Why an entry fails that the depot has not all of and that is gone.
pub const VANISHED: &str = "it was there when an earlier run began";
/// What is said of an entry that has failed before and is gone.
pub const MISSED: &str = "failed in an earlier run or was replaced since, and there is nothing of it to send any more: to go on without it, remove this transfer and send again";

/// What becomes of an entry that was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// What was a folder above it is none any more.
    Displaced,
    /// The depot has all of it: whoever sends may remove it then.
    Kept,
    /// It fails.
    Vanished,
}

/// The entries of an earlier run.
#[derive(Default)]
pub struct Awaited {
    resume: Resume,
    /// What failed in an earlier run, or was replaced since, and was not found yet in this one.
    missed: BTreeMap<EntryPath, EntryIndex>,
    /// What could not be read, and why. What an earlier run has found there may be there still.
    unread: BTreeMap<EntryPath, String>,
}

impl Awaited {
    /// Of those that are `replaced` the depot has a part that is not of the files that are there now.
    pub fn new(entries: &[Entry], failed: &BTreeSet<EntryIndex>, replaced: &BTreeSet<EntryIndex>) -> Self {
        let indexed = || (0..).map(EntryIndex).zip(entries);
        let live = || indexed().filter(|(index, _)| !failed.contains(index) && !replaced.contains(index));
        let path = |(index, entry): (EntryIndex, &Entry)| (entry.path.clone(), index);
        let mut missed: BTreeMap<_, _> =
            indexed().filter(|(index, _)| failed.contains(index)).map(path).collect();
        // What was sent anew is not missed, nor is what was in a folder that is none any more.
        for (_, entry) in live() {
            missed.remove(&entry.path);
            if entry.kind != EntryKind::Directory {
                take_below(&mut missed, &entry.path);
            }
        }
        // Found again, it is sent anew; if it is not, something of it is lost.
        let is_replaced = |index| replaced.contains(&index) && !failed.contains(&index);
        missed.extend(indexed().filter(|(index, _)| is_replaced(*index)).map(path));
        let resume = Resume::new(live().map(|(index, entry)| (index, entry.clone())));
        Self { resume, missed, unread: BTreeMap::new() }
    }

    /// This run has found `entry`. Beside what that is to the manifest: what has failed before and has no place any more.
    pub fn handle_found(&mut self, entry: &Entry) -> (Disposition, Vec<EntryIndex>) {
        self.missed.remove(&entry.path);
        let displaced = match entry.kind {
            EntryKind::Directory => Vec::new(),
            // Where a folder was, a file or a link is now.
            _ => take_below(&mut self.missed, &entry.path),
        };
        (self.resume.handle_found(entry), displaced)
    }

    /// This run has passed over something: where that could not be read, what is there, and below it, cannot be seen. What is gone, or never
    /// can be sent, is nothing that another run would send.
    pub fn handle_skipped(&mut self, skipped: Skipped) {
        if skipped.cause == FailureCause::Unreadable
            && let Some(path) = skipped.entry
        {
            self.unread.insert(path, skipped.detail);
        }
    }

    /// What could not be read, and why.
    pub fn unread(&self) -> &BTreeMap<EntryPath, String> {
        &self.unread
    }

    /// What was not found, but for what may be in a folder that could not be read: what is durable of that stays, and what is not fails
    /// when it is read.
    pub fn take_absent(
        &mut self,
        has_durable: impl Fn(EntryIndex) -> bool,
    ) -> impl Iterator<Item = (EntryIndex, EntryPath, Gone)> {
        let absent = std::mem::take(&mut self.resume).into_absent();
        let seen = absent.filter(|absent| !self.is_unread(&absent.entry.path));
        seen.map(move |Absent { index, entry, displaced }| {
            let gone = match displaced {
                true => Gone::Displaced,
                false if has_durable(index) => Gone::Kept,
                false => Gone::Vanished,
            };
            (index, entry.path, gone)
        })
    }

    /// What has failed before, and can be seen to be gone.
    pub fn take_missed(&mut self) -> impl Iterator<Item = EntryPath> {
        std::mem::take(&mut self.missed).into_keys().filter(|path| !self.is_unread(path))
    }

    /// Whether it, or a folder it is in, could not be read.
    fn is_unread(&self, path: &EntryPath) -> bool {
        !self.unread.is_empty() && upwards(path).any(|path| self.unread.contains_key(&path))
    }
}

/// The path, and those of the folders it is in.
pub fn upwards(path: &EntryPath) -> impl Iterator<Item = EntryPath> {
    let entry_path = |path: &Path| EntryPath::new(path.as_os_str().as_bytes()).ok();
    Path::new(OsStr::from_bytes(path.as_bytes())).ancestors().filter_map(entry_path)
}

/// Says of how many entries that are gone here all is at the depot.
pub fn say_kept(kept: usize, output: &Output) {
    if kept > 0 {
        let entries = counted(kept as u64, "entry is", "entries are");
        output.notice(format!("{entries} gone here and kept at the depot"));
    }
}
