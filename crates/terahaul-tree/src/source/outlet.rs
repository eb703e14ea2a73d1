//! The caller's buffer, filled from several files before it is passed on: every piece but a block's last is full.

use std::io;

pub(super) struct Outlet<'a> {
    buffer: &'a mut [u8],
    filled: usize,
    emit: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(buffer: &'a mut [u8], emit: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>) -> Self {
        Self { buffer, filled: 0, emit }
    }

    /// At most `most` bytes to read into; `advance` says how many were.
    pub(super) fn space(&mut self, most: usize) -> io::Result<&mut [u8]> {
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        let end = self.buffer.len().min(self.filled.saturating_add(most));
        Ok(&mut self.buffer[self.filled..end])
    }

    pub(super) fn advance(&mut self, len: usize) {
        self.filled += len;
    }

    pub(super) fn zeros(&mut self, mut len: usize) -> io::Result<()> {
        while len > 0 {
            let space = self.space(len)?;
            space.fill(0);
            let took = space.len();
            self.advance(took);
            len -= took;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let filled = std::mem::take(&mut self.filled);
        if filled > 0 { (self.emit)(&mut self.buffer[..filled]) } else { Ok(()) }
    }
}
