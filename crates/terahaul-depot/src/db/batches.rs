//! Manifests: encoded batches of entries.

use sqlx::{FromRow, Row as _};
use terahaul_core::{Entry, Hash, TransferId};
use terahaul_wire::{Batch, MAX_BATCH_ENTRIES, decode_entries, encode_entries};

use super::failures::supersede;
use super::transfers::{Change, grow, reopen};
use super::{Database, Row, big, count};
use crate::DepotError;

/// A batch as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct StoredBatch {
    pub first: u64,
    pub entries: Vec<Entry>,
    pub seal: bool,
    /// One for each entry once the transfer is finished; zeros where there is none.
    pub hashes: Option<Vec<Hash>>,
}

/// A batch as it is going to be kept: in rows of at most [`MAX_BATCH_ENTRIES`].
pub(crate) struct EncodedBatch {
    first: u64,
    /// How many entries, and which.
    rows: Vec<(usize, Vec<u8>)>,
    seal: bool,
}

impl EncodedBatch {
    pub fn new(batch: &Batch) -> Self {
        let rows = batch.entries.chunks(MAX_BATCH_ENTRIES);
        Self {
            first: u64::from(batch.first.0),
            rows: rows.map(|entries| (entries.len(), encode_entries(entries))).collect(),
            seal: batch.seal,
        }
    }

    /// What it is going to take, with the hashes that will be kept of its entries.
    pub fn byte_count(&self) -> u64 {
        self.rows.iter().map(|(entries, body)| (body.len() + HASH_LEN * entries) as u64).sum()
    }
}

/// Bytes in an entry's hash.
const HASH_LEN: usize = 32;

struct BatchRow {
    first_entry: i64,
    seal: bool,
    body: Vec<u8>,
    hashes: Option<Vec<u8>>,
}

impl FromRow<'_, Row> for BatchRow {
    fn from_row(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            first_entry: row.try_get("first_entry")?,
            seal: row.try_get("seal")?,
            body: row.try_get("body")?,
            hashes: row.try_get("hashes")?,
        })
    }
}

impl BatchRow {
    fn read(self) -> Result<StoredBatch, DepotError> {
        let entries = decode_entries(&self.body).map_err(|error| DepotError::Damaged(error.to_string()))?;
        let hashes = self.hashes.map(|bytes| {
            bytes.chunks_exact(32).map(|chunk| Hash(chunk.try_into().unwrap_or_default())).collect::<Vec<_>>()
        });
        if hashes.as_ref().is_some_and(|hashes| hashes.len() != entries.len()) {
            return Err(DepotError::Damaged(
                "a manifest batch has another number of hashes than entries".into(),
            ));
        }
        Ok(StoredBatch { first: count(self.first_entry), entries, seal: self.seal, hashes })
    }
}

/// Batches follow each other without gaps, so it is the last that begins no later: one step of the index, however small they are.
const BATCH_AT: &str =
    "SELECT first_entry, seal, body, hashes FROM batches WHERE transfer = $1 AND first_entry <= $2
                        ORDER BY first_entry DESC LIMIT 1";

impl Database {
    /// Appends entries, with what follows from them, in one transaction. Returns `false`, and nothing is changed, where they would open a
    /// transfer again whose owner has too many open ones. `cut` is called as by [`reopen_transfer`](Self::reopen_transfer).
    pub async fn append_batch(
        &self,
        id: TransferId,
        batch: &EncodedBatch,
        change: &Change<'_>,
        cut: impl FnOnce() + Send,
    ) -> sqlx::Result<bool> {
        let mut tx = self.write.begin().await?;
        if let Some(reopening) = change.reopening
            && !reopen(&mut tx, id, reopening).await?
        {
            return Ok(false);
        }
        let mut first = batch.first;
        for (at, (entries, body)) in batch.rows.iter().enumerate() {
            sqlx::query("INSERT INTO batches (transfer, first_entry, entries, seal, body) VALUES ($1, $2, $3, $4, $5)")
                .bind(&id.0[..])
                .bind(big(first))
                .bind(*entries as i64)
                .bind(batch.seal && at + 1 == batch.rows.len())
                .bind(body)
                .execute(&mut *tx)
                .await?;
            first += *entries as u64;
        }
        if batch.rows.is_empty() && batch.seal {
            sqlx::query(
                "UPDATE batches SET seal = TRUE WHERE transfer = $1
                 AND first_entry = (SELECT MAX(first_entry) FROM batches WHERE transfer = $1)",
            )
            .bind(&id.0[..])
            .execute(&mut *tx)
            .await?;
        }
        supersede(&mut tx, id, change.superseded).await?;
        grow(&mut tx, id, &change.growth).await?;
        if change.reopening.is_some() {
            cut();
        }
        tx.commit().await.map(|()| true)
    }

    /// The batch that holds entry `at`.
    pub async fn batch_at(&self, id: TransferId, at: u64) -> Result<Option<StoredBatch>, DepotError> {
        let row: Option<BatchRow> =
            sqlx::query_as(BATCH_AT).bind(&id.0[..]).bind(big(at)).fetch_optional(&self.read).await?;
        let batch = row.map(BatchRow::read).transpose()?;
        Ok(batch.filter(|batch| at < batch.first + batch.entries.len() as u64))
    }

    #[cfg(test)]
    pub async fn lose_batch(&self, id: TransferId, first: u64) -> sqlx::Result<()> {
        let sql = "DELETE FROM batches WHERE transfer = $1 AND first_entry = $2";
        sqlx::query(sql).bind(&id.0[..]).bind(big(first)).execute(&self.write).await.map(drop)
    }

    /// Keeps the hashes of finished batches.
    pub async fn keep_hashes(&self, id: TransferId, batches: &[(u64, Vec<u8>)]) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        for (first, hashes) in batches {
            sqlx::query("UPDATE batches SET hashes = $1 WHERE transfer = $2 AND first_entry = $3")
                .bind(hashes)
                .bind(&id.0[..])
                .bind(big(*first))
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::EntryKind;

    use super::*;
    use crate::fixture::entry;

    async fn with_batches(count: u64) -> (tempfile::TempDir, Database, TransferId) {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        let id = db.add_transfer(1).await;
        sqlx::query(
            "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $1)
             INSERT INTO batches (transfer, first_entry, entries, seal, body) SELECT $2, n, 1, FALSE, $3 FROM numbers",
        )
        .bind(big(count))
        .bind(&id.0[..])
        .bind(encode_entries(&[entry("a", EntryKind::Directory)]))
        .execute(&db.write)
        .await
        .unwrap();
        (folder, db, id)
    }

    #[tokio::test]
    async fn a_batch_is_found_without_looking_at_those_before_it() {
        let (_folder, db, id) = with_batches(3000).await;
        for at in 0..3000 {
            assert_eq!(db.batch_at(id, at).await.unwrap().map(|batch| batch.first), Some(at));
        }
        assert!(db.batch_at(id, 3000).await.unwrap().is_none());
        db.lose_batch(id, 7).await.unwrap();
        assert!(db.batch_at(id, 7).await.unwrap().is_none(), "it is not the one before");
        let plan = db.plan(BATCH_AT).await;
        assert!(plan.len() == 1 && plan[0].contains("(transfer=? AND first_entry<?)"), "{plan:?}");
    }
}
