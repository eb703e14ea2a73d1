//! Which entries of a folder are sent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use terahaul_core::{Entry, EntryKind};

/// Globs as in a `.gitignore`, matched against paths as the transfer has them (`src/a/b.o` when `src` is sent).
///
/// What an exclude matches is left out with all that is in it. When there are includes, a file is sent only if one
/// of them matches it or a folder it is in; folders without such a file are left out too.
#[derive(Clone, Debug)]
pub struct Filter {
    include: Gitignore,
    exclude: Gitignore,
}

/// A glob cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{glob}' is not a glob ({detail}): write it as in a .gitignore file")]
pub struct FilterError {
    glob: String,
    detail: String,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is left out, with all that is in it.
    Out,
    /// It is sent, with all that is in it and not excluded.
    In,
    /// A folder that is sent only if something in it is.
    Maybe,
}

impl Default for Filter {
    fn default() -> Self {
        Self { include: Gitignore::empty(), exclude: Gitignore::empty() }
    }
}

impl Filter {
    /// Reads the globs. No globs: everything is sent.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Self, FilterError> {
        Ok(Self { include: build(include)?, exclude: build(exclude)? })
    }

    /// Whether an entry of a manifest is wanted. A folder that is neither included itself nor in one that is counts as
    /// not wanted, although something in it may be.
    pub fn selects(&self, entry: &Entry) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let path = entry.path.as_bytes();
        let mut inside = false;
        for slash in (0..path.len()).filter(|&at| path[at] == b'/') {
            match self.judge(&path[..slash], true, inside) {
                Verdict::Out => return false,
                Verdict::In => inside = true,
                Verdict::Maybe => {}
            }
        }
        self.judge(path, entry.kind == EntryKind::Directory, inside) == Verdict::In
    }

    /// `inside` says that a folder it is in was matched by an include.
    pub(crate) fn judge(&self, path: &[u8], is_folder: bool, inside: bool) -> Verdict {
        let path = Path::new(OsStr::from_bytes(path));
        if self.exclude.matched(path, is_folder).is_ignore() {
            return Verdict::Out;
        }
        if inside || self.include.is_empty() || self.include.matched(path, is_folder).is_ignore() {
            return Verdict::In;
        }
        if is_folder { Verdict::Maybe } else { Verdict::Out }
    }
}

fn build<S: AsRef<str>>(globs: &[S]) -> Result<Gitignore, FilterError> {
    if globs.is_empty() {
        return Ok(Gitignore::empty());
    }
    // Paths are relative to the transfer already; this root never occurs in one, so nothing is stripped.
    let mut builder = GitignoreBuilder::new(".");
    let failed =
        |glob: &str, error: ignore::Error| FilterError { glob: glob.into(), detail: error.to_string() };
    for glob in globs {
        let glob = glob.as_ref();
        builder.add_line(None, glob).map_err(|error| failed(glob, error))?;
    }
    builder
        .build()
        .map_err(|error| failed(&globs.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" "), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_mean_what_they_mean_in_a_gitignore() {
        let filter = Filter::new(&[], &["*.o", "!keep.o", "/src/build/", "tmp/"]).unwrap();
        for (path, folder, verdict) in [
            (&b"src/a.o"[..], false, Verdict::Out),
            (b"src/keep.o", false, Verdict::In),
            (b"src/build", true, Verdict::Out),
            (b"src/x/build", true, Verdict::In),
            (b"src/build", false, Verdict::In),
            (b"a/b/tmp", true, Verdict::Out),
            (b"\xff.o", false, Verdict::Out),
        ] {
            assert_eq!(filter.judge(path, folder, false), verdict, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn an_included_folder_brings_its_content() {
        let filter = Filter::new(&["*.fastq", "raw/"], &["secret*"]).unwrap();
        assert_eq!(filter.judge(b"run/a.fastq", false, false), Verdict::In);
        assert_eq!(filter.judge(b"run/a.txt", false, false), Verdict::Out);
        assert_eq!(filter.judge(b"run", true, false), Verdict::Maybe);
        assert_eq!(filter.judge(b"run/raw", true, false), Verdict::In);
        assert_eq!(filter.judge(b"run/raw/a.txt", false, true), Verdict::In);
        assert_eq!(filter.judge(b"run/raw/secret.txt", false, true), Verdict::Out);
    }

    #[test]
    fn a_manifest_is_filtered_as_the_folder_would_have_been() {
        use terahaul_core::{ByteCount, EntryPath, Mtime};
        let filter = Filter::new(&["*.fastq", "raw/"], &["secret*", "/tmp/"]).unwrap();
        let selects = |path: &str, kind: EntryKind| {
            let path = EntryPath::new(path.as_bytes()).unwrap();
            filter.selects(&Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None })
        };
        let file = || EntryKind::File { size: ByteCount(1) };
        assert!(selects("run/a.fastq", file()) && selects("run/raw/a.txt", file()));
        assert!(selects("run/raw", EntryKind::Directory) && selects("raw/x/y", EntryKind::Directory));
        assert!(!selects("run/a.txt", file()) && !selects("run", EntryKind::Directory));
        assert!(!selects("tmp/x/a.fastq", file()) && !selects("secret/raw/a", file()));
    }

    #[test]
    fn a_manifest_is_chosen_from_as_a_walk_would() {
        let filter = Filter::new(&["*.fastq", "raw/"], &["old/"]).unwrap();
        let selected = |path: &str, kind: EntryKind| {
            let path = terahaul_core::EntryPath::new(path.as_bytes()).unwrap();
            filter.selects(&Entry {
                path,
                kind,
                mtime: terahaul_core::Mtime::default(),
                mode: 0o644,
                extra: None,
            })
        };
        let file = || EntryKind::File { size: terahaul_core::ByteCount(1) };
        assert!(selected("run/a.fastq", file()));
        assert!(selected("run/raw/deep/a.txt", file()));
        assert!(selected("run/raw", EntryKind::Directory));
        assert!(!selected("run", EntryKind::Directory));
        assert!(!selected("run/a.txt", file()));
        assert!(!selected("old/a.fastq", file()));
        assert!(!selected("run/raw/old/a.txt", file()));
    }

    #[test]
    fn a_glob_that_cannot_be_read_is_named() {
        assert!(Filter::new(&["a{b"], &[]).unwrap_err().to_string().contains("a{b"));
    }
}
