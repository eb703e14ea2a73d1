//! Giving back what came before it was known that nobody wants it.

use crate::{BlockNumber, BlockRun, ByteCount, EntryIndex, Receiver};

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
    use crate::{BLOCK_SIZE, BlockSet, Layout};

    use super::*;

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
