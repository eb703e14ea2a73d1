//! What a transfer's queue, its old files and its entries are worth together, behind [`super::Outbound`]'s lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use terahaul_core::{
    BlockNumber, BlockProof, BlockQueue, BlockRun, ByteCount, ChannelId, EntryIndex, Layout, LayoutError,
};
use terahaul_wire::Advice;

use super::{Next, Placement};
use crate::channel::bases::{Bases, Freed};

/// Entries that wait for the receiver to accept them: file sizes, and whether the open block ends behind them.
pub(super) type Offered = (Vec<Option<ByteCount>>, bool);

/// Where a batch ends: once the receiver has accepted `entries`, blocks below `blocks` may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Milestone {
    pub(super) entries: u64,
    pub(super) blocks: u32,
    pub(super) open: Option<BlockNumber>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) layout: Layout,
    pub(super) queue: BlockQueue,
    pub(super) milestones: VecDeque<Milestone>,
    pub(super) failed: BTreeSet<EntryIndex>,
    /// Those of them that the receiver has heard of in this session.
    pub(super) told: BTreeSet<EntryIndex>,
    pub(super) declined: BTreeSet<EntryIndex>,
    pub(super) proofs: BTreeMap<BlockNumber, BlockProof>,
    /// Blocks that are being read and sent just now.
    pub(super) sending: BTreeMap<ChannelId, BlockNumber>,
    pub(super) closing: BTreeSet<ChannelId>,
    /// Numbers given to channels over UDP.
    pub(super) over_udp: u32,
    pub(super) closed: bool,
    pub(super) durable: ByteCount,
    /// Bytes of void blocks: they will not become durable.
    pub(super) void: ByteCount,
    pub(super) refusals: BTreeMap<BlockNumber, u32>,
    pub(super) placement: Placement,
    pub(super) offered: VecDeque<Offered>,
    /// Durable blocks that are not declared yet.
    pub(super) early: Vec<BlockRun>,
    pub(super) bases: Bases,
    pub(super) copied: ByteCount,
}

impl State {
    pub(super) fn poll_next(&mut self, channel: ChannelId) -> Option<Next> {
        loop {
            if self.closed || self.closing.remove(&channel) {
                return Some(Next::Close);
            }
            let shape = self.layout.shape(self.queue.poll_claim(channel)?)?;
            if shape.entries().all(|entry| self.is_unwanted(entry)) {
                self.void(shape.number);
                continue;
            }
            if self.bases.park(&shape) {
                continue;
            }
            self.sending.insert(channel, shape.number);
            return Some(Next::Block(shape));
        }
    }

    /// Whether the entry will not arrive, or is not to.
    pub(super) fn is_unwanted(&self, entry: EntryIndex) -> bool {
        self.failed.contains(&entry) || self.declined.contains(&entry)
    }

    pub(super) fn place(
        &mut self,
        sizes: impl IntoIterator<Item = Option<ByteCount>>,
        seal: bool,
    ) -> Result<(), LayoutError> {
        for size in sizes {
            self.layout.append(size)?;
        }
        if seal {
            self.layout.seal();
        }
        let declared = self.layout.block_count() as u32;
        self.milestones.push_back(Milestone {
            entries: self.layout.entry_count(),
            blocks: declared,
            open: self.layout.open_block(),
        });
        for run in std::mem::take(&mut self.early) {
            self.keep_durable(run, declared);
            self.early.extend(run.from(declared));
        }
        Ok(())
    }

    pub(super) fn place_accepted(
        &mut self,
        mut sizes: Vec<Option<ByteCount>>,
        seal: bool,
    ) -> Result<(), LayoutError> {
        let first = self.layout.entry_count() as u32;
        // Of failures the two ends learn at different times: those keep their addresses.
        for unwanted in self.declined.range(EntryIndex(first)..EntryIndex(first + sizes.len() as u32)) {
            sizes[(unwanted.0 - first) as usize] = None;
        }
        self.place(sizes, seal)?;
        // They were named as held before it was known what blocks they have.
        let end = EntryIndex(self.layout.entry_count() as u32);
        let held = self.bases.held_among(EntryIndex(first)..end);
        self.settle_done(held);
        Ok(())
    }

