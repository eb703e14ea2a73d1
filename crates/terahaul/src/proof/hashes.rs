//! Files' hashes from the proofs of blocks, and a transfer's root from files' hashes.

use terahaul_core::{
    BlockContent, BlockNumber, BlockProof, BlockShape, ByteCount, Entry, EntryIndex, Hash, Layout,
    RootHasher, Statement, empty_file_hash, file_hash_from_values,
};

/// The hash of each entry's content, where the proofs of all its blocks are known. Entries without content have none.
pub fn file_hashes(
    layout: &Layout,
    mut proof: impl FnMut(&BlockShape) -> Option<BlockProof>,
) -> Vec<Option<Hash>> {
    let mut hashes = vec![None; layout.entry_count() as usize];
    let mut large: Option<LargeFile> = None;
    for number in 0..layout.block_count() {
        let Some(shape) = u32::try_from(number).ok().and_then(|number| layout.shape(BlockNumber(number)))
        else {
            continue;
        };
        let proven = proof(&shape);
        match (&shape.content, proven) {
            (BlockContent::Packed { files, .. }, Some(BlockProof::Packed(values))) => {
                for (file, value) in files.iter().zip(values) {
                    hashes[file.entry.0 as usize] = Some(value);
                }
            }
            (BlockContent::Piece { entry, offset, file_size }, proven) => {
                let file = match &mut large {
                    Some(file) if file.entry == *entry => file,
                    other => other.insert(LargeFile { entry: *entry, size: *file_size, values: Vec::new() }),
                };
                if let Some(BlockProof::Piece(value)) = proven {
                    file.values.push(value);
                }
                if offset + u64::from(shape.len) == file_size.0 {
                    hashes[entry.0 as usize] = file_hash_from_values(file.size, &file.values);
                }
            }
            (BlockContent::Packed { .. }, _) => {}
        }
    }
    hashes
}

struct LargeFile {
    entry: EntryIndex,
    size: ByteCount,
    /// Shorter than it should be when a proof is not known; then there is no hash.
    values: Vec<Hash>,
}

/// What comparing a root with a statement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootCheck {
    /// Every entry is known here, and they are those that were signed.
    Same,
    /// Every entry is known here, and something else was signed.
    Different,
    /// Some file's hash is not known here.
    Unknown,
}

/// Computes the root over `entries` that arrived, in manifest order, each with its file's hash where it is known.
pub fn check_root(statement: &Statement, entries: impl Iterator<Item = (Entry, Option<Hash>)>) -> RootCheck {
    let mut root = RootHasher::default();
    let mut count = 0;
    for (entry, known) in entries {
        let hash = match entry.file_size() {
            None => None,
            Some(ByteCount(0)) => Some(empty_file_hash()),
            Some(_) => match known {
                Some(hash) => Some(hash),
                None => return RootCheck::Unknown,
            },
        };
        root.update(&entry, hash);
        count += 1;
    }
    if root.finish() == statement.root && count == statement.entries {
        RootCheck::Same
    } else {
        RootCheck::Different
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use terahaul_core::{BLOCK_SIZE, BlockHasher};

    /// Files of these sizes, filled with their index, as a layout and its blocks' proofs.
    fn transfer(sizes: &[u64]) -> (Layout, BTreeMap<BlockNumber, BlockProof>) {
        let mut layout = Layout::new();
        for size in sizes {
            layout.append(Some(ByteCount(*size))).unwrap();
        }
        layout.seal();
        let mut proofs = BTreeMap::new();
        for number in 0..layout.block_count() {
            let shape = layout.shape(BlockNumber(number as u32)).unwrap();
            let mut hasher = BlockHasher::new(&shape);
            match &shape.content {
                BlockContent::Piece { entry, .. } => hasher.update(&vec![entry.0 as u8; shape.len as usize]),
                BlockContent::Packed { files, .. } => {
                    files.iter().for_each(|file| hasher.update(&vec![file.entry.0 as u8; file.len as usize]));
                }
            }
            proofs.insert(shape.number, hasher.finish());
        }
        (layout, proofs)
    }

    #[test]
    fn hashes_from_proofs_are_those_that_b3sum_prints() {
        let sizes = [5, 3 * BLOCK_SIZE + 7, 100, BLOCK_SIZE, BLOCK_SIZE - 1];
        let (layout, proofs) = transfer(&sizes);
        let hashes = file_hashes(&layout, |shape| proofs.get(&shape.number).cloned());
        for (at, size) in sizes.iter().enumerate() {
            let content = vec![at as u8; *size as usize];
            assert_eq!(hashes[at], Some(Hash(*blake3::hash(&content).as_bytes())), "{at}");
        }
    }

    #[test]
    fn a_file_with_an_unknown_block_has_no_hash_and_the_others_have() {
        let (layout, mut proofs) = transfer(&[3 * BLOCK_SIZE, 2 * BLOCK_SIZE, 10]);
        proofs.remove(&BlockNumber(1));
        let hashes = file_hashes(&layout, |shape| proofs.get(&shape.number).cloned());
        assert_eq!(hashes.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    }
}
