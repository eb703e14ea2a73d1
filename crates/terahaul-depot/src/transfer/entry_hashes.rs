//! The hashes of entries, from the proofs of their blocks.

use terahaul_core::{
    BLOCK_SIZE, BlockContent, BlockNumber, BlockProof, BlockShape, Entry, EntryIndex, Extent, Hash,
    TransferId, empty_file_hash, file_hash_from_values,
};

use crate::DepotError;
use crate::db::Database;

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
            let count = size.0.div_ceil(BLOCK_SIZE) as u32;
            let rows = self.db.proofs(self.id, block, count).await?;
            let values: Vec<Hash> =
                rows.iter().filter_map(|(_, bytes)| Some(Hash(bytes.as_slice().try_into().ok()?))).collect();
            return file_hash_from_values(size, &values).ok_or_else(damaged).map(Some);
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
