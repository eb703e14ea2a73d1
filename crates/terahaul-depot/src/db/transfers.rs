//! Transfers and their totals.

use sqlx::{FromRow, Row as _};
use terahaul_core::{BlockNumber, EntryIndex, TransferId};

use super::failures::{StoredFailure, fail, supersede};
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

/// What of a transfer its object has to fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub state: TransferState,
    /// The last block that is durable.
    pub last_block: Option<BlockNumber>,
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
    /// Failures that something else stands for, which nobody has said yet.
    pub superseded: &'a [EntryIndex],
}

/// What a batch adds to a transfer's totals, and where its blocks then end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub entries: u64,
    pub files: u64,
    pub bytes: u64,
    /// [`EncodedBatch::byte_count`](super::EncodedBatch::byte_count), and what packed blocks and their files take besides their bytes.
    pub manifest_bytes: u64,
    pub blocks_after: u64,
    pub sealed_after: bool,
}

/// What transfers take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declared {
    /// Bytes of files that are here or may still come.
    pub bytes: u64,
    /// What the manifests take, and packed blocks and their files besides their bytes, what was said of their failures, and [`TRANSFER_BYTES`] for each.
    pub manifest_bytes: u64,
}

/// What goes with a batch, in its transaction.
pub(crate) struct Change<'a> {
    pub growth: Growth,
    /// Failed entries that it has others for.
    pub superseded: &'a [EntryIndex],
    /// It opens a partial transfer again.
    pub reopening: Option<Reopening<'a>>,
}

/// A partial transfer is opened again.
#[derive(Clone, Copy)]
pub(crate) struct Reopening<'a> {
    /// What has failed of it since.
    pub failures: &'a [StoredFailure],
    /// Unless its owner has as many open ones already.
    pub most_open: usize,
    pub now: i64,
}

/// When a transfer expires that is being removed: before any time that a clock shows.
pub(crate) const REMOVED: i64 = 0;

/// What a transfer takes that holds nothing, about: its row, its places in the indices, its statement and its file's name.
pub(crate) const TRANSFER_BYTES: u64 = 1024;

/// Blocks or entries of which the rows are removed at once.
const RUN: i64 = 20_000;

/// `failed_bytes`, which only sums ask for, are those of blocks that will not be here.
const COLUMNS: &str = "id, owner, (SELECT label FROM tokens WHERE tokens.id = owner) AS sender, name, state, created, expires, kept_days, completed, entries, files, bytes, \
                       blocks, failed, durable_bytes, sealed, statement, signature";

impl Database {
    /// Returns `false` where its owner has `most_open` open ones already.
    pub async fn insert_transfer(&self, new: &NewTransfer<'_>, most_open: usize) -> sqlx::Result<bool> {
        let sql = format!(
            "INSERT INTO transfers (id, owner, name, state, created, expires, kept_days, resume_key, manifest_bytes)
             SELECT $1, $2, $3, 'open', $4, $5, $6, $7, $9 WHERE ({}) < $8",
            open_of("$2", "$4")
        );
        let inserted = sqlx::query(&sql)
            .bind(&new.id.0[..])
            .bind(new.owner)
            .bind(new.name)
            .bind(new.created)
            .bind(new.term.expires)
            .bind(new.term.days)
            .bind(new.resume_key)
            .bind(big(most_open as u64))
            .bind(big(TRANSFER_BYTES))
            .execute(&self.write)
            .await?;
        Ok(inserted.rows_affected() > 0)
    }

    pub async fn transfer(&self, id: TransferId) -> sqlx::Result<Option<TransferRow>> {
        let sql = format!("SELECT {COLUMNS} FROM transfers WHERE id = $1");
        sqlx::query_as::<Db, TransferRow>(&sql).bind(&id.0[..]).fetch_optional(&self.read).await
    }

    /// The owner's newest unfinished transfer with this key.
    pub async fn resumable(&self, owner: &str, key: &str, now: i64) -> sqlx::Result<Option<TransferRow>> {
        sqlx::query_as::<Db, TransferRow>(&resumable_sql())
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
        let sql = list_sql(owner.is_some());
        let query =
            sqlx::query_as::<Db, TransferRow>(&sql).bind(at).bind(id).bind(now).bind(i64::from(limit));
        let query = match owner {
            Some(owner) => query.bind(owner),
            None => query,
        };
        query.fetch_all(&self.read).await
    }

