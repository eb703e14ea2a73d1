//! Filling blocks from an old file before the sender has said that they have not changed, and telling it what they are.
//!
//! A file that was edited in place is so read, hashed and written once here, and only read and hashed there. Guesses keep a distance
//! ahead of what the sender has judged, a short one until it has found any of them right.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use terahaul_core::{BLOCK_SIZE, BlockNumber, EntryIndex};
use terahaul_store::{BasisError, Inbound, InboundError};
use terahaul_wire::{GUESS_LEN, Guessed, Message};
use tokio::sync::mpsc::Sender;

use super::{Shared, State, threads_for};

/// Bytes that a thread copies at a time. Of threads that write one file the system lets one at a time in: with a quarter of this
/// they hand each other that turn so often that it shows.
const COPIED_AT_ONCE: usize = 1 << 20;
/// Guesses that the sender has not judged, of all files, and of one of which none was right yet.
const AHEAD: usize = 64;
pub(super) const AHEAD_AT_FIRST: usize = 8;

/// What is guessed of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guesses {
    pub session: u64,
    pub entry: EntryIndex,
    /// Bytes of the old file, and of a group.
    pub size: u64,
    pub group: u32,
    /// The entry's first block, and how many it has.
    pub blocks: (BlockNumber, u32),
    /// Which of them is guessed first, and where in the old file it begins.
    pub first: u32,
    pub from: u64,
    /// How many pieces of advice were heard.
    pub heard: u32,
}

/// Whether the next block may be guessed.
enum Turn {
    Go,
    /// There was other advice.
    Stop,
}

/// What became of a block's turn.
enum Outcome {
    /// The sender is told these values.
    Filled(Vec<u8>),
    /// It has arrived.
    Here,
    /// The old file has no bytes for it, nor for those behind it.
    Over,
}

impl Guesses {
    fn told(&self, block: u32, from: u64, values: Vec<u8>) -> Message {
        let Self { entry, heard, group, .. } = *self;
        Message::Guessed(Guessed { entry: entry.0, heard, block, from, group, values })
    }
}

impl Shared {
    /// Guesses all blocks that the old file has bytes for, unless there is other advice. `None` when the session is over.
    pub(super) fn guess(&self, guesses: &Guesses, told: &Sender<Message>) -> Option<io::Result<()>> {
        self.forget_guesses_of(guesses.entry);
        let next = AtomicU32::new(guesses.first.min(guesses.blocks.1));
        let guess = || self.guess_some(guesses, &next, told);
        let done = std::thread::scope(|scope| {
            // With fewer of them where the system gives no more.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, guess).ok();
            let threads: Vec<_> = (1..threads_for(guesses.size)).filter_map(spawn).collect();
            let gone = |_| Some(Err(io::Error::other("a thread that guesses ended")));
            let others = threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone));
            std::iter::once(guess()).chain(others.collect::<Vec<_>>()).collect::<Option<io::Result<()>>>()
        })?;
        if let Err(error) = done {
            return Some(Err(error));
        }
        // Void where there was other advice.
        told.blocking_send(guesses.told(0, 0, Vec::new())).ok().map(Ok)
    }

    fn guess_some(
        &self,
        guesses: &Guesses,
        next: &AtomicU32,
        told: &Sender<Message>,
    ) -> Option<io::Result<()>> {
        let mut buffer = vec![0; COPIED_AT_ONCE];
        loop {
            let inbound = self.inbound.upgrade()?;
            if let Turn::Stop = self.wait_for(guesses.session, |state| state.turn(guesses, &inbound))? {
                return Some(Ok(()));
            }
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= guesses.blocks.1 {
                return Some(Ok(()));
            }
            let from = guesses.from.saturating_add(u64::from(block - guesses.first) * BLOCK_SIZE);
            match guess_one(guesses, block, from, &inbound, &mut buffer) {
                Ok(Outcome::Filled(values)) => {
                    if !self.state().is_current(guesses) {
                        // There was other advice meanwhile, or another session: nobody judges it.
                        let number = guesses.blocks.0.0 + block;
                        self.forget_guesses(BlockNumber(number)..BlockNumber(number + 1));
                        return Some(Ok(()));
                    }
                    told.blocking_send(guesses.told(block, from, values)).ok()?;
                }
                Ok(Outcome::Here) => {}
                Ok(Outcome::Over) => return Some(Ok(())),
                Err(InboundError::Basis(error)) => return Some(Err(io::Error::other(error))),
                // Whatever it is, blocks that are sent meet it, too.
                Err(error) => {
                    tracing::debug!(entry = %guesses.entry, "guesses end: {error}");
                    return Some(Ok(()));
                }
            }
        }
    }
}

impl State {
    fn is_current(&self, guesses: &Guesses) -> bool {
        let heard = self.offers.find(guesses.entry).map(|offered| offered.heard);
        self.session == guesses.session && heard == Some(guesses.heard)
    }

    fn turn(&self, guesses: &Guesses, inbound: &Inbound) -> Option<Turn> {
        let offered = self.offers.find(guesses.entry).filter(|_| self.is_current(guesses));
        let Some(offered) = offered else { return Some(Turn::Stop) };
        let ahead = if offered.agreed { AHEAD } else { AHEAD_AT_FIRST };
        (inbound.guesses() < ahead).then_some(Turn::Go)
    }
}

/// Fills a block from where it is to begin in the old file.
fn guess_one(
    guesses: &Guesses,
    block: u32,
    from: u64,
    inbound: &Inbound,
    buffer: &mut [u8],
) -> Result<Outcome, InboundError> {
    let (number, group) = (BlockNumber(guesses.blocks.0.0 + block), guesses.group);
    let Some(shape) = inbound.with(|receiver| receiver.layout().shape(number)) else {
        return Ok(Outcome::Over);
    };
    let there = guesses.size.saturating_sub(from).min(u64::from(shape.len)) as u32;
    let len = if there == shape.len { there } else { there - there % group };
    if len == 0 {
        return Ok(Outcome::Over);
    }
    match inbound.guess(number, from, len, group, buffer) {
        Ok(Some(guess)) => {
            let told = guess.values.iter().flat_map(|value| &value.0[..GUESS_LEN]).copied().collect();
            Ok(Outcome::Filled(told))
        }
        Ok(None) => Ok(Outcome::Here),
        // The entry is done with.
        Err(InboundError::Basis(BasisError::Outside)) => Ok(Outcome::Over),
        Err(error) => Err(error),
    }
}
