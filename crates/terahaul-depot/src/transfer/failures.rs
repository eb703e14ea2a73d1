//! The failures of a finished transfer, by name.

use terahaul_core::{EntryIndex, FailureCause, ReceiptFailure, TransferId};

use super::Outbound;
use super::entry_list::sentence;
use crate::DepotError;
use crate::auth::Caller;
use crate::depot::Depot;

/// An entry that did not arrive.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which entry.
    pub entry: EntryIndex,
    /// What happened.
    pub cause: FailureCause,
    /// The system's words.
    pub detail: String,
    /// A later entry of the same path stands for it, so it is not a failure of the transfer.
    pub superseded: bool,
}

impl Depot {
    /// Every failed entry of a transfer that the caller may read, in order.
    pub async fn failures(&self, caller: &Caller, id: TransferId) -> Result<Vec<Failure>, DepotError> {
        self.row_to_read(caller, id).await?;
        let stored = self.inner.db.failures(id, 0, u32::MAX).await?;
        Ok(stored
            .into_iter()
            .map(|failure| Failure {
                entry: failure.entry,
                cause: failure.cause,
                detail: failure.detail,
                superseded: failure.superseded,
            })
            .collect())
    }

    /// What a receipt says did not arrive.
    pub(crate) async fn receipt_failures(
        &self,
        outbound: &Outbound,
    ) -> Result<Vec<ReceiptFailure>, DepotError> {
        let stored = self.inner.db.failures(outbound.id(), 0, u32::MAX).await?;
        let mut named = Vec::new();
        for failure in stored.iter().filter(|failure| !failure.superseded) {
            let batch = outbound.manifest(u64::from(failure.entry.0))?.next().await?;
            let entry = batch.as_ref().and_then(|batch| batch.entries.first());
            let entry = entry.ok_or_else(|| DepotError::Damaged("a failed entry is not stored".into()))?;
            named.push(ReceiptFailure { path: entry.path.to_string(), reason: sentence(failure) });
        }
        Ok(named)
    }
}
