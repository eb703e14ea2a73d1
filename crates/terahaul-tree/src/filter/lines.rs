//! Files of rules and of paths, by lines, as rsync reads them.

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed, or a carriage return and that. Lines that begin with `#` or `;` are comments.
    Newline,
    /// A NUL byte. A line may have anything else in it, and none is a comment.
    Nul,
}

impl LineEnd {
    /// The lines of a file, without empty ones and comments.
    pub(super) fn lines(self, content: &[u8]) -> impl Iterator<Item = &[u8]> {
        let end = match self {
            Self::Newline => b'\n',
            Self::Nul => 0,
        };
        content.split(move |byte| *byte == end).filter_map(move |line| {
            let line = match self {
                Self::Newline => line.strip_suffix(b"\r").unwrap_or(line),
                Self::Nul => line,
            };
            let is_comment = self == Self::Newline && matches!(line.first(), Some(b'#' | b';'));
            (!line.is_empty() && !is_comment).then_some(line)
        })
    }
}
