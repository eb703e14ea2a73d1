//! What a depot does when it starts: the store is brought in line with the database.

use std::collections::{HashMap, HashSet};

use terahaul_core::{Address, BlockNumber, TransferId};
use terahaul_store::{FlatTransfer, Store, StoreError, StorePlace};

use crate::db::{Standing, TransferState};
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Removes empty objects of transfers that were never recorded, names other objects that are not, and recorded transfers without one or
/// with one that is older than what is recorded, and leaves one of two that a backup has of the same. Everything else that a stop can
/// interrupt is resumed when the transfer is next used: an interrupted finish by finishing again, an interrupted removal by the sweeper, at once.
pub(crate) async fn recover(depot: &Depot) -> Result<(), DepotError> {
    let known = depot.inner.db.standings().await?.into_iter().collect();
    let expired = depot.inner.db.expired_transfers(depot.inner.config.clock.now()).await?;
    let store = depot.inner.store.clone();
    blocking::run(move || align(&*store, &known, &expired.into_iter().collect())).await?
}

fn align(
    store: &dyn Store,
    known: &HashMap<TransferId, Standing>,
    expired: &HashSet<TransferId>,
) -> Result<(), DepotError> {
    let found = store.list()?;
    // A stop in the middle of publishing may leave both of an object's names.
    let published: HashSet<_> =
        found.iter().filter(|(_, place)| *place == StorePlace::Published).map(|(id, _)| *id).collect();
    let stored: HashSet<_> = found.iter().map(|(id, _)| *id).collect();
    for (id, place) in found {
        let is_twice = place == StorePlace::Incoming && published.contains(&id);
        if let Some(standing) = known.get(&id) {
            if is_twice {
                keep_one(store, id, standing.state)?;
            }
            continue;
        }
        match place {
            StorePlace::Incoming if is_twice => {}
            // What a stop between the object's making and its record leaves.
            StorePlace::Incoming if is_empty(store, id) => {
                tracing::info!(transfer = %id, "removing the empty file of a transfer that was never recorded");
                store.remove(id)?;
            }
            // Only another or an older database explains it, and then it is not ours to delete.
            StorePlace::Incoming => {
                tracing::warn!(transfer = %id, "incoming data of a transfer that the database does not know");
            }
            StorePlace::Published => {
                tracing::warn!(transfer = %id, "published data of a transfer that the database does not know");
            }
        }
    }
    // The removal of one that has expired may have been stopped on a full disk.
    for (id, standing) in known.iter().filter(|(id, _)| !expired.contains(id)) {
        if !stored.contains(id) {
            tracing::warn!(transfer = %id, "recorded, and there is no data of it: remove it, or stop the depot and restore the store");
        } else if store.open(*id).is_ok_and(|object| is_cut_short(&*object, standing.last_block)) {
            tracing::warn!(
                transfer = %id,
                state = ?standing.state,
                "its data ends before what is recorded of it, as that of an older store does: stop the depot and restore the store that the database is of; where there is none, send an open transfer on, and remove a finished one"
            );
        }
    }
    Ok(())
}

/// Whether an object ends before the last block that is durable. Where in that block its bytes end only the manifest knows.
pub(super) fn is_cut_short(object: &dyn FlatTransfer, last_block: Option<BlockNumber>) -> bool {
    matches!((object.end(), last_block), (Ok(Some(end)), Some(last)) if end <= last.address())
}

/// Whether nothing was ever written to an object: its row is made before anything is taken for it. One that cannot be read is nothing that
/// a start depends on.
fn is_empty(store: &dyn Store, id: TransferId) -> bool {
    let read = store.open(id).and_then(|object| object.read_at(Address(0), &mut [0]));
    matches!(read, Err(StoreError::Short(_)))
}

/// A backup of a depot that runs has a transfer twice that is finished, or taken up again, while its files are copied. What the database,
/// which was copied first, calls durable is in both. The one that is where the database has it was copied sooner after that, before what
/// failed later was given back.
fn keep_one(store: &dyn Store, id: TransferId, state: TransferState) -> Result<(), DepotError> {
    let kept = match state {
        TransferState::Open => StorePlace::Incoming,
        TransferState::Complete | TransferState::Partial => StorePlace::Published,
    };
    if store.set_aside(id, kept)? {
        tracing::warn!(transfer = %id, ?kept, "two files of one transfer, as a backup has them: the other one is set aside");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terahaul_core::ByteCount;
    use tracing::Level;

    use super::*;
    use crate::fixture::Fixture;
    use crate::logged::Logged;

    /// A start said nothing of it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_that_is_older_than_the_database_is_named() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let open = fixture.arrived(ByteCount(5)).await.id();
        let finished = fixture.finished(ByteCount(5)).await;
        let store = &*depot.inner.store;
        let known: HashMap<_, _> = depot.inner.db.standings().await.unwrap().into_iter().collect();
        let logged = Logged::here();
        align(store, &known, &HashSet::new()).unwrap();
        assert_eq!(logged.at(Level::WARN), [""; 0]);
        for id in [open, finished] {
            store.remove(id).unwrap();
            store.create(id).unwrap();
        }
        align(store, &known, &HashSet::from([open])).unwrap();
        let [said] = &logged.at(Level::WARN)[..] else { panic!() };
        assert!(said.contains(&finished.to_string()) && said.contains("stop the depot"), "{said}");
    }
}
