//! What a receiver knows: which blocks it will take, has, and keeps for good.
//!
//! | a block is | on | it becomes |
//! |---|---|---|
//! | missing | `admit` | arriving (one writer at a time) |
//! | arriving | `handle_verified` | received |
//! | arriving | `handle_dropped` (channel died, wrong value), `handle_closed` | missing |
//! | received | `poll_sync` takes it into a group | syncing |
//! | syncing | `handle_synced` | durable |
//! | syncing | `handle_sync_failed` | received |
//! | received, syncing | `handle_lost` (the medium failed to write) | missing |
//! | missing | `handle_restored` (it is here by other means) | durable |
//! | missing | `handle_failed`, `handle_declined` of all that it holds | void: not waited for; what comes of it is not kept |
//! | durable | `handle_freed` (nothing that it holds is wanted, and its bytes are given back) | void |
//! | received, syncing, durable | `admit` | a duplicate: its content is checked, not written |

mod freed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::{
    BLOCK_SIZE, BlockNumber, BlockProof, BlockRun, BlockSet, BlockShape, ByteCount, EntryIndex, Extent,
    GroupSync, Layout, LayoutError,
};

/// Why a block is not taken. The sender is at fault in all but `Busy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockRefusal {
    /// The manifest has no such block, or it is not sealed yet.
    #[error(
        "block {0} is not whole in the manifest: declare all of its entries first, and seal the last of them"
    )]
    Outside(BlockNumber),
    /// The length does not follow from the manifest.
    #[error("block {block} has {expected} bytes by the manifest, not {got}")]
    Length {
        /// Which block.
        block: BlockNumber,
        /// What the manifest says.
        expected: u32,
        /// What was offered.
        got: u64,
    },
    /// Another channel is delivering this block right now.
    #[error("block {0} is arriving on another channel: try again in a moment")]
    Busy(BlockNumber),
}

/// What to do with a block that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Write it; then `handle_verified` or `handle_dropped`.
    Write(BlockShape),
    /// It is here already: hash it and compare with the proof, write nothing.
    Compare(BlockShape),
    /// Nobody wants what it holds any more: hash it, write nothing.
    Discard(BlockShape),
}

/// The pure half of a receiver. Sizes and names are checked before they reach it.
#[derive(Debug, Default)]
pub struct Receiver {
    layout: Layout,
    received: BlockSet,
    durable: BlockSet,
    arriving: BTreeSet<BlockNumber>,
    /// Verified and not yet durable; at most what arrives between two syncs.
    fresh: BTreeMap<BlockNumber, BlockProof>,
    group: GroupSync,
    failed: BTreeSet<EntryIndex>,
    declined: BTreeSet<EntryIndex>,
    /// Blocks that hold nothing wanted and were not received.
    void: BlockSet,
    void_bytes: ByteCount,
    /// Blocks of which something may have been written, and that are not here.
    written: BlockSet,
    durable_bytes: ByteCount,
    received_bytes: ByteCount,
}

impl Receiver {
    /// Starts from a stored manifest, its durable blocks and its failed entries.
    pub fn resuming(layout: Layout, durable: BlockSet, failed: impl IntoIterator<Item = EntryIndex>) -> Self {
        let mut receiver = Self { received: durable.clone(), durable, layout, ..Self::default() };
        let lengths = receiver.durable.runs().flat_map(BlockRun::blocks).map(|block| receiver.len_of(block));
        let bytes = ByteCount(lengths.map(|len| len.0).sum());
        (receiver.durable_bytes, receiver.received_bytes) = (bytes, bytes);
        receiver.handle_failed(failed);
        receiver.written = receiver.void.clone();
        receiver
    }

    /// Bytes in `block`, as far as that is known.
    fn len_of(&self, block: BlockNumber) -> ByteCount {
        ByteCount(self.layout.len_of(block).map_or(0, u64::from))
    }

