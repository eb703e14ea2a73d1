//! Transfers and their totals.

use sqlx::{FromRow, Row as _};
use terahaul_core::{EntryIndex, TransferId};

use super::failures::{StoredFailure, fail};
use super::{Database, Db, Row, big, count};

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// It takes entries and bytes.
    Open,
    /// Everything arrived; it is published and its receipt is signed.
    Complete,
    /// Finished with failed entries; it is published, and the same files sent again reopen it.
    Partial,
}

impl TransferState {
    fn text(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Partial => "partial",
        }
    }
}

impl TryFrom<String> for TransferState {
    type Error = sqlx::Error;
    fn try_from(text: String) -> Result<Self, sqlx::Error> {
        match text.as_str() {
            "open" => Ok(Self::Open),
            "complete" => Ok(Self::Complete),
            "partial" => Ok(Self::Partial),
            _ => Err(sqlx::Error::Decode(format!("unknown transfer state '{text}'").into())),
        }
    }
}

/// A stored transfer.
#[derive(Clone, Debug)]
pub(crate) struct TransferRow {
    pub id: RowId,
    pub owner: String,
    /// The owner's label.
    pub sender: String,
    pub name: String,
    pub state: TransferState,
    pub created: i64,
    pub expires: i64,
    pub kept_days: i64,
    pub completed: Option<i64>,
    pub entries: i64,
    pub files: i64,
    pub bytes: i64,
    pub blocks: i64,
    pub failed: i64,
    pub durable_bytes: i64,
    pub sealed: bool,
    pub statement: Option<String>,
    pub signature: Option<String>,
}

impl FromRow<'_, Row> for TransferRow {
    fn from_row(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            id: RowId::try_from(row.try_get::<Vec<u8>, _>("id")?)?,
            owner: row.try_get("owner")?,
            sender: row.try_get("sender")?,
            name: row.try_get("name")?,
            state: TransferState::try_from(row.try_get::<String, _>("state")?)?,
            created: row.try_get("created")?,
            expires: row.try_get("expires")?,
            kept_days: row.try_get("kept_days")?,
            completed: row.try_get("completed")?,
            entries: row.try_get("entries")?,
            files: row.try_get("files")?,
            bytes: row.try_get("bytes")?,
            blocks: row.try_get("blocks")?,
            failed: row.try_get("failed")?,
            durable_bytes: row.try_get("durable_bytes")?,
            sealed: row.try_get("sealed")?,
            statement: row.try_get("statement")?,
            signature: row.try_get("signature")?,
        })
    }
}

/// A [`TransferId`] read from a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowId(pub TransferId);

impl TryFrom<Vec<u8>> for RowId {
    type Error = sqlx::Error;
    fn try_from(bytes: Vec<u8>) -> Result<Self, sqlx::Error> {
        let bytes = bytes.try_into().map_err(|_| sqlx::Error::Decode("a transfer id has 16 bytes".into()))?;
        Ok(Self(TransferId(bytes)))
    }
}

/// What a new transfer starts with.
pub(crate) struct NewTransfer<'a> {
    pub id: TransferId,
    pub owner: &'a str,
    pub name: &'a str,
    pub created: i64,
    pub term: Term,
    pub resume_key: Option<&'a str>,
}

/// How long a transfer is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// Counted anew while it is sent and when it is finished.
    pub days: i64,
    /// As counted now.
    pub expires: i64,
}

/// What a finished transfer has.
pub(crate) struct Completion<'a> {
    pub state: TransferState,
    pub blocks: u64,
    pub completed: i64,
    pub expires: i64,
    pub statement: &'a str,
    pub signature: &'a str,
}

/// What a batch adds to a transfer's totals, and where its blocks then end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub entries: u64,
    pub files: u64,
    pub bytes: u64,
    /// About so many: [`Completion`] has them counted.
    pub blocks_after: u64,
    pub sealed_after: bool,
}

