//! One line of a manifest.

use crate::{ByteCount, EntryPath, Extra};

/// A modification time: seconds since 1970 (negative before) and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mtime {
    /// Whole seconds since 1970-01-01 UTC, negative before.
    pub seconds: i64,
    /// Nanoseconds past `seconds`, below 1,000,000,000.
    pub nanos: u32,
}

/// What an entry is. Anything else (a FIFO, a device, a socket) is never an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file of this many bytes.
    File {
        /// Its length when the manifest was made.
        size: ByteCount,
    },
    /// A folder. Listed so that empty ones, modes and times arrive.
    Directory,
    /// A symbolic link; it is recreated, never followed.
    Symlink {
        /// The link's text, as it is; not a validated path.
        target: Box<[u8]>,
    },
}

/// One entry of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where it belongs, relative to the transfer's root.
    pub path: EntryPath,
    /// What it is.
    pub kind: EntryKind,
    /// When it was last modified.
    pub mtime: Mtime,
    /// Permission bits, `0o7777` at most. Set-user-id and the like are carried but not applied by default.
    pub mode: u32,
    /// What else is copied of it, between hosts that both can. `None` in a depot, always.
    pub extra: Option<Box<Extra>>,
}

impl Entry {
    /// The file's size, or `None` for an entry without bytes of its own.
    pub fn file_size(&self) -> Option<ByteCount> {
        match self.kind {
            EntryKind::File { size } => Some(size),
            EntryKind::Directory | EntryKind::Symlink { .. } => None,
        }
    }

    /// Whether this entry is as `other` was, which was declared before: of the same kind, size, time and link target. Permission bits alone
    /// do not count.
    pub fn is_as(&self, other: &Self) -> bool {
        self.path == other.path && self.kind == other.kind && self.mtime == other.mtime
    }
}
