//! What the user asked to send: each path as typed, and where its entries hang in the transfer.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, Stat};
use rustix::io::Errno;
use terahaul_core::{EntryKind, EntryPath, PathError};
use terahaul_store::remedy_of_too_many_files;

use crate::Filter;
use crate::beneath::{Purpose, open_folder};
use crate::filter::Verdict;
use crate::listing::{Status, is_removed, names_in, status_of};
use crate::staging::is_unfinished_name;

/// Why the paths cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It is not there.
    #[error("{0} does not exist: {remedy}", remedy = remedy_of_missing(.0))]
    Missing(PathBuf),
    /// It cannot be looked at.
    #[error("{path} cannot be opened ({source}): {}", remedy_of_too_many_files(source).unwrap_or("check its permissions"))]
    Unreadable {
        /// The path as typed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its attributes cannot be read, and without them those at the destination would be removed.
    #[error("the attributes of {path} cannot be read ({source}): mend that, or leave out -X and -A")]
    Attributes {
        /// The path as typed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ends in `/` or `.` and is not a folder.
    #[error("{0} is not a folder: leave out the '/' at its end to send it as a file")]
    NotAFolder(PathBuf),
    /// Two of them would arrive under one name.
    #[error(
        "{first} and {second} would both arrive as '{name}': rename one, leave both out with --exclude, or send them separately"
    )]
    SameName {
        /// The name in the transfer.
        name: String,
        /// The path typed first.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Its name cannot be an entry's.
    #[error("{path} cannot be sent under its name: {source}; rename it")]
    BadName {
        /// The path as typed.
        path: PathBuf,
        /// What is wrong with the name.
        source: PathError,
    },
    /// No path was given.
    #[error("nothing to send: give at least one file or folder")]
    Nothing,
}

fn remedy_of_missing(path: &Path) -> &'static str {
    match path.as_os_str().as_bytes() {
        b"-" => "write the stream to a file first, as a stream cannot be sent",
        _ => "check the spelling",
    }
}

/// Files and folders to send. `src` arrives as a folder `src`; `src/` and `.` stand for what is in them.
///
/// An entry's path, taken relative to its root's base folder, is the file itself.
pub struct Roots {
    roots: Vec<Root>,
    /// Which root a first component belongs to: the one that sends it, or else the first that has it. Kept only where there is a choice.
    owners: HashMap<Box<[u8]>, usize>,
}

pub(crate) struct Root {
    /// Shared by those of one folder, of which there may be thousands.
    base: Arc<OwnedFd>,
    base_path: PathBuf,
    pub(crate) typed: PathBuf,
    /// `None`: everything in the base.
    pub(crate) name: Option<Box<[u8]>>,
    /// Nothing of its name was in the base.
    pub(crate) is_gone: bool,
}

