//! The recorded values of a finished transfer's blocks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use terahaul_core::{BlockNumber, BlockProof, Hash, Layout, TransferId};
use tokio::runtime::Handle;

use crate::blocking;
use crate::db::Database;

/// Blocks whose values are read at once: 16 GiB of a transfer in 128 KiB of memory.
const CHUNK: u32 = 4096;

/// Reads values when they are first asked for, some thousand at a time, and keeps them.
pub(super) struct KnownValues {
    id: TransferId,
    db: Database,
    runtime: Handle,
    layout: Arc<Layout>,
    chunks: Mutex<HashMap<u32, Arc<HashMap<u32, Hash>>>>,
}

impl KnownValues {
    pub fn new(id: TransferId, db: Database, layout: Arc<Layout>) -> Self {
        Self { id, db, runtime: Handle::current(), layout, chunks: Mutex::default() }
    }

    /// The block's value. Blocks; call it from threads that may.
    pub fn value(&self, block: BlockNumber) -> Option<Hash> {
        let number = block.0 / CHUNK;
        let known = self.chunks.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        let chunk = match known {
            Some(chunk) => chunk,
            // Two threads may read the same chunk at once; either result serves.
            None => {
                let chunk = Arc::new(self.read(BlockNumber(number * CHUNK))?);
                let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
                chunks.insert(number, Arc::clone(&chunk));
                chunk
            }
        };
        chunk.get(&block.0).copied()
    }

    /// A value that cannot be read is one that is not known: the sender then hashes the block itself.
    fn read(&self, first: BlockNumber) -> Option<HashMap<u32, Hash>> {
        let (db, id) = (self.db.clone(), self.id);
        let rows = blocking::wait(&self.runtime, async move { db.proofs(id, first, CHUNK).await })?.ok()?;
        let value = |block: BlockNumber, bytes: &[u8]| {
            let shape = self.layout.shape(block)?;
            Some((block.0, BlockProof::from_bytes(&shape, bytes)?.value()))
        };
        Some(rows.iter().filter_map(|(block, bytes)| value(*block, bytes)).collect())
    }
}
