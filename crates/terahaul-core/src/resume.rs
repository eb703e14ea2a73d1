//! Matching what a sender finds now with what the manifest already says.
//!
//! The manifest is append-only. An entry that is as it was keeps its index, and its durable blocks are not sent or
//! hashed again. One that changed or vanished fails, by name, and what is there now is appended as a new entry.

use std::collections::BTreeMap;

use crate::{Entry, EntryIndex, EntryPath};

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

/// The entries of a manifest that a new run has not met yet.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    unmet: BTreeMap<EntryPath, (EntryIndex, Entry)>,
}

impl Resume {
    /// Starts from the manifest's live entries (those that have not failed). A later entry stands for an earlier one
    /// of the same path.
    pub fn new(live: impl IntoIterator<Item = (EntryIndex, Entry)>) -> Self {
        Self { unmet: live.into_iter().map(|(index, entry)| (entry.path.clone(), (index, entry))).collect() }
    }

    /// The sender found `entry`.
    pub fn handle_found(&mut self, entry: &Entry) -> Disposition {
        match self.unmet.remove(&entry.path) {
            None => Disposition::New,
            Some((index, known)) if known.same_content_as(entry) => Disposition::Known(index),
            Some((index, _)) => Disposition::Changed(index),
        }
    }

    /// What the manifest has and the sender did not find.
    pub fn into_vanished(self) -> impl Iterator<Item = (EntryIndex, Entry)> {
        self.unmet.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteCount, EntryKind, Mtime};

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
        let vanished: Vec<_> = resume.into_vanished().map(|(index, _)| index).collect();
        assert_eq!(vanished, [EntryIndex(3)]);
    }
}
