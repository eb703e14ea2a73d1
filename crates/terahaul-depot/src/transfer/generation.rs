//! Whether the store is older than the database, as one that comes from a backup is.
//!
//! Both keep a [`Generation`] from the first start on, which is raised when something has been recorded since the last time: at each sweep, and
//! at a stop. The store's comes first, so that a stop between the two leaves it ahead. The object of an older store may lack any block that was recorded since,
//! however long it is: a block that was under way when it was copied is a hole, and blocks come in no order.
//!
//! | at a start the store's is | what is recorded of open transfers | then |
//! |---|---|---|
//! | the database's, or higher | holds | both are raised at the first sweep, as what came before a kill is not marked |
//! | lower, or none | is given up, where there is an object | the store gets the database's. Where there was no object, as in one that is not mounted, it stays as it is: the right one is no older for that |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_core::TransferId;
use terahaul_store::{Generation, StoreError};

use super::load::Trust;
use crate::db::TransferState;
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Whether something was recorded since the generation was raised.
#[derive(Default)]
pub(crate) struct Unmarked {
    recorded: AtomicBool,
    /// One at a time writes the store's.
    raising: tokio::sync::Mutex<()>,
}

impl Unmarked {
    /// Blocks were recorded, or are about to be.
    pub fn handle_recorded(&self) {
        self.recorded.store(true, Ordering::Relaxed);
    }
}

impl Depot {
    /// At a start: gives up what is recorded of open transfers where the store is older than that. Where this ends early, the depot does not
    /// start, and the next start does it anew.
    pub(crate) async fn compare_generations(&self) -> Result<(), DepotError> {
        let Some(recorded) = self.inner.db.generation().await? else {
            // The first, for copies that are made before anything is marked.
            self.inner.unmarked.handle_recorded();
            self.raise_generation().await;
            return Ok(());
        };
        let stored = self.stored_generation().await?;
        if stored >= Some(recorded) {
            // It is the right one. What came before a kill was not marked.
            self.inner.unmarked.handle_recorded();
            return Ok(());
        }
        tracing::warn!(
            "the store is older than the database, as one from a backup is: what is open and has data in it is to be sent again"
        );
        if self.doubt_open_transfers().await? {
            self.keep_stored_generation(recorded).await?;
        }
        Ok(())
    }

    /// Marks what was recorded, if anything was. Where it cannot, as on a full disk, the next time will do.
    pub(crate) async fn raise_generation(&self) {
        let unmarked = &self.inner.unmarked;
        let _raising = unmarked.raising.lock().await;
        if !unmarked.recorded.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.try_to_raise_generation().await {
            unmarked.handle_recorded();
            tracing::warn!(%error, "that the store goes with the database could not be recorded; it is tried again");
        }
    }

    async fn try_to_raise_generation(&self) -> Result<(), DepotError> {
        let highest = self.inner.db.generation().await?.max(self.stored_generation().await?);
        let next = highest.unwrap_or(Generation(0)).next();
        if self.keep_stored_generation(next).await? {
            self.inner.db.keep_generation(next).await?;
        }
        Ok(())
    }

    async fn keep_stored_generation(&self, generation: Generation) -> Result<bool, DepotError> {
        let store = self.inner.store.clone();
        Ok(blocking::run(move || store.keep_generation(generation)).await??)
    }

    async fn stored_generation(&self) -> Result<Option<Generation>, DepotError> {
        let store = self.inner.store.clone();
        Ok(blocking::run(move || store.generation()).await??)
    }

    /// Whether anything was given up.
    async fn doubt_open_transfers(&self) -> Result<bool, DepotError> {
        let mut some = false;
        for (id, standing) in self.inner.db.standings().await? {
            if standing.state != TransferState::Open || standing.last_block.is_none() {
                continue;
            }
            match self.doubt(id).await {
                // Named already: it is recorded without data, or cannot be used at all. Or it has expired, and is about to be removed.
                Err(
                    DepotError::Store(StoreError::Missing(_))
                    | DepotError::Damaged(_)
                    | DepotError::NoTransfer,
                ) => {}
                done => {
                    done?;
                    some = true;
                }
            }
        }
        Ok(some)
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
        let file = depot.config().data.join("store/incoming/0-generation");
        let finished = fixture.finished(ByteCount(7)).await;
        db.keep_generation(Generation(5)).await.unwrap();
        let [behind, same, ahead] = [4, 5, 6].map(|number| Some(Generation(number)));
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
            // The database's has not moved: the store that it is of may come back.
            assert_eq!(db.generation().await.unwrap(), same);
            assert_eq!(store.generation().unwrap(), generation.max(same));
        }
    }

    /// Who had started the depot while the store's disk was not mounted would have lost what was open when it was.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_start_without_the_store_makes_the_right_one_no_older() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let open = fixture.arrived(ByteCount(5)).await.id();
        depot.inner.registry.close_all().await;
        depot.raise_generation().await;
        let data = depot.config().data.join("store/incoming");
        let aside = depot.config().data.join("aside");
        std::fs::create_dir(&aside).unwrap();
        let move_all = |from: &std::path::Path, to: &std::path::Path| {
            for found in std::fs::read_dir(from).unwrap() {
                let found = found.unwrap();
                std::fs::rename(found.path(), to.join(found.file_name())).unwrap();
            }
        };
        move_all(&data, &aside);
        for _ in 0..2 {
            depot.compare_generations().await.unwrap();
            depot.raise_generation().await;
        }
        assert_eq!(depot.inner.store.generation().unwrap(), None);
        move_all(&aside, &data);
        depot.compare_generations().await.unwrap();
        assert_eq!(depot.inner.db.transfer(open).await.unwrap().unwrap().durable_bytes, 5);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_recorded_is_marked_by_a_sweep_and_by_a_stop() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let stored = || depot.inner.store.generation().unwrap();
        let started = stored();
        depot.raise_generation().await;
        assert_eq!((stored(), started), (started, Some(Generation(1))));
        fixture.arrived(ByteCount(5)).await;
        depot.sweep().await.unwrap();
        let swept = stored();
        assert!(swept > started);
        depot.sweep().await.unwrap();
        assert_eq!(stored(), swept, "nothing came since");
        // As at a start after a kill, before which something may have come.
        depot.compare_generations().await.unwrap();
        depot.sweep().await.unwrap();
        assert!(stored() > swept);
        let swept = stored();
        fixture.arrived(ByteCount(5)).await;
        depot.close().await;
        assert!(stored() > swept);
    }
}