/// What goes with a batch, in its transaction.
pub(crate) struct Change<'a> {
    pub growth: Growth,
    /// Failed entries that it has others for.
    pub superseded: &'a [EntryIndex],
    /// It opens a partial transfer again, of which these entries have failed since.
    pub reopening: Option<&'a [StoredFailure]>,
}

/// `failed_bytes`, which only sums ask for, are those of blocks that will not be here.
const COLUMNS: &str = "id, owner, (SELECT label FROM tokens WHERE tokens.id = owner) AS sender, name, state, created, expires, kept_days, completed, entries, files, bytes, \
                       blocks, failed, durable_bytes, sealed, statement, signature";

impl Database {
    pub async fn insert_transfer(&self, new: &NewTransfer<'_>) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO transfers (id, owner, name, state, created, expires, kept_days, resume_key)
             VALUES ($1, $2, $3, 'open', $4, $5, $6, $7)",
        )
        .bind(&new.id.0[..])
        .bind(new.owner)
        .bind(new.name)
        .bind(new.created)
        .bind(new.term.expires)
        .bind(new.term.days)
        .bind(new.resume_key)
        .execute(&self.write)
        .await?;
        Ok(())
    }

    pub async fn transfer(&self, id: TransferId) -> sqlx::Result<Option<TransferRow>> {
        let sql = format!("SELECT {COLUMNS} FROM transfers WHERE id = $1");
        sqlx::query_as::<Db, TransferRow>(&sql).bind(&id.0[..]).fetch_optional(&self.read).await
    }

    /// The owner's newest unfinished transfer with this key.
    pub async fn resumable(&self, owner: &str, key: &str, now: i64) -> sqlx::Result<Option<TransferRow>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM transfers WHERE owner = $1 AND resume_key = $2 AND expires > $3
             AND state IN ('open', 'partial') ORDER BY created DESC, id DESC LIMIT 1"
        );
        sqlx::query_as::<Db, TransferRow>(&sql)
            .bind(owner)
            .bind(key)
            .bind(now)
            .fetch_optional(&self.read)
            .await
    }

    /// Transfers of `owner` (or of everyone), newest first, from the one after `before` on.
    pub async fn transfers(
        &self,
        owner: Option<&str>,
        before: Option<(i64, TransferId)>,
        limit: u32,
        now: i64,
    ) -> sqlx::Result<Vec<TransferRow>> {
        let (at, id) = match before {
            None => (i64::MAX, Vec::new()),
            Some((created, id)) => (created, id.0.to_vec()),
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM transfers WHERE ($1 IS NULL OR owner = $1) AND expires > $2
             AND (created < $3 OR (created = $3 AND id < $4)) ORDER BY created DESC, id DESC LIMIT $5"
        );
        sqlx::query_as::<Db, TransferRow>(&sql)
            .bind(owner)
            .bind(now)
            .bind(at)
            .bind(id)
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
    }

    pub async fn transfer_ids(&self) -> sqlx::Result<Vec<TransferId>> {
        let rows: Vec<(Vec<u8>,)> = sqlx::query_as("SELECT id FROM transfers").fetch_all(&self.read).await?;
        rows.into_iter().map(|(id,)| Ok(RowId::try_from(id)?.0)).collect()
    }

    pub async fn expired_transfers(&self, now: i64) -> sqlx::Result<Vec<TransferId>> {
        let rows: Vec<(Vec<u8>,)> = sqlx::query_as("SELECT id FROM transfers WHERE expires <= $1 LIMIT 1000")
            .bind(now)
            .fetch_all(&self.read)
            .await?;
        rows.into_iter().map(|(id,)| Ok(RowId::try_from(id)?.0)).collect()
    }

    pub async fn rename_transfer(&self, id: TransferId, name: &str) -> sqlx::Result<()> {
        let sql = "UPDATE transfers SET name = $1 WHERE id = $2";
        sqlx::query(sql).bind(name).bind(&id.0[..]).execute(&self.write).await?;
        Ok(())
    }

    /// From here on it does not exist for anyone.
    pub async fn expire_transfer(&self, id: TransferId) -> sqlx::Result<()> {
        let sql = "UPDATE transfers SET expires = 0 WHERE id = $1";
        sqlx::query(sql).bind(&id.0[..]).execute(&self.write).await?;
        Ok(())
    }

    pub async fn keep_transfer(&self, id: TransferId, term: Term) -> sqlx::Result<()> {
        let sql = "UPDATE transfers SET expires = $1, kept_days = $2 WHERE id = $3";
        sqlx::query(sql).bind(term.expires).bind(term.days).bind(&id.0[..]).execute(&self.write).await?;
        Ok(())
    }

    /// Takes a partial transfer back to open, of which these entries have failed since: its receipt no longer holds.
    pub async fn reopen_transfer(&self, id: TransferId, failures: &[StoredFailure]) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        reopen(&mut tx, id, failures).await?;
        tx.commit().await
    }

    pub async fn complete_transfer(&self, id: TransferId, completion: &Completion<'_>) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE transfers SET state = $1, completed = $2, statement = $3, signature = $4, expires = $5, blocks = $6, sealed = TRUE
             WHERE id = $7",
        )
        .bind(completion.state.text())
        .bind(completion.completed)
        .bind(completion.statement)
        .bind(completion.signature)
        .bind(completion.expires)
        .bind(big(completion.blocks))
        .bind(&id.0[..])
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Removes a transfer and all that belongs to it.
    pub async fn delete_transfer(&self, id: TransferId) -> sqlx::Result<bool> {
        let done =
            sqlx::query("DELETE FROM transfers WHERE id = $1").bind(&id.0[..]).execute(&self.write).await?;
        Ok(done.rows_affected() > 0)
    }

    /// Bytes that are here or may still come, by one token's transfers or by all.
    pub async fn declared_bytes(&self, owner: Option<&str>) -> sqlx::Result<u64> {
        let sql = "SELECT CAST(COALESCE(SUM(bytes - failed_bytes), 0) AS BIGINT) FROM transfers
                   WHERE ($1 IS NULL OR owner = $1)";
        let (sum,): (i64,) = sqlx::query_as(sql).bind(owner).fetch_one(&self.read).await?;
        Ok(count(sum))
    }

    /// Bytes that each open transfer still expects, by what is recorded.
    pub async fn awaited_bytes(&self) -> sqlx::Result<Vec<(TransferId, u64)>> {
        let sql = "SELECT id, bytes - failed_bytes - durable_bytes FROM transfers WHERE state = 'open'";
        let rows: Vec<(Vec<u8>, i64)> = sqlx::query_as(sql).fetch_all(&self.read).await?;
        rows.into_iter().map(|(id, bytes)| Ok((RowId::try_from(id)?.0, count(bytes)))).collect()
    }
}

impl TransferRow {
    pub fn transfer_id(&self) -> TransferId {
        self.id.0
    }
}

/// [`Database::reopen_transfer`], inside a transaction.
pub(super) async fn reopen(
    tx: &mut sqlx::Transaction<'_, Db>,
    id: TransferId,
    failures: &[StoredFailure],
) -> sqlx::Result<()> {
    let sql = "UPDATE transfers SET state = 'open', completed = NULL, statement = NULL, signature = NULL WHERE id = $1";
    sqlx::query(sql).bind(&id.0[..]).execute(&mut **tx).await?;
    fail(tx, id, failures).await
}

/// Adds `growth` to a transfer's totals, inside a transaction.
pub(super) async fn grow(
    tx: &mut sqlx::Transaction<'_, Db>,
    id: TransferId,
    growth: &Growth,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE transfers SET entries = entries + $1, files = files + $2, bytes = bytes + $3, blocks = $4, sealed = $5
         WHERE id = $6",
    )
    .bind(big(growth.entries))
    .bind(big(growth.files))
    .bind(big(growth.bytes))
    .bind(big(growth.blocks_after))
    .bind(growth.sealed_after)
    .bind(&id.0[..])
    .execute(&mut **tx)
    .await?;
    Ok(())
}
