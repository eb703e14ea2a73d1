//! What the other side said instead of a greeting.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use terahaul_core::PrintableText;
use tokio::io::{AsyncRead, ReadBuf};

/// How many bytes are kept: start-up files may print much before the line that matters, but it is the first that is shown.
const MOST_KEPT: usize = 1024;
/// How many characters of a line are shown.
const MOST_SHOWN: usize = 120;

/// A stream whose beginning is kept as it is read.
pub(crate) struct Overheard<R> {
    stream: R,
    said: Vec<u8>,
}

impl<R> Overheard<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, said: Vec::new() }
    }

    /// `what`, and what was said before that.
    pub(crate) fn after(&self, what: &str) -> String {
        said_before(what, &self.said)
    }
}

/// `what`, and the first line of what was said that is not empty, safe to show: who ends without a greeting has often said why.
pub(crate) fn said_before(what: &str, said: &[u8]) -> String {
    let line = said.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let Some(line) = line else { return what.to_owned() };
    let text = PrintableText(line).to_string();
    match text.char_indices().nth(MOST_SHOWN) {
        None => format!("{what}, and said '{text}'"),
        Some((end, _)) => format!("{what}, and said '{}…'", &text[..end]),
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Overheard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let room = MOST_KEPT.saturating_sub(self.said.len());
        let new = &buf.filled()[before..];
        self.said.extend_from_slice(&new[..new.len().min(room)]);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn heard(text: &[u8]) -> String {
        let mut stream = Overheard::new(text);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(stream.read_to_end(&mut Vec::new())).unwrap();
        stream.after("it ended")
    }

    #[test]
    fn the_first_line_is_told_and_can_do_the_terminal_no_harm() {
        assert_eq!(heard(b""), "it ended");
        assert_eq!(heard(b" \r\n\n"), "it ended");
        assert_eq!(heard(b"\r\nNo\x1b[2J entry.\r\nmore\n"), "it ended, and said 'No\\u{1b}[2J entry.'");
        let long = heard("é".repeat(5000).as_bytes());
        assert_eq!(long, format!("it ended, and said '{}…'", "é".repeat(MOST_SHOWN)));
    }
}
