//! Paths as the walk names them, and as the transfer has them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use terahaul_core::EntryPath;

use crate::output::PathText;

/// The paths that the user typed.
pub struct Typed(Vec<PathBuf>);

impl Typed {
    pub fn new(paths: &[PathBuf]) -> Self {
        Self(paths.to_vec())
    }

    /// What a path of the walk's may be called in the transfer: more than one thing, where a folder was named twice.
    pub fn entries<'a>(&'a self, walked: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.0.iter().filter_map(move |typed| below(typed, walked))
    }

    /// The path for an event.
    pub fn text(&self, walked: &Path) -> PathText {
        let path = self.entries(walked).next().unwrap_or(walked).as_os_str().as_bytes();
        EntryPath::new(path).map_or_else(|_| PathText::from(path), |path| PathText::from(&path))
    }
}

/// `src` arrives as a folder `src`, `src/` and `.` as what is in them.
fn below<'a>(typed: &Path, walked: &'a Path) -> Option<&'a Path> {
    let last = typed.as_os_str().as_bytes().rsplit(|&b| b == b'/').next().unwrap_or_default();
    let base = match last {
        b"" | b".." => Some(typed),
        b"." => Some(typed).filter(|typed| *typed != Path::new(".")),
        _ if walked.starts_with(typed) => typed.parent(),
        _ => return None,
    };
    let path = walked.strip_prefix(base.unwrap_or(Path::new(""))).ok()?;
    matches!(path.components().next(), Some(Component::Normal(_))).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_called_what_it_arrives_as() {
        for (typed, walked, entry) in [
            ("src", "src/a", Some("src/a")),
            ("src", "src", Some("src")),
            ("src/", "src/a", Some("a")),
            ("x/src", "x/src/a/b", Some("src/a/b")),
            ("/x/src/.", "/x/src/a", Some("a")),
            (".", "a/b", Some("a/b")),
            ("..", "../a", Some("a")),
            ("../src", "../src/a", Some("src/a")),
            ("./src", "./src/a", Some("src/a")),
            (".", "../a", None),
            ("src", "other/a", None),
            ("src", "/src/a", None),
            ("src/", "src/", None),
        ] {
            let typed = [PathBuf::from(typed)];
            let typed = Typed::new(&typed);
            assert_eq!(typed.entries(Path::new(walked)).next(), entry.map(Path::new), "{walked}");
        }
        let twice = Typed::new(&["a/".into(), "a/b/".into()]);
        assert_eq!(twice.entries(Path::new("a/b/c")).collect::<Vec<_>>(), ["b/c", "c"].map(Path::new));
    }
}
