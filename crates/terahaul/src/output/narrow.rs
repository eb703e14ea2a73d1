//! A terminal of which the last columns are left free.

use std::io;

use console::Term;
use indicatif::TermLike;

/// What a terminal writes itself for Ctrl-C is `^C`. Without room for it the line would break, and what was in it stay above what comes next.
const FREE: u16 = 2;

/// A terminal that says it is a little narrower than it is.
#[derive(Debug)]
pub(super) struct Narrow<T>(pub T);

impl Narrow<Term> {
    /// That of stderr.
    pub fn stderr() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl<T: TermLike> TermLike for Narrow<T> {
    fn width(&self) -> u16 {
        // Of no columns at all a line has no end.
        self.0.width().saturating_sub(FREE).max(1)
    }
    fn height(&self) -> u16 {
        self.0.height()
    }
    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }
    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }
    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }
    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }
    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
