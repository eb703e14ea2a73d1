//! Blocks that a receiver fills from an old file before it knows that they have not changed.
//!
//! | a block's place holds | on | then |
//! |---|---|---|
//! | anything | [`Inbound::guess`] | a guess: bytes of the old file, hashed group by group |
//! | a guess | the block begins ([`Inbound::begin`]) | those groups that the sender has copied from where they were guessed from stay as they are, neither read nor hashed nor written again; all others are overwritten |
//! | a guess | blocks were lost, or [`Inbound::forget_guesses`] | anything |
//!
//! A guess saves work and decides nothing: the block's value is computed from what is in its place, and has to be the sender's.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use terahaul_core::{BlockHasher, BlockNumber, Hash};

use crate::{Arrival, Inbound, InboundError, PIECE};

/// What is in a block's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Where in the old file it was read.
    pub from: u64,
    /// Bytes of a group: a power of two.
    pub group: u32,
    /// The values of the groups, from the block's first on. Where the old file ends within the block they are not all of its.
    pub values: Arc<[Hash]>,
}

/// What a block is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Keep,
    Guess,
}

/// Called with each guess that was put to the test, and whether any of it was right.
pub type OnGuess = Box<dyn Fn(BlockNumber, bool) + Send + Sync>;

impl Guess {
    /// Bytes that stay where they are, if the next `len` of a block, of which `at` are there, are the old file's from `from` on: one
    /// group, and its value.
    pub(crate) fn stays(&self, at: u64, from: u64, len: u32, block_len: u32) -> Option<(u32, Hash)> {
        let group = u64::from(self.group);
        if from != self.from + at || !at.is_multiple_of(group) {
            return None;
        }
        let value = *self.values.get(usize::try_from(at / group).ok()?)?;
        let whole = group.min(u64::from(block_len) - at) as u32;
        (whole <= len).then_some((whole, value))
    }
}

impl Inbound {
    /// Fills the first `len` bytes of a block with those of the old file from `from` on, and says what they are; `len` is the
    /// block's or a multiple of `group`. `None` for a block that is here, or arriving, or cannot be guessed.
    pub fn guess(
        &self,
        block: BlockNumber,
        from: u64,
        len: u32,
        group: u32,
        buffer: &mut [u8],
    ) -> Result<Option<Guess>, InboundError> {
        let shape = self.with(|receiver| receiver.layout().shape(block));
        let Some(shape) = shape.filter(|shape| len <= shape.len) else { return Ok(None) };
        let Some(hasher) = BlockHasher::in_groups(&shape, group) else { return Ok(None) };
        let mut arrival = match self.begin_for(block, u64::from(shape.len), Purpose::Guess, Duration::ZERO) {
            Ok(arrival) if arrival.is_written() => arrival,
            Ok(_) | Err(InboundError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        arrival.begin_guess(hasher);
        arrival.copy(from, len, buffer)?;
        arrival.leave(from, group).map(Some)
    }

    /// How many guesses nobody has put to the test.
    pub fn guesses(&self) -> usize {
        self.shared.state().guesses.len()
    }

    /// Nobody will ask for these.
    pub fn forget_guesses(&self, blocks: Range<BlockNumber>) {
        self.shared.state().guesses.retain(|block, _| !blocks.contains(block));
    }

    /// Calls `listener` from now on, and no other.
    pub fn set_guess_listener(&self, listener: OnGuess) {
        self.shared.state().on_guess = Some(Arc::new(listener));
    }
}

impl Arrival<'_> {
    fn begin_guess(&mut self, hasher: BlockHasher) {
        self.guess = None;
        self.hasher = Some(hasher);
    }

    /// What was written stays where it is, as a guess.
    fn leave(mut self, from: u64, group: u32) -> Result<Guess, InboundError> {
        let (Some(writer), Some(hasher)) = (self.writer.take(), self.hasher.take()) else {
            return Err(InboundError::Closed);
        };
        self.end_writing(writer)?;
        let guess = Guess { from, group, values: hasher.finish_groups().into() };
        let mut state = self.shared.state();
        if state.losses != self.losses {
            return Err(state.broken());
        }
        state.guesses.insert(self.shape.number, guess.clone());
        drop(state);
        Ok(guess)
    }

    /// Leaves one group of the guess as it is, if it is what is to be copied; returns its length.
    pub(crate) fn stay(&mut self, from: u64, len: u32) -> Result<Option<u32>, InboundError> {
        let Some(guess) = &self.guess else { return Ok(None) };
        let (Some(hasher), Some(writer)) = (&mut self.hasher, &mut self.writer) else { return Ok(None) };
        let Some((group, value)) = guess.stays(self.taken, from, len, self.shape.len) else {
            return Ok(None);
        };
        if !hasher.take_group(value, group) {
            return Ok(None);
        }
        writer.skip(group)?;
        self.taken += u64::from(group);
        self.stayed += u64::from(group);
        Ok(Some(group))
    }

    /// Of so many bytes those before a group begins that may stay.
    pub(crate) fn until_a_guess(&self, most: u32) -> u32 {
        match &self.guess {
            Some(guess) => most.min(guess.group - (self.taken % u64::from(guess.group)) as u32),
            None => most,
        }
    }

    /// The next bytes of a copy, read and hashed, and written where the old file cannot share them.
    pub(crate) fn move_over(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), InboundError> {
        if let Some(writer) = &mut self.writer {
            let _writing = self.shared.writing()?;
            if writer.share(from, bytes)? {
                return self.take_in(&[IoSlice::new(bytes)]);
            }
        }
        // What was just read is hashed before other bytes take its place in the nearest cache.
        let mut at = from;
        for piece in bytes.chunks_mut(PIECE) {
            self.shared.sink.read_basis(&self.shape, at, piece)?;
            self.take_in(&[IoSlice::new(piece)])?;
            at += piece.len() as u64;
        }
        self.put(&[IoSlice::new(bytes)])
    }

    pub(crate) fn tell_guess(&mut self) {
        if self.guess.take().is_none() {
            return;
        }
        let listener = self.shared.state().on_guess.clone();
        if let Some(listener) = listener {
            listener(self.shape.number, self.stayed > 0);
        }
    }
}

#[cfg(test)]
mod tests;
