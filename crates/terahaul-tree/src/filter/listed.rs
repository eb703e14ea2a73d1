//! Paths that a list names (`--files-from`), and the folders on the way to them.

use super::Verdict;

/// Paths in the order of their bytes: what is below a folder lies together.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    paths: Vec<Box<[u8]>>,
    recursive: bool,
}

/// A list names what cannot be below the folder that is copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list names '{0}', which leads out of the folder that is copied: name files below it")]
pub struct ListError(String);

/// Reads a list of paths, one a line, or, with `nul`, each ended by a NUL byte. Leading `/` and `./` are passed over, and so
/// are empty lines and, between lines, those that begin with `#` or `;`. What is left empty is the folder itself.
pub fn read_list(content: &[u8], nul: bool) -> Result<Vec<Box<[u8]>>, ListError> {
    let end = if nul { 0 } else { b'\n' };
    let mut paths = Vec::new();
    for line in content.split(|byte| *byte == end) {
        let line = if nul { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
        if line.is_empty() || !nul && matches!(line.first(), Some(b'#' | b';')) {
            continue;
        }
        let names = line.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let names: Vec<&[u8]> = names.collect();
        if names.contains(&b"..".as_slice()) {
            return Err(ListError(crate::beneath::printable(line)));
        }
        paths.push(names.join(&b'/').into_boxed_slice());
    }
    Ok(paths)
}

impl Listed {
    pub(super) fn new(mut paths: Vec<Box<[u8]>>, recursive: bool) -> Self {
        paths.sort_unstable();
        paths.dedup();
        if !recursive {
            // The folder itself, which comes anyway, without what is in it.
            paths.retain(|path| !path.is_empty());
        }
        Self { paths, recursive }
    }

    pub(super) fn judge(&self, path: &[u8], is_folder: bool) -> Verdict {
        if self.has(path) || self.is_inside(path) {
            return Verdict::In;
        }
        if is_folder && !self.below(path).is_empty() { Verdict::Maybe } else { Verdict::Out }
    }

    /// The names in the folder that can be wanted; `None` where all can. A folder that is named itself counts as such only
    /// where lists bring what is in folders.
    pub(super) fn names_in(&self, folder: &[u8]) -> Option<Vec<Vec<u8>>> {
        (!self.brings(folder)).then(|| self.named_in(folder))
    }

    /// The names in the folder that are listed, or on the way to what is, in order.
    pub(super) fn named_in(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let name =
            |path: &[u8]| path[start..].split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let mut names: Vec<_> = self.below(folder).iter().map(|path| name(path)).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the folder comes with all that is in it.
    pub(super) fn brings(&self, folder: &[u8]) -> bool {
        self.recursive && (self.has(folder) || self.is_inside(folder))
    }

    /// Whether nothing in the folder comes but what is listed, of which there is some.
    pub(super) fn is_on_the_way(&self, folder: &[u8]) -> bool {
        !self.brings(folder) && self.has_below(folder)
    }

    pub(super) fn has_below(&self, folder: &[u8]) -> bool {
        !self.below(folder).is_empty()
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|known| (**known).cmp(path)).is_ok()
    }

    /// Whether it is in a folder that is named and brings what is in it.
    fn is_inside(&self, path: &[u8]) -> bool {
        let mut slashes = (0..path.len()).filter(|&at| path[at] == b'/');
        self.recursive && (self.has(b"") || slashes.any(|slash| self.has(&path[..slash])))
    }

    fn below(&self, folder: &[u8]) -> &[Box<[u8]>] {
        if folder.is_empty() {
            return &self.paths;
        }
        let prefix = [folder, b"/"].concat();
        let start = self.paths.partition_point(|path| **path < *prefix);
        let len = self.paths[start..].partition_point(|path| path.starts_with(&prefix));
        &self.paths[start..start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_by_lines_or_by_nul() {
        let read = |content: &[u8], nul| {
            read_list(content, nul).map(|paths| paths.into_iter().map(Vec::from).collect::<Vec<_>>())
        };
        let lines = read(b"/a//b\n./c/\n\n# no\n; no\r\nx y\r\n.\n", false).unwrap();
        assert_eq!(lines, [&b"a/b"[..], b"c", b"x y", b""]);
        assert_eq!(read(b"a\nb\0#c\0", true).unwrap(), [&b"a\nb"[..], b"#c"]);
        assert!(read(b"a/../b\n", false).unwrap_err().to_string().contains("a/../b"));
    }

    #[test]
    fn only_what_is_listed_is_looked_at() {
        let paths = || [&b"a/x"[..], b"a-b", b"a/y/z", b"c", b"a"].map(Box::from).to_vec();
        let plain = Listed::new(paths(), false);
        assert_eq!(plain.names_in(b""), Some(vec![b"a".to_vec(), b"a-b".to_vec(), b"c".to_vec()]));
        assert_eq!(plain.names_in(b"a"), Some(vec![b"x".to_vec(), b"y".to_vec()]));
        assert_eq!(plain.names_in(b"c"), Some(vec![]));
        assert_eq!(plain.judge(b"a/y", true), Verdict::Maybe);
        assert_eq!(plain.judge(b"c", true), Verdict::In);
        assert_eq!(plain.judge(b"a/other", false), Verdict::Out);
        let deep = Listed::new(paths(), true);
        assert_eq!(deep.names_in(b"c"), None);
        assert_eq!(deep.judge(b"a/other/deep", false), Verdict::In);
        assert_eq!(deep.judge(b"b", true), Verdict::Out);
        for (recursive, judged, names) in [(true, Verdict::In, None), (false, Verdict::Out, Some(vec![]))] {
            let itself = Listed::new(vec![Box::default()], recursive);
            assert_eq!((itself.judge(b"a/x", false), itself.names_in(b"")), (judged, names));
        }
    }
}
