//! Blocks of a file whose old version the receiver has: sent as copies from there and as what is missing.

use std::io::{self, Write};

use terahaul_core::delta::{Step, Window};
use terahaul_core::{BlockContent, BlockHasher, BlockShape};
use terahaul_wire::{FrameHeader, PIECE_HEADER_LEN, PieceHeader, Trailer};

use super::bases::Based;
use super::packing::Packer;
use super::sealed_writer::SealedWriter;
use super::sending::{PIECE, Sender};

impl Sender<'_> {
    /// Sends a block of an entry that has a basis. `false`: nothing was sent, it goes as any other.
    pub(super) fn send_planned<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        shape: &BlockShape,
        based: &Based,
        packer: &mut Option<Packer>,
        window: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let BlockContent::Piece { entry, offset, .. } = shape.content else { return Ok(false) };
        let (reach, len) = (based.reach(), shape.len as usize);
        let before = reach.min(usize::try_from(offset).unwrap_or(reach));
        window.resize(before + len + reach, 0);
        let mut whole = false;
        let failures = self.source.read_block(shape, &mut window[before..before + len], &mut |bytes| {
            whole = bytes.len() == len;
            Ok(())
        })?;
        if !whole {
            return Ok(false);
        }
        // What is around the block only helps to find its parts: less of it finds less.
        let (ahead, rest) = window.split_at_mut(before);
        let ahead_read = self.source.read_around(entry, offset - before as u64, ahead) == before;
        let behind = self.source.read_around(entry, offset + len as u64, &mut rest[len..]);
        let first = if ahead_read { 0 } else { before };
        let around = Window {
            bytes: &window[first..before + len + behind],
            start: offset - (before - first) as u64,
            block: before - first..before - first + len,
        };
        let mut hasher = BlockHasher::new(shape);
        hasher.update(&around.bytes[around.block.clone()]);
        let steps = based.plan(&around);

        writer.queue(&FrameHeader::Pieces { block: shape.number, len: shape.len }.encode())?;
        let mut left = &mut window[before..before + len];
        for step in steps {
            match step {
                Step::Copy { from, len } => {
                    writer.queue(&PieceHeader::Copy { len, from }.encode())?;
                    self.outbound.handle_bytes(PIECE_HEADER_LEN as u64);
                    self.outbound.handle_copied(u64::from(len));
                    left = &mut left[len as usize..];
                }
                Step::Literal { len } => {
                    let (literal, rest) = left.split_at_mut(len as usize);
                    for piece in literal.chunks_mut(PIECE) {
                        self.send_piece(writer, packer, piece, true)?;
                    }
                    left = rest;
                }
            }
        }
        let proof = hasher.finish();
        writer.queue(&Trailer(proof.value()).encode())?;
        self.outbound.handle_sent(shape, Some(proof), failures);
        writer.flush()?;
        Ok(true)
    }
}
