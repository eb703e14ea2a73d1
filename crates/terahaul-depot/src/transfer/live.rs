//! A transfer that is being received.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockRun, ByteCount, EntryIndex, Hash, TransferId};
use terahaul_net::server::Seat;
use terahaul_store::{FlatTransfer, Inbound};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::path_set::PathSet;
use super::{Asker, Finished, ManifestReader};
use crate::auth::{Caller, Identity};
use crate::db::{StoredFailure, TransferState};
use crate::depot::{Depot, Inner};
use crate::{DepotError, blocking};

/// A transfer that is being received, by any number of senders and channels at once.
pub struct Live {
    pub(super) id: TransferId,
    pub(super) quota: Option<(String, ByteCount)>,
    pub(super) depot: std::sync::Weak<Inner>,
    pub(super) inbound: Arc<Inbound>,
    /// Where that writes.
    pub(super) flat: Arc<dyn FlatTransfer>,
    /// Partial, and nothing has [opened it again](super::reopen) yet. Changes behind the tail's lock.
    pub(super) finished: AtomicBool,
    /// Appending, failing and finishing take turns.
    pub(super) tail: tokio::sync::Mutex<Tail>,
    pub(super) used: Mutex<Instant>,
    /// When entries, failures or bytes last came.
    pub(super) sent: Arc<LastSent>,
    /// Hashes of the largest of the files that have arrived: each list of entries would read all proofs of such a file again.
    pub(super) hashes: Mutex<HashMap<EntryIndex, Hash>>,
    /// The native sender's.
    pub(crate) seat: Seat,
    /// Whether it is closed. Sent anew whenever something became durable or failed, too.
    pub(super) closed: watch::Sender<bool>,
    pub(super) _place: OwnedSemaphorePermit,
}

/// How long ago something may have come of what is being sent.
const SENT_LATELY: Duration = Duration::from_secs(300);

/// When something last came; `None` if nothing has.
#[derive(Default)]
pub(super) struct LastSent(Mutex<Option<Instant>>);

impl LastSent {
    pub fn handle_sent(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_late(&self) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| last.elapsed() >= SENT_LATELY)
    }
}

/// Where the manifest ends.
pub(super) struct Tail {
    pub total: u64,
    /// Who has sealed it there, if anybody has: as its native sender only the run that is there now, which may have more to declare than
    /// those before it.
    pub sealed: Option<Asker>,
    /// Finished, removed or dropped from memory: whoever still holds it must open it again.
    pub closed: bool,
    /// Paths of entries that have not failed.
    pub paths: PathSet,
    /// Failed entries by the hash of their path, save those that a later entry stands for.
    pub failed: HashMap<u64, EntryIndex>,
    /// Bytes of what was said of failures, those that are withheld included.
    pub details: usize,
    /// Bytes of the manifest that were taken of what others are promised.
    pub mended: u64,
    /// Failures that count once the transfer is open again.
    pub withheld: Vec<StoredFailure>,
}

impl Live {
    /// Which transfer.
    pub fn id(&self) -> TransferId {
        self.id
    }

    /// Where blocks go. All of its calls may block.
    pub fn inbound(&self) -> &Arc<Inbound> {
        self.touch();
        &self.inbound
    }

    /// The manifest so far, from entry `from` on.
    pub fn manifest(&self, from: u64) -> Result<ManifestReader, DepotError> {
        let end = self.inbound.with(|receiver| receiver.layout().entry_count());
        Ok(ManifestReader::new(self.depot()?, self.id, from, end))
    }

    /// Entries that will not arrive.
    pub fn failed(&self) -> BTreeSet<EntryIndex> {
        self.inbound.with(|receiver| receiver.failed().clone())
    }

    /// The blocks that are kept for good.
    pub fn durable(&self) -> Vec<BlockRun> {
        self.inbound.with(|receiver| receiver.durable().runs().collect())
    }