    /// Every transfer, and where it stands.
    pub async fn standings(&self) -> sqlx::Result<Vec<(TransferId, Standing)>> {
        let sql =
            "SELECT id, state, (SELECT MAX(block) FROM blocks WHERE transfer = transfers.id) FROM transfers";
        let rows: Vec<(Vec<u8>, String, Option<i64>)> = sqlx::query_as(sql).fetch_all(&self.read).await?;
        let read = |(id, state, last_block): (_, _, Option<i64>)| {
            let last_block = last_block.map(|block| BlockNumber(block as u32));
            Ok((RowId::try_from(id)?.0, Standing { state: TransferState::try_from(state)?, last_block }))
        };
        rows.into_iter().map(read).collect()
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
        let sql = "UPDATE transfers SET expires = $1 WHERE id = $2";
        sqlx::query(sql).bind(REMOVED).bind(&id.0[..]).execute(&self.write).await?;
        Ok(())
    }

    pub async fn keep_transfer(&self, id: TransferId, term: Term) -> sqlx::Result<()> {
        let sql = "UPDATE transfers SET expires = $1, kept_days = $2 WHERE id = $3";
        sqlx::query(sql).bind(term.expires).bind(term.days).bind(&id.0[..]).execute(&self.write).await?;
        Ok(())
    }

    /// Takes a partial transfer back to open: its receipt no longer holds. Returns `false` where its owner has too many open ones. `cut` is
    /// called where it is not so, before anybody sees that it is open, which nobody does if this then fails.
    pub async fn reopen_transfer(
        &self,
        id: TransferId,
        reopening: Reopening<'_>,
        cut: impl FnOnce() + Send,
    ) -> sqlx::Result<bool> {
        let mut tx = self.write.begin().await?;
        let is_reopened = reopen(&mut tx, id, reopening).await?;
        if is_reopened {
            cut();
        }
        tx.commit().await.map(|()| is_reopened)
    }

    pub async fn complete_transfer(&self, id: TransferId, completion: &Completion<'_>) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        supersede(&mut tx, id, completion.superseded).await?;
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
        .execute(&mut *tx)
        .await?;
        tx.commit().await
    }

    /// Removes a transfer and all that belongs to it: what may be millions of rows first and in runs, between which others write, and its own
    /// row last, so that what is stopped is done again.
    pub async fn delete_transfer(&self, id: TransferId) -> sqlx::Result<bool> {
        for (table, number) in
            [("blocks", "block"), ("checksums", "block"), ("batches", "first_entry"), ("failures", "entry")]
        {
            let sql = format!(
                "DELETE FROM {table} WHERE transfer = $1
                 AND {number} < $2 + (SELECT MIN({number}) FROM {table} WHERE transfer = $1)"
            );
            while sqlx::query(&sql).bind(&id.0[..]).bind(RUN).execute(&self.write).await?.rows_affected() > 0
            {
            }
        }
        let done =
            sqlx::query("DELETE FROM transfers WHERE id = $1").bind(&id.0[..]).execute(&self.write).await?;
        Ok(done.rows_affected() > 0)
    }

    /// What one token's transfers take, or all.
    pub async fn declared(&self, owner: Option<&str>) -> sqlx::Result<Declared> {
        let sql = declared_sql(owner.is_some());
        let query = sqlx::query_as(&sql);
        let query = match owner {
            Some(owner) => query.bind(owner),
            None => query,
        };
        let (bytes, manifest_bytes): (i64, i64) = query.fetch_one(&self.read).await?;
        Ok(Declared { bytes: count(bytes), manifest_bytes: count(manifest_bytes) })
    }

    /// Bytes that each open transfer still expects, by what is recorded.
    pub async fn awaited_bytes(&self) -> sqlx::Result<Vec<(TransferId, u64)>> {
        let rows: Vec<(Vec<u8>, i64)> = sqlx::query_as(AWAITED).fetch_all(&self.read).await?;
        rows.into_iter().map(|(id, bytes)| Ok((RowId::try_from(id)?.0, count(bytes)))).collect()
    }
}

/// `state = 'open'`, as the index has it.
const AWAITED: &str = "SELECT id, bytes - failed_bytes - durable_bytes FROM transfers WHERE state = 'open'";

/// How many open transfers an owner has.
fn open_of(owner: &str, now: &str) -> String {
    format!(
        "SELECT COUNT(*) FROM transfers AS others
         WHERE others.owner = {owner} AND others.state = 'open' AND others.expires > {now}"
    )
}

/// With the index's own words for what is unfinished.
fn resumable_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM transfers WHERE owner = $1 AND resume_key = $2 AND expires > $3
         AND state <> 'complete' ORDER BY created DESC, id DESC LIMIT 1"
    )
}

/// One owner's and everybody's are two statements: no index serves both in one.
fn list_sql(of_owner: bool) -> String {
    let owner = if of_owner { "AND owner = $5" } else { "" };
    format!(
        "SELECT {COLUMNS} FROM transfers WHERE (created, id) < ($1, $2) AND expires > $3 {owner}
         ORDER BY created DESC, id DESC LIMIT $4"
    )
}

