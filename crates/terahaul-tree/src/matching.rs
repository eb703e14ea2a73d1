//! Paths with patterns in them, as a shell expands them: `data/run*/[0-9]?.fastq`. No shell is asked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::filter::Verdict;
use crate::{Filter, Rule, Sense};

/// One component of a path, with `*`, `?` or `[…]` in it.
#[derive(Clone, Debug)]
pub struct NamePattern {
    filter: Filter,
    takes_hidden: bool,
}

impl NamePattern {
    /// `None` for what is no pattern, or none that can be read: it stands for itself alone.
    pub fn new(component: &[u8]) -> Option<Self> {
        if !is_wild(component) {
            return None;
        }
        let include = Rule { sense: Sense::Include, pattern: [b"/", component].concat().into() };
        let exclude = Rule { sense: Sense::Exclude, pattern: (*b"*").into() };
        let filter = Filter::ordered(&[include, exclude]).ok()?;
        Some(Self { filter, takes_hidden: component.starts_with(b".") })
    }

    /// Whether a name in a folder fits. Names that begin with a dot do so only where the pattern does.
    pub fn matches(&self, name: &[u8]) -> bool {
        let hidden = name.starts_with(b".") && !self.takes_hidden;
        !hidden && self.filter.judge(name, false, false) != Verdict::Out
    }
}

fn is_wild(component: &[u8]) -> bool {
    component.iter().any(|byte| b"*?[".contains(byte))
}

/// The paths that `path` stands for, in the order of their names: itself, where it is there or nothing fits.
pub fn expand(path: &Path) -> Vec<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    if !is_wild(bytes) || path.symlink_metadata().is_ok() {
        return vec![path.into()];
    }
    let mut found = vec![Vec::new()];
    for (at, component) in bytes.split(|&byte| byte == b'/').enumerate() {
        let joined = |above: &[u8], name: &[u8]| match at {
            0 => name.to_vec(),
            _ => [above, b"/", name].concat(),
        };
        found = match NamePattern::new(component) {
            None => found.iter().map(|above| joined(above, component)).collect(),
            Some(pattern) => {
                let matching = |above: &Vec<u8>| {
                    let names = names_in(above, at).into_iter().filter(|name| pattern.matches(name));
                    names.map(|name| joined(above, &name)).collect::<Vec<_>>()
                };
                found.iter().flat_map(matching).collect()
            }
        };
    }
    let mut found: Vec<_> = found.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
    found.retain(|path| path.symlink_metadata().is_ok());
    if found.is_empty() { vec![path.into()] } else { found }
}

/// The names in the folder before the component at `at`, in their order. None where it cannot be read.
fn names_in(above: &[u8], at: usize) -> Vec<Vec<u8>> {
    let folder = match above {
        b"" if at == 0 => Path::new("."),
        b"" => Path::new("/"),
        above => Path::new(OsStr::from_bytes(above)),
    };
    let found = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = found.flatten().map(|found| found.file_name().as_bytes().to_vec()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_expanded_as_a_shell_does() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/1.x", "a/2.x", "a/.3.x", "a/4.y", "b/1.x", "b/[z].x", "c"] {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::write(dir.path().join(OsStr::from_bytes(b"a/\xff.x")), "").unwrap();
        let expanded = |pattern: &str| -> Vec<Vec<u8>> {
            let base = dir.path().as_os_str().len() + 1;
            let paths = expand(&dir.path().join(pattern)).into_iter();
            paths.map(|path| path.as_os_str().as_bytes()[base..].to_vec()).collect()
        };
        for (pattern, paths) in [
            ("a/*.x", &[&b"a/1.x"[..], b"a/2.x", b"a/\xff.x"][..]),
            ("a/.*", &[b"a/.3.x"]),
            ("*/1.?", &[b"a/1.x", b"b/1.x"]),
            ("[ab]/[!1].x", &[b"a/2.x", b"a/\xff.x"]),
            ("b/[z].x", &[b"b/[z].x"]),
            ("none*/x", &[b"none*/x"]),
            ("c", &[b"c"]),
            ("[", &[b"["]),
        ] {
            assert_eq!(expanded(pattern), paths, "{pattern}");
        }
        assert!(expand(Path::new("/pro?/sel[f]")) == [Path::new("/proc/self")]);
    }

    #[test]
    fn a_name_fits_or_not() {
        let fits = |pattern: &str, name: &[u8]| NamePattern::new(pattern.as_bytes()).unwrap().matches(name);
        assert!(fits("*.fastq", b"a.fastq") && fits("*", b"x") && fits(".*", b".ssh"));
        assert!(!fits("*.fastq", b"a.fastq.gz") && !fits("*", b".ssh") && !fits("?", b"a/b"));
        assert!(NamePattern::new(b"plain").is_none());
    }
}