impl Roots {
    /// Opens the paths as the user typed them, to send all that is in them.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, RootError> {
        Self::open_filtered(paths, &Filter::default())
    }

    /// As [`open`](Self::open), to send what the filter selects: nothing else of theirs is in the way of another's.
    pub fn open_filtered<P: AsRef<Path>>(paths: &[P], filter: &Filter) -> Result<Self, RootError> {
        let roots = Self::open_some(paths, filter)?;
        let missing = roots.gone().next().map(|(typed, _)| RootError::Missing(typed.into()));
        missing.map_or(Ok(roots), Err)
    }

    /// The same where what an earlier run has sent may have been removed since: what is not there, in a folder that is, is [gone](Self::gone).
    pub fn open_some<P: AsRef<Path>>(paths: &[P], filter: &Filter) -> Result<Self, RootError> {
        let mut roots = Vec::<Root>::with_capacity(paths.len());
        for path in paths {
            roots.push(Root::open(path.as_ref(), roots.last())?);
        }
        if roots.is_empty() {
            return Err(RootError::Nothing);
        }
        let mut owners = HashMap::new();
        if roots.len() > 1 {
            for (at, root) in roots.iter().enumerate() {
                for name in root.top_names()? {
                    match owners.get(&name).map(|other: &usize| &roots[*other]) {
                        Some(_) if !root.may_send(&name, filter) => {}
                        Some(other) if other.may_send(&name, filter) => {
                            let name = String::from_utf8_lossy(&name).into_owned();
                            let (first, second) = (other.typed.clone(), root.typed.clone());
                            return Err(RootError::SameName { name, first, second });
                        }
                        _ => drop(owners.insert(name, at)),
                    }
                }
            }
        }
        Ok(Self { roots, owners })
    }

    /// Folders that stand for their content can be read. Better known before anything is said of that, which an earlier run may
    /// have found.
    pub fn check_contents(&self) -> Result<(), RootError> {
        for root in self.roots.iter().filter(|root| root.name.is_none()) {
            open_folder(root.base(), b"", Purpose::List)
                .map_err(|source| RootError::Unreadable { path: root.typed.clone(), source })?;
        }
        Ok(())
    }

    /// What was named on the command line and was not there, and what it was called in the transfer.
    pub fn gone(&self) -> impl Iterator<Item = (&Path, EntryPath)> {
        let gone = self.roots.iter().filter(|root| root.is_gone);
        gone.filter_map(|root| Some((root.typed.as_path(), EntryPath::new(root.name.clone()?).ok()?)))
    }

    /// A name for the transfer: the first path's own.
    pub fn suggested_name(&self) -> String {
        let root = &self.roots[0];
        let absolute = || root.base_path.canonicalize().ok()?.file_name().map(OsStr::to_os_string);
        let name = match &root.name {
            Some(name) => OsStr::from_bytes(name).to_os_string(),
            None => absolute().unwrap_or_else(|| "files".into()),
        };
        name.to_string_lossy().into_owned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    /// The base folder under which the file of this path lies. `None` for what is not of these roots.
    pub(crate) fn base_of(&self, path: &[u8]) -> Option<BorrowedFd<'_>> {
        self.root_of(path).map(Root::base)
    }

    /// Whether that folder is itself what was named, and has all of its content sent.
    pub(crate) fn is_content(&self, path: &[u8]) -> bool {
        self.root_of(path).is_some_and(|root| root.name.is_none())
    }

    /// What that folder and those above it are now, as far as they can be looked at.
    pub(crate) fn folders_above(&self, path: &[u8]) -> Vec<Stat> {
        let base = self.root_of(path).and_then(|root| root.base_path.canonicalize().ok()).unwrap_or_default();
        base.ancestors().filter_map(|folder| rustix::fs::stat(folder).ok()).collect()
    }

    fn root_of(&self, path: &[u8]) -> Option<&Root> {
        let first = path.split(|&b| b == b'/').next().unwrap_or_default();
        let root = match self.roots.as_slice() {
            [only] => only,
            several => several.get(*self.owners.get(first)?)?,
        };
        root.name.as_deref().is_none_or(|name| name == first).then_some(root)
    }

    /// Whether there is something of this path, or it cannot be said that there is not.
    pub fn has(&self, path: &EntryPath) -> bool {
        let Some(base) = self.base_of(path.as_bytes()) else { return false };
        let found = rustix::fs::statat(base, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
        !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// What a file is called in the transfer, given its path from the root on, without links in it. `None` if it is of none of these roots.
    pub fn path_of(&self, file: &Path) -> Option<EntryPath> {
        self.roots.iter().find_map(|root| {
            let path = file.strip_prefix(root.base_path.canonicalize().ok()?).ok()?;
            let first = path.components().next()?.as_os_str().as_bytes();
            let is_below = root.name.as_deref().is_none_or(|name| name == first);
            is_below.then(|| EntryPath::new(path.as_os_str().as_bytes()).ok()).flatten()
        })
    }

    /// What was named on the command line and has, or had, an entry of this path in it: `None` for what was named itself. Where several
    /// folders stand for their content, nobody can say any more which of them it was in, and the first stands for all.
    pub fn root_above(&self, path: &EntryPath) -> Option<&Path> {
        let mut components = path.components();
        let first = components.next().unwrap_or_default();
        let owner = match self.roots.as_slice() {
            [only] => Some(only),
            _ => self.owners.get(first).map(|at| &self.roots[*at]),
        };
        match owner {
            Some(Root { name: Some(name), typed, .. }) if **name == *first => {
                components.next().is_some().then_some(typed.as_path())
            }
            _ => self.roots.iter().find(|root| root.name.is_none()).map(|root| root.typed.as_path()),
        }
    }

    /// Whether what has, or had, an entry of this path in it is not to be known: it is in none of several roots.
    pub fn is_nowhere(&self, path: &EntryPath) -> bool {
        let first = path.components().next().unwrap_or_default();
        self.roots.len() > 1 && !self.owners.contains_key(first)
    }

    /// The folders that stand for their content.
    pub fn contents(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().filter(|root| root.name.is_none()).map(|root| root.typed.as_path())
    }

    /// Whether `root` is where entries of this first component come from.
    pub(crate) fn owns(&self, root: usize, first: &[u8]) -> bool {
        self.roots.len() == 1 || self.owners.get(first) == Some(&root)
    }
}

impl Root {
    /// `before` is the one that was typed before it.
    fn open(typed: &Path, before: Option<&Self>) -> Result<Self, RootError> {
        let bytes = typed.as_os_str().as_bytes();
        let last = bytes.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let contents = matches!(last, b"" | b"." | b"..") && !bytes.is_empty();
        let (base_path, name) = if contents {
            (typed.to_path_buf(), None)
        } else {
            let parent = &bytes[..bytes.len() - last.len()];
            let parent = if parent.is_empty() { b".".as_slice() } else { parent };
            (PathBuf::from(OsStr::from_bytes(parent)), Some(Box::<[u8]>::from(last)))
        };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RootError::Missing(typed.into()),
            io::ErrorKind::NotADirectory => RootError::NotAFolder(typed.into()),
            _ => RootError::Unreadable { path: typed.into(), source },
        };
        let base = match before.filter(|before| before.base_path == base_path) {
            Some(before) => Arc::clone(&before.base),
            None => rustix::fs::openat(CWD, &base_path, Purpose::Pass.flags(), Mode::empty())
                .map(Arc::new)
                .map_err(|errno| failed(errno.into()))?,
        };
        let mut is_gone = false;
        if name.is_none() && is_removed(base.as_fd()) {
            return Err(RootError::Missing(typed.into()));
        }
        if let Some(name) = &name {
            EntryPath::new(name.clone())
                .map_err(|source| RootError::BadName { path: typed.into(), source })?;
            match rustix::fs::statat(&*base, &**name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => {}
                Err(Errno::NOENT) => is_gone = true,
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        Ok(Self { base, base_path, typed: typed.into(), name, is_gone })
    }

    pub(crate) fn base(&self) -> BorrowedFd<'_> {
        self.base.as_fd()
    }

    /// The path as the user would write it. A folder that stands for its content ends in a slash.
    pub(crate) fn display_path(&self, path: &[u8]) -> PathBuf {
        let is_here = self.base_path == Path::new(".") && !path.is_empty();
        let path = Path::new(OsStr::from_bytes(path));
        if is_here { path.to_path_buf() } else { self.base_path.join(path) }
    }

    /// Whether a walk may send something of this name. What cannot be looked at may be a folder, or none.
    fn may_send(&self, name: &[u8], filter: &Filter) -> bool {
        let may_be_folder: &[bool] = match status_of(self.base(), name) {
            _ if is_unfinished_name(name) => &[],
            Ok(Status::Entry { kind: EntryKind::Directory, .. }) => &[true],
            Ok(Status::Entry { .. }) => &[false],
            Ok(Status::Special(_)) => &[],
            Err(_) => &[true, false],
        };
        may_be_folder.iter().any(|is_folder| filter.judge(name, *is_folder, false) != Verdict::Out)
    }

    fn top_names(&self) -> Result<Vec<Box<[u8]>>, RootError> {
        match &self.name {
            Some(name) => Ok(vec![name.clone()]),
            None => names_in(self.base(), b"")
                .map_err(|source| RootError::Unreadable { path: self.typed.clone(), source })
                .map(|names| names.into_iter().map(Vec::into_boxed_slice).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rule, Sense};
    use std::fs;

    #[test]
    fn two_roots_of_one_name_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/data", "b/data", "c"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("c/data"), "x").unwrap();
        for second in ["b/data", "c/", "a/data"] {
            let paths = [dir.path().join("a/data"), dir.path().join(second)];
            assert!(matches!(Roots::open(&paths), Err(RootError::SameName { name, .. }) if name == "data"));
        }
        assert!(Roots::open(&[dir.path().join("a/data"), dir.path().join("c")]).is_ok());
    }

    /// Two folders that had a `.git` each could not be sent together, though it was left out.
    #[test]
    fn what_is_not_sent_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/.git", "b/.git", "a/kind"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for file in ["b/kind", "a/p", "b/q", "b/pipe"] {
            fs::write(dir.path().join(file), "x").unwrap();
        }
        for pipe in ["a/pipe", "a/fifo", "b/fifo"] {
            rustix::fs::mkfifoat(CWD, dir.path().join(pipe), Mode::RUSR).unwrap();
        }
        let paths = ["a/", "b/"].map(|name| dir.path().join(name));
        let leaving_out = |patterns: &[&str]| {
            let rule = |pattern: &&str| Rule { sense: Sense::Exclude, pattern: pattern.as_bytes().into() };
            Filter::ordered(&patterns.iter().map(rule).collect::<Vec<_>>()).unwrap()
        };
        for (patterns, clashing) in [(&[][..], ".git"), (&[".git"], "kind"), (&["kind/"], ".git")] {
            let opened = Roots::open_filtered(&paths, &leaving_out(patterns)).map(drop);
            let error = opened.unwrap_err();
            assert!(matches!(&error, RootError::SameName { name, .. } if name == clashing), "{error}");
            assert!(error.to_string().contains("--exclude"), "{error}");
        }
        let filter = leaving_out(&[".git", "kind/"]);
        let roots = Roots::open_filtered(&paths, &filter).unwrap();
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        crate::walk(&roots, &filter, 0, |batch| {
            found.extend(batch.found.iter().map(|entry| entry.path.to_text()));
            skipped.extend(batch.skipped.into_iter().map(|skipped| skipped.path));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(found, ["p", "kind", "pipe", "q"]);
        assert_eq!(skipped, ["a/fifo", "a/pipe", "b/fifo"].map(|pipe| dir.path().join(pipe)));
        assert!(["kind", "pipe"].iter().all(|name| roots.owns(1, name.as_bytes())));
    }

    #[test]
    fn the_root_of_an_entry_is_known_also_when_it_is_not_there_any_more() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a", "b", "c/x"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let roots = |typed: &[&str]| {
            Roots::open(&typed.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>()).unwrap()
        };
        let above = |roots: &Roots, path: &str| {
            let found = roots.root_above(&EntryPath::new(path.as_bytes()).unwrap());
            found.map(|found| found.strip_prefix(dir.path()).unwrap().display().to_string())
        };
        let several = roots(&["a", "b", "c/"]);
        for (path, root) in [("a", None), ("a/gone/y", Some("a")), ("x", Some("c")), ("gone", Some("c"))] {
            assert_eq!(above(&several, path).as_deref(), root, "{path}");
            let path = EntryPath::new(path.as_bytes()).unwrap();
            assert_eq!(several.is_nowhere(&path), path.as_bytes() == b"gone");
        }
        assert!(several.contents().eq([dir.path().join("c/")]));
        assert!(!roots(&["c/"]).is_nowhere(&EntryPath::new(&b"gone"[..]).unwrap()), "there is only one");
        assert_eq!(above(&roots(&["a", "b"]), "gone"), None);
        assert_eq!(above(&roots(&["a"]), "a"), None);
        assert_eq!(above(&roots(&["a"]), "a/gone").as_deref(), Some("a"));
        assert_eq!(above(&roots(&["c/"]), "gone").as_deref(), Some("c"));
    }

    #[test]
    fn nothing_that_is_named_to_the_user_is_without_a_name() {
        let named = |typed: &str, path: &str| {
            let roots = Roots::open(&[typed]).unwrap();
            roots.iter().next().unwrap().display_path(path.as_bytes()).into_os_string()
        };
        assert_eq!((named(".", "file"), named("./", "file")), ("file".into(), "file".into()));
        assert_eq!(
            (named(".", ""), named("/", ""), named("/.", "")),
            ("./".into(), "/".into(), "/./".into())
        );
    }

    #[test]
    fn a_file_has_the_path_that_it_has_in_the_transfer() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/x")).unwrap();
        fs::create_dir_all(real.join("c")).unwrap();
        std::os::unix::fs::symlink("c", real.join("link")).unwrap();
        let roots = Roots::open(&["a", "c/../link/"].map(|name| real.join(name))).unwrap();
        for (file, path) in
            [("a/x/file", Some("a/x/file")), ("c/file", Some("file")), ("file", None), ("ab/file", None)]
        {
            let found = roots.path_of(&real.join(file));
            assert_eq!(found.as_ref().map(EntryPath::as_bytes), path.map(str::as_bytes), "{file}");
        }
    }

    #[test]
    fn what_is_gone_keeps_its_name_and_is_neither_walked_nor_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        let roots = Roots::open_some(&["file", "gone"].map(|name| dir.path().join(name)), &Filter::default())
            .unwrap();
        let name = EntryPath::new(&b"gone"[..]).unwrap();
        assert!(roots.gone().eq([(&*dir.path().join("gone"), name.clone())]));
        assert!(!roots.has(&name) && !roots.is_nowhere(&name));
        let mut found = Vec::new();
        crate::walk(&roots, &Filter::default(), 0, |batch| {
            assert!(batch.skipped.is_empty(), "{:?}", batch.skipped);
            found.extend(batch.found);
            std::ops::ControlFlow::Continue(())
        });
        assert!(found.len() == 1 && found[0].path.as_bytes() == b"file", "{found:?}");
        let open = |name: &str| Roots::open_some(&[dir.path().join(name)], &Filter::default()).map(|_| ());
        for name in ["none/x", "none/"] {
            assert!(matches!(open(name), Err(RootError::Missing(_))), "{name}");
        }
        let twice = ["gone", "./gone"].map(|name| dir.path().join(name));
        assert!(matches!(Roots::open_some(&twice, &Filter::default()), Err(RootError::SameName { .. })));
    }

    #[test]
    fn what_is_not_there_or_not_a_folder_is_said_so() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        let open = |name: &str| Roots::open(&[dir.path().join(name)]).map(|_| ());
        assert!(matches!(open("none"), Err(RootError::Missing(_))));
        assert!(matches!(open("none/x"), Err(RootError::Missing(_))));
        assert!(matches!(open("file/"), Err(RootError::NotAFolder(_))));
        assert!(open("file").is_ok());
        assert!(matches!(Roots::open::<&str>(&[]), Err(RootError::Nothing)));
        assert!(matches!(Roots::open(&[""]), Err(RootError::BadName { .. })));
    }
}
