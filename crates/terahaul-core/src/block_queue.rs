//! Which block to send next, and what to send again.
//!
//! | a block is | until | then |
//! |---|---|---|
//! | undeclared | the manifest batch that seals it is accepted (`handle_sendable`) | waiting |
//! | waiting | a channel claims it (`poll_claim`) | claimed |
//! | undeclared or waiting | it is not known yet whether it is to be sent (`withhold`) | withheld |
//! | withheld | it is (`let_go`) | waiting, ahead of the rest |
//! | claimed | the receiver reports it durable (`handle_durable`) | durable |
//! | claimed | its channel dies, the session ends or the receiver refuses it (`handle_channel_lost`, `handle_session_lost`, `handle_refused`) | waiting, ahead of the rest |
//! | any | every entry in it has failed or was declined (`handle_void`) | void: never sent |

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{BlockNumber, BlockRun, BlockSet};

/// A data channel's number within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// The sender's queue of blocks. Claims are few (what is sent but not yet durable), so memory is one bit a block
/// and a few bytes a claim.
#[derive(Clone, Debug, Default)]
pub struct BlockQueue {
    /// Blocks below this number are declared and sealed, save those in `held`.
    sendable: u32,
    /// The packed block that is still open below `sendable`.
    held: Option<BlockNumber>,
    /// Where the search for fresh blocks goes on.
    cursor: u32,
    again: VecDeque<BlockNumber>,
    claims: BTreeMap<ChannelId, BTreeSet<BlockNumber>>,
    durable: BlockSet,
    void: BlockSet,
    withheld: BlockSet,
}

impl BlockQueue {
    /// All blocks below `count` may be sent, save `open`, the packed block that may still grow.
    pub fn handle_sendable(&mut self, count: u32, open: Option<BlockNumber>) {
        let held = std::mem::replace(&mut self.held, open);
        self.sendable = self.sendable.max(count);
        if let Some(block) = held
            && held != open
            && block.0 < self.cursor
            && self.is_wanted(block)
        {
            self.again.push_back(block);
        }
    }

    /// The next block for `channel` to send, or `None` when there is none for now.
    pub fn poll_claim(&mut self, channel: ChannelId) -> Option<BlockNumber> {
        let block = self.next_waiting()?;
        self.claims.entry(channel).or_default().insert(block);
        Some(block)
    }

    fn next_waiting(&mut self) -> Option<BlockNumber> {
        while let Some(block) = self.again.pop_front() {
            if self.may_go(block) {
                return Some(block);
            }
        }
        while self.cursor < self.sendable {
            let block = BlockNumber(self.cursor);
            self.cursor += 1;
            if self.held != Some(block) && self.may_go(block) {
                return Some(block);
            }
        }
        None
    }

    fn may_go(&self, block: BlockNumber) -> bool {
        self.is_wanted(block) && !self.withheld.contains(block)
    }

    /// These are not sent until they are let go. None of them may be claimed.
    pub fn withhold(&mut self, run: BlockRun) {
        // What is let go waits here, once.
        let all = run.first.0..run.first.0 + run.count;
        self.again.retain(|block| !all.contains(&block.0));
        for block in run.blocks() {
            self.withheld.insert(block);
        }
    }

    /// These may be sent after all.
    pub fn let_go(&mut self, run: BlockRun) {
        for block in run.blocks() {
            if self.withheld.remove(block) && block.0 < self.cursor && self.is_wanted(block) {
                self.again.push_back(block);
            }
        }
    }

    fn is_wanted(&self, block: BlockNumber) -> bool {
        !self.durable.contains(block) && !self.void.contains(block)
    }

    /// The receiver keeps these for good.
    pub fn handle_durable(&mut self, runs: impl IntoIterator<Item = BlockRun>) {
        for block in runs.into_iter().flat_map(BlockRun::blocks) {
            self.durable.insert(block);
            self.void.remove(block);
            self.release(block);
        }
    }

    /// The channel was cut: what it had not delivered for good goes back, ahead of fresh blocks. Not for a channel that
    /// the receiver has read to its end: those blocks stay claimed until they are durable.
    pub fn handle_channel_lost(&mut self, channel: ChannelId) {
        self.again.extend(self.claims.remove(&channel).into_iter().flatten());
    }

    /// The session is over: what any of its channels had not delivered for good goes back, those that were closed in
    /// order included.
    pub fn handle_session_lost(&mut self) {
        self.again.extend(std::mem::take(&mut self.claims).into_values().flatten());
    }

    /// The receiver wants this block once more.
    pub fn handle_refused(&mut self, block: BlockNumber) {
        if self.release(block) {
            self.again.push_back(block);
        }
    }

    /// Nothing in this block is wanted any more. `true` if it becomes void, and was not before.
    pub fn handle_void(&mut self, block: BlockNumber) -> bool {
        self.release(block);
        !self.durable.contains(block) && self.void.insert(block)
    }

    fn release(&mut self, block: BlockNumber) -> bool {
        self.claims.values_mut().any(|blocks| blocks.remove(&block))
    }

    /// Blocks claimed and not yet durable.
    pub fn in_flight(&self) -> usize {
        self.claims.values().map(BTreeSet::len).sum()
    }

