//! Bringing a transfer from the database into memory.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use terahaul_core::{Address, BlockNumber, BlockSet, ByteCount, EntryIndex, Layout, Receiver, TransferId};
use terahaul_net::server::Seat;
use terahaul_store::{FlatSink, Inbound, StoreError};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Asker;
use super::entry_list::Loaded;
use super::ledger::DbLedger;
use super::live::{LastSent, Live, Tail};
use super::path_set::PathSet;
use super::published::Published;
use super::registry::Slot;
use crate::auth::Caller;
use crate::db::{TransferRow, TransferState};
use crate::depot::Depot;
use crate::keys::random;
use crate::{DepotError, blocking};

impl Depot {
    /// The transfer, if the caller may read it.
    pub(crate) async fn row_to_read(
        &self,
        caller: &Caller,
        id: TransferId,
    ) -> Result<TransferRow, DepotError> {
        let row = self.row(id).await?;
        if caller.may_read(&self.inner.keys, &row) { Ok(row) } else { Err(DepotError::NoTransfer) }
    }

    /// The transfer, if the caller may change it.
    pub(crate) async fn row_to_write(
        &self,
        caller: &Caller,
        id: TransferId,
    ) -> Result<TransferRow, DepotError> {
        let row = self.row(id).await?;
        caller.may_write(&self.inner.keys, &row)?;
        Ok(row)
    }

    pub(crate) async fn row(&self, id: TransferId) -> Result<TransferRow, DepotError> {
        let find = async || self.inner.db.transfer(id).await?.ok_or(DepotError::NoTransfer);
        let is_kept = |row: &TransferRow| row.expires > self.inner.config.clock.now();
        let row = find().await?;
        if is_kept(&row) {
            return Ok(row);
        }
        // By a clock that was put forward since that was last looked at?
        self.follow_clock().await?;
        Some(find().await?).filter(is_kept).ok_or(DepotError::NoTransfer)
    }

