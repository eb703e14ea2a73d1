//! Blocks by their runs.

use minicbor::{Decode, Encode};
use terahaul_core::{BlockNumber, BlockRun};

use crate::WireError;

/// Most runs of blocks in one message; longer lists are split.
pub const MAX_RUNS: usize = 20_000;

/// Most of them in the first message of a receiver, which comes before its link has been looked at.
pub const FIRST_RUNS: usize = 4_000;

/// Runs of blocks, each `[first, count]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct RunList(#[n(0)] Vec<(u32, u32)>);

impl RunList {
    /// Splits runs into lists short enough for one message each.
    pub fn split(runs: impl IntoIterator<Item = BlockRun>) -> Vec<Self> {
        let pairs: Vec<_> = runs.into_iter().map(|run| (run.first.0, run.count)).collect();
        pairs.chunks(MAX_RUNS).map(|chunk| Self(chunk.to_vec())).collect()
    }

    /// The same for a receiver that is not open yet: the first list has [`FIRST_RUNS`] at most.
    pub fn split_first(mut runs: Vec<BlockRun>) -> Vec<Self> {
        let rest = runs.split_off(runs.len().min(FIRST_RUNS));
        Self::split(runs).into_iter().chain(Self::split(rest)).collect()
    }

    /// The runs, which lie below `end` and are not too many, or the list is refused. In order and apart from each other, so that
    /// no block is looked at twice however often it was named.
    pub fn runs(&self, end: u64) -> Result<Vec<BlockRun>, WireError> {
        let in_range = |&(first, count): &(u32, u32)| count > 0 && u64::from(first) + u64::from(count) <= end;
        if self.0.len() > MAX_RUNS || !self.0.iter().all(in_range) {
            return Err(WireError::violation("it named blocks that the manifest does not have"));
        }
        let mut named = self.0.clone();
        named.sort_unstable();
        let mut runs: Vec<BlockRun> = Vec::with_capacity(named.len());
        for (first, count) in named {
            match runs.last_mut() {
                Some(last) if first - last.first.0 <= last.count => {
                    last.count = last.count.max(first - last.first.0 + count);
                }
                _ => runs.push(BlockRun { first: BlockNumber(first), count }),
            }
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_outside_the_manifest_are_refused() {
        assert!(RunList(vec![(0, 4)]).runs(4).is_ok());
        assert!(RunList(vec![(0, 5)]).runs(4).is_err());
        assert!(RunList(vec![(u32::MAX, u32::MAX)]).runs(u64::from(u32::MAX)).is_err());
        assert!(RunList(vec![(0, 0)]).runs(4).is_err());
        assert!(RunList(vec![(0, 1); MAX_RUNS + 1]).runs(4).is_err());
    }

    #[test]
    fn blocks_that_are_named_again_and_again_are_looked_at_once() {
        let runs = RunList(vec![(7, 2), (0, 3), (1, 1), (3, 2), (0, 3), (8, 4)]).runs(12).unwrap();
        let run = |first, count| BlockRun { first: BlockNumber(first), count };
        assert_eq!(runs, [run(0, 5), run(7, 5)]);
    }
}
