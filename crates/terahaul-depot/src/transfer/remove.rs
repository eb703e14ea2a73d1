//! Removing transfers.

use terahaul_core::TransferId;

use crate::auth::Caller;
use crate::depot::Depot;
use crate::{DepotError, blocking};

impl Depot {
    /// Removes a transfer that the caller may change. Whoever is sending or reading it gets errors from now on.
    pub async fn delete_transfer(&self, caller: &Caller, id: TransferId) -> Result<(), DepotError> {
        self.row_to_write(caller, id).await?;
        let depot = self.clone();
        let task = tokio::spawn(async move { depot.remove(id, i64::MAX).await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    /// Removes a transfer if it expires at `latest` or before.
    pub(super) async fn remove(&self, id: TransferId, latest: i64) -> Result<(), DepotError> {
        let mut slot = self.inner.registry.slot(id).await;
        let Some(row) = self.inner.db.transfer(id).await? else { return Ok(()) };
        if row.expires > latest {
            return Ok(());
        }
        slot.clear().await;
        // Expired first: it does not exist for anyone from here on, and when the rest is interrupted, the sweeper
        // ends it. The row goes last, so that no data is ever left without one.
        self.inner.db.extend_transfer(id, 0).await?;
        let store = self.inner.store.clone();
        blocking::run(move || store.remove(id)).await??;
        self.inner.db.delete_transfer(id).await?;
        tracing::info!(transfer = %id, "removed");
        Ok(())
    }
}