    /// The open transfer `id`, loaded if need be.
    pub(crate) async fn live(&self, id: TransferId) -> Result<Arc<Live>, DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        if let Some(live) = slot.live.as_ref().filter(|live| !live.is_finished()) {
            live.touch();
            return Ok(Arc::clone(live));
        }
        let row = self.row(id).await?;
        if row.state != TransferState::Open {
            return Err(DepotError::NotOpen);
        }
        self.live_in(&mut slot, &row).await
    }

    /// The transfer `id`, loaded if need be, which is open or may be [opened again](super::reopen).
    pub(super) async fn live_to_go_on(&self, id: TransferId) -> Result<Arc<Live>, DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        let row = self.row(id).await?;
        if row.state == TransferState::Complete {
            return Err(DepotError::NotOpen);
        }
        self.live_in(&mut slot, &row).await
    }

    /// The open or partial transfer in its locked slot, loaded if need be.
    pub(super) async fn live_in(&self, slot: &mut Slot, row: &TransferRow) -> Result<Arc<Live>, DepotError> {
        if let Some(live) = &slot.live
            && !live.is_left_over().await
        {
            live.touch();
            return Ok(Arc::clone(live));
        }
        slot.clear_live().await;
        let place = self.place().await?;
        let live = Arc::new(self.load_live(row, place, Trust::UnlessShort).await?);
        if !live.is_finished() {
            // A stop, or a medium that failed, may have come between the record of what failed and this.
            live.free_failed().await;
        }
        slot.live = Some(Arc::clone(&live));
        Ok(live)
    }

    /// The finished transfer `id`, loaded if need be.
    pub(crate) async fn published(&self, id: TransferId) -> Result<Published, DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        if let Some(published) = &slot.published {
            published.touch();
            return Ok(published.clone());
        }
        let row = self.row(id).await?;
        if row.state == TransferState::Open {
            return Err(DepotError::NotFinished);
        }
        self.published_in(&mut slot, &row).await
    }

    async fn published_in(&self, slot: &mut Slot, row: &TransferRow) -> Result<Published, DepotError> {
        let place = self.place().await?;
        let published = self.load_published(row, place).await?;
        slot.published = Some(published.clone());
        Ok(published)
    }

    /// The transfer `id` in whichever state it is, loaded if need be. Behind the lock, as one that is being finished or reopened has
    /// another state afterwards.
    pub(super) async fn loaded(&self, id: TransferId) -> Result<Loaded, DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        if let Some(published) = &slot.published {
            published.touch();
            return Ok(Loaded::Published(published.clone()));
        }
        if let Some(live) = slot.live.as_ref().filter(|live| !live.is_finished()) {
            live.touch();
            return Ok(Loaded::Live(Arc::clone(live)));
        }
        let row = self.row(id).await?;
        match row.state {
            TransferState::Open => self.live_in(&mut slot, &row).await.map(Loaded::Live),
            TransferState::Complete | TransferState::Partial => {
                self.published_in(&mut slot, &row).await.map(Loaded::Published)
            }
        }
    }

    /// A place among the transfers in use.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, DepotError> {
        let take = || Arc::clone(&self.inner.transfers_in_use).try_acquire_owned();
        if let Ok(place) = take() {
            return Ok(place);
        }
        let depot = self.clone();
        // A task of its own: what it has begun to close it closes, also for a client that goes away.
        let making = tokio::spawn(async move { depot.inner.registry.make_room().await });
        making.await.map_err(|_| DepotError::Stopping)?;
        take().map_err(|_| DepotError::Busy)
    }

    pub(super) async fn load_live(
        &self,
        row: &TransferRow,
        place: OwnedSemaphorePermit,
        trust: Trust,
    ) -> Result<Live, DepotError> {
        let id = row.transfer_id();
        let failed = self.inner.db.failed_entries(id).await?;
        let details = self.inner.db.detail_bytes(id).await?;
        let mut durable = self.inner.db.durable_blocks(id).await?;
        let Manifest { layout, paths, failed_paths, sealed } =
            self.load_manifest(row, &failed, Some(PathSet::new(random()?))).await?;
        let owner = self.inner.db.token(&row.owner).await?;
        let quota = owner.and_then(|token| Some((token.id.clone(), ByteCount(token.quota()?))));
        let total = layout.entry_count();
        let store = Arc::clone(&self.inner.store);
        let is_finished = row.state != TransferState::Open;
        let opened = blocking::run(move || {
            if !is_finished {
                // A finish that was interrupted, or opening it again, may have left it published.
                store.reopen(id)?;
            }
            let flat = store.open(id)?;
            flat.end().map(|end| (flat, end))
        });
        let (flat, end) = opened.await??;
        // An older object may lack any of them: a block that was under way when it was copied is a hole in it.
        let is_older = trust == Trust::Nothing || ends_before(end, &durable, &layout);
        let lost = if is_older { std::mem::take(&mut durable) } else { BlockSet::new() };
        let receiver = Receiver::resuming(layout, durable, failed.into_iter().map(|(entry, _)| entry));
        if is_older {
            if is_finished {
                // What is signed stands, and cannot be sent on.
                return Err(StoreError::Short(id).into());
            }
            tracing::warn!(transfer = %id, blocks = lost.len(), "its data is older than what is recorded of it: its sender is to send it again");
            let runs: Vec<_> = lost.runs().collect();
            let len_of = |block| receiver.layout().len_of(block).map_or(0, u64::from);
            self.inner.db.forget_blocks(id, &runs, len_of, receiver.void_bytes().0).await?;
        }
        let ledger = Arc::new(DbLedger::new(id, self.inner.db.clone(), Arc::clone(&self.inner.unmarked)));
        let sink = Arc::new(FlatSink::new(Arc::clone(&flat)));
        let inbound = Inbound::start(receiver, sink, Arc::clone(&ledger) as _);
        let inbound = Arc::new(inbound.map_err(DepotError::io("starting a thread"))?);
        ledger.set_inbound(&inbound);
        let closed = watch::Sender::new(false);
        let told = closed.clone();
        let sent = Arc::<LastSent>::default();
        let came = Arc::clone(&sent);
        inbound.add_listener(Box::new(move |_| {
            came.handle_sent();
            told.send_modify(|_| {});
        }));
        let paths = paths.ok_or_else(|| DepotError::Damaged("no paths were loaded".into()))?;
        Ok(Live {
            id,
            quota,
            depot: Arc::downgrade(&self.inner),
            inbound,
            flat,
            tail: tokio::sync::Mutex::new(Tail {
                total,
                sealed: sealed.then_some(Asker::Another),
                closed: false,
                paths,
                failed: failed_paths,
                details,
                mended: 0,
                withheld: Vec::new(),
            }),
            finished: AtomicBool::new(is_finished),
            used: Mutex::new(Instant::now()),
            sent,
            hashes: Mutex::default(),
            seat: Seat::default(),
            closed,
            _place: place,
        })
    }

    async fn load_published(
        &self,
        row: &TransferRow,
        place: OwnedSemaphorePermit,
    ) -> Result<Published, DepotError> {
        let id = row.transfer_id();
        let failed = self.inner.db.failed_entries(id).await?;
        let layout = self.load_manifest(row, &failed, None).await?.layout;
        let store = Arc::clone(&self.inner.store);
        let flat = blocking::run(move || store.open(id)).await??;
        Published::new(self.clone(), row, layout, failed, flat, place)
    }

    /// Reads the whole manifest once: its layout, and the hashes of its live paths (if asked for) and of its failed ones.
    async fn load_manifest(
        &self,
        row: &TransferRow,
        failed: &[(EntryIndex, bool)],
        mut paths: Option<PathSet>,
    ) -> Result<Manifest, DepotError> {
        let id = row.transfer_id();
        let mut layout = Layout::new();
        let mut failed_paths = HashMap::new();
        let mut sealed = false;
        while let Some(batch) = self.inner.db.batch_at(id, layout.entry_count()).await? {
            // A thousand entries are a fraction of a millisecond, too short to hand over to another thread.
            for (index, entry) in (batch.first as u32..).map(EntryIndex).zip(&batch.entries) {
                let placed = layout.append(entry.file_size());
                placed.map_err(|error| DepotError::Damaged(error.to_string()))?;
                let failure =
                    failed.binary_search_by_key(&index, |(entry, _)| *entry).ok().map(|at| failed[at]);
                let Some(paths) = &mut paths else { continue };
                let hash = paths.hash(&entry.path);
                match failure {
                    None => paths.insert(hash),
                    Some((_, true)) => {}
                    Some((_, false)) => drop(failed_paths.insert(hash, index)),
                }
            }
            sealed = batch.seal;
            if sealed {
                layout.seal();
            }
        }
        let count = layout.entry_count();
        if i64::try_from(count) != Ok(row.entries) {
            return Err(DepotError::Damaged(format!("the manifest has a gap before entry {count}")));
        }
        Ok(Manifest { layout, paths, failed_paths, sealed })
    }
}

