//! Paths that a list names (`--files-from`), and the folders on the way to them.

use super::lines::LineEnd;

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

/// Reads a list of paths, one a line. Leading `/` and `./` are passed over; what is left empty is the folder itself.
pub fn read_list(content: &[u8], end: LineEnd) -> Result<Vec<Box<[u8]>>, ListError> {
    let mut paths = Vec::new();
    for line in end.lines(content) {
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

    pub(super) fn is_recursive(&self) -> bool {
        self.recursive
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

    pub(super) fn has_below(&self, folder: &[u8]) -> bool {
        !self.below(folder).is_empty()
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|known| (**known).cmp(path)).is_ok()
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
        let read = |content: &[u8], end| {
            read_list(content, end).map(|paths| paths.into_iter().map(Vec::from).collect::<Vec<_>>())
        };
        let lines = read(b"/a//b\n./c/\n\n# no\n; no\r\nx y\r\n.\n", LineEnd::Newline).unwrap();
        assert_eq!(lines, [&b"a/b"[..], b"c", b"x y", b""]);
        assert_eq!(read(b"a\nb\0#c\0", LineEnd::Nul).unwrap(), [&b"a\nb"[..], b"#c"]);
        assert!(read(b"a/../b\n", LineEnd::Newline).unwrap_err().to_string().contains("a/../b"));
    }
}
