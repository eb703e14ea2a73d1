//! What is in the receiving folder already, looked at in the order of a walk.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use terahaul_core::{Entry, EntryKind, EntryPath, Mtime};

use crate::beneath::{Purpose, open_folder};
use crate::listing::{Status, status_of};

/// Something in an entry's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Something that can be an entry.
    Entry {
        /// What it is.
        kind: EntryKind,
        /// When it was last modified.
        mtime: Mtime,
        /// Its permission bits.
        mode: u32,
    },
    /// Something else; the words say what: `a device`.
    Special(&'static str),
    /// Something above it is not a folder.
    Blocked,
}

/// Looks into the receiving folder. Entries of one folder that come one after the other cost one look each.
pub struct There {
    root: Option<OwnedFd>,
    /// The folder looked into last.
    last: Option<(Vec<u8>, OwnedFd)>,
    /// A folder that is not there, and so nothing in it is.
    absent: Option<Vec<u8>>,
}

impl There {
    /// Looks into `root`, which need not exist.
    pub fn open(root: &Path) -> io::Result<Self> {
        let root = match rustix::fs::openat(CWD, root, Purpose::Pass.flags(), Mode::empty()) {
            Ok(root) => Some(root),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self { root, last: None, absent: None })
    }

    /// What is at `path`. Links are not followed.
    pub fn look(&mut self, path: &EntryPath) -> io::Result<Found> {
        let Some(root) = &self.root else { return Ok(Found::Nothing) };
        let (folder, name) = path.split();
        let folder = folder.unwrap_or_default();
        if self.absent.as_ref().is_some_and(|absent| is_below(folder, absent)) {
            return Ok(Found::Nothing);
        }
        if self.last.as_ref().is_none_or(|(path, _)| path != folder) {
            match open_folder(root.as_fd(), folder, Purpose::Pass) {
                Ok(opened) => self.last = Some((folder.to_vec(), opened)),
                Err(error) => {
                    return match Errno::from_io_error(&error) {
                        Some(Errno::NOENT) => {
                            self.absent = Some(folder.to_vec());
                            Ok(Found::Nothing)
                        }
                        Some(Errno::NOTDIR | Errno::LOOP) => Ok(Found::Blocked),
                        _ => Err(error),
                    };
                }
            }
        }
        let Some((_, folder)) = &self.last else { return Ok(Found::Nothing) };
        match status_of(folder.as_fd(), name) {
            Ok(Status::Entry { kind, mtime, mode }) => Ok(Found::Entry { kind, mtime, mode }),
            Ok(Status::Special(what)) => Ok(Found::Special(what)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// What a copy does with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is copied, and replaces what is there.
    Take,
    /// It is there already, and left as it is.
    Keep,
    /// Something is in its place that is not replaced; the words say what.
    Refuse(&'static str),
}

/// Decides, like `rsync -t`: a file of the same size and time is the same file.
pub fn decide(entry: &Entry, found: &Found) -> Decision {
    use EntryKind::{Directory, File, Symlink};
    match (found, &entry.kind) {
        (Found::Nothing, _) => Decision::Take,
        (Found::Blocked, _) => Decision::Refuse("in what is not a folder"),
        (Found::Entry { kind: Directory, .. }, Directory) => Decision::Keep,
        (Found::Entry { kind: Directory, .. }, _) => Decision::Refuse("as a folder"),
        (Found::Entry { .. } | Found::Special(_), Directory) => {
            Decision::Refuse("as something else than a folder")
        }
        (Found::Special(what), _) => Decision::Refuse(what),
        (Found::Entry { kind, mtime, .. }, File { .. }) if *kind == entry.kind && *mtime == entry.mtime => {
            Decision::Keep
        }
        (Found::Entry { kind, .. }, Symlink { .. }) if *kind == entry.kind => Decision::Keep,
        (Found::Entry { .. }, _) => Decision::Take,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_look_sees_what_is_there_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), "12345").unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let mut there = There::open(dir.path()).unwrap();
        let size = |found| match found {
            Found::Entry { kind: EntryKind::File { size }, .. } => Some(size.0),
            _ => None,
        };
        assert_eq!(size(there.look(&path("a/b/file")).unwrap()), Some(5));
        assert_eq!(there.look(&path("a/none/x/y")).unwrap(), Found::Nothing);
        assert_eq!(there.look(&path("a/none/z")).unwrap(), Found::Nothing);
        assert_eq!(
            size(there.look(&path("a/b/file")).unwrap()),
            Some(5),
            "one that is absent hides no other"
        );
        assert_eq!(there.look(&path("a/b/file/x")).unwrap(), Found::Blocked);
        assert_eq!(there.look(&path("link/b/file")).unwrap(), Found::Blocked);
        let mut nowhere = There::open(&dir.path().join("none")).unwrap();
        assert_eq!(nowhere.look(&path("a")).unwrap(), Found::Nothing);
    }

    #[test]
    fn a_file_of_the_same_size_and_time_is_kept_and_a_folder_is_never_replaced() {
        let mtime = Mtime { seconds: 5, nanos: 6 };
        let file = |size| EntryKind::File { size: terahaul_core::ByteCount(size) };
        let entry = |kind| Entry { path: path("x"), kind, mtime, mode: 0o644, extra: None };
        let found = |kind, mtime| Found::Entry { kind, mtime, mode: 0o600 };
        let later = Mtime { seconds: 6, nanos: 6 };
        assert_eq!(decide(&entry(file(1)), &found(file(1), mtime)), Decision::Keep);
        assert_eq!(decide(&entry(file(1)), &found(file(1), later)), Decision::Take);
        assert_eq!(decide(&entry(file(1)), &found(file(2), mtime)), Decision::Take);
        assert_eq!(decide(&entry(EntryKind::Directory), &found(EntryKind::Directory, later)), Decision::Keep);
        assert!(matches!(decide(&entry(file(1)), &found(EntryKind::Directory, mtime)), Decision::Refuse(_)));
        assert!(matches!(decide(&entry(EntryKind::Directory), &found(file(1), mtime)), Decision::Refuse(_)));
        assert!(matches!(decide(&entry(file(1)), &Found::Special("a device")), Decision::Refuse(_)));
    }
}