    /// The manifest's next entry; `size` is `Some` for a regular file.
    pub fn append(&mut self, size: Option<ByteCount>) -> Result<Option<Extent>, LayoutError> {
        let (open, blocks) = (self.layout.open_block(), self.layout.block_count());
        let extent = self.layout.append(size)?;
        if open != self.layout.open_block() {
            open.into_iter().for_each(|sealed| self.handle_sealed(sealed));
        }
        if size.is_some_and(|size| size.0 >= BLOCK_SIZE) {
            let first = BlockNumber(blocks as u32);
            let count = (self.layout.block_count() - blocks) as u32;
            let known: Vec<_> = self.received.common_with(BlockRun { first, count }).collect();
            known.into_iter().flat_map(BlockRun::blocks).for_each(|block| self.count_known(block));
        }
        Ok(extent)
    }

    /// The same of a batch of entries, with the open block sealed behind them where `seal` says so: returns the place of each.
    pub fn append_batch(
        &mut self,
        sizes: impl IntoIterator<Item = Option<ByteCount>>,
        seal: bool,
    ) -> Result<Vec<Option<Extent>>, LayoutError> {
        let placed = sizes.into_iter().map(|size| self.append(size)).collect::<Result<_, _>>()?;
        if seal {
            self.seal();
        }
        Ok(placed)
    }

    /// No later entry shares the open block.
    pub fn seal(&mut self) {
        let open = self.layout.open_block();
        self.layout.seal();
        open.into_iter().for_each(|sealed| self.handle_sealed(sealed));
        self.flush_if_arrived();
    }

    fn handle_sealed(&mut self, block: BlockNumber) {
        self.count_known(block);
        self.void_if_unwanted(block);
    }

    /// A receiver that resumes may know its blocks before it knows their lengths, as it does now of this one.
    fn count_known(&mut self, block: BlockNumber) {
        let len = self.len_of(block);
        if self.received.contains(block) {
            self.received_bytes += len;
        }
        if self.durable.contains(block) {
            self.durable_bytes += len;
        }
    }

    /// The layout so far.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A sender offers `len` bytes as `block`.
    pub fn admit(&mut self, block: BlockNumber, len: u64) -> Result<Admission, BlockRefusal> {
        let shape = self.layout.shape(block).ok_or(BlockRefusal::Outside(block))?;
        if u64::from(shape.len) != len {
            return Err(BlockRefusal::Length { block, expected: shape.len, got: len });
        }
        if self.received.contains(block) {
            return Ok(Admission::Compare(shape));
        }
        if self.void.contains(block) {
            return Ok(Admission::Discard(shape));
        }
        if !self.arriving.insert(block) {
            return Err(BlockRefusal::Busy(block));
        }
        self.written.insert(block);
        Ok(Admission::Write(shape))
    }

    /// An admitted block is written and its value is right.
    pub fn handle_verified(&mut self, now: Instant, shape: &BlockShape, proof: BlockProof) {
        if self.arriving.remove(&shape.number) && self.received.insert(shape.number) {
            let bytes = ByteCount(u64::from(shape.len));
            self.take_out_of_void(shape.number, bytes);
            self.written.remove(shape.number);
            self.fresh.insert(shape.number, proof);
            self.received_bytes += bytes;
            self.group.handle_received(now, bytes);
            self.flush_if_arrived();
        }
    }

    /// An earlier run, or the receiver's own files, have brought this block: it is durable here.
    pub fn handle_restored(&mut self, block: BlockNumber) {
        let Some(len) = self.layout.len_of(block).map(|len| ByteCount(u64::from(len))) else { return };
        if self.received.insert(block) {
            self.take_out_of_void(block, len);
            self.written.remove(block);
            self.received_bytes += len;
        }
        if self.durable.insert(block) {
            self.durable_bytes += len;
        }
        self.flush_if_arrived();
    }

    /// Nothing more is expected: its sender waits to hear that all is durable.
    fn flush_if_arrived(&mut self) {
        if self.has_arrived() {
            self.group.handle_flush();
        }
    }

    /// An admitted block will not be completed: it may be offered again.
    pub fn handle_dropped(&mut self, block: BlockNumber) {
        self.arriving.remove(&block);
    }

    /// Nothing is written any more: what was arriving will not be here.
    pub fn handle_closed(&mut self) {
        self.arriving.clear();
    }

