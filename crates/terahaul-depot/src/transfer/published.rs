//! A finished transfer that is being read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use terahaul_core::{Address, ByteCount, EntryIndex, Extent, Hash, Layout, TransferId};
use terahaul_store::{BlockSource, FlatSource, FlatTransfer};
use tokio::sync::OwnedSemaphorePermit;

use super::known_values::KnownValues;
use super::source::PublishedSource;
use super::{Finished, ManifestReader};
use crate::DepotError;
use crate::auth::Caller;
use crate::db::TransferRow;
use crate::depot::{Depot, Inner};

/// A finished transfer, for as many readers as like. Cheap to clone.
#[derive(Clone)]
pub struct Published {
    shared: Arc<Shared>,
}

struct Shared {
    depot: Weak<Inner>,
    id: TransferId,
    name: String,
    finished: Finished,
    layout: Arc<Layout>,
    failed: BTreeSet<EntryIndex>,
    flat: Arc<dyn FlatTransfer>,
    values: Arc<KnownValues>,
    zip: tokio::sync::OnceCell<Arc<crate::zip::Plan>>,
    used: Mutex<Instant>,
    closed: AtomicBool,
    _place: OwnedSemaphorePermit,
}

impl Published {
    pub(super) fn new(
        depot: Depot,
        row: &TransferRow,
        layout: Layout,
        failed: Vec<(EntryIndex, bool)>,
        flat: Arc<dyn FlatTransfer>,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, DepotError> {
        let id = row.transfer_id();
        let layout = Arc::new(layout);
        let values = Arc::new(KnownValues::new(id, depot.inner.db.clone(), Arc::clone(&layout)));
        let shared = Shared {
            depot: Arc::downgrade(&depot.inner),
            id,
            name: row.name.clone(),
            finished: Finished::of_row(row)?,
            layout,
            failed: failed.into_iter().map(|(entry, _)| entry).collect(),
            flat,
            values,
            zip: tokio::sync::OnceCell::new(),
            used: Mutex::new(Instant::now()),
            closed: AtomicBool::new(false),
            _place: place,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Which transfer.
    pub fn id(&self) -> TransferId {
        self.shared.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The signed statement about it.
    pub fn finished(&self) -> &Finished {
        &self.shared.finished
    }

    /// Where its entries lie.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// Entries that did not arrive. Their bytes, where a block holds them with others, are zeros.
    pub fn failed(&self) -> &BTreeSet<EntryIndex> {
        &self.shared.failed
    }

    /// Where `entry`'s bytes are; `None` when it has none or failed.
    pub fn extent(&self, entry: EntryIndex) -> Option<Extent> {
        if self.failed().contains(&entry) { None } else { self.layout().extent(entry) }
    }

    /// Sum of the sizes of all entries, failed ones included.
    pub fn byte_count(&self) -> ByteCount {
        self.layout().byte_count()
    }

    /// The manifest from entry `from` on.
    pub fn manifest(&self, from: u64) -> Result<ManifestReader, DepotError> {
        self.touch();
        let reader = ManifestReader::new(self.depot()?, self.shared.id, from, self.layout().entry_count());
        Ok(reader.of(self.clone()))
    }

    /// Its blocks, with the values that were recorded when they arrived. For threads that may block.
    pub fn source(&self) -> impl BlockSource + use<> {
        self.touch();
        let (flat, values) = (&self.shared.flat, &self.shared.values);
        PublishedSource::new(self.clone(), FlatSource::new(Arc::clone(flat), Arc::clone(values) as _))
    }

    /// What was recorded of its blocks when they arrived.
    pub(super) fn values(&self) -> &KnownValues {
        &self.shared.values
    }

    /// Its bytes. Reads block.
    pub fn flat(&self) -> &Arc<dyn FlatTransfer> {
        self.touch();
        &self.shared.flat
    }

    /// Fills `bytes` from `at` on with what the disk has there, which is for a [`Unit`](super::Unit) to compare, and blocks. What of it
    /// failed is given back once the transfer is open again, and reads as zeros: so whether it is still this transfer's is asked after
    /// the read.
    pub(super) fn read_at(&self, at: Address, bytes: &mut [u8]) -> Result<(), DepotError> {
        self.flat().read_at(at, bytes)?;
        self.check_open()
    }

    /// An error once the transfer is another's: [`is_closed`](Self::is_closed).
    pub(super) fn check_open(&self) -> Result<(), DepotError> {
        if self.is_closed() { Err(DepotError::NoTransfer) } else { Ok(()) }
    }

    /// The hash over all that arrived, which names this content for caches.
    pub(crate) fn root(&self) -> Hash {
        self.shared.finished.statement.root
    }

    pub(crate) fn zip(&self) -> &tokio::sync::OnceCell<Arc<crate::zip::Plan>> {
        &self.shared.zip
    }

    pub(crate) fn depot(&self) -> Result<Depot, DepotError> {
        self.shared.depot.upgrade().map(|inner| Depot { inner }).ok_or(DepotError::Stopping)
    }

    /// Whether the transfer was removed or reopened meanwhile: long streams ask and stop.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    /// What it was closed for has not come about.
    pub(super) fn open_again(&self) {
        self.shared.closed.store(false, Ordering::Release);
    }

    pub(super) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    pub(super) fn touch(&self) {
        *self.shared.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.shared.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Depot {
    /// Opens a finished transfer to read it.
    pub async fn open_published(&self, caller: &Caller, id: TransferId) -> Result<Published, DepotError> {
        self.row_to_read(caller, id).await?;
        self.published(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_read_while_the_transfer_is_closed_to_readers_is_not_taken_for_its_bytes() {
        let fixture = Fixture::new().await;
        let (depot, owner) = (&fixture.depot, &fixture.owner);
        let id = fixture.transfer().await;
        depot.open_inbound(owner, id).await.unwrap().finish().await.unwrap();
        let published = depot.open_published(&Caller::Token(owner.clone()), id).await.unwrap();
        published.read_at(Address(0), &mut []).unwrap();
        depot.inner.registry.slot(id).await.clear_published();
        assert!(matches!(published.read_at(Address(0), &mut []), Err(DepotError::NoTransfer)));
    }
}
