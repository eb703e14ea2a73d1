//! Manifests: encoded batches of entries.

use sqlx::{FromRow, Row as _};
use terahaul_core::{Entry, Hash, TransferId};
use terahaul_wire::{Batch, MAX_BATCH_ENTRIES, decode_entries, encode_entries};

use super::failures::supersede;
use super::transfers::{Change, grow, reopen};
use super::{Database, Db, Row, big, count};
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

const COLUMNS: &str = "first_entry, seal, body, hashes";

impl Database {
    /// Appends entries, with what follows from them, in one transaction.
    pub async fn append_batch(
        &self,
        id: TransferId,
        Batch { first, entries, seal }: &Batch,
        change: &Change<'_>,
    ) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        if let Some(failures) = change.reopening {
            reopen(&mut tx, id, failures).await?;
        }
        let chunks = entries.chunks(MAX_BATCH_ENTRIES);
        let last = chunks.len().saturating_sub(1);
        for (at, chunk) in chunks.enumerate() {
            sqlx::query("INSERT INTO batches (transfer, first_entry, entries, seal, body) VALUES ($1, $2, $3, $4, $5)")
                .bind(&id.0[..])
                .bind(big(u64::from(first.0) + (at * MAX_BATCH_ENTRIES) as u64))
                .bind(chunk.len() as i64)
                .bind(*seal && at == last)
                .bind(encode_entries(chunk))
                .execute(&mut *tx)
                .await?;
        }
        if entries.is_empty() && *seal {
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
        tx.commit().await
    }

    /// The batch that holds entry `at`, or the first after it.
    pub async fn batch_from(&self, id: TransferId, at: u64) -> Result<Option<StoredBatch>, DepotError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM batches WHERE transfer = $1 AND first_entry + entries > $2
             AND first_entry > $3 ORDER BY first_entry LIMIT 1"
        );
        let row: Option<BatchRow> = sqlx::query_as::<Db, BatchRow>(&sql)
            .bind(&id.0[..])
            .bind(big(at))
            // A batch never has more entries than this, which lets the index skip all earlier ones.
            .bind(big(at) - MAX_BATCH_ENTRIES as i64)
            .fetch_optional(&self.read)
            .await?;
        row.map(BatchRow::read).transpose()
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
