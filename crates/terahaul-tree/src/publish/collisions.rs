//! What is in the receiving folder already.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use terahaul_core::{Entry, EntryIndex, EntryKind};

use super::{Item, Overwrite, PublishError};
use crate::TreeSink;
use crate::beneath::{Purpose, is_blocked, joined, open_child, open_folder, printable};
use crate::decision::{Leeway, same_time};
use crate::listing::{Status, status_of};
use crate::recent::Recent;
use crate::staging::is_fat;
use crate::table::{FolderId, RowKind};
use crate::walk::is_in_mount_of;

/// Something that has the name of a received entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The path in the receiving folder, as it is there.
    pub path: Vec<u8>,
    /// What is there: `a file`, `a folder`, ….
    pub existing: &'static str,
    /// Whether [`Overwrite::Replace`] would replace it.
    pub replaceable: bool,
}

/// What is in an entry's place before it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing.
    Absent,
    /// The same by kind, size and modification time (a link: by its text; a folder: any folder).
    Same,
    /// A folder, and the entry is none.
    Folder,
    /// Another file, or something else that is no folder; the text says what.
    Other(&'static str),
    /// The place is below something that is no folder.
    Blocked,
    /// A file is mounted onto what is there, which may be the same.
    Mounted {
        /// As [`Same`](Self::Same).
        same: bool,
    },
    /// The place is in a folder of another file system or mount, where nothing that is received gets by a rename. What is there may be the same.
    Elsewhere {
        /// As [`Same`](Self::Same).
        same: bool,
    },
}

/// Named in an error; there may be a million more.
const MOST_NAMED: usize = 100;

pub(super) fn describe(collisions: &[Collision]) -> String {
    let Some(first) = collisions.first() else { return "something is in the way".into() };
    let more = match collisions.len() - 1 {
        0 => String::new(),
        more if collisions.len() >= MOST_NAMED => format!(" (and at least {more} more like it)"),
        more => format!(" (and {more} more like it)"),
    };
    let remedy = if collisions.iter().all(|collision| collision.replaceable) {
        "allow it to be overwritten, move it away, or choose another folder"
    } else {
        "move it away, or choose another folder"
    };
    format!("{} exists already as {}{more}: {remedy}", printable(&first.path), first.existing)
}

fn word(status: &Status) -> &'static str {
    match status {
        Status::Entry { kind: EntryKind::File { .. }, .. } => "a file",
        Status::Entry { kind: EntryKind::Directory, .. } => "a folder",
        Status::Entry { kind: EntryKind::Symlink { .. }, .. } => "a symbolic link",
        Status::Special(what) => what,
    }
}

fn is_folder(status: &Status) -> bool {
    matches!(status, Status::Entry { kind: EntryKind::Directory, .. })
}

/// A folder of the manifest, in the receiving folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Absent,
    Folder,
    /// Something else has its name, or that of a folder above it.
    Blocked,
}

/// Looks at folders of the receiving folder, each once.
struct Survey<'a> {
    sink: &'a TreeSink,
    known: HashMap<FolderId, Place>,
    open: Recent<FolderId, OwnedFd>,
    collisions: Vec<Collision>,
}

impl TreeSink {
    /// What is in the entry's place in the receiving folder now. `None` for an entry that was not appended.
    pub fn existing(&self, index: EntryIndex) -> io::Result<Option<Existing>> {
        self.entry(index).map(|entry| existing_below(self.staging.root.as_fd(), &entry)).transpose()
    }

    /// Finds what is in the way of these entries.
    pub(super) fn check_collisions(
        &self,
        entries: Range<usize>,
        overwrite: Overwrite,
    ) -> Result<(), PublishError> {
        let mut survey =
            Survey { sink: self, known: HashMap::new(), open: Recent::new(16), collisions: Vec::new() };
        for item in self.wanted_where(entries, |_, mark| !mark.moved) {
            survey.look(&item, overwrite)?;
            if survey.collisions.len() >= MOST_NAMED {
                break;
            }
        }
        if survey.collisions.is_empty() { Ok(()) } else { Err(PublishError::Collisions(survey.collisions)) }
    }
}

/// A folder that is looked at before anything is received into it; it need not be there.
pub struct ExistingFolder(Option<File>);

