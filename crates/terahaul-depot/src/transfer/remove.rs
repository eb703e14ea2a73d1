//! Removing transfers.
//!
//! The row goes last: no data is ever left without one, and a row that has expired is ended by the sweeper, whatever stopped this. It is
//! marked expired first, so that the transfer does not exist for anyone from then on.
//!
//! A full disk, or a quota that is used up, takes no mark; then the data goes first, which makes room for it. Stopped between the two, a transfer is left that says it
//! is there and has no data: whoever opens it is told so ([`StoreError::Missing`](terahaul_store::StoreError::Missing)), the next start
//! names it, and removing it again ends it.

use std::time::Duration;

use terahaul_core::TransferId;
use tokio::sync::OwnedMutexGuard;

use super::registry::Slot;
use crate::auth::Caller;
use crate::db::{self, Database, TransferRow, TransferState};
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// How long a file system that frees space behind one's back is waited for: twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// And how often.
const ATTEMPTS: u32 = 6;

impl Depot {
    /// Removes a transfer that the caller may change. Whoever is sending or reading it gets errors from now on.
    pub async fn delete_transfer(&self, caller: &Caller, id: TransferId) -> Result<(), DepotError> {
        self.row_to_write(caller, id).await?;
        let depot = self.clone();
        let task = tokio::spawn(async move { depot.remove(id).await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn remove(&self, id: TransferId) -> Result<(), DepotError> {
        let slot = self.inner.registry.slot(id).await;
        match self.inner.db.transfer(id).await? {
            Some(row) => self.remove_in(slot, &row).await,
            None => Ok(()),
        }
    }

    /// Removes a transfer if it has expired and is not being sent.
    pub(super) async fn remove_expired(&self, id: TransferId) -> Result<(), DepotError> {
        let slot = self.inner.registry.slot(id).await;
        if self.keep_if_sent(id, &slot).await? {
            return Ok(());
        }
        let now = self.inner.config.clock.now();
        match self.inner.db.transfer(id).await? {
            Some(row) if row.expires <= now => self.remove_in(slot, &row).await,
            _ => Ok(()),
        }
    }

    /// Removes a transfer that has nothing in it yet, unless somebody is about to fill it.
    pub(crate) async fn remove_if_empty(&self, id: TransferId) -> Result<(), DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        if let Some(live) = &slot.live {
            let mut tail = live.tail.lock().await;
            if tail.total > 0 || live.seat.is_taken() {
                return Ok(());
            }
            // Before anybody appends.
            live.close_with(&mut tail).await;
        }
        // Closed, it would be of no use to whoever comes next if it cannot be removed.
        slot.clear_live().await;
        match self.inner.db.transfer(id).await? {
            Some(row) if row.entries == 0 && row.state == TransferState::Open => {
                self.remove_in(slot, &row).await
            }
            _ => Ok(()),
        }
    }

    async fn remove_in(&self, mut slot: OwnedMutexGuard<Slot>, row: &TransferRow) -> Result<(), DepotError> {
        let id = row.transfer_id();
        slot.clear().await;
        let mut is_marked = row.expires <= self.inner.config.clock.now();
        if !is_marked {
            match self.inner.db.expire_transfer(id).await {
                Err(error) if db::may_lack_room(&error) => {}
                marked => {
                    marked?;
                    is_marked = true;
                }
            }
        }
        let store = self.inner.store.clone();
        let freed = blocking::run(move || store.remove(id)).await?;
        freed.map_err(|error| match is_marked {
            true => DepotError::RemovedNotFreed(error),
            false => error.into(),
        })?;
        if !is_marked && let Err(error) = mark_in_freed_space(&self.inner.db, id).await {
            self.inner.registry.unmarked().insert(id);
            return Err(DepotError::RemovedUnrecorded(error));
        }
        self.inner.registry.unmarked().remove(&id);
        match self.inner.db.delete_transfer(id).await {
            Ok(_) => tracing::info!(transfer = %id, "removed"),
            // Nobody sees it any more.
            Err(error) => {
                tracing::warn!(transfer = %id, %error, "a removed transfer is still recorded; the sweeper tries again");
            }
        }
        Ok(())
    }

    /// Tries again to mark what is removed and could not be.
    pub(super) async fn remove_unmarked(&self) {
        let unmarked: Vec<TransferId> = self.inner.registry.unmarked().iter().copied().collect();
        for id in unmarked {
            if let Err(error) = self.remove(id).await {
                tracing::warn!(transfer = %id, %error, "a transfer's data is removed, and this could not be recorded; it is tried again");
            }
        }
    }
}

/// Marks the row expired as soon as what its data took can be written to.
async fn mark_in_freed_space(db: &Database, id: TransferId) -> sqlx::Result<()> {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        match db.expire_transfer(id).await {
            Err(error) if db::may_lack_room(&error) => tokio::time::sleep(wait).await,
            marked => return marked,
        }
        wait *= 2;
    }
    db.expire_transfer(id).await
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    /// Whoever sent into it next was told that it is finished, until it was dropped from memory.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_empty_transfer_that_cannot_be_removed_is_not_left_closed_in_memory() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let id = fixture.transfer().await;
        depot.open_inbound(&fixture.owner, id).await.unwrap();
        depot.inner.db.close().await;
        assert!(depot.remove_if_empty(id).await.is_err());
        assert!(depot.inner.registry.slot(id).await.live.is_none());
    }
}
