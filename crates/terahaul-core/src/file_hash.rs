//! A large file's hash, what `b3sum` prints, from the values of its blocks.

use blake3::hazmat::{self, ChainingValue, Mode};

use crate::{BLOCK_SIZE, ByteCount, Hash};

/// Takes the values in order, and holds one for each level of BLAKE3's tree at most.
pub struct FileHasher {
    blocks: u64,
    taken: u64,
    /// Subtrees from left to right, each larger than the next, but that the last two may be alike. They are merged when another value
    /// follows: which node is the root, and so hashed differently, is known at the end only.
    subtrees: Vec<ChainingValue>,
}

impl FileHasher {
    /// For a file of so many bytes, a block or more.
    pub fn new(size: ByteCount) -> Self {
        let blocks = if size.0 < BLOCK_SIZE { 0 } else { size.0.div_ceil(BLOCK_SIZE) };
        Self { blocks, taken: 0, subtrees: Vec::new() }
    }

    /// Takes the next block's value.
    pub fn update(&mut self, value: Hash) {
        // Complete subtrees are as many, and as large, as the ones in the number of values are.
        while self.subtrees.len() > self.taken.count_ones() as usize
            && let (Some(right), Some(left)) = (self.subtrees.pop(), self.subtrees.pop())
        {
            self.subtrees.push(hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
        self.subtrees.push(value.0);
        self.taken += 1;
    }

    /// The hash; `None` when these were not the values of all blocks.
    pub fn finish(mut self) -> Option<Hash> {
        if self.taken != self.blocks {
            return None;
        }
        let mut right = self.subtrees.pop()?;
        while let Some(left) = self.subtrees.pop() {
            right = if self.subtrees.is_empty() {
                *hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
            } else {
                hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash)
            };
        }
        Some(Hash(right))
    }
}

/// The hash of a file without bytes.
pub fn empty_file_hash() -> Hash {
    Hash(*blake3::hash(b"").as_bytes())
}

/// A large file's root hash from the values of its blocks, in order.
///
/// `values` must be all of the file's blocks; `None` when their number does not fit `size`.
pub fn file_hash_from_values(size: ByteCount, values: &[Hash]) -> Option<Hash> {
    let mut hasher = FileHasher::new(size);
    values.iter().for_each(|value| hasher.update(*value));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BLAKE3's tree as it is defined: the largest power of two that leaves something over is on the left.
    fn subtree(values: &[Hash]) -> ChainingValue {
        if let [only] = values {
            return only.0;
        }
        let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
        hazmat::merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
    }

    fn whole(values: &[Hash]) -> Hash {
        if let [only] = values {
            return *only;
        }
        let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
        Hash(*hazmat::merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes())
    }

    fn values(count: u64) -> Vec<Hash> {
        (0..count).map(|number| Hash(*blake3::hash(&number.to_le_bytes()).as_bytes())).collect()
    }

    #[test]
    fn a_hasher_holds_one_value_a_level() {
        let mut hasher = FileHasher::new(ByteCount(1000 * BLOCK_SIZE));
        for value in values(1000) {
            hasher.update(value);
            assert!(hasher.subtrees.len() <= 11);
        }
    }

    proptest! {
        #[test]
        fn values_one_by_one_make_the_hash_of_the_whole_tree(blocks in 1u64..1200, cut in 0..BLOCK_SIZE) {
            // The last block may be short; a file's only one is not.
            let size = ByteCount((blocks * BLOCK_SIZE - cut).max(BLOCK_SIZE));
            let values = values(blocks);
            prop_assert_eq!(file_hash_from_values(size, &values), Some(whole(&values)));
            prop_assert_eq!(file_hash_from_values(size, &values[1..]), None);
            prop_assert_eq!(file_hash_from_values(size + ByteCount(BLOCK_SIZE), &values), None);
        }
    }

    #[test]
    fn a_small_file_has_no_block_of_its_own() {
        assert_eq!(file_hash_from_values(ByteCount(BLOCK_SIZE - 1), &values(1)), None);
        assert_eq!(file_hash_from_values(ByteCount(0), &[]), None);
    }
}
