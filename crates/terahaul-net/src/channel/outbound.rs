//! The sender's side of a session, shared by its control channel and its data channels.
//!
//! The pure queue says which block is next; this shell lets threads wait for one, and carries what data channels
//! learn (failures, proofs) to the control channel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::delta::SUM_LEN;
use terahaul_core::{
    BlockNumber, BlockProof, BlockRun, BlockSet, BlockShape, ByteCount, ChannelId, EntryIndex, Layout,
    LayoutError, PackedValue,
};
use terahaul_store::EntryFailure;
use terahaul_wire::{Advice, Guessed, MAX_CHANNELS, MAX_SUMS, Sums, WireError};
use tokio::sync::mpsc::UnboundedSender;

use super::bases::{Freed, Heard, Known};
use super::planning::Wanting;
use state::{State, run_of_large};

mod failing;
mod state;

/// What the control channel must tell the receiver or the user.
#[derive(Debug)]
pub enum OutboundEvent {
    /// Entries that failed while they were read.
    Failed(Vec<EntryFailure>),
    /// A block waits until the receiver has read of these entries in it that they have failed, which is told before this.
    Unread(BlockNumber, Vec<EntryIndex>),
    /// How the receiver is to go on with an entry that is held.
    Advice(Advice),
}

/// What a data channel does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this block.
    Block(BlockShape),
    /// Close the channel in order.
    Close,
}

/// When entries get their addresses, and what their blocks are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As soon as they are declared: the manifest alone decides.
    #[default]
    Declared,
    /// When the receiver has accepted them. What it declines gets no address, so that a block never carries bytes
    /// that are not wanted. There is no receipt then, and nobody asks for the hashes of packed files.
    Accepted,
}

impl Placement {
    /// An address space without entries.
    pub fn layout(self) -> Layout {
        Layout::valuing(match self {
            Self::Declared => PackedValue::Files,
            Self::Accepted => PackedValue::Bytes,
        })
    }
}

/// Runs that are kept until their blocks are declared. What is beyond is sent again, which does no harm.
const MOST_EARLY: usize = 1 << 20;
/// How often a data channel that waits for a block looks whether it is still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A transfer being sent.
#[derive(Debug)]
pub struct Outbound {
    state: Mutex<State>,
    wake: Condvar,
    /// Bytes of content that went out. Not behind the lock, which is not to be had for every burst.
    sent: AtomicU64,
    events: UnboundedSender<OutboundEvent>,
}

impl Outbound {
    /// Nothing declared yet. `events` go to the session's control channel.
    pub fn new(events: UnboundedSender<OutboundEvent>) -> Self {
        Self::placing(Placement::Declared, events)
    }

