//! What of a block is in the basis.
//!
//! | looking at a position | if it is | then |
//! |---|---|---|
//! | for the chunk that is expected there | that chunk | it is copied; the next is expected behind it |
//! | the same | not | for the one after it, a chunk further on: content that was changed in place |
//! | for the one after it | that chunk | what is between is sent; the next is expected |
//! | the same | not | byte by byte for any chunk |
//! | byte by byte | a chunk | it is copied; the next is expected behind it |
//!
//! At a block's start the expected chunk is the one at the same place in the basis, then the one that lies as far from there as
//! what was found in the block before. Chunks may reach over the block's ends: only the part within is copied.

use std::ops::Range;

use super::{Basis, Rolling};
use crate::BLOCK_SIZE;

/// Fewer bytes than this are sent rather than copied: an instruction has to be sent too.
const LEAST_COPIED: usize = 64;
/// Most bytes of a block that are looked at in vain because their weak sum is a chunk's; what is left of the block is sent. By chance it
/// is one position in 4,000 with a million chunks, and of a basis of 64 GiB a fourth of this. A receiver that means harm gives sums that
/// fit everywhere, and each position would cost a chunk of up to a block's length.
const MOST_IN_VAIN: u64 = 64 * BLOCK_SIZE;

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// In the basis.
    Copy {
        /// Where in the basis.
        from: u64,
        /// Bytes.
        len: u32,
    },
    /// Only in the new file.
    Literal {
        /// Bytes.
        len: u32,
    },
}

/// A block of the new file, with what is around it: chunks may begin up to a chunk before it and end up to a chunk behind it.
#[derive(Clone, Debug)]
pub struct Window<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where in the file they begin.
    pub start: u64,
    /// Where in them the block is; not empty.
    pub block: Range<usize>,
}

/// A chunk found at a position of the window.
struct Found {
    at: usize,
    chunk: u64,
}

/// Plans a block; the steps' lengths amount to its. `shift` is by how many bytes what was found last lies further on in the new
/// file than in the basis, and is kept up to date.
pub fn plan(basis: &Basis, window: &Window<'_>, shift: &mut i64) -> Vec<Step> {
    let mut finder = Finder { basis, window, found: Vec::new(), in_vain: 0 };
    let mut at = finder.begin(*shift);
    while at < window.block.end {
        at = finder.follow(at);
    }
    if let Some(last) = finder.found.last() {
        *shift = (window.start + last.at as u64) as i64 - (last.chunk << basis.chunk_log()) as i64;
    }
    steps(basis, &window.block, &finder.found)
}

struct Finder<'a> {
    basis: &'a Basis,
    window: &'a Window<'a>,
    found: Vec<Found>,
    /// Bytes that were no chunk though their weak sum was one's.
    in_vain: u64,
}

impl Finder<'_> {
    /// Whether the chunk of this number is at `at`, and then notes it.
    fn try_chunk(&mut self, at: usize, chunk: u64) -> bool {
        let bytes = self.window.bytes.get(at..at + self.basis.chunk());
        let there = bytes.is_some_and(|bytes| self.basis.is_chunk(chunk, bytes));
        if there {
            self.found.push(Found { at, chunk });
        }
        there
    }

    /// Looks for the first chunk; returns where to go on.
    fn begin(&mut self, shift: i64) -> usize {
        let (chunk, block) = (self.basis.chunk(), &self.window.block);
        for shift in [0, shift] {
            let in_basis = (self.window.start + block.start as u64) as i64 - shift;
            let before = in_basis.rem_euclid(chunk as i64) as usize;
            if let Some(at) = block.start.checked_sub(before)
                && let Ok(in_basis) = u64::try_from(in_basis - before as i64)
                && self.try_chunk(at, in_basis >> self.basis.chunk_log())
            {
                return at + chunk;
            }
        }
        self.roll(block.start.saturating_sub(chunk - 1))
    }

    /// Goes on behind a chunk that was found, up to the next one or the block's end.
    fn follow(&mut self, at: usize) -> usize {
        let chunk = self.basis.chunk();
        let Some(next) = self.found.last().map(|last| last.chunk + 1) else { return self.window.block.end };
        if self.try_chunk(at, next) {
            at + chunk
        } else if at + chunk < self.window.block.end && self.try_chunk(at + chunk, next + 1) {
            at + 2 * chunk
        } else {
            self.roll(at)
        }
    }

    /// Looks at every position from `from` on; returns where the chunk that it finds ends, or the block's end.
    fn roll(&mut self, from: usize) -> usize {
        let (chunk, end) = (self.basis.chunk(), self.window.block.end);
        let bytes = self.window.bytes;
        let Some(first) = bytes.get(from..from + chunk) else { return end };
        let mut rolling = Rolling::over(first);
        // The byte that leaves and the one that comes, for every position but the first.
        let outs = bytes[from..end.max(from)].iter();
        let mut pairs = outs.zip(&bytes[from + chunk..]);
        let mut at = from;
        loop {
            let weak = rolling.weak();
            if self.basis.may_have(weak) {
                if let Some(number) = self.basis.find(weak, &bytes[at..at + chunk], &mut self.in_vain) {
                    self.found.push(Found { at, chunk: number });
                    return at + chunk;
                }
                if self.in_vain > MOST_IN_VAIN {
                    return end;
                }
            }
            let Some((&out, &next)) = pairs.next() else { return end };
            rolling.roll(out, next);
            at += 1;
        }
    }
}

/// The parts of what was found that lie in the block, and what is between them.
fn steps(basis: &Basis, block: &Range<usize>, found: &[Found]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut at = block.start;
    let literal = |steps: &mut Vec<Step>, more: usize| match steps.last_mut() {
        _ if more == 0 => {}
        Some(Step::Literal { len }) => *len += more as u32,
        _ => steps.push(Step::Literal { len: more as u32 }),
    };
    for Found { at: found, chunk } in found {
        let (begin, end) = ((*found).max(at), (found + basis.chunk()).min(block.end));
        if begin + LEAST_COPIED > end {
            continue;
        }
        literal(&mut steps, begin - at);
        let begins = (chunk << basis.chunk_log()) + (begin - found) as u64;
        match steps.last_mut() {
            Some(Step::Copy { from, len }) if *from + u64::from(*len) == begins => {
                *len += (end - begin) as u32
            }
            _ => steps.push(Step::Copy { from: begins, len: (end - begin) as u32 }),
        }
        at = end;
    }
    literal(&mut steps, block.end - at);
    steps
}

#[cfg(test)]
mod tests;
