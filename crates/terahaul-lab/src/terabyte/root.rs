//! The root that a depot must sign, whoever computed which part of it.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use terahaul_core::{
    BlockHasher, BlockNumber, BlockProof, Entry, Hash, Layout, RootHasher, file_hash_from_values,
};
use terahaul_store::BlockSource;

use super::Generator;

const PIECE: usize = 256 << 10;

/// The root over `entry`, a file that the generator makes: `known` has what this run hashed while it sent, and the
/// blocks of earlier runs are made and hashed again, on every processor. `None` where a file has no such size.
pub fn expected_root(
    entry: &Entry,
    generator: Generator,
    known: &BTreeMap<BlockNumber, BlockProof>,
) -> Option<Hash> {
    let mut layout = Layout::new();
    layout.append(entry.file_size()).ok()?;
    layout.seal();
    let proofs = proofs(&layout, generator, known);
    if proofs.len() as u64 != layout.block_count() {
        return None;
    }
    let file = match proofs.values().next() {
        // A file that is smaller than a block is packed, alone.
        Some(BlockProof::Packed(files)) => *files.first()?,
        _ => {
            let values: Vec<Hash> = proofs.values().map(BlockProof::value).collect();
            file_hash_from_values(entry.file_size()?, &values)?
        }
    };
    let mut root = RootHasher::default();
    root.update(entry, Some(file));
    Some(root.finish())
}

fn proofs(
    layout: &Layout,
    generator: Generator,
    known: &BTreeMap<BlockNumber, BlockProof>,
) -> BTreeMap<BlockNumber, BlockProof> {
    let all = Mutex::new(known.clone());
    let next = AtomicU64::new(0);
    let work = || {
        let mut buffer = vec![0; PIECE];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(number) =
                u32::try_from(number).ok().filter(|_| number < layout.block_count()).map(BlockNumber)
            else {
                return;
            };
            if known.contains_key(&number) {
                continue;
            }
            let Some(shape) = layout.shape(number) else { return };
            let mut hasher = BlockHasher::new(&shape);
            let hashed = generator.read_block(&shape, &mut buffer, &mut |piece| {
                hasher.update(piece);
                Ok(())
            });
            if hashed.is_ok() {
                all.lock().unwrap_or_else(PoisonError::into_inner).insert(number, hasher.finish());
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::{BLOCK_SIZE, ByteCount};

    /// By the ordinary hash over all bytes.
    fn plain_root(entry: &Entry, seed: u64) -> Hash {
        let mut bytes = vec![0; entry.file_size().unwrap().0 as usize];
        Generator::new(seed).fill(0, &mut bytes);
        let mut root = RootHasher::default();
        root.update(entry, Some(Hash(*blake3::hash(&bytes).as_bytes())));
        root.finish()
    }

    #[test]
    fn the_root_is_that_of_the_bytes_whatever_is_known_already() {
        for size in [5, BLOCK_SIZE - 1, BLOCK_SIZE, 3 * BLOCK_SIZE + 77] {
            let entry = super::super::entry(ByteCount(size));
            let expected = Some(plain_root(&entry, 7));
            assert_eq!(expected_root(&entry, Generator::new(7), &BTreeMap::new()), expected, "{size}");
            let mut layout = Layout::new();
            layout.append(Some(ByteCount(size))).unwrap();
            layout.seal();
            let mut known = proofs(&layout, Generator::new(7), &BTreeMap::new());
            known.remove(&BlockNumber(0));
            assert_eq!(expected_root(&entry, Generator::new(7), &known), expected, "{size}");
        }
        let entry = super::super::entry(ByteCount(BLOCK_SIZE));
        let false_proof = BTreeMap::from([(BlockNumber(0), BlockProof::Piece(Hash([9; 32])))]);
        let root = expected_root(&entry, Generator::new(7), &false_proof);
        assert_ne!(root, Some(plain_root(&entry, 7)), "a false value shows");
    }
}
