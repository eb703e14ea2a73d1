//! The extent map: which blocks have arrived.

use crate::BlockNumber;

/// A set of block numbers: one bit a block, so 1 TB of blocks is 32 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSet {
    words: Vec<u64>,
    count: u64,
}

/// Consecutive blocks: `first`, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The first block of the run.
    pub first: BlockNumber,
    /// Its length, at least 1.
    pub count: u32,
}

impl BlockRun {
    /// The blocks of the run.
    pub fn blocks(self) -> impl Iterator<Item = BlockNumber> {
        (0..self.count).map(move |i| BlockNumber(self.first.0 + i))
    }

    /// The part of the run that lies below `end`.
    pub fn below(self, end: u32) -> Option<Self> {
        let count = self.count.min(end.saturating_sub(self.first.0));
        (count > 0).then_some(Self { first: self.first, count })
    }

    /// The part of the run that lies at `start` or behind it.
    pub fn from(self, start: u32) -> Option<Self> {
        let skipped = start.saturating_sub(self.first.0).min(self.count);
        let count = self.count - skipped;
        (count > 0).then_some(Self { first: BlockNumber(self.first.0 + skipped), count })
    }
}

impl BlockSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `block`; `false` when it was there already.
    pub fn insert(&mut self, block: BlockNumber) -> bool {
        let (word, bit) = (block.0 as usize / 64, 1u64 << (block.0 % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(new);
        new
    }

    /// Takes `block` out; `false` when it was not there.
    pub fn remove(&mut self, block: BlockNumber) -> bool {
        let (word, bit) = (block.0 as usize / 64, 1u64 << (block.0 % 64));
        let Some(word) = self.words.get_mut(word) else { return false };
        let was = *word & bit != 0;
        *word &= !bit;
        self.count -= u64::from(was);
        was
    }

    /// Whether `block` is in the set.
    pub fn contains(&self, block: BlockNumber) -> bool {
        self.words.get(block.0 as usize / 64).is_some_and(|word| word & (1 << (block.0 % 64)) != 0)
    }

    /// Whether every block of `run` is in the set.
    pub fn contains_run(&self, run: BlockRun) -> bool {
        self.first_missing(run.first, u64::from(run.first.0) + u64::from(run.count)).is_none()
    }

    /// How many blocks are in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs of consecutive blocks, in order.
    pub fn runs(&self) -> impl Iterator<Item = BlockRun> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next_from(at, true)?;
            let end = self.next_from(first, false).unwrap_or(self.words.len() as u64 * 64);
            at = end;
            Some(BlockRun { first: BlockNumber(first as u32), count: (end - first) as u32 })
        })
    }

    /// The first block at or after `from` that is not in the set, below `end`.
    pub fn first_missing(&self, from: BlockNumber, end: u64) -> Option<BlockNumber> {
        let at = self
            .next_from(u64::from(from.0), false)
            .unwrap_or((self.words.len() as u64 * 64).max(from.0.into()));
        (at < end).then_some(BlockNumber(at as u32))
    }

    /// The parts of `run` that are not in the set, in order.
    pub fn missing_in(&self, run: BlockRun) -> impl Iterator<Item = BlockRun> + '_ {
        let end = u64::from(run.first.0) + u64::from(run.count);
        let mut at = run.first;
        std::iter::from_fn(move || {
            let first = self.first_missing(at, end)?;
            let next = self.next_from(first.0.into(), true).unwrap_or(end).min(end);
            at = BlockNumber(next.min(u32::MAX.into()) as u32);
            Some(BlockRun { first, count: (next - u64::from(first.0)) as u32 })
        })
    }

    /// The parts of `run` that are in the set, in order.
    pub fn common_with(&self, run: BlockRun) -> impl Iterator<Item = BlockRun> + '_ {
        let end = u64::from(run.first.0) + u64::from(run.count);
        let mut at = u64::from(run.first.0);
        std::iter::from_fn(move || {
            let first = self.next_from(at, true).filter(|first| *first < end)?;
            at = self.next_from(first, false).unwrap_or(self.words.len() as u64 * 64).min(end);
            Some(BlockRun { first: BlockNumber(first as u32), count: (at - first) as u32 })
        })
    }

    /// The next position at or after `from` whose bit is `value`.
    fn next_from(&self, from: u64, value: bool) -> Option<u64> {
        let mut word = (from / 64) as usize;
        let flip = if value { 0 } else { u64::MAX };
        let mut bits = (self.words.get(word)? ^ flip) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = self.words.get(word)? ^ flip;
        }
        Some(word as u64 * 64 + u64::from(bits.trailing_zeros()))
    }
}

impl FromIterator<BlockNumber> for BlockSet {
    fn from_iter<I: IntoIterator<Item = BlockNumber>>(blocks: I) -> Self {
        let mut set = Self::new();
        for block in blocks {
            set.insert(block);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(steps in proptest::collection::vec((0u32..300, any::<bool>()), 0..400)) {
            let mut set = BlockSet::new();
            let mut model = BTreeSet::new();
            for (block, add) in steps {
                if add {
                    prop_assert_eq!(set.insert(BlockNumber(block)), model.insert(block));
                } else {
                    prop_assert_eq!(set.remove(BlockNumber(block)), model.remove(&block));
                }
            }
            prop_assert_eq!(set.len(), model.len() as u64);
            let listed: Vec<u32> = set.runs().flat_map(BlockRun::blocks).map(|b| b.0).collect();
            prop_assert_eq!(&listed, &model.iter().copied().collect::<Vec<_>>());
            for from in 0..310 {
                let expected = (from..305).find(|b| !model.contains(b)).map(BlockNumber);
                prop_assert_eq!(set.first_missing(BlockNumber(from), 305), expected);
                let run = BlockRun { first: BlockNumber(from), count: 3 };
                prop_assert_eq!(set.contains_run(run), run.blocks().all(|block| model.contains(&block.0)));
                let run = BlockRun { first: BlockNumber(from), count: 70 };
                let missing: Vec<u32> = set.missing_in(run).flat_map(BlockRun::blocks).map(|b| b.0).collect();
                prop_assert_eq!(missing, (from..from + 70).filter(|b| !model.contains(b)).collect::<Vec<_>>());
                let common: Vec<u32> = set.common_with(run).flat_map(BlockRun::blocks).map(|b| b.0).collect();
                prop_assert_eq!(common, model.range(from..from + 70).copied().collect::<Vec<_>>());
            }
            let copy: BlockSet = set.runs().flat_map(BlockRun::blocks).collect();
            prop_assert_eq!(copy.len(), set.len());
        }
    }
}
