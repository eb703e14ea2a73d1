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

use tokio::sync::OwnedMutexGuard;

use super::live::{Live, Tail};
use super::registry::Slot;
use crate::db::Reopening;
use crate::{DepotError, blocking};

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
                let cut = || slot.iter_mut().for_each(|slot| slot.clear_outbound());
                if !live.depot()?.inner.db.reopen_transfer(live.id, reopening, cut).await? {
                    return Err(DepotError::TooManyTransfers { limit: reopening.most_open });
                }
                live.end_reopening(&mut tail).await;
                live.free_failed().await;
            }
            Ok(())
        });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    /// What has to be recorded with a change that opens the transfer again; `None` if it is open. Whoever reads it is cut once that is
    /// certain, before its rows are seen to change.
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
