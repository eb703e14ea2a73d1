//! Blocks of a file whose old version the receiver has: as copies from there and as what is missing.

use std::io::{self, Write};
use std::ops::Range;

use terahaul_core::delta::{Step, Window};
use terahaul_core::{BlockContent, BlockHasher, BlockProof, BlockShape};
use terahaul_store::{BlockSource, EntryFailure, PIECE};
use terahaul_wire::{FrameHeader, PIECE_HEADER_LEN, PieceHeader, Trailer};

use super::bases::Based;
use super::packing::Packer;
use super::sealed_writer::SealedWriter;
use super::sending::Sender;

/// How a block goes, now that it was looked for in the old file.
pub(super) struct Planned {
    pub steps: Vec<Step>,
    /// Where in the window the block is.
    pub block: Range<usize>,
    pub proof: BlockProof,
    pub failures: Vec<EntryFailure>,
}

/// What looking for a block in the old file came to.
pub(super) enum Sought {
    Found(Planned),
    /// It is not all among the sums so far: it comes again once there are more.
    Early,
    /// It goes as any other.
    Unfit,
}

/// Reads a block of an entry that has a basis, and what is around it, into `window`.
pub(super) fn plan(
    source: &dyn BlockSource,
    shape: &BlockShape,
    based: &Based,
    window: &mut Vec<u8>,
) -> io::Result<Sought> {
    let BlockContent::Piece { entry, offset, .. } = shape.content else { return Ok(Sought::Unfit) };
    let (reach, len) = (based.reach(), shape.len as usize);
    let before = reach.min(usize::try_from(offset).unwrap_or(reach));
    window.resize(before + len + reach, 0);
    let failures = source.read_block(shape, &mut window[before..before + len], &mut |_| Ok(()))?;
    // What is around the block only helps to find its parts: less of it finds less.
    let (ahead, rest) = window.split_at_mut(before);
    let ahead_read = source.read_around(entry, offset - before as u64, ahead) == before;
    let behind = source.read_around(entry, offset + len as u64, &mut rest[len..]);
    let first = if ahead_read { 0 } else { before };
    let around = Window {
        bytes: &window[first..before + len + behind],
        start: offset - (before - first) as u64,
        block: before - first..before - first + len,
    };
    let Some(steps) = based.plan(&around) else { return Ok(Sought::Early) };
    let mut hasher = BlockHasher::new(shape);
    hasher.update(&around.bytes[around.block.clone()]);
    Ok(Sought::Found(Planned { steps, block: before..before + len, proof: hasher.finish(), failures }))
}

impl Sender<'_> {
    /// Sends a block as it was planned; `window` is what it was planned in.
    pub(super) fn send_planned<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        shape: &BlockShape,
        planned: Planned,
        packer: &mut Option<Packer>,
        window: &mut [u8],
    ) -> io::Result<()> {
        let Planned { steps, block, proof, failures } = planned;
        writer.queue(&FrameHeader::Pieces { block: shape.number, len: shape.len }.encode())?;
        let mut left = &mut window[block];
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
        let value = self.outbound.value_to_send(proof.value(), &failures);
        writer.queue(&Trailer(value).encode())?;
        self.outbound.handle_sent(shape, Some(proof), failures);
        writer.flush()
    }
}
