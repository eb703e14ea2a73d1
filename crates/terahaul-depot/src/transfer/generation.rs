//! Whether the store is older than the database, as one that comes from a backup is.
//!
//! Both keep a [`Generation`], which each start and each stop raises, and each sweep while something is sent: the store's first, so that a
//! stop between the two leaves it ahead.
//! The object of an older store may lack any block that was recorded since, however long it is: a block that was under way when it was
//! copied is a hole, and blocks come in no order.

use std::sync::Arc;

use terahaul_core::TransferId;
use terahaul_store::{Generation, StoreError};

use super::load::Trust;
use crate::db::TransferState;
use crate::depot::Depot;
use crate::{DepotError, blocking};

impl Depot {
    /// At a start: forgets what is recorded of open transfers where the store is older than that, and raises the generation. Where this is
    /// interrupted, the next start does it anew.
    pub(crate) async fn compare_generations(&self) -> Result<(), DepotError> {
        let recorded = self.inner.db.generation().await?;
        let stored = self.stored_generation().await?;
        if recorded > stored {
            tracing::warn!(
                ?recorded,
                ?stored,
                "the store is older than the database, as one from a backup is: what is open is to be sent again. Where the store that the database is of is there still, stop the depot and restore that"
            );
            self.doubt_open_transfers().await?;
        }
        self.raise_generation().await;
        Ok(())
    }

    /// While nothing is sent, no copy of the store differs from another.
    pub(super) async fn raise_generation_of_what_is_sent(&self) {
        if !self.inner.registry.live().is_empty() {
            self.raise_generation().await;
        }
    }

    /// Marks what is stored and recorded from here on. Where it cannot, as on a full disk, the next time will do.
    pub(crate) async fn raise_generation(&self) {
        if let Err(error) = self.try_to_raise_generation().await {
            tracing::warn!(%error, "that the store goes with the database could not be recorded; it is tried again");
        }
    }

    async fn try_to_raise_generation(&self) -> Result<(), DepotError> {
        let highest = self.inner.db.generation().await?.max(self.stored_generation().await?);
        let next = highest.unwrap_or(Generation(0)).next();
        let store = self.inner.store.clone();
        if blocking::run(move || store.keep_generation(next)).await?? {
            self.inner.db.keep_generation(next).await?;
        }
        Ok(())
    }

    async fn stored_generation(&self) -> Result<Option<Generation>, DepotError> {
        let store = self.inner.store.clone();
        Ok(blocking::run(move || store.generation()).await??)
    }

    async fn doubt_open_transfers(&self) -> Result<(), DepotError> {
        for (id, standing) in self.inner.db.standings().await? {
            if standing.state != TransferState::Open || standing.last_block.is_none() {
                continue;
            }
            match self.doubt(id).await {
                // What is recorded without data is named already; what has expired is about to be removed.
                Ok(()) | Err(DepotError::Store(StoreError::Missing(_)) | DepotError::NoTransfer) => {}
                Err(error) => {
                    tracing::warn!(transfer = %id, %error, "what the store has of it could not be given up");
                }
            }
        }
        Ok(())
    }

    async fn doubt(&self, id: TransferId) -> Result<(), DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        let row = self.row(id).await?;
        let place = self.place().await?;
        slot.live = Some(Arc::new(self.load_live(&row, place, Trust::Nothing).await?));
        slot.clear_live().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::ByteCount;

    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_open_is_kept_but_where_the_store_is_older() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let (store, db) = (&depot.inner.store, &depot.inner.db);
        let finished = fixture.finished(ByteCount(7)).await;
        let file = depot.config().data.join("store/incoming/generation");
        let [same, behind, ahead] = [1, 1, 50].map(|number| Some(Generation(number)));
        assert_eq!(db.generation().await.unwrap(), same);
        for (generation, kept) in [(same, 5), (ahead, 5), (behind, 0), (None, 0)] {
            let open = fixture.arrived(ByteCount(5)).await.id();
            depot.inner.registry.close_all().await;
            match generation {
                None => std::fs::remove_file(&file).unwrap(),
                Some(generation) => assert!(store.keep_generation(generation).unwrap()),
            }
            depot.compare_generations().await.unwrap();
            let durable = async |id| db.transfer(id).await.unwrap().unwrap().durable_bytes;
            assert_eq!((durable(open).await, durable(finished).await), (kept, 7), "{generation:?}");
            assert_eq!(store.generation().unwrap(), db.generation().await.unwrap());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sweep_marks_what_is_sent_and_a_stop_all() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let stored = || depot.inner.store.generation().unwrap().unwrap();
        let sent = fixture.arrived(ByteCount(5)).await;
        let started = stored();
        depot.sweep().await.unwrap();
        let swept = stored();
        drop(sent);
        depot.close().await;
        assert!(started < swept && swept < stored(), "{started:?} {swept:?} {:?}", stored());
    }
}
