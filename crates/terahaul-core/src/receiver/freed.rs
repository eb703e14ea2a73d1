//! Giving back what came before it was known that nobody wants it.

use crate::{BlockNumber, BlockRun, BlockSet, ByteCount, EntryIndex, Receiver};

impl Receiver {
    /// The durable blocks with bytes of `entries` that hold nothing wanted.
    pub fn unwanted_blocks(&self, entries: impl IntoIterator<Item = EntryIndex>) -> Vec<BlockRun> {
        let unwanted = self.layout.blocks_of_all(entries, |entry| self.is_unwanted(entry));
        unwanted.into_iter().flat_map(|run| self.durable.common_with(run)).collect()
    }

    /// Whether nothing that the block holds is wanted, and it is not here.
    pub fn is_void(&self, block: BlockNumber) -> bool {
        self.void.contains(block)
    }

    /// Blocks that hold nothing wanted, are not here, and of which something may have been written: it counts for nobody. None of them is being
    /// written, nor will be.
    pub fn abandoned_blocks(&self) -> Vec<BlockRun> {
        let written = self.written.runs().flat_map(|run| self.void.common_with(run));
        let abandoned: BlockSet =
            written.flat_map(BlockRun::blocks).filter(|block| !self.arriving.contains(block)).collect();
        abandoned.runs().collect()
    }

    /// Nothing is left of them.
    pub fn handle_abandoned_freed(&mut self, runs: &[BlockRun]) {
        for block in runs.iter().copied().flat_map(BlockRun::blocks) {
            self.written.remove(block);
        }
    }

    /// Their bytes are not here any more.
    pub fn handle_freed(&mut self, runs: &[BlockRun]) {
        for block in runs.iter().copied().flat_map(BlockRun::blocks) {
            if self.durable.remove(block) && self.received.remove(block) {
                let len = self.len_of(block);
                self.durable_bytes = ByteCount(self.durable_bytes.0.saturating_sub(len.0));
                self.received_bytes = ByteCount(self.received_bytes.0.saturating_sub(len.0));
                self.void(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::{BLOCK_SIZE, BlockProof, Hash, Layout};

    use super::*;

    const FIRST: BlockNumber = BlockNumber(0);
    const FIRST_ALONE: [BlockRun; 1] = [BlockRun { first: FIRST, count: 1 }];

    fn of_two_files() -> Layout {
        let mut layout = Layout::new();
        for size in [BLOCK_SIZE, BLOCK_SIZE] {
            layout.append(Some(ByteCount(size))).unwrap();
        }
        layout.seal();
        layout
    }

    /// A token could fill a disk past its quota: nothing counted what had been written of a block when its file failed.
    #[test]
    fn what_was_written_of_a_block_whose_file_has_failed_is_given_back_once_nobody_writes_it() {
        let mut receiver = Receiver::resuming(of_two_files(), BlockSet::new(), []);
        receiver.admit(FIRST, BLOCK_SIZE).unwrap();
        assert_eq!(receiver.abandoned_blocks(), [], "it is wanted");
        receiver.handle_failed([EntryIndex(0)]);
        assert_eq!(receiver.abandoned_blocks(), [], "it is being written");
        receiver.handle_dropped(FIRST);
        assert_eq!(receiver.abandoned_blocks(), FIRST_ALONE);
        receiver.handle_abandoned_freed(&FIRST_ALONE);
        assert_eq!(receiver.abandoned_blocks(), []);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn what_came_whole_is_not_abandoned_until_it_is_lost() {
        let mut receiver = Receiver::resuming(of_two_files(), BlockSet::new(), []);
        receiver.admit(FIRST, BLOCK_SIZE).unwrap();
        let shape = receiver.layout().shape(FIRST).unwrap();
        receiver.handle_verified(Instant::now(), &shape, BlockProof::Piece(Hash::default()));
        receiver.handle_failed([EntryIndex(0)]);
        assert_eq!(receiver.abandoned_blocks(), []);
        receiver.handle_lost();
        assert_eq!(receiver.abandoned_blocks(), FIRST_ALONE);
    }

    #[test]
    fn whoever_resumes_does_not_know_what_was_written_of_what_has_failed() {
        let receiver = Receiver::resuming(of_two_files(), BlockSet::new(), [EntryIndex(0)]);
        assert_eq!(receiver.abandoned_blocks(), FIRST_ALONE);
    }

    #[test]
    fn what_nobody_wants_any_more_is_given_back_and_not_waited_for() {
        let mut layout = Layout::new();
        for size in [2 * BLOCK_SIZE, 5, 6, BLOCK_SIZE + 1] {
            layout.append(Some(ByteCount(size))).unwrap();
        }
        layout.seal();
        let durable: BlockSet = [0, 2, 3, 4].map(BlockNumber).into_iter().collect();
        let mut receiver = Receiver::resuming(layout, durable, [0, 1].map(EntryIndex));
        let unwanted = receiver.unwanted_blocks((0..4).map(EntryIndex));
        assert_eq!(
            unwanted,
            [BlockRun { first: BlockNumber(0), count: 1 }],
            "the packed block holds another file"
        );
        receiver.handle_freed(&unwanted);
        receiver.handle_freed(&unwanted);
        assert_eq!(receiver.durable_bytes(), ByteCount(11 + BLOCK_SIZE + 1));
        assert_eq!(receiver.received_bytes(), receiver.durable_bytes());
        assert_eq!(receiver.void_bytes(), ByteCount(2 * BLOCK_SIZE));
        assert!(
            receiver.is_complete() && receiver.is_void(BlockNumber(0)) && !receiver.is_void(BlockNumber(2))
        );
        assert_eq!(receiver.unwanted_blocks([EntryIndex(0)]), []);
    }
}
