//! Giving back what nobody will read, to the disk and to the quota.
//!
//! A block that holds nothing but failed entries is either void, and will not be here, or had come before they failed. What fails stays
//! failed, so the latter's bytes are freed first and its record is removed afterwards: stopped in between, that is done again, when it is next
//! loaded or finished. Of a void one something may have been written, which counts for nobody: it is freed once nobody writes it, with what
//! fails next, or when it is next loaded or finished.

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
        let (unwanted, abandoned) =
            self.inbound.with(|receiver| (receiver.unwanted_blocks(failed), receiver.abandoned_blocks()));
        let free = async |blocks: Vec<BlockRun>| {
            if blocks.is_empty() {
                return Ok(blocks);
            }
            let (store, id) = (Arc::clone(&depot.inner.store), self.id);
            blocking::run(move || free_all(&*store, id, blocks)).await
        };
        let left = free(abandoned).await?;
        self.inbound.with(|receiver| receiver.handle_abandoned_freed(&left));
        let freed = free(unwanted).await?;
        let len_of =
            |block| self.inbound.with(|receiver| receiver.layout().len_of(block).map_or(0, u64::from));
        let freed_bytes = freed.iter().copied().flat_map(BlockRun::blocks).map(len_of).sum::<u64>();
        let void = self.inbound.with(|receiver| receiver.void_bytes().0) + freed_bytes;
        if freed.is_empty() {
            return Ok(depot.inner.db.keep_void_bytes(self.id, void).await?);
        }
        depot.inner.db.forget_blocks(self.id, &freed, len_of, void).await?;
        // Where that fails they stay here in memory, too, and the next attempt finds them.
        self.inbound.with(|receiver| receiver.handle_freed(&freed));
        Ok(())
    }

    /// The same of all that have failed, after what stands whether this succeeds or not. What remains is freed when it is next loaded or
    /// finished.
    pub(super) async fn free_failed(&self) {
        let failed = self.failed();
        if failed.is_empty() {
            return;
        }
        if let Err(error) = self.free_unwanted(failed).await {
            tracing::warn!(transfer = %self.id, %error, "what has failed still counts against quotas; freeing it is tried again");
        }
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

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use terahaul_core::{Address, BlockNumber, EntryKind, FailureCause};
    use terahaul_store::EntryFailure;
    use terahaul_wire::Batch;

    use super::*;
    use crate::db::StoredFailure;
    use crate::fixture::{Fixture, entry};

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_stop_has_left_of_failed_entries_is_given_back_when_the_transfer_is_loaded() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let id = fixture.transfer_of(EntryKind::File { size: ByteCount(BLOCK_SIZE) }).await;
        let failure = StoredFailure {
            entry: EntryIndex(0),
            cause: FailureCause::Changed,
            detail: String::new(),
            superseded: false,
        };
        depot.inner.db.fail_entries(id, &[failure]).await.unwrap();
        assert_eq!(depot.inner.db.declared(None).await.unwrap().bytes, BLOCK_SIZE);
        depot.live(id).await.unwrap();
        assert_eq!(depot.inner.db.declared(None).await.unwrap().bytes, 0);
    }

    /// A token could fill the disk past its quota with it, also by keeping the block's channel open until the transfer was finished.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_written_of_a_block_whose_file_fails_is_given_back() {
        let failure = || {
            let (entry, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
            vec![EntryFailure { entry, cause, detail }]
        };
        for fails_first in [false, true] {
            let fixture = Fixture::new().await;
            let id = fixture.transfer_of(EntryKind::File { size: ByteCount(BLOCK_SIZE) }).await;
            let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
            let inbound = Arc::clone(live.inbound());
            let mut arrival = inbound.begin(BlockNumber(0), BLOCK_SIZE).unwrap();
            arrival.write(&[IoSlice::new(&[7; 1000])]).unwrap();
            let is_there = || {
                let mut first = [0];
                fixture.depot.inner.store.open(id).unwrap().read_at(Address(0), &mut first).unwrap();
                first == [7]
            };
            if fails_first {
                live.fail_entries(failure()).await.unwrap();
                assert!(is_there(), "it is being written");
                live.finish().await.unwrap();
                assert!(arrival.write(&[IoSlice::new(&[7; 1000])]).is_err());
            } else {
                drop(arrival);
                assert!(is_there());
                live.fail_entries(failure()).await.unwrap();
            }
            assert!(!is_there(), "it failed first: {fails_first}");
        }
    }

    /// They counted for ever.
    #[tokio::test(flavor = "multi_thread")]
    async fn blocks_that_could_not_be_forgotten_when_their_entry_failed_are_when_the_transfer_is_finished() {
        let fixture = Fixture::new().await;
        let db = &fixture.depot.inner.db;
        let live = fixture.arrived(ByteCount(BLOCK_SIZE)).await;
        let kept = async || {
            let bytes = db.transfer(live.id()).await.unwrap().unwrap().durable_bytes;
            (bytes as u64, db.durable_blocks(live.id()).await.unwrap().len())
        };
        db.keep_rows_of_blocks(true).await;
        let (entry, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
        let failed = live.fail_entries(vec![EntryFailure { entry, cause, detail }]).await;
        assert!(failed.is_err());
        assert_eq!(kept().await, (BLOCK_SIZE, 1));
        db.keep_rows_of_blocks(false).await;
        live.finish().await.unwrap();
        assert_eq!(kept().await, (0, 0));
    }

    /// Up to four megabytes for each block counted until the next failure, or the next start.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_small_file_that_fails_before_its_block_is_sealed_is_given_back_when_it_is() {
        let fixture = Fixture::new().await;
        let id = fixture.transfer().await;
        let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
        let file = |name| entry(name, EntryKind::File { size: ByteCount(3_000_000) });
        let batch = |first, entries, seal| Batch { first: EntryIndex(first), entries, seal };
        let declared = async || fixture.depot.inner.db.declared(None).await.unwrap().bytes;
        let (failed, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
        live.append_entries(batch(0, vec![file("a")], false)).await.unwrap();
        live.fail_entries(vec![EntryFailure { entry: failed, cause, detail }]).await.unwrap();
        assert_eq!(declared().await, 3_000_000);
        // It does not fit behind the first one.
        live.append_entries(batch(1, vec![file("b")], false)).await.unwrap();
        assert_eq!(declared().await, 3_000_000);
        let cause = FailureCause::Changed;
        live.fail_entries(vec![EntryFailure { entry: EntryIndex(1), cause, detail: String::new() }])
            .await
            .unwrap();
        live.append_entries(batch(2, Vec::new(), true)).await.unwrap();
        assert_eq!(declared().await, 0);
    }
}
