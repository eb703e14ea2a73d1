//! What a depot does when it starts: the store is brought in line with the database.

use std::collections::HashSet;

use terahaul_store::StorePlace;

use crate::depot::Depot;
use crate::{DepotError, blocking};

/// Removes objects of transfers that were never recorded, and names recorded ones without an object. Everything else that a stop can
/// interrupt is resumed when the transfer is next used: an interrupted finish by finishing again, an interrupted removal by the sweeper.
pub(crate) async fn recover(depot: &Depot) -> Result<(), DepotError> {
    let known: HashSet<_> = depot.inner.db.transfer_ids().await?.into_iter().collect();
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
        for id in known.iter().filter(|id| !stored.contains(id) && !expired.contains(id)) {
            tracing::warn!(transfer = %id, "recorded, and there is no data of it: remove it, or restore the store");
        }
        for (id, place) in found {
            if known.contains(&id) {
                continue;
            }
            match place {
                StorePlace::Incoming if published.contains(&id) => {}
                StorePlace::Incoming => {
                    tracing::info!(transfer = %id, "removing data of a transfer that was never recorded");
                    store.remove(id)?;
                }
                // Only another or an older database explains it; what is published is not ours to delete then.
                StorePlace::Published => {
                    tracing::warn!(transfer = %id, "published data of a transfer that the database does not know");
                }
            }
        }
        Ok(())
    })
    .await?
}
