//! An entry's path: relative, confined, and exactly the bytes that the sender's file system has.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::Printable;

/// Longest path, in bytes.
pub const MAX_PATH: usize = 4096;
/// Longest component, in bytes: what file systems in use today take.
pub const MAX_COMPONENT: usize = 255;
/// Most components in a path.
pub const MAX_DEPTH: usize = 512;

/// A validated relative path: components separated by `/`, as bytes (names need not be UTF-8).
///
/// No component is empty, `.` or `..`, and none holds NUL, so joining one to a root never leaves the root.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(Box<[u8]>);

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No bytes at all.
    #[error("the path is empty")]
    Empty,
    /// Starts with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// Has an empty component, as in `a//b` or `a/`.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// Has a `.` or `..` component.
    #[error("the path has a '.' or '..' component")]
    DotComponent,
    /// Holds a NUL byte.
    #[error("the path holds a NUL byte")]
    Nul,
    /// A component is longer than [`MAX_COMPONENT`].
    #[error("a component of the path is longer than {MAX_COMPONENT} bytes")]
    ComponentTooLong,
    /// The whole is longer than [`MAX_PATH`].
    #[error("the path is longer than {MAX_PATH} bytes")]
    TooLong,
    /// More than [`MAX_DEPTH`] components.
    #[error("the path is more than {MAX_DEPTH} folders deep")]
    TooDeep,
}

impl EntryPath {
    /// Checks and takes `bytes`.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        match bytes.first() {
            None => return Err(PathError::Empty),
            Some(b'/') => return Err(PathError::Absolute),
            Some(_) => {}
        }
        if bytes.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        let mut depth = 0;
        for component in bytes.split(|&b| b == b'/') {
            depth += 1;
            match component {
                b"" => return Err(PathError::EmptyComponent),
                b"." | b".." => return Err(PathError::DotComponent),
                _ if component.len() > MAX_COMPONENT => return Err(PathError::ComponentTooLong),
                _ if depth > MAX_DEPTH => return Err(PathError::TooDeep),
                _ => {}
            }
        }
        Ok(Self(bytes))
    }

    /// The path's bytes, with `/` between components.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/')
    }

    /// The folder's path (`None` at the top) and the name in it.
    pub fn split(&self) -> (Option<&[u8]>, &[u8]) {
        match self.0.iter().rposition(|&b| b == b'/') {
            Some(slash) => (Some(&self.0[..slash]), &self.0[slash + 1..]),
            None => (None, &self.0),
        }
    }

    /// The path as text, with U+FFFD where it is not UTF-8.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// Takes out what `paths` has below `folder`, in order.
pub fn take_below<V>(paths: &mut BTreeMap<EntryPath, V>, folder: &EntryPath) -> Vec<V> {
    let prefix = [folder.as_bytes(), b"/"].concat();
    let from = (Bound::Excluded(prefix.as_slice()), Bound::Unbounded);
    let below = paths.range::<[u8], _>(from).take_while(|(path, _)| path.as_bytes().starts_with(&prefix));
    let below: Vec<EntryPath> = below.map(|(path, _)| path.clone()).collect();
    below.iter().filter_map(|path| paths.remove(path)).collect()
}

/// Paths are looked up by their bytes, and ordered as these are.
impl Borrow<[u8]> for EntryPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for EntryPath {
    /// As [`Printable`] has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0).fmt(f)
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryPath({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_leave_the_root_are_refused() {
        for (path, error) in [
            (&b""[..], PathError::Empty),
            (b"/etc/passwd", PathError::Absolute),
            (b"a/../../b", PathError::DotComponent),
            (b"..", PathError::DotComponent),
            (b"a/./b", PathError::DotComponent),
            (b"a//b", PathError::EmptyComponent),
            (b"a/", PathError::EmptyComponent),
            (b"a\0b", PathError::Nul),
        ] {
            assert_eq!(EntryPath::new(path), Err(error), "{path:?}");
        }
        assert_eq!(EntryPath::new(vec![b'a'; 256]), Err(PathError::ComponentTooLong));
        assert_eq!(EntryPath::new(b"a/".repeat(3000)), Err(PathError::TooLong));
        assert_eq!(EntryPath::new(["a"; 513].join("/").into_bytes()), Err(PathError::TooDeep));
    }

    #[test]
    fn names_that_are_only_unusual_are_taken_as_they_are() {
        for path in [&b"a\nb"[..], b"back\\slash", b"\xff\xfe", b"CON", b"...", b" ", &[b'x'; 255]] {
            assert_eq!(EntryPath::new(path).unwrap().as_bytes(), path);
        }
    }

    #[test]
    fn printing_a_path_cannot_move_the_cursor() {
        let path = EntryPath::new(&b"a\x1b[2J\xff\n"[..]).unwrap();
        assert_eq!(path.to_string(), "a\\u{1b}[2J\\xff\\n");
    }

    #[test]
    fn a_name_that_shows_nothing_is_spelled_out() {
        for unseen in ['\u{2800}', '\u{200b}', '\u{e0041}', '\u{e007f}'] {
            let path = EntryPath::new(unseen.to_string().into_bytes()).unwrap();
            assert_eq!(path.to_string(), unseen.escape_unicode().to_string());
        }
    }
}
