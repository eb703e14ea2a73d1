//! The end of a transfer: everything durable, hashed, published and signed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use terahaul_core::{
    ByteCount, EntryIndex, EntryKind, Hash, Layout, RootHasher, Statement, TransferId, take_below,
};
use terahaul_store::StoreError;
use terahaul_wire::Batch;
use tokio::time::timeout;

use super::entry_hashes::EntryHashes;
use super::live::Live;
use super::load::ends_before;
use super::recover::is_cut_short;
use super::registry::Slot;
use crate::db::{Completion, TransferRow, TransferState};
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Runs of missing blocks that an error names.
const NAMED_RUNS: usize = 1000;
/// Bytes of hashes that are kept in one database transaction.
const HASH_BYTES: usize = 4 << 20;

/// What a finished transfer's depot states.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The statement.
    pub statement: Statement,
    /// Its signature, hexadecimal.
    pub signature: String,
    /// Complete, or partial when entries failed.
    pub state: TransferState,
}

/// Who asks for a transfer to grow or to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Its native sender.
    Sender,
    /// Somebody over HTTP, perhaps while a native sender declares what it sends: of that a part would be signed, or sealed where it goes on
    /// packing.
    Another,
}

/// What arrived, in sum.
struct Arrived {
    root: Hash,
    entries: u64,
    bytes: ByteCount,
}

impl Finished {
    pub(super) fn of_row(row: &TransferRow) -> Result<Self, DepotError> {
        let damaged = || DepotError::Damaged("a finished transfer lacks its statement".into());
        let statement = row.statement.as_deref().ok_or_else(damaged)?;
        let statement =
            serde_json::from_str(statement).map_err(|error| DepotError::Damaged(error.to_string()))?;
        let signature = row.signature.clone().ok_or_else(damaged)?;
        Ok(Self { statement, signature, state: row.state })
    }
}

impl Depot {
    /// Waits until all that the open transfer's manifest promises is durable or has failed, `limit` at most. A manifest
    /// that may still grow is not waited for.
    pub(crate) async fn await_arrival(&self, id: TransferId, limit: Duration) -> Result<(), DepotError> {
        if self.row(id).await?.state != TransferState::Open {
            return Ok(());
        }
        let live = match self.live(id).await {
            // Another caller has finished it since.
            Err(DepotError::NotOpen) => return Ok(()),
            live => live?,
        };
        // What is missing still is for the attempt to finish to say.
        let _ = timeout(limit, live.arrived()).await;
        Ok(())
    }

