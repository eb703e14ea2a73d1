//! The sender's side of a session, shared by its control channel and its data channels.
//!
//! The pure queue says which block is next; this shell lets threads wait for one, and carries what data channels
//! learn (failures, proofs) to the control channel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terahaul_core::{
    BlockNumber, BlockProof, BlockQueue, BlockRun, BlockShape, ByteCount, ChannelId, EntryIndex, Extent,
    Layout, LayoutError,
};
use terahaul_store::EntryFailure;
use tokio::sync::mpsc::UnboundedSender;

/// What the control channel must tell the receiver or the user.
#[derive(Debug)]
pub enum OutboundEvent {
    /// Entries that failed while they were read.
    Failed(Vec<EntryFailure>),
}

/// What a data channel does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this block.
    Block(BlockShape),
    /// Close the channel in order.
    Close,
}

/// Where a batch ends: once the receiver has accepted `entries`, blocks below `blocks` may be sent.
#[derive(Clone, Copy, Debug)]
struct Milestone {
    entries: u64,
    blocks: u32,
    open: Option<BlockNumber>,
}

#[derive(Debug, Default)]
struct State {
    layout: Layout,
    queue: BlockQueue,
    milestones: VecDeque<Milestone>,
    accepted: u64,
    failed: BTreeSet<EntryIndex>,
    declined: BTreeSet<EntryIndex>,
    proofs: BTreeMap<BlockNumber, BlockProof>,
    /// Blocks that are being read and sent just now.
    sending: BTreeMap<ChannelId, BlockNumber>,
    closing: BTreeSet<ChannelId>,
    closed: bool,
    sent: ByteCount,
    durable: ByteCount,
    refusals: BTreeMap<BlockNumber, u32>,
}

/// A transfer being sent.
#[derive(Debug)]
pub struct Outbound {
    state: Mutex<State>,
    wake: Condvar,
    events: UnboundedSender<OutboundEvent>,
}

impl Outbound {
    /// Nothing declared yet. `events` go to the session's control channel.
    pub fn new(events: UnboundedSender<OutboundEvent>) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), events }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares the next entries (`Some` is a file's size), and returns where they lie. Their blocks may be sent
    /// once [`Outbound::handle_accepted`] covers them.
    pub fn declare(
        &self,
        sizes: impl IntoIterator<Item = Option<ByteCount>>,
        seal: bool,
    ) -> Result<Vec<Option<Extent>>, LayoutError> {
        let mut state = self.state();
        let extents = sizes.into_iter().map(|size| state.layout.append(size)).collect::<Result<_, _>>()?;
        if seal {
            state.layout.seal();
        }
        let milestone = Milestone {
            entries: state.layout.entry_count(),
            blocks: state.layout.block_count() as u32,
            open: state.layout.open_block(),
        };
        state.milestones.push_back(milestone);
        Ok(extents)
    }

    /// The receiver has stored the manifest up to this many entries.
    pub fn handle_accepted(&self, entries: u64) {
        let mut state = self.state();
        state.accepted = state.accepted.max(entries);
        while let Some(milestone) = state.milestones.front().copied() {
            if milestone.entries > state.accepted {
                break;
            }
            state.milestones.pop_front();
            state.queue.handle_sendable(milestone.blocks, milestone.open);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// These blocks are kept for good at the receiver.
    pub fn handle_durable(&self, runs: &[BlockRun]) {
        let mut state = self.state();
        for block in runs.iter().copied().flat_map(BlockRun::blocks) {
            if !state.queue.durable().contains(block) {
                let len = state.layout.shape(block).map_or(0, |shape| u64::from(shape.len));
                state.durable += ByteCount(len);
            }
        }
        state.queue.handle_durable(runs.iter().copied());
        drop(state);
        self.wake.notify_all();
    }

    /// The receiver wants a block again. `false` when it was refused too often for that to help.
    pub fn handle_refused(&self, block: BlockNumber) -> bool {
        let mut state = self.state();
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
        for entry in entries {
            state.failed.insert(entry);
            state.void_blocks_of(entry);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// The receiver does not want these entries.
    pub fn handle_declined(&self, entries: impl IntoIterator<Item = EntryIndex>) {
        let mut state = self.state();
        for entry in entries {
            state.declined.insert(entry);
            state.void_blocks_of(entry);
        }
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

    /// Asks a data channel to close after its block.
    pub fn close_channel(&self, channel: ChannelId) {
        self.state().closing.insert(channel);
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
        state.sending.clear();
        state.closed = false;
    }

    /// The next block for a data channel; waits until there is one or the channel should close.
    pub fn next(&self, channel: ChannelId) -> Next {
        let mut state = self.state();
        loop {
            if state.closed || state.closing.remove(&channel) {
                return Next::Close;
            }
            if let Some(block) = state.queue.poll_claim(channel)
                && let Some(shape) = state.layout.shape(block)
            {
                if shape
                    .entries()
                    .all(|entry| state.failed.contains(&entry) || state.declined.contains(&entry))
                {
                    state.queue.handle_void(block);
                    continue;
                }
                state.sending.insert(channel, block);
                return Next::Block(shape);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A data channel has sent a block whole. `proof` is what it computed from the bytes it read.
    pub fn handle_sent(&self, shape: &BlockShape, proof: Option<BlockProof>, failures: Vec<EntryFailure>) {
        let mut state = self.state();
        state.sending.retain(|_, block| *block != shape.number);
        if let Some(proof) = proof {
            state.proofs.insert(shape.number, proof);
        }
        if !failures.is_empty() {
            for failure in &failures {
                state.failed.insert(failure.entry);
                state.void_blocks_of(failure.entry);
            }
            // The session may be gone; then nobody needs to be told.
            let _ = self.events.send(OutboundEvent::Failed(failures));
        }
    }

    /// Bytes that went out on a data channel.
    pub fn handle_bytes(&self, bytes: u64) {
        self.state().sent += ByteCount(bytes);
    }

    /// Whether everything declared was read and sent: what fails from here on is not this end's files. The receiver
    /// may still want blocks again.
    pub fn is_sent(&self) -> bool {
        let state = self.state();
        state.layout.open_block().is_none()
            && state.milestones.is_empty()
            && state.sending.is_empty()
            && state.queue.is_claimed(state.layout.block_count() as u32)
    }

    /// Bytes sent on data channels so far, those sent again included.
    pub fn sent(&self) -> ByteCount {
        self.state().sent
    }

    /// Bytes known to be durable at the receiver.
    pub fn durable(&self) -> ByteCount {
        self.state().durable
    }

    /// Bytes and entries declared so far.
    pub fn declared(&self) -> (ByteCount, u64) {
        let state = self.state();
        (state.layout.byte_count(), state.layout.entry_count())
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

    /// Number of blocks declared.
    pub fn block_count(&self) -> u64 {
        self.state().layout.block_count()
    }
}

impl State {
    fn void_blocks_of(&mut self, entry: EntryIndex) {
        if let Some((first, count)) = self.layout.blocks_of_large(entry) {
            (BlockRun { first, count }).blocks().for_each(|block| self.queue.handle_void(block));
        } else if let Some(block) = self.layout.extent(entry).and_then(|extent| extent.address.block())
            && let Some(shape) = self.layout.shape(block)
            && shape.entries().all(|entry| self.failed.contains(&entry) || self.declined.contains(&entry))
        {
            self.queue.handle_void(block);
        }
    }
}