    /// What of `run` is declared needs no sending.
    pub(super) fn keep_durable(&mut self, run: BlockRun, declared: u32) {
        let Some(run) = run.below(declared) else { return };
        let new: Vec<_> = self.queue.durable().missing_in(run).collect();
        for block in new.iter().flat_map(|run| run.blocks()) {
            let len = self.len_of(block);
            self.durable += len;
            if self.queue.void().contains(block) {
                self.void = ByteCount(self.void.0.saturating_sub(len.0));
            }
        }
        self.queue.handle_durable(new);
    }

    /// An entry that was held waits no longer.
    pub(super) fn settle(&mut self, entry: EntryIndex) {
        for block in self.bases.settle(entry) {
            self.queue.handle_refused(block);
        }
    }

    /// Blocks that waited may be claimed again. Returns what the receiver is to be told.
    pub(super) fn free(&mut self, freed: Freed) -> Option<Advice> {
        freed.blocks.iter().for_each(|block| self.queue.handle_refused(*block));
        freed.advice
    }

    /// Blocks that are durable wait for nothing, whoever has brought them. Returns what the receiver is to be told.
    pub(super) fn settle_durable(&mut self, durable: impl Iterator<Item = BlockNumber>) -> Vec<Advice> {
        let mut told = Vec::new();
        if !self.bases.are_awaited() {
            return told;
        }
        let mut touched = BTreeSet::new();
        for block in durable {
            let Some(shape) = self.layout.shape(block) else { continue };
            let freed = self.bases.handle_sent(&shape, false);
            told.extend(self.free(freed));
            touched.extend(shape.own_entry());
        }
        self.settle_done(touched);
        told
    }

    /// Those of these entries that have no block of their own that is not durable wait for nothing: nobody may be there to say so.
    fn settle_done(&mut self, entries: impl IntoIterator<Item = EntryIndex>) {
        for entry in entries {
            if is_durable(&self.layout, &self.queue, entry).unwrap_or(true) {
                self.settle(entry);
            }
        }
    }

    pub(super) fn forget_bases(&mut self) {
        let Self { bases, layout, queue, failed, declined, .. } = self;
        bases.forget(|entry| {
            failed.contains(&entry)
                || declined.contains(&entry)
                || is_durable(layout, queue, entry).unwrap_or(u64::from(entry.0) < layout.entry_count())
        });
    }

    /// These entries have failed or were declined, and were not before: blocks that hold nothing else are not sent.
    pub(super) fn void_blocks_of(&mut self, entries: &[EntryIndex]) {
        entries.iter().for_each(|entry| self.settle(*entry));
        let void = self.layout.blocks_of_all(entries.iter().copied(), |entry| self.is_unwanted(entry));
        void.into_iter().flat_map(BlockRun::blocks).for_each(|block| self.void(block));
    }

    fn void(&mut self, block: BlockNumber) {
        if self.queue.handle_void(block) {
            self.void += self.len_of(block);
        }
    }

    fn len_of(&self, block: BlockNumber) -> ByteCount {
        ByteCount(self.layout.len_of(block).map_or(0, u64::from))
    }
}

/// Whether all blocks of the entry are durable; `None` where it has none of its own.
fn is_durable(layout: &Layout, queue: &BlockQueue, entry: EntryIndex) -> Option<bool> {
    run_of_large(layout, entry).map(|run| queue.durable().contains_run(run))
}

/// The entry's own blocks, which large files have.
pub(super) fn run_of_large(layout: &Layout, entry: EntryIndex) -> Option<BlockRun> {
    layout.blocks_of_large(entry).map(|(first, count)| BlockRun { first, count })
}
