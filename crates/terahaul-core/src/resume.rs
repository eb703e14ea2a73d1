//! Matching what a sender finds now with what the manifest already says.
//!
//! The manifest is append-only. An entry that is as it was keeps its index, and its durable blocks are not sent or
//! hashed again. One that changed fails, by name, and what is there now is appended as a new entry. One that is not found
//! fails if it is not durable yet, or if what is there now leaves it no place.

use std::collections::BTreeMap;

use crate::path::take_below;
use crate::{Entry, EntryIndex, EntryKind, EntryPath};

/// What to do with an entry that the sender found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is in the manifest, unchanged.
    Known(EntryIndex),
    /// It is not in the manifest: append it.
    New,
    /// The manifest's entry is no longer what is there: fail that one, append this one.
    Changed(EntryIndex),
}

/// An entry of the manifest that the sender did not find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Which.
    pub index: EntryIndex,
    /// As the manifest has it.
    pub entry: Entry,
    /// What was a folder above it is a file or a link now: the two cannot both arrive.
    pub displaced: bool,
}

/// The entries of a manifest that a new run has not met yet.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    unmet: BTreeMap<EntryPath, (EntryIndex, Entry)>,
    displaced: Vec<(EntryIndex, Entry)>,
}

impl Resume {
    /// Starts from the manifest's live entries (those that have not failed). A later entry stands for an earlier one
    /// of the same path.
    pub fn new(live: impl IntoIterator<Item = (EntryIndex, Entry)>) -> Self {
        let unmet = live.into_iter().map(|(index, entry)| (entry.path.clone(), (index, entry))).collect();
        Self { unmet, displaced: Vec::new() }
    }

    /// The sender found `entry`.
    pub fn handle_found(&mut self, entry: &Entry) -> Disposition {
        let known = self.unmet.remove(&entry.path);
        // Also where an earlier run has told of it: that run may have ended before it failed what has no place any more.
        if entry.kind != EntryKind::Directory {
            self.displace_below(&entry.path);
        }
        match known {
            None => Disposition::New,
            Some((index, known)) if known.is_as(entry) => Disposition::Known(index),
            Some((index, _)) => Disposition::Changed(index),
        }
    }

    fn displace_below(&mut self, path: &EntryPath) {
        if !self.unmet.is_empty() {
            self.displaced.extend(take_below(&mut self.unmet, path));
        }
    }

    /// What the manifest has and the sender did not find.
    pub fn into_absent(self) -> impl Iterator<Item = Absent> {
        let absent = |displaced| move |(index, entry)| Absent { index, entry, displaced };
        self.displaced.into_iter().map(absent(true)).chain(self.unmet.into_values().map(absent(false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteCount, Mtime};

    fn file(path: &str, size: u64, seconds: i64) -> Entry {
        Entry {
            path: EntryPath::new(path.as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(size) },
            mtime: Mtime { seconds, nanos: 0 },
            mode: 0o644,
            extra: None,
        }
    }

    #[test]
    fn only_unchanged_files_are_taken_as_known() {
        let manifest = [file("same", 5, 1), file("grown", 5, 1), file("touched", 5, 1), file("gone", 5, 1)];
        let mut resume = Resume::new((0..).map(EntryIndex).zip(manifest));
        assert_eq!(resume.handle_found(&file("same", 5, 1)), Disposition::Known(EntryIndex(0)));
        assert_eq!(resume.handle_found(&file("grown", 6, 1)), Disposition::Changed(EntryIndex(1)));
        assert_eq!(resume.handle_found(&file("touched", 5, 2)), Disposition::Changed(EntryIndex(2)));
        assert_eq!(resume.handle_found(&file("new", 5, 1)), Disposition::New);
        let folder = |path, at| Entry { kind: EntryKind::Directory, ..file(path, 0, at) };
        let mut folders = Resume::new((0..).map(EntryIndex).zip([folder("kept", 1), folder("filled", 1)]));
        assert_eq!(folders.handle_found(&folder("kept", 1)), Disposition::Known(EntryIndex(0)));
        assert_eq!(
            folders.handle_found(&folder("filled", 2)),
            Disposition::Changed(EntryIndex(1)),
            "its time is kept"
        );
        let absent: Vec<_> = resume.into_absent().map(|absent| (absent.index, absent.displaced)).collect();
        assert_eq!(absent, [(EntryIndex(3), false)]);
    }

    #[test]
    fn what_was_in_a_folder_that_is_a_file_now_has_no_place_any_more() {
        let folder = Entry { kind: EntryKind::Directory, ..file("a", 0, 1) };
        let manifest = [folder, file("a/b/c", 5, 1), file("a!", 5, 1), file("aa/b", 5, 1)];
        let mut resume = Resume::new((0..).map(EntryIndex).zip(manifest));
        assert_eq!(resume.handle_found(&file("a", 5, 1)), Disposition::Changed(EntryIndex(0)));
        let absent: Vec<_> = resume.into_absent().map(|absent| (absent.index.0, absent.displaced)).collect();
        assert_eq!(absent, [(1, true), (2, false), (3, false)]);
    }

    /// The transfer was finished with a file and what had been in the folder of its name, which nobody could receive.
    #[test]
    fn it_has_none_either_where_an_earlier_run_has_told_of_the_file_and_ended() {
        let manifest = [file("a/b/c", 5, 1), file("a", 5, 1)];
        let mut resume = Resume::new((0..).map(EntryIndex).zip(manifest));
        assert_eq!(resume.handle_found(&file("a", 5, 1)), Disposition::Known(EntryIndex(1)));
        let absent: Vec<_> = resume.into_absent().map(|absent| (absent.index.0, absent.displaced)).collect();
        assert_eq!(absent, [(0, true)]);
    }
}