    /// Seals, makes everything durable, publishes and signs. Fails with [`DepotError::Incomplete`] while blocks are
    /// missing.
    pub async fn finish(self: &Arc<Self>) -> Result<Finished, DepotError> {
        self.reopen_for_withheld().await?;
        self.depot()?.finish(self.id, Asker::Sender).await
    }

    /// Waits until every wanted block of the sealed manifest is durable. There is nothing to wait for while the manifest may
    /// grow, nor once the transfer is closed.
    pub(super) async fn arrived(&self) {
        let mut closed = self.closed.subscribe();
        loop {
            let is_closed = *closed.borrow_and_update();
            let settled = self
                .inbound
                .with(|receiver| receiver.is_complete() || receiver.layout().open_block().is_some());
            if is_closed || settled || closed.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn depot(&self) -> Result<Depot, DepotError> {
        self.depot.upgrade().map(|inner| Depot { inner }).ok_or(DepotError::Stopping)
    }

    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether a native sender is there, or something came lately. To look at it is not to send it.
    pub(super) fn is_being_sent(&self) -> bool {
        self.seat.is_taken() || !self.sent.is_late()
    }

    pub(super) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes declared that may still come.
    pub(super) fn awaited(&self) -> u64 {
        self.inbound.with(|receiver| {
            let settled = receiver.void_bytes() + receiver.received_bytes();
            receiver.layout().byte_count().0.saturating_sub(settled.0)
        })
    }

    /// Entries came from `asker`, or failed, or were sealed. A native sender keeps its own account of that: it would pack where another file is
    /// here, or wait for what it knows nothing of.
    pub(super) fn replace_sender(&self, asker: Asker) {
        if asker == Asker::Another && self.seat.is_taken() {
            self.seat.vacate();
        }
    }

    /// A run of a native sender begins, which has sealed nothing yet.
    pub(crate) async fn handle_run(&self) {
        let mut tail = self.tail.lock().await;
        tail.sealed = tail.sealed.map(|_| Asker::Another);
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Makes everything received durable; arrivals fail from now on.
    pub(super) async fn close(&self) {
        let mut tail = self.tail.lock().await;
        self.close_with(&mut tail).await;
    }

    pub(super) async fn close_with(&self, tail: &mut Tail) {
        tail.closed = true;
        self.seat.close();
        self.closed.send_replace(true);
        let inbound = Arc::clone(&self.inbound);
        if blocking::run(move || inbound.close()).await.is_err() {
            tracing::warn!(transfer = %self.id, "could not wait for the last sync");
        }
    }
}

impl Drop for Live {
    /// Closing waits for the disk, which must not happen on a thread of the runtime.
    fn drop(&mut self) {
        let inbound = Arc::clone(&self.inbound);
        let closer = std::thread::Builder::new().name("close-transfer".into());
        if closer.spawn(move || inbound.close()).is_err() {
            tracing::warn!(transfer = %self.id, "could not start a thread to close the transfer");
        }
    }
}

impl Depot {
    /// Opens a transfer to send into it. A partial one is [open again](super::reopen) once it takes more.
    pub async fn open_inbound(&self, identity: &Identity, id: TransferId) -> Result<Arc<Live>, DepotError> {
        self.open_inbound_as(&Caller::Token(identity.clone()), id).await
    }

    pub(crate) async fn open_inbound_as(
        &self,
        caller: &Caller,
        id: TransferId,
    ) -> Result<Arc<Live>, DepotError> {
        let row = self.row_to_write(caller, id).await?;
        if row.state == TransferState::Partial {
            self.take_up(id, None).await?;
        }
        self.live_to_go_on(id).await
    }

    /// The same, but a partial transfer stays as it is: what arrives late must not reopen it.
    pub(crate) async fn live_as(&self, caller: &Caller, id: TransferId) -> Result<Arc<Live>, DepotError> {
        self.row_to_write(caller, id).await?;
        self.live(id).await
    }
}
