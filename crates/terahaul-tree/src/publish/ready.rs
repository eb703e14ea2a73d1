//! What an interrupted publishing had ready to move: the file `ready` of the staging folder, with a bit for each entry.
//!
//! Each run decides anew what it wants, so this does not say what is to be published. It tells what may have got its name already
//! from what never was staged.

use std::io::{self, Write};

use rustix::fs::OFlags;
use terahaul_core::EntryIndex;

use crate::TreeSink;
use crate::failpoint;
use crate::read_only::open_own;
use crate::staging::Staging;
use crate::table::RowKind;

/// A set of entries.
#[derive(Debug, Default)]
pub(crate) struct Ready(Vec<u8>);

impl Ready {
    /// As an earlier run has left it.
    pub(crate) fn read(staging: &Staging) -> io::Result<Self> {
        staging.read_left("ready").map(Self)
    }

    fn write(&self, staging: &Staging) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut file = std::fs::File::from(open_own(&staging.folder, b"ready.new", flags)?);
        file.write_all(&self.0)?;
        file.sync_all()?;
        failpoint::point()?;
        rustix::fs::renameat(&staging.folder, "ready.new", &staging.folder, "ready")?;
        Ok(rustix::fs::fsync(&staging.folder)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, EntryIndex(entry): EntryIndex) -> bool {
        self.0.get(entry as usize / 8).is_some_and(|byte| byte >> (entry % 8) & 1 == 1)
    }

    fn insert(&mut self, EntryIndex(entry): EntryIndex) {
        let at = entry as usize / 8;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (entry % 8);
    }
}

impl TreeSink {
    /// All that is wanted is staged, durable, and about to be moved. A folder that was there already is not.
    pub(super) fn mark_ready(&self) -> io::Result<()> {
        let mut ready = Ready::default();
        for item in self.wanted(0..self.entry_count()) {
            let is_there = || {
                let path = self.manifest().table.path(item.index);
                path.is_some_and(|path| self.status_there(path.as_bytes()).is_some())
            };
            if item.kind != RowKind::Directory || self.ready.contains(item.index) || !is_there() {
                ready.insert(item.index);
            }
        }
        ready.write(&self.staging)
    }
}