    /// The same, with addresses given at another time.
    pub fn placing(placement: Placement, events: UnboundedSender<OutboundEvent>) -> Self {
        let state = State { placement, layout: placement.layout(), ..State::default() };
        Self { state: Mutex::new(state), wake: Condvar::new(), sent: AtomicU64::new(0), events }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares the next entries (`Some` is a file's size). Their blocks may be sent once
    /// [`Outbound::handle_accepted`] covers them.
    pub fn declare(
        &self,
        sizes: impl IntoIterator<Item = Option<ByteCount>>,
        seal: bool,
    ) -> Result<(), LayoutError> {
        let mut state = self.state();
        match state.placement {
            Placement::Declared => state.place(sizes, seal),
            Placement::Accepted => {
                state.offered.push_back((sizes.into_iter().collect(), seal));
                Ok(())
            }
        }
    }

    /// The receiver has accepted the batch that ends behind so many entries.
    pub fn handle_accepted(&self, entries: u64) -> Result<(), LayoutError> {
        let mut state = self.state();
        let mut answer = Answer::to(entries);
        while let Some((sizes, _)) = state.offered.front()
            && answer.covers(state.layout.entry_count() + sizes.len() as u64)
            && let Some((sizes, seal)) = state.offered.pop_front()
        {
            state.place_accepted(sizes, seal)?;
        }
        let mut answer = Answer::to(entries);
        while let Some(milestone) = state.milestones.front().copied()
            && answer.covers(milestone.entries)
        {
            state.milestones.pop_front();
            state.queue.handle_sendable(milestone.blocks, milestone.open);
        }
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    /// These blocks are kept for good at the receiver. They may be declared later.
    pub fn handle_durable(&self, runs: &[BlockRun]) {
        let mut state = self.state();
        let room = MOST_EARLY.saturating_sub(state.early.len());
        let declared = state.layout.block_count() as u32;
        for run in runs {
            state.keep_durable(*run, declared);
        }
        let early = runs.iter().filter_map(|run| run.from(declared));
        state.early.extend(early.take(room));
        let durable = runs.iter().filter_map(|run| run.below(declared)).flat_map(BlockRun::blocks);
        let advice = state.settle_durable(durable);
        state.forget_bases();
        advice.into_iter().for_each(|advice| self.advise(advice));
        drop(state);
        self.wake.notify_all();
    }

    /// The receiver has old versions of these entries, and says next what is in them: until then their blocks wait.
    pub fn handle_held(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        let mut state = self.state();
        for entry in entries {
            if !state.is_unwanted(entry) {
                state.bases.hold(entry);
            }
        }
    }

    /// The receiver says what is in an old version.
    pub fn handle_sums(&self, sums: &Sums) -> Result<(), WireError> {
        if sums.sums.len() > MAX_SUMS * SUM_LEN {
            return Err(WireError::violation(format_args!("it sent more than {MAX_SUMS} sums at once")));
        }
        let entry = EntryIndex(sums.entry);
        if sums.size > 0 {
            let Some(based) = self.state().bases.basis_for(sums).map_err(WireError::violation)? else {
                return Ok(());
            };
            // Without the lock: a channel that is planning is waited for, and others are not to wait for that.
            let whole = based.handle_sums(sums).map_err(WireError::violation)?;
            let mut state = self.state();
            match state.bases.handle_sums(entry, whole) {
                Heard::More(blocks) => blocks.into_iter().for_each(|block| state.queue.handle_refused(block)),
                Heard::All => state.settle(entry),
            }
        } else {
            self.state().settle(entry);
        }
        self.wake.notify_all();
        Ok(())
    }

    /// The receiver has filled a block's place with what it guesses to belong there, or guesses no more.
    pub fn handle_guessed(&self, guessed: Guessed) -> Result<(), WireError> {
        let mut state = self.state();
        let blocks = state.layout.blocks_of_large(EntryIndex(guessed.entry));
        if blocks.is_some_and(|(_, count)| guessed.block >= count) {
            return Err(WireError::violation("it guesses behind a file's end"));
        }
        let freed = state.bases.handle_guessed(guessed)?;
        self.free(state, freed);
        Ok(())
    }

    /// A block that a channel has claimed cannot be planned yet.
    pub(crate) fn defer(&self, channel: ChannelId, shape: &BlockShape, wanting: Wanting) {
        let mut state = self.state();
        state.sending.remove(&channel);
        let freed = match wanting {
            Wanting::Judgement => state.bases.handle_doubt(shape),
            Wanting::Sums if state.bases.defer(shape) => return,
            Wanting::News if state.bases.park(shape) => return,
            Wanting::Sums | Wanting::News => Freed { blocks: vec![shape.number], advice: None },
        };
        self.free(state, freed);
    }

    /// A block that is sent is as the receiver has guessed at its end.
    pub(super) fn handle_agreed(&self, shape: &BlockShape) {
        let mut state = self.state();
        let freed = state.bases.handle_sent(shape, true);
        self.free(state, freed);
    }

    /// By the sums so far, what follows the block is so many bytes further on than in the old file.
    pub(super) fn handle_found(&self, shape: &BlockShape, shift: i64) {
        let mut state = self.state();
        let advice = state.bases.handle_found(shape, shift);
        self.free(state, Freed { blocks: Vec::new(), advice });
    }

    fn free(&self, mut state: MutexGuard<'_, State>, freed: Freed) {
        let any = !freed.blocks.is_empty();
        if let Some(advice) = state.free(freed) {
            self.advise(advice);
        }
        drop(state);
        if any {
            self.wake.notify_all();
        }
    }

    /// With the state's lock, so that no advice is said after a new session began, nor two pieces in the wrong order.
    fn advise(&self, advice: Advice) {
        tracing::debug!(entry = advice.entry, block = advice.block, from = advice.from, "guesses are wrong");
        // The session may be gone; then nobody needs to be told.
        let _ = self.events.send(OutboundEvent::Advice(advice));
    }

    /// What a block can be planned with. One that was refused goes whole the next time.
    pub(super) fn basis_of(&self, shape: &BlockShape) -> Result<Option<Known>, Wanting> {
        let state = self.state();
        if state.bases.has_to_wait(shape) {
            return Err(Wanting::News);
        }
        let known = state.bases.find(shape).filter(|_| !state.refusals.contains_key(&shape.number));
        drop(state);
        Ok(known.filter(|known| match known {
            Known::Based(based) => based.poll_worth(),
            Known::Guess(_) => true,
        }))
    }

    /// Bytes that the receiver copies instead of being sent.
    pub(super) fn handle_copied(&self, bytes: u64) {
        self.state().copied += ByteCount(bytes);
    }

    /// The receiver does not want these entries.
    pub fn handle_declined(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        let mut state = self.state();
        let new: Vec<_> = entries.into_iter().filter(|entry| state.declined.insert(*entry)).collect();
        state.void_blocks_of(&new);
        drop(state);
        self.wake.notify_all();
    }

    /// A data channel was cut: what it had not delivered for good is sent again.
    pub fn handle_channel_lost(&self, channel: ChannelId) {
        let mut state = self.state();
        state.queue.handle_channel_lost(channel);
        state.sending.remove(&channel);
        state.closing.remove(&channel);
        drop(state);
        self.wake.notify_all();
    }

    /// A number under which a session's channels over UDP claim blocks, all of them together, from the far end of those that TCP's
    /// have. Those of the session before may still be at theirs.
    pub fn number_udp(&self) -> ChannelId {
        let mut state = self.state();
        state.over_udp = state.over_udp.wrapping_add(1);
        ChannelId(u32::MAX - state.over_udp)
    }

    /// Asks a data channel to close after its block. One that has ended meanwhile leaves its number, of which as many are
    /// kept as there are channels at most, the latest.
    pub fn close_channel(&self, channel: ChannelId) {
        let mut state = self.state();
        state.closing.insert(channel);
        if state.closing.len() > MAX_CHANNELS as usize {
            state.closing.pop_first();
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Every data channel closes after its block.
    pub fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
    }

    /// After `close`: data channels of a new session may go on. What the old session's had not delivered for good is
    /// sent again.
    pub fn reopen(&self) {
        let mut state = self.state();
        state.queue.handle_session_lost();
        state.bases.restart();
        state.told.clear();
        state.refusals.clear();
        state.sending.clear();
        state.closed = false;
    }

    /// The next block for a data channel; waits until there is one or the channel should close.
    pub fn next(&self, channel: ChannelId) -> Next {
        self.next_unless(channel, &|| false).unwrap_or(Next::Close)
    }

    /// The same, or `None` once the channel `is_gone`, which it asks now and then while it waits: what the channel has sent may
    /// not have arrived, and then nothing else would ever say so.
    pub fn next_unless(&self, channel: ChannelId, is_gone: &dyn Fn() -> bool) -> Option<Next> {
        let mut looked = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(next) = state.poll_next(channel) {
                return Some(next);
            }
            state = self.wake.wait_timeout(state, LOOK_AFTER).unwrap_or_else(PoisonError::into_inner).0;
            if looked.elapsed() >= LOOK_AFTER {
                if is_gone() {
                    return None;
                }
                looked = Instant::now();
            }
        }
    }

    /// The same without waiting: `None` while there is no block to send.
    pub fn poll_next(&self, channel: ChannelId) -> Option<Next> {
        self.state().poll_next(channel)
    }

    /// A data channel has sent a block whole. `proof` is what it computed from the bytes it read.
    pub fn handle_sent(&self, shape: &BlockShape, proof: Option<BlockProof>, failures: Vec<EntryFailure>) {
        let mut state = self.state();
        // Only a depot's receipt is checked with them.
        if let Some(proof) = proof.filter(|_| state.placement == Placement::Declared) {
            state.proofs.insert(shape.number, proof);
        }
        let freed = self.handle_read(&mut state, shape, failures);
        self.free(state, freed);
    }

    /// Bytes of content that went out on a data channel. Locks nothing.
    pub fn handle_bytes(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether everything declared was read and sent: what fails from here on is not this end's files. The receiver
    /// may still want blocks again.
    pub fn is_sent(&self) -> bool {
        let state = self.state();
        state.layout.open_block().is_none()
            && state.offered.is_empty()
            && state.milestones.is_empty()
            && state.sending.is_empty()
            && !state.bases.are_awaited()
            && state.queue.is_claimed(state.layout.block_count() as u32)
    }

    /// Bytes of content sent on data channels so far, those sent again included.
    pub fn sent(&self) -> ByteCount {
        ByteCount(self.sent.load(Ordering::Relaxed))
    }

    /// Bytes sent, and those that the receiver copied instead: what the channels have done.
    pub fn carried(&self) -> ByteCount {
        self.sent() + self.state().copied
    }

    /// Bytes known to be durable at the receiver.
    pub fn durable(&self) -> ByteCount {
        self.state().durable
    }

    /// Blocks that are declared.
    pub(crate) fn block_count(&self) -> u32 {
        self.state().layout.block_count() as u32
    }

    /// Whether the receiver was heard to keep something for good that is not among this, which it said last. What has failed since it may have
    /// given up.
    pub(crate) fn has_more_durable_than(&self, told: &BlockSet) -> bool {
        let state = self.state();
        let declared = BlockRun { first: BlockNumber(0), count: state.layout.block_count() as u32 };
        let durable = state.queue.durable().common_with(declared);
        let mut untold = durable.flat_map(|run| told.missing_in(run)).flat_map(BlockRun::blocks);
        let is_wanted = |shape: &BlockShape| shape.entries().any(|entry| !state.is_unwanted(entry));
        untold.any(|block| state.layout.shape(block).is_some_and(|shape| is_wanted(&shape)))
    }

    /// Whether small files behind the first `entries` [were to join](Layout::was_open_after) those among them.
    pub(crate) fn was_open_after(&self, entries: u32) -> bool {
        self.state().layout.was_open_after(entries.into())
    }

    /// Whether the receiver keeps all of a declared entry for good. Of one without bytes the manifest is all there is to keep.
    pub fn has_durable(&self, entry: EntryIndex) -> bool {
        let state = self.state();
        let blocks = state.layout.blocks_of(entry);
        u64::from(entry.0) < state.layout.entry_count()
            && !state.is_unwanted(entry)
            && blocks.is_none_or(|blocks| state.queue.durable().contains_run(blocks))
    }

    /// Large files of which the receiver keeps some blocks for good and not all, each with those.
    pub fn partly_durable(&self) -> Vec<(EntryIndex, Vec<BlockRun>)> {
        let state = self.state();
        let part = |entry| {
            let all = run_of_large(&state.layout, entry)?;
            let durable: Vec<_> = state.queue.durable().common_with(all).collect();
            let some = durable.iter().map(|run| run.count).sum::<u32>();
            (0 < some && some < all.count && !state.is_unwanted(entry)).then_some((entry, durable))
        };
        (0..state.layout.entry_count() as u32).filter_map(|entry| part(EntryIndex(entry))).collect()
    }

    /// Nothing of these large files, of which no block is under way, is sent until they are let go.
    pub fn withhold(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        let State { layout, queue, .. } = &mut *self.state();
        entries
            .into_iter()
            .filter_map(|entry| run_of_large(layout, entry))
            .for_each(|run| queue.withhold(run));
    }

    /// They may be sent after all.
    pub fn let_go(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        {
            let State { layout, queue, .. } = &mut *self.state();
            entries
                .into_iter()
                .filter_map(|entry| run_of_large(layout, entry))
                .for_each(|run| queue.let_go(run));
        }
        self.wake.notify_all();
    }

    /// What is in a declared block.
    pub fn shape(&self, block: BlockNumber) -> Option<BlockShape> {
        self.state().layout.shape(block)
    }

    /// Bytes and entries declared so far; where addresses wait for the receiver, those that it wants of what it
    /// has accepted. Bytes of blocks that hold nothing wanted any more do not count: they will not become durable.
    pub fn declared(&self) -> (ByteCount, u64) {
        let state = self.state();
        let bytes = state.layout.byte_count().0.saturating_sub(state.void.0);
        (ByteCount(bytes), state.layout.entry_count())
    }

    /// The first block number that cannot be durable at the receiver.
    pub fn block_limit(&self) -> u64 {
        let state = self.state();
        match state.placement {
            Placement::Declared => state.layout.block_count(),
            Placement::Accepted => u64::from(u32::MAX),
        }
    }

    /// Entries that the receiver did not want.
    pub fn declined(&self) -> BTreeSet<EntryIndex> {
        self.state().declined.clone()
    }

    /// Entries that failed.
    pub fn failed(&self) -> BTreeSet<EntryIndex> {
        self.state().failed.clone()
    }

    /// What this end computed from the bytes it read, and the layout: enough to check a receipt's hashes.
    pub fn proofs(&self) -> (Layout, BTreeMap<BlockNumber, BlockProof>) {
        let mut state = self.state();
        (state.layout.clone(), std::mem::take(&mut state.proofs))
    }
}

/// What a receiver's answer accepts of the batches that wait for one: those that end below the number that it names, and the
/// oldest that ends there. A batch without entries, which only seals, ends where the one before it does, and has an answer of
/// its own: until then its block is none to the receiver.
pub(crate) struct Answer {
    entries: u64,
    given: bool,
}

impl Answer {
    /// One that names so many entries.
    pub fn to(entries: u64) -> Self {
        Self { entries, given: false }
    }

    /// Whether it accepts the next batch, which ends at `end`.
    pub fn covers(&mut self, end: u64) -> bool {
        let is_it = end == self.entries && !self.given;
        self.given |= is_it;
        is_it || end < self.entries
    }
}

#[cfg(test)]
mod tests;
