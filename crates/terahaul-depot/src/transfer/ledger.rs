//! The record of durable blocks, in the database.

use std::io;
use std::sync::{Arc, OnceLock, Weak};

use terahaul_core::{BlockNumber, BlockProof, BlockShape, TransferId};
use terahaul_store::{Inbound, Ledger, LedgerError};
use tokio::runtime::Handle;

use super::Unmarked;
use crate::blocking;
use crate::db::{self, Database};

/// Called from threads that may block, never from the runtime's own.
pub(super) struct DbLedger {
    id: TransferId,
    db: Database,
    unmarked: Arc<Unmarked>,
    runtime: Handle,
    /// Knows the blocks' lengths. Set right after the receiver is made.
    inbound: OnceLock<Weak<Inbound>>,
}

impl DbLedger {
    pub fn new(id: TransferId, db: Database, unmarked: Arc<Unmarked>) -> Self {
        Self { id, db, unmarked, runtime: Handle::current(), inbound: OnceLock::new() }
    }

    pub fn set_inbound(&self, inbound: &Arc<Inbound>) {
        let _ = self.inbound.set(Arc::downgrade(inbound));
    }

    fn wait<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl Future<Output = sqlx::Result<T>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match blocking::wait(&self.runtime, work) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) if db::lacks_room(&error) => {
                Err(LedgerError { action, source: io::Error::new(io::ErrorKind::StorageFull, error).into() })
            }
            Some(Err(error)) => Err(LedgerError { action, source: error.into() }),
            None => Err(LedgerError { action, source: "the depot is stopping".into() }),
        }
    }
}

impl Ledger for DbLedger {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        let Some(inbound) = self.inbound.get().and_then(Weak::upgrade) else {
            return Err(LedgerError { action: "written", source: "the transfer is gone".into() });
        };
        let proven = inbound.with(|receiver| -> Vec<_> {
            let len = |block| receiver.layout().len_of(block).map_or(0, u64::from);
            proven.iter().map(|(block, proof)| (*block, proof.clone(), len(*block))).collect()
        });
        drop(inbound);
        let (db, id) = (self.db.clone(), self.id);
        // Before: what is copied once that is marked has the blocks, as they are durable already.
        self.unmarked.handle_recorded();
        self.wait("written", async move { db.record_blocks(id, &proven).await })
    }

    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        let (db, id, block) = (self.db.clone(), self.id, shape.number);
        let bytes = self.wait("read", async move { db.proof(id, block).await })?;
        Ok(bytes.and_then(|bytes| BlockProof::from_bytes(shape, &bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_without_room_is_a_full_disk() {
        let home = tempfile::tempdir().unwrap();
        let db = Database::open(&home.path().join("depot.db")).await.unwrap();
        let ledger = DbLedger::new(TransferId([1; 16]), db.clone(), Arc::default());
        let recorded = blocking::run(move || ledger.wait("written", async move { db.overfill().await }));
        let error = recorded.await.unwrap().unwrap_err();
        assert!(error.is_full(), "{error}");
    }
}
