//! What the walk reads of an entry beyond its status: owner, attributes, and whether it is another name of a file.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::Stat;
use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Extra};

use crate::Keep;
use crate::contents::hash_file;
use crate::listing::is_file;
use crate::owners::Owners;
use crate::xattrs;

/// What a walk reads of each entry beyond its status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// What is kept of it.
    pub keep: Keep,
    /// The hash of its content, by which the receiver compares.
    pub content: bool,
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
        let Reading { keep, content } = self.reading;
        let owner = keep.owner.then(|| self.owners.of(stat.st_uid, stat.st_gid));
        let (xattrs, lost) = match xattrs::read(folder, name, keep) {
            Ok(xattrs) => (xattrs, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        // A file that cannot be read is found out when it is sent.
        let content = (content && is_file(stat)).then(|| hash_file(folder, name).ok()).flatten();
        (Extra { owner, same_as: None, xattrs, content }.into_option(), lost)
    }

    // Not every system has these in 64 bits.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    pub(super) fn inode(&self, stat: &Stat) -> Option<Inode> {
        let names = stat.st_nlink as u64;
        let several = self.reading.keep.hard_links && is_file(stat) && names > 1;
        several.then_some(Inode { device: stat.st_dev as u64, number: stat.st_ino as u64, names })
    }
}

/// First names of files of which more names may come.
#[derive(Default)]
pub(super) struct Names {
    first: HashMap<(u64, u64), (EntryPath, u64)>,
}

impl Names {
    /// The first name of a file is an entry as any other. The next ones have no bytes and say which the first was.
    pub(super) fn handle_found(&mut self, entry: &mut Entry, inode: Inode) {
        let key = (inode.device, inode.number);
        let Some((first, left)) = self.first.get_mut(&key) else {
            self.first.insert(key, (entry.path.clone(), inode.names - 1));
            return;
        };
        entry.kind = EntryKind::File { size: ByteCount(0) };
        let extra = entry.extra.get_or_insert_default();
        extra.same_as = Some(first.clone());
        extra.content = None;
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.first.remove(&key);
        }
    }
}
