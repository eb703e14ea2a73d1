//! A partial transfer stands, with its link and its receipt, until more of it is taken.
//!
//! Whoever sends the same files again may be refused, or cut, before anything has changed. So a partial transfer is loaded beside those
//! who read it, and opened again by the first change that it takes.
//!
//! | a partial transfer | on | becomes |
//! |---|---|---|
//! | as it was finished | opened to send | the same, in memory as a [`Live`], too |
//! | the same | failures are told | the same: they are withheld, in memory, as the sender tells them again in its next session |
//! | the same | entries are taken | open, with what was withheld, in one transaction |
//! | the same | entries are taken, and its owner has too many open ones | the same |
//! | the same | its sender finishes | finished anew if failures were withheld; otherwise its statement is said again |
//! | the same | its sender leaves | the same: what was withheld is forgotten |
//!
//! The object follows the row: it is moved back once the row says that the transfer is open, or when that is next loaded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terahaul_core::TransferId;
use tokio::sync::OwnedMutexGuard;

use super::Published;
use super::live::{Live, Tail};
use super::registry::Slot;
use crate::db::{Reopening, TransferState};
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Who reads a partial transfer while a change opens it again.
///
/// They ask whether it is closed after they have read its rows, so they are cut before the change is committed, or one might take what has
/// changed for what was finished. Where that then fails, as on a full disk, it stands, and they go on: all but those that asked meanwhile.
pub(super) struct Readers<'a> {
    slot: Option<&'a mut Slot>,
    cut: Option<Published>,
}

impl<'a> Readers<'a> {
    /// Those of a transfer's locked slot.
    pub fn of(slot: Option<&'a mut Slot>) -> Self {
        Self { slot, cut: None }
    }

    /// The change is going to be committed.
    pub fn cut(&mut self) {
        self.cut = self.slot.as_mut().and_then(|slot| slot.cut_published());
    }

    /// The change has failed. Nothing of it was given back yet; whether it is recorded nevertheless is looked up.
    pub async fn go_on(self, depot: &Depot, id: TransferId) {
        let (Some(slot), Some(published)) = (self.slot, self.cut) else { return };
        let row = depot.inner.db.transfer(id).await;
        if matches!(row, Ok(Some(row)) if row.state == TransferState::Partial) {
            published.open_again();
            slot.published = Some(published);
        }
    }
}

impl Live {
    /// Whether the transfer is partial still, as it was when this was loaded.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether what was told in it has come to nothing: its sender has left, and the next one begins with what is recorded.
    pub(super) async fn is_left_over(&self) -> bool {
        self.is_finished() && !self.seat.is_taken() && !self.tail.lock().await.withheld.is_empty()
    }

    /// The transfer's slot, behind which it may be opened again. Whoever needs the tail's lock, too, takes that afterwards.
    pub(super) async fn slot_if_finished(&self) -> Result<Option<OwnedMutexGuard<Slot>>, DepotError> {
        if !self.is_finished() {
            return Ok(None);
        }
        Ok(Some(self.depot()?.inner.registry.slot(self.id).await))
    }

    /// Opens a partial transfer again although it takes nothing more yet.
    pub(crate) async fn reopen(self: &Arc<Self>) -> Result<(), DepotError> {
        self.reopen_if(|_| true).await
    }

    /// Opens a partial transfer again if its sender has told of failures.
    pub(super) async fn reopen_for_withheld(self: &Arc<Self>) -> Result<(), DepotError> {
        self.reopen_if(|tail| !tail.withheld.is_empty()).await
    }

    async fn reopen_if(
        self: &Arc<Self>,
        holds: impl FnOnce(&Tail) -> bool + Send + 'static,
    ) -> Result<(), DepotError> {
        let live = Arc::clone(self);
        // A task of its own: a caller that goes away must not stop this between the database and what is in memory.
        let task = tokio::spawn(async move {
            let mut slot = live.slot_if_finished().await?;
            let mut tail = live.tail.lock().await;
            if tail.closed || !holds(&tail) {
                return Ok(());
            }
            if let Some(reopening) = live.reopening(&tail)? {
                let (depot, id) = (live.depot()?, live.id);
                let mut readers = Readers::of(slot.as_deref_mut());
                let reopened = depot.inner.db.reopen_transfer(id, reopening, || readers.cut()).await;
                if reopened.is_err() {
                    readers.go_on(&depot, id).await;
                }
                if !reopened? {
                    return Err(DepotError::TooManyTransfers { limit: reopening.most_open });
                }
                live.end_reopening(&mut tail).await;
                live.free_failed().await;
            }
            Ok(())
        });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    /// What has to be recorded with a change that opens the transfer again; `None` if it is open.
    pub(super) fn reopening<'a>(&self, tail: &'a Tail) -> Result<Option<Reopening<'a>>, DepotError> {
        if !self.is_finished() {
            return Ok(None);
        }
        let config = &self.depot()?.inner.config;
        let (most_open, now) = (config.limits.open_transfers, config.clock.now());
        Ok(Some(Reopening { failures: &tail.withheld, most_open, now }))
    }

    /// That is recorded.
    pub(super) async fn end_reopening(&self, tail: &mut Tail) {
        if !self.finished.swap(false, Ordering::AcqRel) {
            return;
        }
        tail.withheld.clear();
        let Ok(depot) = self.depot() else { return };
        let (store, id) = (Arc::clone(&depot.inner.store), self.id);
        if let Ok(Err(error)) = blocking::run(move || store.reopen(id)).await {
            tracing::warn!(transfer = %id, %error, "its data could not be moved back; that is tried again when it is next loaded");
        }
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{ByteCount, EntryIndex, EntryKind, FailureCause};
    use terahaul_store::EntryFailure;
    use terahaul_wire::Batch;

    use super::*;
    use crate::Caller;
    use crate::fixture::{Fixture, entry};

    /// All who read it were cut, and found it again as it was.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_reads_a_partial_transfer_goes_on_where_opening_it_again_fails() {
        let fixture = Fixture::new().await;
        let (depot, owner) = (&fixture.depot, &fixture.owner);
        let (id, failed) = (partial(&fixture).await, EntryIndex(0));
        let caller = Caller::Token(owner.clone());
        let reader = depot.open_published(&caller, id).await.unwrap();
        let live = depot.open_inbound(owner, id).await.unwrap();
        let again = || Batch { first: EntryIndex(1), entries: vec![of_a_byte("a")], seal: true };

        depot.inner.db.fail_commits(true).await;
        assert!(matches!(live.append_entries(again()).await, Err(DepotError::Database(_))));
        assert!(matches!(live.reopen().await, Err(DepotError::Database(_))));
        assert!(!reader.is_closed());
        assert!(reader.manifest(0).unwrap().next().await.unwrap().is_some());
        let found = depot.open_published(&caller, id).await.unwrap();
        assert!(reader.failed().contains(&failed) && found.failed().contains(&failed));

        depot.inner.db.fail_commits(false).await;
        live.append_entries(again()).await.unwrap();
        assert!(reader.is_closed() && found.is_closed());
    }

    fn of_a_byte(path: &str) -> terahaul_core::Entry {
        entry(path, EntryKind::File { size: ByteCount(1) })
    }

    /// A finished transfer whose only file has failed.
    async fn partial(fixture: &Fixture) -> TransferId {
        let id = fixture.transfer_of(EntryKind::File { size: ByteCount(1) }).await;
        let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
        let (entry, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
        live.fail_entries(vec![EntryFailure { entry, cause, detail }]).await.unwrap();
        live.finish().await.unwrap();
        id
    }
}
