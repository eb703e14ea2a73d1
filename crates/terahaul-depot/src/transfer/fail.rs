//! Entries that will not arrive.

use std::sync::Arc;

use terahaul_core::{EntryIndex, kept_detail};
use terahaul_store::EntryFailure;

use super::live::{Live, Tail};
use crate::DepotError;
use crate::db::StoredFailure;

impl Live {
    /// Marks entries failed: they are no longer waited for, and their paths are free again. Those that failed before
    /// keep their first cause. While the transfer is finished this is [withheld](super::reopen).
    pub async fn fail_entries(self: &Arc<Self>, failures: Vec<EntryFailure>) -> Result<(), DepotError> {
        self.touch();
        self.sent.handle_sent();
        let live = Arc::clone(self);
        let task = tokio::spawn(async move {
            let mut tail = live.tail.lock().await;
            live.fail(&mut tail, failures).await
        });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn fail(&self, tail: &mut Tail, mut failures: Vec<EntryFailure>) -> Result<(), DepotError> {
        if tail.closed {
            return Err(DepotError::NotOpen);
        }
        if let Some(outside) = failures.iter().find(|failure| u64::from(failure.entry.0) >= tail.total) {
            return Err(DepotError::NoSuchEntry { entry: outside.entry.0 });
        }
        failures.sort_by_key(|failure| failure.entry);
        failures.dedup_by_key(|failure| failure.entry);
        let new: Vec<StoredFailure> = self.inbound.with(|receiver| {
            let known = receiver.failed();
            let new = failures.into_iter().filter(|failure| !known.contains(&failure.entry));
            new.map(|failure| StoredFailure {
                entry: failure.entry,
                cause: failure.cause,
                detail: kept_detail(failure.detail),
                superseded: false,
            })
            .collect()
        });
        if new.is_empty() {
            return Ok(());
        }
        let hashes = self.path_hashes(tail, new.iter().map(|failure| failure.entry)).await?;
        if !self.is_finished() {
            self.depot()?.inner.db.fail_entries(self.id, &new).await?;
        }
        self.inbound.with(|receiver| receiver.handle_failed(new.iter().map(|failure| failure.entry)));
        for (hash, failure) in hashes.into_iter().zip(&new) {
            tail.paths.remove(hash);
            tail.failed.insert(hash, failure.entry);
        }
        self.closed.send_modify(|_| {});
        if self.is_finished() {
            tail.withheld.extend(new);
            return Ok(());
        }
        self.free_unwanted(new.iter().map(|failure| failure.entry).collect()).await
    }

    /// The path hashes of these entries, which are in order.
    async fn path_hashes(
        &self,
        tail: &Tail,
        entries: impl Iterator<Item = EntryIndex>,
    ) -> Result<Vec<u64>, DepotError> {
        let depot = self.depot()?;
        let mut hashes = Vec::new();
        let mut batch = None;
        for index in entries.map(|entry| u64::from(entry.0)) {
            let in_batch = |batch: &crate::db::StoredBatch| {
                (batch.first..batch.first + batch.entries.len() as u64).contains(&index)
            };
            if !batch.as_ref().is_some_and(in_batch) {
                batch = depot.inner.db.batch_at(self.id, index).await?;
            }
            let held =
                batch.as_ref().ok_or_else(|| DepotError::Damaged(format!("entry {index} is not stored")))?;
            let entry = &held.entries[(index - held.first) as usize];
            hashes.push(tail.paths.hash(&entry.path));
        }
        Ok(hashes)
    }
}
