//! The caller's buffer, filled from several files before it is passed on: every piece but a block's last is full.

use std::io;

use terahaul_store::piece_at;

pub(super) struct Outlet<'a> {
    buffer: &'a mut [u8],
    /// Bytes of the block.
    len: u32,
    /// Those that were passed on.
    emitted: u32,
    /// Those of the piece under way that are there.
    filled: usize,
    emit: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>,
}

impl<'a> Outlet<'a> {
    /// For a block of `len` bytes.
    pub(super) fn new(
        buffer: &'a mut [u8],
        len: u32,
        emit: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> Self {
        Self { buffer, len, emitted: 0, filled: 0, emit }
    }

    fn piece(&mut self) -> &mut [u8] {
        piece_at(self.buffer, self.emitted, self.len)
    }

    /// At most `most` bytes to read into; `advance` says how many were.
    pub(super) fn space(&mut self, most: usize) -> io::Result<&mut [u8]> {
        if self.filled == self.piece().len() {
            self.flush()?;
        }
        let filled = self.filled;
        let space = &mut self.piece()[filled..];
        let most = most.min(space.len());
        Ok(&mut space[..most])
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
        if filled == 0 {
            return Ok(());
        }
        let piece = &mut piece_at(self.buffer, self.emitted, self.len)[..filled];
        self.emitted += filled as u32;
        (self.emit)(piece)
    }
}
