//! Giving back what nobody will read, to the disk and to the quota.
//!
//! A block that holds nothing but failed entries is either void, and will not be here, or had come before they failed. What fails stays
//! failed, so the latter's bytes are freed first and its record is removed afterwards: stopped in between, that is done again, at the next
//! finish.

use std::collections::BTreeSet;
use std::sync::Arc;

use terahaul_core::{BLOCK_SIZE, BlockRun, ByteCount, EntryIndex, TransferId};
use terahaul_store::{Store, StoreError};

use super::live::Live;
use crate::{DepotError, blocking};

impl Live {
    /// Gives back what was declared and will never be here, and what is here of `failed` entries alone. Not so the latter on a medium that
    /// cannot free a part of a file: that stays declared.
    pub(super) async fn free_unwanted(&self, failed: BTreeSet<EntryIndex>) -> Result<(), DepotError> {
        let depot = self.depot()?;
        let unwanted = self.inbound.with(|receiver| receiver.unwanted_blocks(failed));
        let freed = if unwanted.is_empty() {
            Vec::new()
        } else {
            let (store, id) = (Arc::clone(&depot.inner.store), self.id);
            blocking::run(move || free_all(&*store, id, unwanted)).await?
        };
        let (void, durable) = self.inbound.with(|receiver| {
            receiver.handle_freed(&freed);
            (receiver.void_bytes(), receiver.durable_bytes())
        });
        if freed.is_empty() {
            return Ok(depot.inner.db.keep_void_bytes(self.id, void.0).await?);
        }
        Ok(depot.inner.db.forget_blocks(self.id, &freed, durable.0, void.0).await?)
    }
}

/// Returns those that could be freed.
fn free_all(store: &dyn Store, id: TransferId, blocks: Vec<BlockRun>) -> Vec<BlockRun> {
    let free = || -> Result<Vec<BlockRun>, StoreError> {
        let flat = store.open(id)?;
        let mut freed = Vec::new();
        for run in blocks {
            if !flat.free(run.first.address(), ByteCount(u64::from(run.count) * BLOCK_SIZE))? {
                break;
            }
            freed.push(run);
        }
        Ok(freed)
    };
    free().unwrap_or_else(|error| {
        tracing::warn!(transfer = %id, %error, "what has failed could not be removed from the disk, and counts against quotas");
        Vec::new()
    })
}
