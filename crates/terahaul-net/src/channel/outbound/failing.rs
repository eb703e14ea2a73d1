//! What of a transfer that is sent has failed, and blocks that go again for that.
//!
//! The receiver is not to keep zeros that stand for a file before it has read that the file has failed (docs/protocol.md 9):
//!
//! | a block | is | then |
//! |---|---|---|
//! | read while it goes out, over TCP for the first time | sent, with no value where a file has failed that was not told of | refused; goes again once the receiver has read of it |
//! | read before it goes out: over UDP, or refused before | not sent where a file has failed that was not told of | read anew once the receiver has read of it |
//! | read, with failures that the receiver has read of | sent with its value | kept |

use std::io;

use terahaul_core::{BlockNumber, BlockShape, EntryIndex, Hash};
use terahaul_store::{BlockSource, EntryFailure};
use terahaul_wire::{ErrorCode, WireError};

use super::state::State;
use super::{Outbound, OutboundEvent};
use crate::channel::bases::Freed;
use crate::channel::record::Record;

/// No block's value: nobody finds bytes that hash to it.
pub(super) const NO_VALUE: Hash = Hash([0; 32]);

impl State {
    /// Whether any file in this block has failed.
    fn has_failed(&self, shape: &BlockShape) -> bool {
        shape.entries().any(|entry| self.failed.contains(&entry))
    }

    /// Files in this block that have failed, of which the receiver may not have read that they have.
    fn untold(&self, shape: &BlockShape) -> Vec<EntryIndex> {
        shape.entries().filter(|entry| self.failed.contains(entry) && !self.told.contains(entry)).collect()
    }

    /// Whether the receiver has read of all these.
    fn has_told(&self, failures: &[EntryFailure]) -> bool {
        failures.iter().all(|failure| self.told.contains(&failure.entry))
    }
}

impl Outbound {
    /// Files in this block that have failed, of which the receiver may not have read that they have.
    pub fn untold(&self, block: BlockNumber) -> Vec<EntryIndex> {
        let state = self.state();
        state.layout.shape(block).map_or(Vec::new(), |shape| state.untold(&shape))
    }

    /// The receiver has read that these entries of a block have failed, and others of it may have since. The block goes again: it was refused,
    /// or none of it was sent. An error when it was refused too often for that to help.
    pub fn handle_told(
        &self,
        block: BlockNumber,
        told: Vec<EntryIndex>,
        refusal: Option<WireError>,
    ) -> Result<(), WireError> {
        self.state().told.extend(told);
        match refusal {
            Some(error) => self.handle_refusal(block, error),
            None => {
                self.state().queue.handle_refused(block);
                self.wake.notify_all();
                Ok(())
            }
        }
    }

    /// The receiver has refused a block. An error when that cannot go on.
    ///
    /// It may keep the block as it came before. Where one of its files has failed since, that is why this one differs, and what is there is
    /// what is wanted: it stays claimed, becomes durable, or is lost with its session. Where none has, the two may each be half of what was
    /// meant.
    pub fn handle_refusal(&self, block: BlockNumber, error: WireError) -> Result<(), WireError> {
        let has_failed = {
            let state = self.state();
            state.layout.shape(block).is_some_and(|shape| state.has_failed(&shape))
        };
        let keeps_another = error.code == ErrorCode::Conflict && !error.retry;
        if (keeps_another && has_failed) || self.handle_refused(block) { Ok(()) } else { Err(error) }
    }

    /// The receiver has not taken a block, and is to have it again. `false` when that was so too often for it to help.
    pub fn handle_refused(&self, block: BlockNumber) -> bool {
        let mut state = self.state();
        if u64::from(block.0) >= state.layout.block_count() {
            return true;
        }
        let count = state.refusals.entry(block).or_default();
        *count += 1;
        let again = *count <= 5;
        state.queue.handle_refused(block);
        drop(state);
        self.wake.notify_all();
        again
    }

    /// These entries will not arrive: blocks that hold nothing else are not sent.
    pub fn handle_failed(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        let mut state = self.state();
        let new: Vec<_> = entries.into_iter().filter(|entry| state.failed.insert(*entry)).collect();
        state.void_blocks_of(&new);
        drop(state);
        self.wake.notify_all();
    }

    /// What `source` knows of a block without reading it. That is not its value any more once a file in it has failed, as what is read
    /// and sent may have zeros in that one's place from then on; nor is it to be relied on once the block was refused with that value. Its
    /// files are compared one by one then, where that can be: the others may be damaged.
    pub(in crate::channel) fn record_of(
        &self,
        source: &dyn BlockSource,
        shape: &BlockShape,
    ) -> io::Result<Record> {
        let (was_refused, has_failed) = {
            let state = self.state();
            (state.refusals.contains_key(&shape.number), state.has_failed(shape))
        };
        let recorded = if was_refused || has_failed { source.known_proof(shape)? } else { None };
        Ok(match recorded {
            Some(proof) => Record::Doubted(proof),
            None if has_failed => Record::Nothing,
            None => source.known_value(shape.number)?.map_or(Record::Nothing, Record::Value),
        })
    }

    /// Whether the receiver has refused a block in this session.
    pub(in crate::channel) fn was_refused(&self, block: BlockNumber) -> bool {
        self.state().refusals.contains_key(&block)
    }

    /// A block was read, with these failures: returns the value that it is sent with, which is `value` unless the receiver may
    /// not have heard of one of them. It is not to keep zeros that stand for a file before it knows that they do: whoever sends
    /// may be gone before that is said, and the next run would take the file for one that has arrived. So the value is none
    /// that a block has, the block is refused, and goes again once the receiver has read of them.
    pub fn value_to_send(&self, value: Hash, failures: &[EntryFailure]) -> Hash {
        let state = self.state();
        match state.has_told(failures) {
            true => value,
            false => NO_VALUE,
        }
    }

    /// A block was read whole before any of it is sent, with these failures. `true` unless the receiver has heard of all of them: then nothing
    /// of it is sent, and it is read anew once the receiver has. What fails while it goes out is nothing to it then.
    pub(in crate::channel) fn waits_unread(&self, shape: &BlockShape, failures: &[EntryFailure]) -> bool {
        let mut state = self.state();
        if state.has_told(failures) {
            return false;
        }
        let freed = self.handle_read(&mut state, shape, failures.to_vec());
        let untold = state.untold(shape);
        // The session may be gone; then the block goes in the next.
        let _ = self.events.send(OutboundEvent::Unread(shape.number, untold));
        self.free(state, freed);
        true
    }

    /// A channel is done with a block that it has read, with these failures. Returns what waited for it.
    pub(super) fn handle_read(
        &self,
        state: &mut State,
        shape: &BlockShape,
        mut failures: Vec<EntryFailure>,
    ) -> Freed {
        state.sending.retain(|_, block| *block != shape.number);
        failures.retain(|failure| !state.failed.contains(&failure.entry));
        if !failures.is_empty() {
            let entries: Vec<_> = failures.iter().map(|failure| failure.entry).collect();
            state.failed.extend(&entries);
            state.void_blocks_of(&entries);
            // The session may be gone; then nobody needs to be told.
            let _ = self.events.send(OutboundEvent::Failed(failures));
        }
        state.bases.handle_sent(shape, false)
    }
}