    /// The proof of a block that is received and not yet recorded.
    pub fn fresh_proof(&self, block: BlockNumber) -> Option<&BlockProof> {
        self.fresh.get(&block)
    }

    /// Make what is here durable without waiting for the interval.
    pub fn handle_flush(&mut self) {
        self.group.handle_flush();
    }

    /// The blocks to sync and record now, if it is time.
    pub fn poll_sync(&mut self, now: Instant) -> Option<Vec<(BlockNumber, BlockProof)>> {
        self.group
            .poll_sync(now)
            .then(|| self.fresh.iter().map(|(block, proof)| (*block, proof.clone())).collect())
    }

    /// When to call `poll_sync` next, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.group.poll_timeout()
    }

    /// The group is synced and recorded.
    pub fn handle_synced(&mut self, group: &[(BlockNumber, BlockProof)]) {
        for (block, _) in group {
            self.fresh.remove(block);
            if self.durable.insert(*block) {
                self.durable_bytes += self.len_of(*block);
            }
        }
        self.group.handle_synced();
    }

    /// The group is synced but could not be recorded; the next sync takes it again.
    pub fn handle_sync_failed(&mut self, now: Instant) {
        self.group.handle_synced();
        self.group.handle_received(now, ByteCount(0));
    }

    /// Writing out failed. A system may then forget the bytes and still call its next sync a success, so all that
    /// is not durable is missing again.
    pub fn handle_lost(&mut self) {
        self.group = GroupSync::default();
        for block in std::mem::take(&mut self.fresh).into_keys() {
            if self.received.remove(block) {
                self.written.insert(block);
                let len = self.len_of(block);
                self.received_bytes = ByteCount(self.received_bytes.0.saturating_sub(len.0));
                // All that it holds may have failed since it came.
                self.void_if_unwanted(block);
            }
        }
    }

    /// These entries will not arrive. Blocks that hold nothing else are no longer waited for.
    pub fn handle_failed(&mut self, entries: impl IntoIterator<Item = EntryIndex>) {
        let count = self.layout.entry_count();
        let known = entries.into_iter().filter(|entry| u64::from(entry.0) < count);
        let new = known.filter(|entry| self.failed.insert(*entry) && !self.declined.contains(entry));
        let new: Vec<_> = new.collect();
        self.void_blocks_of(&new);
    }

    /// These entries are not wanted here (excluded, or there already).
    pub fn handle_declined(&mut self, entries: impl IntoIterator<Item = EntryIndex>) {
        let new = entries.into_iter();
        let new = new.filter(|entry| self.declined.insert(*entry) && !self.failed.contains(entry));
        let new: Vec<_> = new.collect();
        self.void_blocks_of(&new);
    }

    fn is_unwanted(&self, entry: EntryIndex) -> bool {
        self.failed.contains(&entry) || self.declined.contains(&entry)
    }

    /// These entries are unwanted, and were not before.
    fn void_blocks_of(&mut self, entries: &[EntryIndex]) {
        for run in self.layout.blocks_of_all(entries.iter().copied(), |entry| self.is_unwanted(entry)) {
            let missing: Vec<_> = self.received.missing_in(run).collect();
            missing.into_iter().flat_map(BlockRun::blocks).for_each(|block| self.void(block));
        }
    }

    fn void_if_unwanted(&mut self, block: BlockNumber) {
        if !self.received.contains(block) && self.layout.is_all(block, |entry| self.is_unwanted(entry)) {
            self.void(block);
        }
    }

    /// Nothing that this block holds is wanted, and it is not here.
    fn void(&mut self, block: BlockNumber) {
        if self.void.insert(block) {
            self.void_bytes += self.len_of(block);
            self.flush_if_arrived();
        }
    }

    fn take_out_of_void(&mut self, block: BlockNumber, len: ByteCount) {
        if self.void.remove(block) {
            self.void_bytes = ByteCount(self.void_bytes.0.saturating_sub(len.0));
        }
    }

    /// Entries that will not arrive.
    pub fn failed(&self) -> &BTreeSet<EntryIndex> {
        &self.failed
    }

    /// Entries that are not wanted here.
    pub fn declined(&self) -> &BTreeSet<EntryIndex> {
        &self.declined
    }

    /// Blocks verified here, durable or not.
    pub fn received(&self) -> &BlockSet {
        &self.received
    }

    /// Blocks kept for good.
    pub fn durable(&self) -> &BlockSet {
        &self.durable
    }

    /// Bytes in received blocks.
    pub fn received_bytes(&self) -> ByteCount {
        self.received_bytes
    }

    /// Bytes in durable blocks.
    pub fn durable_bytes(&self) -> ByteCount {
        self.durable_bytes
    }

    /// Up to `limit` runs of blocks that are wanted and not durable.
    pub fn missing(&self, limit: usize) -> Vec<BlockRun> {
        let Ok(count) = u32::try_from(self.layout.block_count()) else { return Vec::new() };
        let all = BlockRun { first: BlockNumber(0), count };
        self.durable.missing_in(all).flat_map(|run| self.void.missing_in(run)).take(limit).collect()
    }

    /// How many blocks are wanted and not durable.
    pub fn missing_count(&self) -> u64 {
        self.layout.block_count().saturating_sub(self.durable.len() + self.void.len())
    }

    /// Bytes of blocks that hold nothing wanted and were not received: nothing will be kept of them.
    pub fn void_bytes(&self) -> ByteCount {
        self.void_bytes
    }

    /// Whether every wanted block has been received, durable or not.
    pub fn has_arrived(&self) -> bool {
        self.layout.open_block().is_none()
            && self.received.len() + self.void.len() == self.layout.block_count()
    }

    /// Whether every wanted byte of the manifest is durable.
    pub fn is_complete(&self) -> bool {
        self.has_arrived() && self.durable.len() == self.received.len()
    }

    /// Bytes of blocks that are here or are to come: in the end all of them are durable.
    pub fn wanted_bytes(&self) -> ByteCount {
        ByteCount(self.layout.byte_count().0.saturating_sub(self.void_bytes.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;
    use proptest::prelude::*;

    #[allow(clippy::disallowed_methods)]
    fn start() -> Instant {
        Instant::now()
    }

    fn proof() -> BlockProof {
        BlockProof::Piece(Hash::default())
    }

    fn receiver_of(sizes: &[u64]) -> Receiver {
        let mut receiver = Receiver::default();
        for &size in sizes {
            receiver.append(Some(ByteCount(size))).unwrap();
        }
        receiver.seal();
        receiver
    }

    proptest! {
        /// Blocks arrive in any order, some dropped and offered again, syncs at any time: all end up durable once.
        #[test]
        fn any_schedule_ends_complete(order in Just((0u32..24).collect::<Vec<_>>()).prop_shuffle(),
                                      drops in proptest::collection::vec(any::<bool>(), 24),
                                      syncs in proptest::collection::vec(any::<bool>(), 24)) {
            let now = start();
            let mut receiver = receiver_of(&[24 * BLOCK_SIZE]);
            let mut recorded = 0;
            for (at, block) in order.into_iter().map(BlockNumber).enumerate() {
                let Ok(Admission::Write(shape)) = receiver.admit(block, BLOCK_SIZE) else { panic!() };
                prop_assert_eq!(receiver.admit(block, BLOCK_SIZE), Err(BlockRefusal::Busy(block)));
                if drops[at] {
                    receiver.handle_dropped(block);
                    prop_assert!(matches!(receiver.admit(block, BLOCK_SIZE), Ok(Admission::Write(_))));
                }
                receiver.handle_verified(now, &shape, proof());
                prop_assert!(matches!(receiver.admit(block, BLOCK_SIZE), Ok(Admission::Compare(_))));
                if syncs[at] {
                    receiver.handle_flush();
                    if let Some(group) = receiver.poll_sync(now) {
                        recorded += group.len();
                        receiver.handle_synced(&group);
                    }
                }
                prop_assert_eq!(receiver.durable().len(), recorded as u64);
            }
            receiver.handle_flush();
            if let Some(group) = receiver.poll_sync(now) {
                receiver.handle_synced(&group);
            }
            prop_assert!(receiver.is_complete());
            prop_assert_eq!(receiver.durable_bytes(), ByteCount(24 * BLOCK_SIZE));
        }
    }

    #[test]
    fn only_what_the_manifest_declares_is_taken() {
        let mut receiver = receiver_of(&[10, 20]);
        assert_eq!(receiver.admit(BlockNumber(1), 10), Err(BlockRefusal::Outside(BlockNumber(1))));
        assert_eq!(
            receiver.admit(BlockNumber(0), 31),
            Err(BlockRefusal::Length { block: BlockNumber(0), expected: 30, got: 31 })
        );
        assert!(receiver.admit(BlockNumber(0), 30).is_ok());
    }

    #[test]
    fn received_is_not_durable_until_the_sync_ends() {
        let now = start();
        let mut receiver = receiver_of(&[10]);
        let Ok(Admission::Write(shape)) = receiver.admit(BlockNumber(0), 10) else { panic!() };
        receiver.handle_verified(now, &shape, proof());
        assert!(!receiver.is_complete());
        receiver.handle_flush();
        let group = receiver.poll_sync(now).unwrap();
        assert!(!receiver.is_complete());
        receiver.handle_sync_failed(now);
        assert_eq!(receiver.poll_sync(now), None, "a failing disk is not hammered");
        let again = receiver.poll_sync(now + GroupSync::INTERVAL).expect("a failed sync is tried again");
        assert_eq!(again, group);
        receiver.handle_synced(&again);
        assert!(receiver.is_complete());
    }

    #[test]
    fn what_the_medium_failed_to_write_has_to_arrive_again() {
        let now = start();
        let mut receiver = receiver_of(&[2 * BLOCK_SIZE]);
        for block in [0, 1].map(BlockNumber) {
            let Ok(Admission::Write(shape)) = receiver.admit(block, BLOCK_SIZE) else { panic!() };
            receiver.handle_verified(now, &shape, proof());
            receiver.handle_flush();
            if block.0 == 0 {
                let group = receiver.poll_sync(now).unwrap();
                receiver.handle_synced(&group);
            }
        }
        receiver.poll_sync(now).unwrap();
        receiver.handle_lost();
        assert_eq!(receiver.received_bytes(), ByteCount(BLOCK_SIZE));
        assert_eq!(receiver.missing(9), [BlockRun { first: BlockNumber(1), count: 1 }]);
        assert_eq!(receiver.poll_timeout(), None, "nothing is left to sync");
        assert!(matches!(receiver.admit(BlockNumber(1), BLOCK_SIZE), Ok(Admission::Write(_))));
    }

    #[test]
    fn what_was_lost_and_has_failed_since_is_not_waited_for() {
        let now = start();
        let mut receiver = receiver_of(&[BLOCK_SIZE, BLOCK_SIZE]);
        let Ok(Admission::Write(shape)) = receiver.admit(BlockNumber(0), BLOCK_SIZE) else { panic!() };
        receiver.handle_verified(now, &shape, proof());
        receiver.handle_failed([0, 1].map(EntryIndex));
        receiver.handle_flush();
        receiver.poll_sync(now).unwrap();
        receiver.handle_lost();
        assert_eq!(receiver.missing(9), []);
        assert!(receiver.is_complete());
        assert_eq!(receiver.void_bytes(), ByteCount(2 * BLOCK_SIZE));
    }

    #[test]
    fn what_came_before_its_file_failed_is_kept_and_what_comes_later_is_not() {
        let now = start();
        let mut receiver = receiver_of(&[3 * BLOCK_SIZE, 5]);
        let admit = |receiver: &mut Receiver, block| receiver.admit(BlockNumber(block), BLOCK_SIZE).unwrap();
        let Admission::Write(first) = admit(&mut receiver, 0) else { panic!() };
        receiver.handle_verified(now, &first, proof());
        let Admission::Write(second) = admit(&mut receiver, 1) else { panic!() };
        receiver.handle_failed([EntryIndex(0)]);
        assert_eq!(receiver.void_bytes(), ByteCount(2 * BLOCK_SIZE));
        assert!(matches!(admit(&mut receiver, 2), Admission::Discard(_)));
        receiver.handle_verified(now, &second, proof());
        assert_eq!(receiver.void_bytes(), ByteCount(BLOCK_SIZE), "it was on its way, and is here");
        assert!(matches!(admit(&mut receiver, 1), Admission::Compare(_)));
    }

    #[test]
    fn what_arrived_last_is_made_durable_at_once() {
        let now = start();
        let mut receiver = receiver_of(&[2 * BLOCK_SIZE]);
        let arrive = |receiver: &mut Receiver, block| {
            let Ok(Admission::Write(shape)) = receiver.admit(BlockNumber(block), BLOCK_SIZE) else {
                panic!()
            };
            receiver.handle_verified(now, &shape, proof());
        };
        arrive(&mut receiver, 1);
        assert!(receiver.poll_sync(now).is_none(), "more is expected");
        arrive(&mut receiver, 0);
        assert_eq!(receiver.poll_sync(now).map(|group| group.len()), Some(2));
    }

    #[test]
    fn failed_entries_are_not_waited_for() {
        let mut receiver = receiver_of(&[3 * BLOCK_SIZE, 5, 6]);
        assert_eq!(receiver.missing(9), [BlockRun { first: BlockNumber(0), count: 4 }]);
        assert_eq!(receiver.missing_count(), 4);
        receiver.handle_failed([0, 0, 99].map(EntryIndex));
        assert_eq!(receiver.failed().len(), 1, "once, and none that is not in the manifest");
        assert_eq!(receiver.missing(9), [BlockRun { first: BlockNumber(3), count: 1 }]);
        assert_eq!(receiver.missing_count(), 1);
        receiver.handle_failed([EntryIndex(1)]);
        assert!(!receiver.is_complete(), "the other packed file is still wanted");
        receiver.handle_declined([EntryIndex(2)]);
        assert!(receiver.is_complete());
    }

    #[test]
    fn an_open_block_whose_files_all_failed_is_not_waited_for_once_it_is_sealed() {
        let mut receiver = Receiver::default();
        receiver.append(Some(ByteCount(5))).unwrap();
        receiver.handle_failed([EntryIndex(0)]);
        assert!(!receiver.is_complete(), "the block may still get another file");
        receiver.seal();
        assert!(receiver.is_complete());
        assert_eq!(receiver.wanted_bytes(), ByteCount(0));
    }

    /// More had arrived in the end than was said to come, where a file failed after its bytes, or beside others.
    #[test]
    fn what_is_wanted_is_what_has_arrived_in_the_end() {
        let mut layout = Layout::new();
        for size in [2 * BLOCK_SIZE, 5, 6] {
            layout.append(Some(ByteCount(size))).unwrap();
        }
        layout.seal();
        let durable: BlockSet = [0, 2].map(BlockNumber).into_iter().collect();
        let mut receiver = Receiver::resuming(layout, durable, []);
        assert_eq!(receiver.wanted_bytes(), ByteCount(2 * BLOCK_SIZE + 11));
        receiver.handle_failed([0, 1].map(EntryIndex));
        assert!(receiver.is_complete());
        assert_eq!(receiver.wanted_bytes(), receiver.durable_bytes());
    }

    #[test]
    fn a_receiver_that_resumes_counts_each_block_once_its_length_is_known() {
        let durable: BlockSet = [0, 1, 3].map(BlockNumber).into_iter().collect();
        let mut receiver = Receiver::resuming(Layout::new(), durable, []);
        assert_eq!(receiver.durable_bytes(), ByteCount(0));
        receiver.append(Some(ByteCount(5))).unwrap();
        receiver.append(Some(ByteCount(BLOCK_SIZE + 7))).unwrap();
        assert_eq!(receiver.durable_bytes(), ByteCount(BLOCK_SIZE), "the open block may still grow");
        receiver.append(Some(ByteCount(6))).unwrap();
        receiver.seal();
        receiver.append(Some(ByteCount(8))).unwrap();
        (0..3).for_each(|_| receiver.seal());
        assert_eq!(receiver.durable_bytes(), ByteCount(11 + BLOCK_SIZE + 8));
        assert_eq!(receiver.received_bytes(), receiver.durable_bytes());
    }
}
