//! Sources and destinations that lie in each other, which is refused.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use terahaul_core::{Entry, EntryKind, EntryPath, Mtime};
use terahaul_tree::Filter;

use crate::error::CopyError;
use crate::greeting::Name;
use crate::offer::names_of;

/// A source that is there.
struct Source<'a> {
    typed: &'a PathBuf,
    /// Where it is, without links.
    real: PathBuf,
    /// What it arrives under; `None`: its content does.
    name: Option<OsString>,
    is_folder: bool,
}

impl<'a> Source<'a> {
    fn of(typed: &'a PathBuf, filter: &Filter) -> Option<Self> {
        let names = names_of([typed.as_os_str().as_bytes()]);
        // A list names what is in the source.
        let name = names.first().filter(|_| !filter.has_list());
        let name = name.map(|Name(name)| OsStr::from_bytes(name).to_owned());
        let is_folder = name.is_none() || typed.symlink_metadata().is_ok_and(|found| found.is_dir());
        let real = match typed.file_name().filter(|_| !is_folder) {
            // A link is copied as one.
            Some(name) => real_path(typed.parent()?)?.join(name),
            None => typed.canonicalize().ok()?,
        };
        Some(Self { typed, real, name, is_folder })
    }

    /// What it has at `below`, by its path in the copy.
    fn path(&self, below: &Path) -> PathBuf {
        Path::new(self.name.as_deref().unwrap_or_default()).join(below)
    }

    fn kind(&self) -> EntryKind {
        if self.is_folder { EntryKind::Directory } else { EntryKind::File { size: Default::default() } }
    }
}

/// A folder copied into itself would be walked for ever, and a source that lies where its own copying removes what that has not would be
/// removed, unless rules or a list leave it out. `folder` is what all arrive in.
pub(super) fn refuse(
    sources: &[PathBuf],
    folder: &Path,
    filter: &Filter,
    delete: bool,
) -> Result<(), CopyError> {
    let Some(into) = real_path(folder) else { return Ok(()) };
    let sources: Vec<_> = sources.iter().filter_map(|source| Source::of(source, filter)).collect();
    let above: Vec<_> = into.ancestors().map(|folder| (folder, identity(folder))).collect();
    for source in sources.iter().filter(|source| source.is_folder) {
        if below(source, &above).is_some_and(|below| {
            below.as_os_str().is_empty() || admits(filter, source.path(below), source.kind())
        }) {
            return Err(CopyError::IntoItself(source.typed.clone()));
        }
    }
    match delete.then(|| removed(&sources, &into, filter)).flatten() {
        Some(removed) => Err(CopyError::RemovesSource(removed.typed.clone())),
        None => Ok(()),
    }
}

/// The source, if there is one, that the copying of one of them would remove. There may be very many.
fn removed<'a>(sources: &'a [Source<'a>], into: &Path, filter: &Filter) -> Option<&'a Source<'a>> {
    let root_of = |source: &Source<'_>| into.join(source.name.as_deref().unwrap_or_default());
    let swept: HashSet<_> = sources.iter().filter(|source| source.is_folder).map(root_of).collect();
    sources.iter().find(|source| {
        let Ok(path) = source.real.strip_prefix(into) else { return false };
        // What is copied onto itself has its place.
        let stays = source.name.is_some() && source.real == root_of(source);
        !stays
            && source.real.ancestors().skip(1).any(|above| swept.contains(above))
            && admits(filter, path.to_owned(), source.kind())
    })
}

/// Where in the source the first of these folders lies, each of which is in the next. A source that is mounted at two places has two paths; what
/// is mounted in it at one of them is not in it at the other.
fn below<'a>(source: &Source<'_>, above: &[(&'a Path, Option<Identity>)]) -> Option<&'a Path> {
    let &(into, _) = above.first()?;
    if let Ok(below) = into.strip_prefix(&source.real) {
        return Some(below);
    }
    let found = identity(&source.real)?;
    let (folder, _) = above.iter().find(|(_, id)| *id == Some(found))?;
    // Of those that are there.
    let &(deepest, id) = above.iter().find(|(_, id)| id.is_some())?;
    let is_in_it = identity(&source.real.join(deepest.strip_prefix(folder).ok()?)) == id;
    into.strip_prefix(folder).ok().filter(|_| is_in_it)
}

/// By which a folder is known, whatever its path: its file system's number, and its own there.
type Identity = (u64, u64);

fn identity(folder: &Path) -> Option<Identity> {
    folder.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Of a path of which the end may not exist yet.
fn real_path(path: &Path) -> Option<PathBuf> {
    let here =
        |above: &Path| if above.as_os_str().is_empty() { Path::new(".") } else { above }.canonicalize();
    path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some(here(above).ok()?.join(rest))
    })
}

/// Whether what has this path in the copy is not left out. What has no path in a manifest is not known to be.
fn admits(filter: &Filter, path: PathBuf, kind: EntryKind) -> bool {
    let Ok(path) = EntryPath::new(path.as_os_str().as_bytes()) else { return true };
    let mtime = Mtime { seconds: 0, nanos: 0 };
    filter.admits(&Entry { path, kind, mtime, mode: 0o755, extra: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse_removing(sources: &[PathBuf], folder: &Path) -> Result<(), CopyError> {
        refuse(sources, folder, &Filter::default(), true)
    }

    /// Each was compared with each, which took minutes: a test that does not end has the fault again.
    #[test]
    fn very_many_sources_are_looked_at_once_each() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("from/folder")).unwrap();
        std::fs::create_dir_all(dir.path().join("to/folder/inner")).unwrap();
        let mut sources = vec![dir.path().join("from/folder"); 20_000];
        assert!(refuse_removing(&sources, &dir.path().join("to")).is_ok());
        sources.push(dir.path().join("to/folder/inner"));
        let refused = refuse_removing(&sources, &dir.path().join("to"));
        assert!(matches!(refused, Err(CopyError::RemovesSource(path)) if path == sources[20_000]));
    }

    #[test]
    fn a_source_beside_what_is_swept_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("from/a")).unwrap();
        std::fs::create_dir_all(at("to/a")).unwrap();
        std::fs::create_dir_all(at("to/ab/c")).unwrap();
        assert!(refuse_removing(&[at("from/a"), at("to/ab/c")], &at("to")).is_ok());
        assert!(refuse_removing(&[at("to/a")], &at("to")).is_ok(), "it is copied onto itself");
        assert!(refuse_removing(&[at("from/a/"), at("to/ab/c")], &at("to")).is_err());
    }
}