    /// Finishes a transfer; one that is finished already gives its statement again. `asker`: who asks for it.
    pub(crate) async fn finish(&self, id: TransferId, asker: Asker) -> Result<Finished, DepotError> {
        let depot = self.clone();
        // A task of its own: a client that goes away must not stop this half-way.
        let task = tokio::spawn(async move { depot.finish_in_slot(id, asker).await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn finish_in_slot(&self, id: TransferId, asker: Asker) -> Result<Finished, DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        // First of all: another database may say anything.
        self.check_data().await?;
        let row = self.row(id).await?;
        if row.state != TransferState::Open {
            // What is said again has to hold still.
            let (store, last_block) = (self.inner.store.clone(), self.inner.db.last_block(id).await?);
            let is_cut_short =
                blocking::run(move || Ok::<_, StoreError>(is_cut_short(&*store.open(id)?, last_block)));
            if is_cut_short.await?? {
                return Err(StoreError::Short(id).into());
            }
            return Finished::of_row(&row);
        }
        let live = self.live_in(&mut slot, &row).await?;
        let mut tail = live.tail.lock().await;
        // Also where it goes on behind what another has sealed.
        if asker == Asker::Another && live.seat.is_taken() && tail.sealed != Some(Asker::Sender) {
            return Err(DepotError::BeingDeclared);
        }
        if tail.sealed.is_none() {
            let first = EntryIndex(live_total(&live) as u32);
            live.append(&mut tail, None, Batch { first, entries: Vec::new(), seal: true }, asker).await?;
        }
        let inbound = Arc::clone(&live.inbound);
        blocking::run(move || inbound.flush()).await??;
        let (blocks, missing) =
            live.inbound.with(|receiver| (receiver.missing_count(), receiver.missing(NAMED_RUNS)));
        if !missing.is_empty() {
            return Err(DepotError::Incomplete { blocks, missing });
        }
        // From here on nothing changes it; when a step fails, the transfer is open still and is loaded anew.
        live.close_with(&mut tail).await;
        let missed = tail.failed.values().copied().collect();
        drop(tail);
        *slot = Slot::default();
        live.free_unwanted(live.failed()).await?;
        let finished = self.publish(&live, &row, missed).await?;
        tracing::info!(transfer = %id, state = ?finished.state, bytes = finished.statement.bytes.0, "finished");
        Ok(finished)
    }

    /// Publishes; nothing stands for the failures of `missed` by their own paths.
    async fn publish(
        &self,
        live: &Live,
        row: &TransferRow,
        missed: BTreeSet<EntryIndex>,
    ) -> Result<Finished, DepotError> {
        let id = live.id();
        let store = self.inner.store.clone();
        let end = blocking::run(move || store.open(id)?.end()).await??;
        if live.inbound.with(|receiver| ends_before(end, receiver.durable(), receiver.layout())) {
            // Another file has its name since it was loaded. Loaded anew, it lacks them.
            return Err(DepotError::Closed);
        }
        // Superseded ones, too, are not part of what arrived.
        let failed = live.failed();
        let displaced = displaced(live, &missed, &failed).await?;
        let failures = (missed.len() - displaced.len()) as u64;
        let layout = live.inbound.with(|receiver| receiver.layout().clone());
        let arrived = self.hash_all(live, &layout, |entry| failed.contains(&entry)).await?;
        let statement = Statement {
            version: 1,
            transfer: id,
            name: row.name.clone(),
            created: row.created,
            completed: self.inner.config.clock.now(),
            entries: arrived.entries,
            bytes: arrived.bytes,
            failed: failures,
            root: arrived.root,
            public_key: HEXLOWER.encode(&self.public_key().0),
        };
        self.check_data().await?;
        let signature = statement.sign(&self.inner.keys.signing);
        let store = self.inner.store.clone();
        blocking::run(move || store.publish(id)).await??;
        let state = if failures == 0 { TransferState::Complete } else { TransferState::Partial };
        let text =
            serde_json::to_string(&statement).map_err(|error| DepotError::Damaged(error.to_string()))?;
        let completion = Completion {
            state,
            blocks: layout.block_count(),
            completed: statement.completed,
            expires: self.term_anew(row, None).expires,
            statement: &text,
            signature: &signature,
            superseded: &displaced,
        };
        self.inner.db.complete_transfer(id, &completion).await?;
        Ok(Finished { statement, signature, state })
    }

    /// Computes and keeps the hash of every entry, and the root over those that arrived.
    async fn hash_all(
        &self,
        live: &Live,
        layout: &Layout,
        failed: impl Fn(EntryIndex) -> bool,
    ) -> Result<Arrived, DepotError> {
        let id = live.id();
        let mut root = RootHasher::default();
        let (mut entries, mut bytes) = (0, ByteCount(0));
        let mut hashes = EntryHashes::new(self.inner.db.clone(), id);
        // Walking along a layout gives every extent at once; asking the finished one for each would be slower.
        let mut walked = Layout::new();
        let mut kept = Vec::new();
        let mut manifest = live.manifest(0)?;
        while let Some(batch) = manifest.next().await? {
            let mut row = Vec::with_capacity(batch.entries.len() * 32);
            for (index, entry) in (batch.first as u32..).map(EntryIndex).zip(&batch.entries) {
                let extent = walked
                    .append(entry.file_size())
                    .map_err(|error| DepotError::Damaged(error.to_string()))?;
                if failed(index) {
                    row.extend_from_slice(&[0; 32]);
                    continue;
                }
                let hash = hashes.hash(index, entry, extent, |block| layout.shape(block)).await?;
                root.update(entry, hash);
                row.extend_from_slice(&hash.unwrap_or_default().0);
                entries += 1;
                bytes += entry.file_size().unwrap_or_default();
            }
            if batch.seal {
                walked.seal();
            }
            kept.push((batch.first, row));
            if kept.iter().map(|(_, row)| row.len()).sum::<usize>() >= HASH_BYTES {
                self.inner.db.keep_hashes(id, &std::mem::take(&mut kept)).await?;
            }
        }
        self.inner.db.keep_hashes(id, &kept).await?;
        Ok(Arrived { root: root.finish(), entries, bytes })
    }
}

/// Those of `missed` that have no place any more: a file or a link that has arrived is where a folder above them was.
async fn displaced(
    live: &Live,
    missed: &BTreeSet<EntryIndex>,
    failed: &BTreeSet<EntryIndex>,
) -> Result<Vec<EntryIndex>, DepotError> {
    if missed.is_empty() {
        return Ok(Vec::new());
    }
    let mut paths = BTreeMap::new();
    let mut manifest = live.manifest(0)?;
    while let Some(batch) = manifest.next().await? {
        let entries = (batch.first as u32..).map(EntryIndex).zip(batch.entries);
        paths.extend(
            entries.filter(|(index, _)| missed.contains(index)).map(|(index, entry)| (entry.path, index)),
        );
    }
    let mut displaced = Vec::new();
    let mut manifest = live.manifest(0)?;
    while let Some(batch) = manifest.next().await? {
        for (index, entry) in (batch.first as u32..).map(EntryIndex).zip(&batch.entries) {
            if entry.kind != EntryKind::Directory && !failed.contains(&index) {
                displaced.extend(take_below(&mut paths, &entry.path));
            }
        }
    }
    Ok(displaced)
}

fn live_total(live: &Live) -> u64 {
    live.inbound.with(|receiver| receiver.layout().entry_count())
}

#[cfg(test)]
mod tests {
    use terahaul_core::{BLOCK_SIZE, BlockNumber, BlockRun};

    use super::*;
    use crate::DepotConfig;
    use crate::fixture::Fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_finish_that_lacks_much_says_how_much() {
        let gaps = NAMED_RUNS as u32 + 7;
        let fixture = Fixture::with(|config| DepotConfig { overcommit: true, ..config }).await;
        let db = &fixture.depot.inner.db;
        let size = ByteCount(u64::from(2 * gaps) * BLOCK_SIZE);
        let id = fixture.transfer_of(EntryKind::File { size }).await;
        fixture.add_blocks(id, 2 * gaps).await;
        let missing = (0..gaps).map(|gap| BlockRun { first: BlockNumber(2 * gap), count: 1 });
        db.forget_blocks(id, &missing.collect::<Vec<_>>(), |_| 0, 0).await.unwrap();
        let Err(DepotError::Incomplete { blocks, missing }) = fixture.depot.finish(id, Asker::Sender).await
        else {
            panic!()
        };
        assert_eq!((blocks, missing.len()), (u64::from(gaps), NAMED_RUNS));
    }
}
