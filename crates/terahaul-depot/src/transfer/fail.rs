//! Entries that will not arrive.

use std::sync::Arc;

use terahaul_core::{EntryIndex, kept_detail};
use terahaul_store::EntryFailure;

use super::Asker;
use super::live::{Live, Tail};
use super::space::Share;
use crate::DepotError;
use crate::db::{Declared, StoredFailure, detail_bytes};

/// Bytes of details that are kept of one transfer; what fails after that is told without.
const MAX_DETAILS: usize = 8 << 20;

impl Live {
    /// Marks entries failed: they are no longer waited for, and their paths are free again. Those that failed before
    /// keep their first cause. While the transfer is finished this is [withheld](super::reopen).
    pub async fn fail_entries(self: &Arc<Self>, failures: Vec<EntryFailure>) -> Result<(), DepotError> {
        self.fail_by(failures, Asker::Another).await
    }

    pub(crate) async fn fail_by(
        self: &Arc<Self>,
        failures: Vec<EntryFailure>,
        asker: Asker,
    ) -> Result<(), DepotError> {
        self.touch();
        self.sent.handle_sent();
        let live = Arc::clone(self);
        let task = tokio::spawn(async move {
            let mut tail = live.tail.lock().await;
            live.fail(&mut tail, failures, asker).await
        });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn fail(
        &self,
        tail: &mut Tail,
        mut failures: Vec<EntryFailure>,
        asker: Asker,
    ) -> Result<(), DepotError> {
        if tail.closed {
            return Err(DepotError::NotOpen);
        }
        if let Some(outside) = failures.iter().find(|failure| u64::from(failure.entry.0) >= tail.total) {
            return Err(DepotError::NoSuchEntry { entry: outside.entry.0 });
        }
        failures.sort_by_key(|failure| failure.entry);
        failures.dedup_by_key(|failure| failure.entry);
        // Where they are, and not in a copy: there may be two million, and each message is of some hundred.
        self.inbound.with(|receiver| failures.retain(|failure| !receiver.failed().contains(&failure.entry)));
        if failures.is_empty() {
            return Ok(());
        }
        let hashes = self.path_hashes(tail, failures.iter().map(|failure| failure.entry)).await?;
        let depot = self.depot()?;
        let mut new = as_kept(tail.details, failures);
        let details = detail_bytes(&new);
        let asked = Declared { bytes: 0, manifest_bytes: details as u64 };
        let space = match depot.claim_space(self.quota.as_ref(), asked, Share::Unpromised).await {
            // That they failed is never refused.
            Err(DepotError::Quota { .. } | DepotError::DiskFull { .. }) => {
                new.iter_mut().for_each(|failure| failure.detail.clear());
                None
            }
            claimed => claimed?,
        };
        if !self.is_finished() {
            depot.inner.db.fail_entries(self.id, &new).await?;
        }
        drop(space);
        tail.details += detail_bytes(&new);
        self.inbound.with(|receiver| receiver.handle_failed(new.iter().map(|failure| failure.entry)));
        for (hash, failure) in hashes.into_iter().zip(&new) {
            tail.paths.remove(hash);
            tail.failed.insert(hash, failure.entry);
        }
        self.closed.send_modify(|_| {});
        self.replace_sender(asker);
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

/// With as much of their details as is kept beside `details` bytes of others.
fn as_kept(mut details: usize, failures: Vec<EntryFailure>) -> Vec<StoredFailure> {
    let keep = |EntryFailure { entry, cause, detail }| {
        let mut detail = kept_detail(detail);
        if details + detail.len() > MAX_DETAILS {
            detail = String::new();
        }
        details += detail.len();
        StoredFailure { entry, cause, detail, superseded: false }
    };
    failures.into_iter().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use terahaul_core::{ByteCount, EntryKind, FailureCause};
    use terahaul_wire::Batch;

    use super::*;
    use crate::DepotConfig;
    use crate::fixture::{Fixture, entry};

    /// As much of each as is kept.
    const DETAIL: usize = 2000;

    /// Tells of so many entries, from `first` on, and returns which of all that have failed have kept their details.
    async fn fail(live: &Arc<Live>, first: u32, count: usize) -> Vec<bool> {
        let failure = |entry| EntryFailure {
            entry: EntryIndex(entry),
            cause: FailureCause::Changed,
            detail: "𝄞".repeat(DETAIL),
        };
        live.fail_entries((first..).take(count).map(failure).collect()).await.unwrap();
        let kept = live.depot().unwrap().inner.db.failures(live.id, 0, u32::MAX).await.unwrap();
        kept.iter().map(|failure| failure.detail.len() == DETAIL).collect()
    }

    async fn append(live: &Arc<Live>, count: usize) -> Result<(), DepotError> {
        let entries = (0..count).map(|at| entry(&format!("{at}"), EntryKind::Directory)).collect();
        live.append_entries(Batch { first: EntryIndex(0), entries, seal: false }).await.map(drop)
    }

    /// A sender's words of two million entries were four gigabytes, in the database or in memory.
    #[tokio::test(flavor = "multi_thread")]
    async fn only_so_much_is_kept_of_what_is_said_of_a_transfers_failures() {
        let fixture = Fixture::new().await;
        let id = fixture.transfer().await;
        let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
        let most = MAX_DETAILS / DETAIL;
        append(&live, most + 4).await.unwrap();
        let kept = fail(&live, 0, most + 2).await;
        assert!(kept[..most].iter().all(|kept| *kept) && kept[most..] == [false, false]);
        drop(live);
        fixture.depot.inner.registry.slot(id).await.clear().await;
        let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
        assert_eq!(fail(&live, most as u32 + 2, 2).await[most..], [false; 4], "it is counted anew");
    }

    /// They went past every quota.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_said_of_failures_counts_against_quotas_and_is_never_refused() {
        let with = |config| DepotConfig { quota: Some(ByteCount(1)), ..config };
        let fixture = Fixture::with(with).await;
        let live = fixture.depot.open_inbound(&fixture.owner, fixture.transfer().await).await.unwrap();
        append(&live, 1000).await.unwrap();
        assert!(fail(&live, 0, 400).await == [true; 400]);
        assert!(fail(&live, 400, 400).await[400..] == [false; 400]);
        let more = append(&live, 10_000).await;
        assert!(matches!(more, Err(DepotError::Quota { .. })), "{more:?}");
    }
}
