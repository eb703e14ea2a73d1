//! What is told about a transfer.

use terahaul_core::{BLOCK_SIZE, Statement, TransferId};

use crate::DepotError;
use crate::auth::Caller;
use crate::db::{TransferRow, TransferState};
use crate::depot::Depot;

/// A transfer as lists and the API show it. Times are seconds since 1970 UTC.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TransferInfo {
    /// Which transfer.
    pub id: TransferId,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: TransferState,
    /// When it was made.
    pub created: i64,
    /// When it will be removed.
    pub expires: i64,
    /// When it was finished.
    pub completed: Option<i64>,
    /// Entries in the manifest, failed ones included.
    pub entries: u64,
    /// Files among them.
    pub files: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Sum of the files' declared sizes.
    pub bytes: u64,
    /// Bytes that are kept for good.
    pub durable_bytes: u64,
    /// Entries that arrived, as is signed, once it is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_entries: Option<u64>,
    /// Sum of their sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_bytes: Option<u64>,
    /// Blocks that the manifest reaches into; while it is open, about so many.
    pub blocks: u64,
    /// Whether the manifest's last entries were sealed.
    pub sealed: bool,
    /// Whether the caller sends it.
    pub yours: bool,
    /// The label of the token that sends it; only for the depot's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// What recipients open; only for whoever sent it, and for the depot's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bytes in a block.
    pub block_size: u64,
}

impl Depot {
    /// A transfer that the caller may read.
    pub async fn transfer(&self, caller: &Caller, id: TransferId) -> Result<TransferInfo, DepotError> {
        let row = self.row_to_read(caller, id).await?;
        Ok(self.info(caller, &row))
    }

    /// Renames a transfer or moves its expiry.
    pub async fn change_transfer(
        &self,
        caller: &Caller,
        id: TransferId,
        name: Option<&str>,
        expires_in_days: Option<u32>,
    ) -> Result<TransferInfo, DepotError> {
        // Before anybody who may not waits for the lock; what holds then is known only behind it, where whoever finishes the transfer
        // or removes it has come to an end.
        self.row_to_write(caller, id).await?;
        let slot = self.inner.registry.slot(id).await;
        let row = self.row_to_write(caller, id).await?;
        // All of it is checked before any of it is done.
        let expires = expires_in_days.map(|days| self.term(Some(days))).transpose()?;
        if let Some(name) = name.filter(|name| *name != row.name) {
            self.check_name(name)?;
            if row.state != TransferState::Open {
                return Err(DepotError::NameSigned);
            }
            self.inner.db.rename_transfer(id, name).await?;
        }
        if let Some(expires) = expires {
            self.inner.db.keep_transfer(id, expires).await?;
        }
        drop(slot);
        self.transfer(caller, id).await
    }

    pub(crate) fn info(&self, caller: &Caller, row: &TransferRow) -> TransferInfo {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let id = row.transfer_id();
        let statement = || serde_json::from_str::<Statement>(row.statement.as_deref()?).ok();
        let arrived = statement().map(|statement| (statement.entries, statement.bytes.0));
        TransferInfo {
            id,
            name: row.name.clone(),
            state: row.state,
            created: row.created,
            expires: row.expires,
            completed: row.completed,
            entries: number(row.entries),
            files: number(row.files),
            failed: number(row.failed),
            bytes: number(row.bytes),
            durable_bytes: number(row.durable_bytes),
            arrived_entries: arrived.map(|(entries, _)| entries),
            arrived_bytes: arrived.map(|(_, bytes)| bytes),
            blocks: number(row.blocks),
            sealed: row.sealed,
            yours: caller.made(row),
            sender: caller.is_owner().then(|| row.sender.clone()),
            link: caller.may_share(row).then(|| self.link(id)),
            block_size: BLOCK_SIZE,
        }
    }
}
