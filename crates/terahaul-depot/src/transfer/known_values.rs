//! What is recorded of a finished transfer's blocks.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{BlockContent, BlockNumber, BlockProof, BlockShape, Hash, Layout, TransferId};
use terahaul_store::Recorded;
use tokio::runtime::Handle;

use crate::db::Database;
use crate::{DepotError, blocking};

/// Blocks whose values are read at once: 16 GiB of a transfer in 128 KiB of memory.
const CHUNK: u32 = 4096;
/// Chunks that are kept: readers of one transfer are mostly close together.
const KEPT: usize = 8;

/// Values of [`CHUNK`] blocks, by the block's number.
type Values = Arc<HashMap<u32, Hash>>;

/// Reads values when they are asked for, some thousand at a time, and keeps those that were used last.
pub(super) struct KnownValues {
    id: TransferId,
    db: Database,
    runtime: Handle,
    layout: Arc<Layout>,
    /// By their number, the one used last at the end.
    chunks: Mutex<VecDeque<(u32, Values)>>,
}

impl KnownValues {
    pub fn new(id: TransferId, db: Database, layout: Arc<Layout>) -> Self {
        Self { id, db, runtime: Handle::current(), layout, chunks: Mutex::default() }
    }

    fn chunks(&self) -> MutexGuard<'_, VecDeque<(u32, Values)>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, number: u32) -> Option<Values> {
        self.chunks().iter().find(|(kept, _)| *kept == number).map(|(_, chunk)| Arc::clone(chunk))
    }

    fn keep(&self, number: u32, chunk: &Values) {
        let mut chunks = self.chunks();
        chunks.retain(|(kept, _)| *kept != number);
        if chunks.len() == KEPT {
            chunks.pop_front();
        }
        chunks.push_back((number, Arc::clone(chunk)));
    }

    /// What a block was proven by when it arrived; `None` where that is not recorded. Blocks; call it from threads that may.
    pub fn recorded(&self, shape: &BlockShape) -> Result<Option<BlockProof>, DepotError> {
        match shape.content {
            // Of many blocks at once.
            BlockContent::Piece { .. } => Ok(self.value_of(shape.number)?.map(BlockProof::Piece)),
            BlockContent::Packed { .. } => self.proof_of(shape),
        }
    }

    fn value_of(&self, block: BlockNumber) -> Result<Option<Hash>, DepotError> {
        let number = block.0 / CHUNK;
        let chunk = match self.kept(number) {
            Some(chunk) => chunk,
            // Two threads may read the same chunk at once; either result serves.
            None => Arc::new(self.read(BlockNumber(number * CHUNK))?),
        };
        self.keep(number, &chunk);
        Ok(chunk.get(&block.0).copied())
    }

    fn read(&self, first: BlockNumber) -> Result<HashMap<u32, Hash>, DepotError> {
        let id = self.id;
        let rows = self.ask(move |db| async move { db.proofs(id, first, CHUNK).await })?;
        let value = |block: BlockNumber, bytes: &[u8]| {
            let shape = self.layout.shape(block)?;
            Some((block.0, BlockProof::from_bytes(&shape, bytes)?.value()))
        };
        Ok(rows.iter().filter_map(|(block, bytes)| value(*block, bytes)).collect())
    }

    fn proof_of(&self, shape: &BlockShape) -> Result<Option<BlockProof>, DepotError> {
        let (id, block) = (self.id, shape.number);
        let bytes = self.ask(move |db| async move { db.proof(id, block).await })?;
        Ok(bytes.and_then(|bytes| BlockProof::from_bytes(shape, &bytes)))
    }

    fn ask<T: Send + 'static, F>(&self, what: impl FnOnce(Database) -> F) -> Result<T, DepotError>
    where
        F: Future<Output = sqlx::Result<T>> + Send + 'static,
    {
        Ok(blocking::wait(&self.runtime, what(self.db.clone())).ok_or(DepotError::Stopping)??)
    }
}

/// What cannot be read just now is an error to a sender, too: what is not recorded it would hash itself, and send with a value of its own.
impl Recorded for KnownValues {
    fn value(&self, block: BlockNumber) -> io::Result<Option<Hash>> {
        self.value_of(block).map_err(io::Error::other)
    }

    fn proof(&self, shape: &BlockShape) -> io::Result<Option<BlockProof>> {
        self.proof_of(shape).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{BLOCK_SIZE, ByteCount};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn values_of_a_transfer_of_any_size_are_known_in_bounded_memory() {
        const BLOCKS: u32 = 10 * CHUNK;
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        let id = db.add_transfer(1).await;
        db.add_blocks(id, BLOCKS).await;
        let mut layout = Layout::new();
        layout.append(Some(ByteCount(u64::from(BLOCKS) * BLOCK_SIZE))).unwrap();
        let proofs = db.proofs(id, BlockNumber(0), BLOCKS).await.unwrap();
        let known = KnownValues::new(id, db, Arc::new(layout));
        let read = move || {
            // There and back again.
            for (block, proof) in proofs.iter().chain(proofs.iter().rev()) {
                assert_eq!(known.value(*block).unwrap().unwrap().0[..], proof[..]);
            }
            assert_eq!(known.chunks().len(), KEPT);
        };
        blocking::run(read).await.unwrap();
    }
}
