//! What a depot does when it starts: the store is brought in line with the database.

use std::collections::{HashMap, HashSet};

use terahaul_core::{Address, TransferId};
use terahaul_store::{Store, StoreError, StorePlace};

use crate::db::TransferState;
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Removes empty objects of transfers that were never recorded, names other objects that are not, and recorded transfers without one, and
/// leaves one of two that a backup has of the same. Everything else that a stop can
/// interrupt is resumed when the transfer is next used: an interrupted finish by finishing again, an interrupted removal by the sweeper, at once.
pub(crate) async fn recover(depot: &Depot) -> Result<(), DepotError> {
    let known: HashMap<_, _> = depot.inner.db.transfer_states().await?.into_iter().collect();
    let expired: HashSet<_> =
        depot.inner.db.expired_transfers(depot.inner.config.clock.now()).await?.into_iter().collect();
    let store = depot.inner.store.clone();
    blocking::run(move || {
        let found = store.list()?;
        // A stop in the middle of publishing may leave both of an object's names.
        let published: HashSet<_> =
            found.iter().filter(|(_, place)| *place == StorePlace::Published).map(|(id, _)| *id).collect();
        let stored: HashSet<_> = found.iter().map(|(id, _)| *id).collect();
        // Its removal was stopped on a full disk, or the store is not the database's: then the rows are all that is left.
        for id in known.keys().filter(|id| !stored.contains(id) && !expired.contains(id)) {
            tracing::warn!(transfer = %id, "recorded, and there is no data of it: remove it, or restore the store");
        }
        for (id, place) in found {
            let is_twice = place == StorePlace::Incoming && published.contains(&id);
            if let Some(state) = known.get(&id) {
                if is_twice {
                    keep_one(&*store, id, *state)?;
                }
                continue;
            }
            match place {
                StorePlace::Incoming if is_twice => {}
                // What a stop between the object's making and its record leaves.
                StorePlace::Incoming if is_empty(&*store, id) => {
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
        Ok(())
    })
    .await?
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
