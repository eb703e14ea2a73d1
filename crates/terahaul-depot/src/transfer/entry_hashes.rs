//! The hashes of entries, from the proofs of their blocks.

use terahaul_core::{
    BLOCK_SIZE, BlockContent, BlockNumber, BlockProof, BlockShape, Entry, EntryIndex, Extent, FileHasher,
    Hash, TransferId, empty_file_hash,
};

use crate::DepotError;
use crate::db::Database;

/// Proofs that are read at once: a file of ten terabytes has millions.
pub(super) const RUN: u32 = 4096;

/// Computes hashes of entries that have arrived. Cheapest in manifest order: it keeps the last packed block.
pub(super) struct EntryHashes {
    db: Database,
    id: TransferId,
    packed: Option<(BlockShape, Vec<Hash>)>,
}

impl EntryHashes {
    pub fn new(db: Database, id: TransferId) -> Self {
        Self { db, id, packed: None }
    }

    /// The hash of `entry`, whose bytes are all durable; `None` when it is not a file.
    pub async fn hash(
        &mut self,
        index: EntryIndex,
        entry: &Entry,
        extent: Option<Extent>,
        shape_of: impl Fn(BlockNumber) -> Option<BlockShape>,
    ) -> Result<Option<Hash>, DepotError> {
        let Some(size) = entry.file_size() else { return Ok(None) };
        let Some(extent) = extent else { return Ok(Some(empty_file_hash())) };
        let damaged =
            || DepotError::Damaged(format!("the proof of entry {index} is missing or has another length"));
        let block = extent.address.block().ok_or_else(damaged)?;
        if size.0 >= BLOCK_SIZE {
            let mut hasher = FileHasher::new(size);
            let mut left = size.0.div_ceil(BLOCK_SIZE) as u32;
            let mut first = block;
            while left > 0 {
                let count = left.min(RUN);
                for (_, bytes) in self.db.proofs(self.id, first, count).await? {
                    hasher.update(Hash(bytes.try_into().map_err(|_| damaged())?));
                }
                first.0 += count;
                left -= count;
            }
            return hasher.finish().ok_or_else(damaged).map(Some);
        }
        if self.packed.as_ref().is_none_or(|(shape, _)| shape.number != block) {
            let shape = shape_of(block).ok_or_else(damaged)?;
            let bytes = self.db.proof(self.id, block).await?.ok_or_else(damaged)?;
            let Some(BlockProof::Packed(hashes)) = BlockProof::from_bytes(&shape, &bytes) else {
                return Err(damaged());
            };
            self.packed = Some((shape, hashes));
        }
        let (shape, hashes) = self.packed.as_ref().ok_or_else(damaged)?;
        let BlockContent::Packed { files, .. } = &shape.content else { return Err(damaged()) };
        let at = files.binary_search_by_key(&index, |file| file.entry).map_err(|_| damaged())?;
        Ok(Some(hashes[at]))
    }
}