    /// Whether each of the first `count` blocks is claimed, durable or void.
    pub fn is_claimed(&self, count: u32) -> bool {
        self.durable.len() + self.void.len() + self.in_flight() as u64 == u64::from(count)
    }

    /// Blocks that are not sent, and not durable.
    pub fn void(&self) -> &BlockSet {
        &self.void
    }

    /// Blocks known to be durable at the receiver.
    pub fn durable(&self) -> &BlockSet {
        &self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Declare(u32),
        Claim(u32),
        Ack(u32),
        Lose(u32),
        Refuse(u32),
        Withhold(u32),
        LetGo(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..8).prop_map(Step::Declare),
            (0u32..4).prop_map(Step::Claim),
            (0u32..64).prop_map(Step::Ack),
            (0u32..4).prop_map(Step::Lose),
            (0u32..64).prop_map(Step::Refuse),
            (0u32..64).prop_map(Step::Withhold),
            (0u32..64).prop_map(Step::LetGo),
        ]
    }

    proptest! {
        /// Whatever order channels come, go and acknowledge in, every block is claimed by one channel at a time and
        /// ends up durable, and a durable block is never claimed again.
        #[test]
        fn no_block_is_lost_or_sent_twice_at_once(steps in proptest::collection::vec(step(), 0..300)) {
            let mut queue = BlockQueue::default();
            let mut declared = 0;
            let mut claimed: BTreeMap<u32, u32> = BTreeMap::new();
            let mut withheld = BTreeSet::new();
            let one = |block| BlockRun { first: BlockNumber(block), count: 1 };
            for step in steps {
                match step {
                    Step::Declare(more) => { declared += more; queue.handle_sendable(declared, None); }
                    Step::Claim(channel) => if let Some(block) = queue.poll_claim(ChannelId(channel)) {
                        prop_assert!(block.0 < declared);
                        prop_assert!(!queue.durable().contains(block));
                        prop_assert!(claimed.insert(block.0, channel).is_none(), "claimed twice");
                        prop_assert!(!withheld.contains(&block.0));
                    },
                    Step::Ack(block) => if claimed.remove(&block).is_some() {
                        queue.handle_durable([BlockRun { first: BlockNumber(block), count: 1 }]);
                    },
                    Step::Lose(channel) => {
                        queue.handle_channel_lost(ChannelId(channel));
                        claimed.retain(|_, by| *by != channel);
                    }
                    Step::Refuse(block) => if claimed.remove(&block).is_some() {
                        queue.handle_refused(BlockNumber(block));
                    },
                    Step::Withhold(block) => if !claimed.contains_key(&block) {
                        withheld.insert(block);
                        queue.withhold(one(block));
                    },
                    Step::LetGo(block) => {
                        withheld.remove(&block);
                        queue.let_go(one(block));
                    }
                }
                prop_assert_eq!(queue.in_flight(), claimed.len());
            }
            for channel in 0..4 { queue.handle_channel_lost(ChannelId(channel)); }
            for block in withheld { queue.let_go(one(block)); }
            while let Some(block) = queue.poll_claim(ChannelId(9)) {
                queue.handle_durable([BlockRun { first: block, count: 1 }]);
            }
            prop_assert!(queue.is_claimed(declared) && queue.in_flight() == 0);
        }
    }

    #[test]
    fn the_open_block_waits_until_it_is_sealed() {
        let mut queue = BlockQueue::default();
        queue.handle_sendable(3, Some(BlockNumber(1)));
        assert_eq!(queue.poll_claim(ChannelId(0)), Some(BlockNumber(0)));
        assert_eq!(queue.poll_claim(ChannelId(0)), Some(BlockNumber(2)));
        assert_eq!(queue.poll_claim(ChannelId(0)), None);
        queue.handle_sendable(3, None);
        assert_eq!(queue.poll_claim(ChannelId(0)), Some(BlockNumber(1)));
    }

    #[test]
    fn what_a_closed_channel_delivered_is_sent_again_only_when_the_session_ends() {
        let mut queue = BlockQueue::default();
        queue.handle_sendable(3, None);
        let first = queue.poll_claim(ChannelId(0)).unwrap();
        let second = queue.poll_claim(ChannelId(0)).unwrap();
        queue.handle_durable([BlockRun { first, count: 1 }]);
        assert_eq!(queue.poll_claim(ChannelId(1)), Some(BlockNumber(2)));
        assert_eq!(queue.poll_claim(ChannelId(1)), None, "channel 0 was closed in order: nothing comes back");
        queue.handle_session_lost();
        assert_eq!(queue.poll_claim(ChannelId(3)), Some(second));
        assert_eq!(queue.poll_claim(ChannelId(3)), Some(BlockNumber(2)));
        assert_eq!(queue.poll_claim(ChannelId(3)), None);
    }

    #[test]
    fn a_resume_sends_only_what_is_not_durable() {
        let mut queue = BlockQueue::default();
        queue.handle_durable([0, 2].map(|block| BlockRun { first: BlockNumber(block), count: 1 }));
        queue.handle_sendable(4, None);
        assert_eq!(queue.poll_claim(ChannelId(0)), Some(BlockNumber(1)));
        assert_eq!(queue.poll_claim(ChannelId(0)), Some(BlockNumber(3)));
        assert_eq!(queue.poll_claim(ChannelId(0)), None);
    }
}
