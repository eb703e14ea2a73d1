//! Blocks of a file whose old version the receiver has: as copies from there and as what is missing. What the receiver has guessed is
//! copied too, from where it was guessed from: it is there already.

use std::io::{self, Write};
use std::ops::Range;

use terahaul_core::delta::{Step, Window};
use terahaul_core::{BlockContent, BlockHasher, BlockProof, BlockShape, EntryIndex, Hash};
use terahaul_store::{BlockSource, EntryFailure, PIECE};
use terahaul_wire::{FrameHeader, PIECE_HEADER_LEN, PieceHeader, Trailer};

use super::based::{Based, Plan};
use super::bases::Known;
use super::guesses::Guess;
use super::outbound::Outbound;
use super::packing::Packer;
use super::sealed_writer::SealedWriter;
use super::sending::Sender;

/// How a block goes, now that it was looked for in the old file.
pub(super) struct Planned {
    pub steps: Vec<Step>,
    /// Where in the window the block is. What is copied of it may not be there, unless copies save nothing.
    pub block: Range<usize>,
    pub proof: BlockProof,
    pub failures: Vec<EntryFailure>,
    /// Its end is as the receiver has guessed.
    pub agreed: bool,
}

/// What looking for a block in the old file came to.
pub(super) enum Sought {
    Found(Planned),
    /// It comes again: once there are more sums, or whatever becomes of a guess that is wrong.
    Early(Wanting),
    /// It goes as any other.
    Unfit,
}

/// What a block that cannot be planned yet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanting {
    /// It is not all among the sums so far.
    Sums,
    /// Its end is not as guessed.
    Judgement,
    /// What it was claimed with is void: it waits as if it had not been claimed.
    News,
}

/// Groups at a block's end that may be other than guessed before that raises doubts.
const LOOSE_END: usize = 8;

/// Reads a block of an entry that has a basis into `window`, and plans it.
pub(super) fn plan(
    outbound: &Outbound,
    source: &dyn BlockSource,
    shape: &BlockShape,
    window: &mut Vec<u8>,
) -> io::Result<Sought> {
    let BlockContent::Piece { entry, offset, .. } = shape.content else { return Ok(Sought::Unfit) };
    match outbound.basis_of(shape) {
        Err(wanting) => Ok(Sought::Early(wanting)),
        Ok(Some(Known::Guess(guess))) => compare(source, shape, &guess, window),
        Ok(Some(Known::Based(based))) => {
            let (sought, shift) = look_for(source, shape, (entry, offset), &based, window)?;
            if let Some(shift) = shift {
                outbound.handle_found(shape, shift);
            }
            Ok(sought)
        }
        Ok(None) => Ok(Sought::Unfit),
    }
}

/// Compares a block with what the receiver has guessed it to be.
fn compare(
    source: &dyn BlockSource,
    shape: &BlockShape,
    guess: &Guess,
    window: &mut Vec<u8>,
) -> io::Result<Sought> {
    if let Some(values) = source.known_groups(shape, guess.group) {
        let judged = Judged::of(shape, guess, &values);
        if !judged.agreed && !guess.certain {
            return Ok(Sought::Early(Wanting::Judgement));
        }
        if read_literals(source, shape, guess.group, &judged.steps, &values, window) {
            return Ok(Sought::Found(judged.planned(&values, Vec::new())));
        }
    }
    let Some(mut hasher) = BlockHasher::in_groups(shape, guess.group) else { return Ok(Sought::Unfit) };
    window.resize(shape.len as usize, 0);
    let failures = source.read_block(shape, window, &mut |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    let values = hasher.finish_groups();
    let judged = Judged::of(shape, guess, &values);
    // What could not be read has no place in the old file, and its failure is told with the block.
    if !judged.agreed && !guess.certain && failures.is_empty() {
        return Ok(Sought::Early(Wanting::Judgement));
    }
    Ok(Sought::Found(judged.planned(&values, failures)))
}

/// What a guess comes to.
struct Judged {
    steps: Vec<Step>,
    len: u32,
    agreed: bool,
}

impl Judged {
    fn of(shape: &BlockShape, guess: &Guess, values: &[Hash]) -> Self {
        let right: Vec<bool> =
            values.iter().enumerate().map(|(group, value)| guess.is(group, value)).collect();
        // What the old file has no bytes for was not guessed.
        let loose = right[..guess.len().min(right.len())].iter().rev().take_while(|right| !**right).count();
        let agreed = loose <= LOOSE_END && right.contains(&true);
        let mut steps: Vec<Step> = Vec::new();
        for (group, right) in right.into_iter().enumerate() {
            let at = group as u32 * guess.group;
            let more = guess.group.min(shape.len - at);
            match (right, steps.last_mut()) {
                (true, Some(Step::Copy { len, .. })) | (false, Some(Step::Literal { len })) => *len += more,
                (true, _) => {
                    steps.push(Step::Copy { from: guess.from.saturating_add(u64::from(at)), len: more });
                }
                (false, _) => steps.push(Step::Literal { len: more }),
            }
        }
        Self { steps, len: shape.len, agreed }
    }

    fn planned(self, values: &[Hash], failures: Vec<EntryFailure>) -> Planned {
        let Self { steps, len, agreed } = self;
        Planned { steps, block: 0..len as usize, proof: BlockProof::of_groups(values), failures, agreed }
    }
}

/// Reads into `window` what of a block is sent as it is, or may be. `false` if that is not of these values any more.
fn read_literals(
    source: &dyn BlockSource,
    shape: &BlockShape,
    group: u32,
    steps: &[Step],
    values: &[Hash],
    window: &mut Vec<u8>,
) -> bool {
    let BlockContent::Piece { entry, offset, .. } = shape.content else { return false };
    window.resize(shape.len as usize, 0);
    let mut at = 0;
    for step in steps {
        let (Step::Copy { len, .. } | Step::Literal { len }) = *step;
        // A copy of the short group at a file's end may save nothing, and then UDP carries the whole block as it is.
        if matches!(step, Step::Literal { .. }) || len < group {
            let from = offset + u64::from(at);
            let part = &mut window[at as usize..][..len as usize];
            if source.read_around(entry, from, part) < part.len() {
                return false;
            }
            let Some(mut hasher) = BlockHasher::in_groups_at(from, group) else { return false };
            hasher.update(part);
            if !values[(at / group) as usize..].starts_with(&hasher.finish_groups()) {
                return false;
            }
        }
        at += len;
    }
    true
}

/// Looks for a block, and for what is around it, among the sums of the old file; says what [`Plan::shift`] says.
fn look_for(
    source: &dyn BlockSource,
    shape: &BlockShape,
    (entry, offset): (EntryIndex, u64),
    based: &Based,
    window: &mut Vec<u8>,
) -> io::Result<(Sought, Option<i64>)> {
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
    let Plan { steps, shift } = based.plan(&around);
    let Some(steps) = steps else { return Ok((Sought::Early(Wanting::Sums), shift)) };
    let mut hasher = BlockHasher::new(shape);
    hasher.update(&around.bytes[around.block.clone()]);
    let (block, proof) = (before..before + len, hasher.finish());
    Ok((Sought::Found(Planned { steps, block, proof, failures, agreed: false }), shift))
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
        let Planned { steps, block, proof, failures, agreed } = planned;
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
        if agreed {
            self.outbound.handle_agreed(shape);
        }
        self.outbound.handle_sent(shape, Some(proof), failures);
        writer.flush()
    }
}

#[cfg(test)]
mod tests;
