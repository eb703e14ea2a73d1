//! What the walk reads of an entry beyond its status: owner, attributes, and whether it is another name of a file.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::Stat;
use terahaul_core::{BLOCK_SIZE, ByteCount, Entry, EntryKind, EntryPath, Extra, Mtime};

use crate::Keep;
use crate::contents::hash_file;
use crate::listing::{change_of, file_of, is_file, size_of_file};
use crate::owners::Owners;
use crate::xattrs;

/// What a walk reads of each entry beyond its status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// What is kept of it.
    pub keep: Keep,
    /// The hash of its content, by which the receiver compares.
    pub content: bool,
    /// When a file of a block or more was last changed in any way.
    pub changes: bool,
}

pub(crate) struct Carried {
    reading: Reading,
    owners: Owners,
}

/// A file that has several names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inode {
    device: u64,
    number: u64,
    names: u64,
}

impl Carried {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { reading, owners: Owners::new(reading.keep.numeric_ids) }
    }

    /// Reads what is kept of `name` in `folder`: the owner even where its attributes are too many, which the error says.
    pub(crate) fn read(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
    ) -> (Option<Box<Extra>>, Option<io::Error>) {
        let Reading { keep, content, changes } = self.reading;
        let owner = keep.owner.then(|| self.owners.of(stat.st_uid, stat.st_gid));
        let (xattrs, lost) = match xattrs::read(folder, name, keep) {
            Ok(xattrs) => (xattrs, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        // A file that cannot be read is found out when it is sent.
        let content = (content && is_file(stat)).then(|| hash_file(folder, name).ok()).flatten();
        let is_large = is_file(stat) && size_of_file(stat) >= BLOCK_SIZE;
        let changed = (changes && is_large).then(|| change_of(stat));
        (Extra { owner, same_as: None, xattrs, content, changed }.into_option(), lost)
    }

    // Not every system has it in 64 bits.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    pub(super) fn inode(&self, stat: &Stat) -> Option<Inode> {
        let names = stat.st_nlink as u64;
        let several = self.reading.keep.hard_links && is_file(stat) && names > 1;
        let (device, number) = file_of(stat);
        several.then_some(Inode { device, number, names })
    }
}

/// First names of files of which more names may come.
#[derive(Default)]
pub(super) struct Names {
    first: HashMap<(u64, u64), First>,
}

struct First {
    path: EntryPath,
    /// As it was found.
    mtime: Mtime,
    size: Option<ByteCount>,
    /// Names that may come.
    left: u64,
}

impl Names {
    /// The first name of a file is an entry as any other. The next ones have no bytes and say which the first was. Of a file that was
    /// removed since its first name was found, another may have the number by now: so one of another size or time is another.
    pub(super) fn handle_found(&mut self, entry: &mut Entry, inode: Inode) {
        let key = (inode.device, inode.number);
        let (mtime, size) = (entry.mtime, entry.file_size());
        let known = self.first.get_mut(&key).filter(|first| (first.mtime, first.size) == (mtime, size));
        let Some(First { path, left, .. }) = known else {
            let left = inode.names - 1;
            self.first.insert(key, First { path: entry.path.clone(), mtime, size, left });
            return;
        };
        entry.kind = EntryKind::File { size: ByteCount(0) };
        let extra = entry.extra.get_or_insert_default();
        extra.same_as = Some(path.clone());
        (extra.content, extra.changed) = (None, None);
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.first.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It arrived with the content of the file that was gone.
    #[test]
    fn a_file_that_has_the_number_of_one_that_is_gone_is_no_other_name_of_it() {
        let entry = |path: &str, seconds: i64| Entry {
            path: EntryPath::new(path.as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(3) },
            mtime: Mtime { seconds, nanos: 0 },
            mode: 0o644,
            extra: None,
        };
        let mut names = Names::default();
        let mut found = |mut entry: Entry| {
            names.handle_found(&mut entry, Inode { device: 1, number: 2, names: 2 });
            entry.extra.and_then(|extra| extra.same_as).map(|path| path.to_string())
        };
        assert_eq!(found(entry("gone", 5)), None);
        assert_eq!(found(entry("new", 6)), None);
        assert_eq!(found(entry("new-too", 6)), Some("new".to_owned()));
    }
}
