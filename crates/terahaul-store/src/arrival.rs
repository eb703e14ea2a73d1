//! One block on its way in.

use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terahaul_core::{BlockHasher, BlockProof, BlockRefusal, BlockShape, Hash};

use crate::guess::Purpose;
use crate::inbound::Shared;
use crate::{BlockWriter, Guess, InboundError, LedgerError};

/// One block on its way in. Dropped unfinished, or with an error from `finish`, it may be offered again.
pub struct Arrival<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) shape: BlockShape,
    pub(crate) hasher: Option<BlockHasher>,
    /// `None` for what is not written: a duplicate, or what nobody wants any more.
    pub(crate) writer: Option<Box<dyn BlockWriter + 'a>>,
    admitted: bool,
    /// Whether it is compared with what is here.
    compares: bool,
    pub(crate) losses: u64,
    pub(crate) taken: u64,
    copied: u64,
    /// Those that stand for what could not be read.
    unread: u64,
    /// What is in its place already.
    pub(crate) guess: Option<Guess>,
    /// Bytes that stayed of that.
    pub(crate) stayed: u64,
    pub(crate) purpose: Purpose,
}

impl<'a> Arrival<'a> {
    /// A block that is here already.
    pub(crate) fn compared(shared: &'a Shared, shape: BlockShape) -> Self {
        let mut arrival = Self::discarded(shared, shape);
        arrival.compares = true;
        arrival
    }

    /// A block of which nothing is wanted any more. Its sender's value is checked all the same.
    pub(crate) fn discarded(shared: &'a Shared, shape: BlockShape) -> Self {
        Self::new(shared, shape, false, 0, None)
    }

    /// A block that was admitted for writing, after so many losses, and what is in its place.
    pub(crate) fn admitted(shared: &'a Shared, shape: BlockShape, losses: u64, guess: Option<Guess>) -> Self {
        Self::new(shared, shape, true, losses, guess)
    }

    fn new(shared: &'a Shared, shape: BlockShape, admitted: bool, losses: u64, guess: Option<Guess>) -> Self {
        let in_groups = guess.as_ref().and_then(|guess| BlockHasher::in_groups(&shape, guess.group));
        let hasher = Some(in_groups.unwrap_or_else(|| BlockHasher::new(&shape)));
        Self {
            shared,
            shape,
            hasher,
            writer: None,
            admitted,
            compares: false,
            losses,
            taken: 0,
            copied: 0,
            unread: 0,
            guess,
            stayed: 0,
            purpose: Purpose::Keep,
        }
    }

    /// Whether it is written.
    pub(crate) fn is_written(&self) -> bool {
        self.writer.is_some()
    }
}