/// Whether an object that ends at `end` lacks some of these blocks: it is of an older store than the database is.
pub(super) fn ends_before(end: Option<Address>, durable: &BlockSet, layout: &Layout) -> bool {
    let last = durable.runs().last().map(|run| BlockNumber(run.first.0 + (run.count - 1)));
    let (Some(end), Some(last)) = (end, last) else { return false };
    last.address() + layout.len_of(last).map_or(0, u64::from) > end
}

/// What of an object counts as what is recorded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// All of it, unless it is too short for that.
    UnlessShort,
    /// Nothing: it is known to be older.
    Nothing,
}

/// What is kept in memory of a manifest.
struct Manifest {
    layout: Layout,
    paths: Option<PathSet>,
    failed_paths: HashMap<u64, EntryIndex>,
    sealed: bool,
}

#[cfg(test)]
mod tests {
    use terahaul_core::EntryKind;
    use terahaul_wire::Batch;

    use super::*;
    use crate::fixture::{Fixture, entry};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_manifest_of_which_a_batch_is_lost_is_not_loaded() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        for lost in 0..3 {
            let id = fixture.transfer().await;
            let live = depot.open_inbound(&fixture.owner, id).await.unwrap();
            for (number, path) in ["a", "b", "c"].into_iter().enumerate() {
                let entries = vec![entry(path, EntryKind::Directory)];
                let batch = Batch { first: EntryIndex(number as u32), entries, seal: false };
                live.append_entries(batch).await.unwrap();
            }
            drop(live);
            depot.inner.registry.slot(id).await.clear().await;
            depot.inner.db.lose_batch(id, lost).await.unwrap();
            let loaded = depot.live(id).await.map(drop);
            assert!(matches!(loaded, Err(DepotError::Damaged(_))), "{lost}: {loaded:?}");
        }
    }
}