impl ExistingFolder {
    /// The folder `dir`.
    pub fn open(dir: &Path) -> io::Result<Self> {
        match File::open(dir) {
            Ok(root) => Ok(Self(Some(root))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    /// What is in the place that `entry` would have in it.
    pub fn existing(&self, entry: &Entry) -> io::Result<Existing> {
        self.0.as_ref().map_or(Ok(Existing::Absent), |root| existing_below(root.as_fd(), entry))
    }
}

fn existing_below(root: BorrowedFd<'_>, entry: &Entry) -> io::Result<Existing> {
    let (folder, name) = entry.path.split();
    let folder = match open_folder(root, folder.unwrap_or_default(), Purpose::Pass) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Absent),
        Err(error) if is_blocked(&error) => return Ok(Existing::Blocked),
        Err(error) => return Err(error),
    };
    let existing = match status_of(folder.as_fd(), name) {
        Ok(status) => {
            let leeway = Leeway { window: 0, even_seconds: is_fat(&folder) };
            compare(entry, status, leeway)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Existing::Absent,
        Err(error) => return Err(error),
    };
    let same = existing == Existing::Same;
    // Of a folder that something is mounted onto only what is in it is elsewhere.
    let may_be_mounted =
        (same || matches!(existing, Existing::Other(_))) && entry.kind != EntryKind::Directory;
    Ok(if !is_in_mount_of(root, folder.as_fd(), b"")? {
        Existing::Elsewhere { same }
    } else if may_be_mounted && !is_in_mount_of(root, folder.as_fd(), name)? {
        Existing::Mounted { same }
    } else {
        existing
    })
}

fn compare(entry: &Entry, status: Status, leeway: Leeway) -> Existing {
    let (what, is_folder) = (word(&status), is_folder(&status));
    let same = match status {
        Status::Special(_) => false,
        // Only a file's time tells anything of what it holds.
        Status::Entry { kind, mtime, .. } => {
            let is_dated = !matches!(kind, EntryKind::File { .. }) || same_time(entry.mtime, mtime, leeway);
            entry.kind == kind && is_dated
        }
    };
    match (same, is_folder) {
        (true, _) => Existing::Same,
        (false, true) => Existing::Folder,
        (false, false) => Existing::Other(what),
    }
}

impl Survey<'_> {
    fn look(&mut self, item: &Item, overwrite: Overwrite) -> io::Result<()> {
        if self.place(item.folder)? != Place::Folder {
            return Ok(());
        }
        let folder = self.folder(item.folder)?;
        let status = match status_of(folder.as_fd(), &item.name) {
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let fits = match (item.kind, is_folder(&status)) {
            (RowKind::Directory, there) => there,
            (RowKind::File | RowKind::Symlink, true) => false,
            (RowKind::File | RowKind::Symlink, false) => overwrite == Overwrite::Replace,
        };
        if !fits {
            let replaceable = item.kind != RowKind::Directory && !is_folder(&status);
            let above = self.sink.manifest().table.folder_path(item.folder);
            self.add(joined(&above, &item.name), word(&status), replaceable);
        }
        Ok(())
    }

    fn place(&mut self, folder: FolderId) -> io::Result<Place> {
        if folder == FolderId::TOP {
            return Ok(Place::Folder);
        }
        if let Some(&known) = self.known.get(&folder) {
            return Ok(known);
        }
        let (parent, name) = {
            let manifest = self.sink.manifest();
            let (parent, name) = manifest.table.folder(folder);
            (parent, name.to_vec())
        };
        let mut place = self.place(parent)?;
        if place == Place::Folder {
            let path = || self.sink.manifest().table.folder_path(folder);
            place = match status_of(self.folder(parent)?.as_fd(), &name) {
                Ok(status) if is_folder(&status) => Place::Folder,
                Ok(status) => {
                    self.add(path(), word(&status), false);
                    Place::Blocked
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Place::Absent,
                Err(error) => return Err(error),
            };
        }
        self.known.insert(folder, place);
        Ok(place)
    }

    fn folder(&self, folder: FolderId) -> io::Result<Arc<OwnedFd>> {
        self.open.find_or_open(folder, || {
            if folder == FolderId::TOP {
                return open_child(self.sink.staging.root.as_fd(), b"", Purpose::Pass);
            }
            let path = self.sink.manifest().table.folder_path(folder);
            open_folder(self.sink.staging.root.as_fd(), &path, Purpose::Pass)
        })
    }

    fn add(&mut self, path: Vec<u8>, existing: &'static str, replaceable: bool) {
        // A folder is looked at for itself and for what is in it.
        if self.collisions.iter().any(|known| known.path == path) {
            return;
        }
        self.collisions.push(Collision { path, existing, replaceable });
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{ByteCount, EntryPath, Mtime};

    use super::*;

    /// Over SFTP, and on NTFS and exFAT: what had been received was in its own way in the next run.
    #[test]
    fn a_file_whose_time_a_file_system_has_cut_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "1234").unwrap();
        let found = Mtime { seconds: 1_000_000_001, nanos: 123_456_700 };
        let at = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_001, found.nanos);
        std::fs::File::open(dir.path().join("f")).unwrap().set_modified(at).unwrap();
        let folder = ExistingFolder::open(dir.path()).unwrap();
        let existing = |size, seconds, nanos| {
            let kind = EntryKind::File { size: ByteCount(size) };
            let (path, mtime) = (EntryPath::new(b"f".as_slice()).unwrap(), Mtime { seconds, nanos });
            folder.existing(&Entry { path, kind, mtime, mode: 0o644, extra: None }).unwrap()
        };
        assert_eq!(existing(4, found.seconds, 123_456_789), Existing::Same);
        assert_eq!(existing(4, found.seconds, 123_456_600), Existing::Other("a file"));
        assert_eq!(existing(4, found.seconds + 1, found.nanos), Existing::Other("a file"));
        assert_eq!(existing(5, found.seconds, found.nanos), Existing::Other("a file"));
    }
}