/// As with [`list_sql`].
fn declared_sql(of_owner: bool) -> String {
    let owner = if of_owner { "WHERE owner = $1" } else { "" };
    format!(
        "SELECT CAST(COALESCE(SUM(bytes - failed_bytes), 0) AS BIGINT),
         CAST(COALESCE(SUM(manifest_bytes), 0) AS BIGINT) FROM transfers {owner}"
    )
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
    Reopening { failures, most_open, now }: Reopening<'_>,
) -> sqlx::Result<bool> {
    let sql = format!(
        "UPDATE transfers SET state = 'open', completed = NULL, statement = NULL, signature = NULL
         WHERE id = $1 AND ({}) < $3",
        open_of("transfers.owner", "$2")
    );
    let most_open = big(most_open as u64);
    let done = sqlx::query(&sql).bind(&id.0[..]).bind(now).bind(most_open).execute(&mut **tx).await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    fail(tx, id, failures).await.map(|()| true)
}

/// Adds `growth` to a transfer's totals, inside a transaction.
pub(super) async fn grow(
    tx: &mut sqlx::Transaction<'_, Db>,
    id: TransferId,
    growth: &Growth,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE transfers SET entries = entries + $1, files = files + $2, bytes = bytes + $3, manifest_bytes = manifest_bytes + $4,
         blocks = $5, sealed = $6 WHERE id = $7",
    )
    .bind(big(growth.entries))
    .bind(big(growth.files))
    .bind(big(growth.bytes))
    .bind(big(growth.manifest_bytes))
    .bind(big(growth.blocks_after))
    .bind(growth.sealed_after)
    .bind(&id.0[..])
    .execute(&mut **tx)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use terahaul_core::{BlockNumber, BlockProof, Hash};

    use super::*;

    #[tokio::test]
    async fn no_statement_reads_all_transfers_to_find_some() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        for (sql, step) in [
            (
                list_sql(true),
                "SEARCH transfers USING INDEX transfers_by_owner (owner=? AND (created,id)<(?,?))",
            ),
            (list_sql(false), "SEARCH transfers USING INDEX transfers_by_creation ((created,id)<(?,?))"),
            (resumable_sql(), "SEARCH transfers USING INDEX transfers_to_resume (owner=? AND resume_key=?)"),
            // All open ones are asked for.
            (AWAITED.to_owned(), "SCAN transfers USING INDEX transfers_open"),
            (
                open_of("$1", "$2"),
                "SEARCH others USING COVERING INDEX transfers_open (owner=? AND expires>?)",
            ),
            (declared_sql(true), "SEARCH transfers USING COVERING INDEX transfers_by_size (owner=?)"),
            // All are asked for.
            (declared_sql(false), "SCAN transfers USING COVERING INDEX transfers_by_size"),
        ] {
            let plan = db.plan(&sql).await;
            assert_eq!(plan[0], step, "{plan:?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }

    #[tokio::test]
    async fn pages_of_lists_follow_each_other_also_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        for number in 0..7 {
            db.add_transfer(number).await;
        }
        sqlx::query("UPDATE transfers SET created = created / 3").execute(&db.write).await.unwrap();
        for owner in [None, Some("t")] {
            let (mut found, mut before) = (Vec::new(), None);
            while let [.., last] = &db.transfers(owner, before, 2, 0).await.unwrap()[..] {
                let page = db.transfers(owner, before, 2, 0).await.unwrap();
                found.extend(page.iter().map(|row| row.transfer_id().0[0]));
                before = Some((last.created, last.transfer_id()));
            }
            assert_eq!(found, [6, 5, 4, 3, 2, 1, 0]);
        }
        assert!(db.transfers(Some("u"), None, 2, 0).await.unwrap().is_empty());
    }

    /// Removing one of ten terabytes held up what every other sender had received, and whoever signed in.
    #[tokio::test]
    async fn while_a_large_transfer_is_removed_others_record_their_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        let (large, other) = (db.add_transfer(1).await, db.add_transfer(2).await);
        db.add_blocks(large, 50_000).await;
        let proven = [(BlockNumber(0), BlockProof::Piece(Hash([1; 32])), 5)];
        let mut removing = pin!(db.delete_transfer(large));
        let mut recording = pin!(db.record_blocks(other, &proven));
        // The first to be asked is the first to write.
        let is_removed = tokio::select! {
            biased;
            removed = &mut removing => removed.is_ok(),
            recorded = &mut recording => recorded.is_err(),
        };
        assert!(!is_removed, "the other one waited for all of it");
        assert!(removing.await.unwrap());
        let (left,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM blocks").fetch_one(&db.read).await.unwrap();
        assert_eq!(left, 1);
    }
}
