//! What the walk has found, with what is asked about it.

use terahaul_core::{Entry, EntryKind};
use terahaul_tree::{Fingerprinter, FoldersAbove};

use super::{Answer, Asked, PRINT, Question};
use crate::greeting::LONGEST_ANSWER;

/// Bytes of a question, but for its last folder's.
const ENOUGH: usize = 64 << 10;

/// No more is asked about its last folder beyond so many: CBOR adds less to them than is left of a message.
const MOST: usize = LONGEST_ANSWER - ENOUGH;

/// Some entries, in the manifest's order.
#[derive(Default)]
pub(crate) struct Found {
    entries: Vec<Entry>,
    /// Which of them the question is about, by their positions.
    asked: Vec<u32>,
    pub(super) question: Question,
    /// About the question's length.
    bytes: usize,
}

impl Found {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    fn begin(&mut self, path: &[u8], own: Option<terahaul_tree::Fingerprint>) {
        self.question.folders.push(Asked::new(path, own));
        self.bytes += path.len() + 2 * PRINT;
    }

    /// Those that are not alike, and the folders above them.
    pub(super) fn sift(self, answer: &Answer, above: &mut FoldersAbove) -> Vec<Entry> {
        let mut asked = self.asked.into_iter().enumerate().peekable();
        let mut left = Vec::new();
        for (at, entry) in self.entries.into_iter().enumerate() {
            let question = asked.next_if(|(_, asked)| *asked as usize == at);
            let is_alike = question.is_some_and(|(bit, _)| answer.is_alike(bit));
            match &entry.kind {
                EntryKind::Directory if is_alike => above.enter(entry),
                EntryKind::File { .. } | EntryKind::Symlink { .. } if is_alike => {}
                _ => {
                    left.extend(above.declare(entry.path.as_bytes()));
                    left.push(entry);
                }
            }
        }
        left
    }
}

/// Makes questions of what is found.
pub(crate) struct Asker {
    maker: Fingerprinter,
    /// Files at the top are asked about: they are in a folder whose content is sent.
    at_top: bool,
}

impl Asker {
    pub(crate) fn new(key: [u8; 32], top_is_content: bool) -> Self {
        Self { maker: Fingerprinter::new(key), at_top: top_is_content }
    }

    /// Adds the walk's next entries to what is the last of `found`, as long as that is short enough.
    pub(crate) fn add(&mut self, entries: Vec<Entry>, found: &mut impl Extend<Found>, mut last: Found) {
        for entry in entries {
            let is_folder = entry.kind == EntryKind::Directory;
            if is_folder && last.bytes > ENOUGH {
                found.extend([std::mem::take(&mut last)]);
            }
            self.push(&mut last, entry);
        }
        found.extend([last]);
    }

    fn push(&mut self, to: &mut Found, entry: Entry) {
        let (folder, _) = entry.path.split();
        let at = to.entries.len() as u32;
        if entry.kind == EntryKind::Directory {
            to.begin(entry.path.as_bytes(), Some(self.maker.of(&entry)));
            to.asked.push(at);
            self.at_top = false;
        } else {
            if self.at_top && folder.is_none() && to.question.folders.is_empty() {
                to.begin(b"", None);
            }
            // A folder is asked about once: one that the walk comes back to is huge, and would be looked through each time.
            let folders = &mut to.question.folders;
            let is_last = |last: &&mut Asked| last.path == folder.unwrap_or_default() && to.bytes < MOST;
            if let Some(last) = folders.last_mut().filter(is_last) {
                last.push(self.maker.of(&entry));
                to.asked.push(at);
                to.bytes += PRINT;
            }
        }
        to.entries.push(entry);
    }
}