impl Arrival<'_> {
    /// What the block holds.
    pub fn shape(&self) -> &BlockShape {
        &self.shape
    }

    /// The next bytes. The caller gives exactly the block's length in all; more is refused before it is written.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), InboundError> {
        self.take_in(parts)?;
        self.put(parts)
    }

    /// What was taken in goes where it belongs.
    pub(crate) fn put(&mut self, parts: &[IoSlice<'_>]) -> Result<(), InboundError> {
        match &mut self.writer {
            Some(writer) => {
                let _writing = self.shared.writing()?;
                Ok(writer.write(parts)?)
            }
            None => Ok(()),
        }
    }

    /// The next bytes, which are in their place or are not to be there.
    pub(crate) fn take_in(&mut self, parts: &[IoSlice<'_>]) -> Result<(), InboundError> {
        self.taken += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if self.taken > u64::from(self.shape.len) {
            return Err(self.wrong_length());
        }
        if let Some(hasher) = &mut self.hasher {
            parts.iter().for_each(|part| hasher.update(part));
        }
        Ok(())
    }

    /// The next `len` bytes are those of the old file from `from` on. They go through `buffer`, as many at a time as it holds, unless
    /// they are where they belong already.
    pub fn copy(&mut self, mut from: u64, len: u32, buffer: &mut [u8]) -> Result<(), InboundError> {
        if self.taken + u64::from(len) > u64::from(self.shape.len) {
            self.taken += u64::from(len);
            return Err(self.wrong_length());
        }
        let mut left = len;
        while left > 0 {
            let some = match self.stay(from, left)? {
                Some(stayed) => stayed,
                None => {
                    let some = left.min(self.until_a_guess(buffer.len() as u32));
                    self.move_over(from, &mut buffer[..some as usize])?;
                    some
                }
            };
            from += u64::from(some);
            left -= some;
        }
        self.copied += u64::from(len);
        Ok(())
    }

    /// So many of the bytes stand for files that could not be read, and are not counted as sent.
    pub fn handle_unread(&mut self, bytes: u32) {
        self.unread += u64::from(bytes);
    }

    /// All bytes were given. `claimed` is the sender's value; without one the computed value is taken.
    pub fn finish(mut self, claimed: Option<Hash>) -> Result<Hash, InboundError> {
        if self.taken != u64::from(self.shape.len) {
            return Err(self.wrong_length());
        }
        let Some(hasher) = self.hasher.take() else { return Err(InboundError::Closed) };
        let proof = hasher.finish();
        let value = proof.value();
        if let Some(claimed) = claimed.filter(|claimed| *claimed != value) {
            return Err(InboundError::Mismatch {
                block: self.shape.number,
                claimed: claimed.to_hex(),
                got: value.to_hex(),
            });
        }
        match self.writer.take() {
            None if self.compares => self.compare(&proof)?,
            None => {}
            Some(writer) => {
                self.end_writing(writer)?;
                self.keep(proof)?;
                self.shared.copied.fetch_add(self.copied, Ordering::Relaxed);
                self.shared.sent.fetch_add(self.taken - self.copied - self.unread, Ordering::Relaxed);
            }
        }
        Ok(value)
    }

    pub(crate) fn end_writing(&self, writer: Box<dyn BlockWriter + '_>) -> Result<(), InboundError> {
        let _writing = self.shared.writing()?;
        Ok(writer.finish()?)
    }

    fn wrong_length(&self) -> InboundError {
        let (block, expected, got) = (self.shape.number, self.shape.len, self.taken);
        BlockRefusal::Length { block, expected, got }.into()
    }

    fn keep(&mut self, proof: BlockProof) -> Result<(), InboundError> {
        let mut state = self.shared.state();
        if state.closed {
            return Err(InboundError::Closed);
        }
        if state.losses != self.losses {
            return Err(state.broken());
        }
        state.receiver.handle_verified(Instant::now(), &self.shape, proof);
        self.admitted = false;
        drop(state);
        self.shared.settled.notify_all();
        self.shared.work.notify_one();
        Ok(())
    }

    fn compare(&self, proof: &BlockProof) -> Result<(), InboundError> {
        let block = self.shape.number;
        let fresh = {
            let state = self.shared.state();
            if !state.receiver.received().contains(block) {
                return if state.receiver.is_void(block) { Ok(()) } else { Err(state.broken()) };
            }
            state.receiver.fresh_proof(block).cloned()
        };
        // A block leaves `fresh` only once the ledger has it, so one of the two knows it.
        let same = match fresh {
            Some(fresh) => Some(fresh == *proof),
            None => self.shared.ledger.has_recorded(&self.shape, proof)?,
        };
        match same {
            Some(true) => Ok(()),
            Some(false) => Err(InboundError::Conflict(block)),
            // It was freed meanwhile.
            None if self.shared.state().receiver.is_void(block) => Ok(()),
            None => {
                let source = format!("it lacks the proof of block {block}").into();
                Err(LedgerError { action: "read", source }.into())
            }
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.tell_guess();
        // The writer first: another may begin as soon as the block is given back.
        self.writer = None;
        if self.admitted {
            let mut state = self.shared.state();
            state.receiver.handle_dropped(self.shape.number);
            if self.purpose == Purpose::Guess {
                state.guessing.remove(&self.shape.number);
            }
            drop(state);
            self.shared.settled.notify_all();
        }
    }
}
