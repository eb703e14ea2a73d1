//! Globs as in a `.gitignore`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Verdict;

#[derive(Clone, Debug)]
pub(super) struct Globs {
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

impl Default for Globs {
    fn default() -> Self {
        Self { include: Gitignore::empty(), exclude: Gitignore::empty() }
    }
}

impl Globs {
    pub(super) fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Self, FilterError> {
        Ok(Self { include: build(include)?, exclude: build(exclude)? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        self.exclude.matched(Path::new(OsStr::from_bytes(path)), is_folder).is_ignore()
    }

    pub(super) fn judge(&self, path: &[u8], is_folder: bool, inside: bool) -> Verdict {
        if self.excludes(path, is_folder) {
            return Verdict::Out;
        }
        let path = Path::new(OsStr::from_bytes(path));
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
    // Git takes such a line for one that matches nothing, which here would leave out nothing.
    builder.allow_unclosed_class(false);
    let failed =
        |glob: &str, error: ignore::Error| FilterError { glob: glob.into(), detail: error.to_string() };
    for glob in globs {
        let glob = glob.as_ref();
        // Such a line of a file says nothing, which here would choose everything, or leave out nothing.
        if glob.starts_with('#') || glob.trim().is_empty() {
            let detail =
                "there it is a comment or an empty line; a '#' at the beginning is written '\\#'".into();
            return Err(FilterError { glob: glob.into(), detail });
        }
        builder.add_line(None, glob).map_err(|error| failed(glob, error))?;
    }
    builder
        .build()
        .map_err(|error| failed(&globs.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" "), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Filter;
    use terahaul_core::{Entry, EntryKind};

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
        for unclosed in ["a{b", "a[b", "a["] {
            assert!(Filter::new(&[unclosed], &[]).unwrap_err().to_string().contains(unclosed));
            assert!(Filter::new(&[], &[unclosed]).is_err(), "{unclosed} would leave out nothing");
        }
        let itself = Filter::new(&[], &["a\\["]).unwrap();
        assert_eq!(itself.judge(b"a[", false, false), Verdict::Out);
    }

    /// An empty variable sent everything, and what Emacs leaves was sent with the rest.
    #[test]
    fn a_glob_that_would_say_nothing_is_refused() {
        for nothing in ["#*#", "", " "] {
            assert!(
                Filter::new(&[nothing], &[]).is_err() && Filter::new(&[], &[nothing]).is_err(),
                "{nothing}"
            );
        }
        let filter = Filter::new(&[], &["\\#*#"]).unwrap();
        assert_eq!(filter.judge(b"in/#a#", false, false), Verdict::Out);
    }
}
