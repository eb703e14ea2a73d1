//! Entries that will not arrive.

use terahaul_core::{EntryIndex, FailureCause, TransferId};

use super::{Database, Db, big, count};

/// A failed entry as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct StoredFailure {
    pub entry: EntryIndex,
    pub cause: FailureCause,
    pub detail: String,
    /// A later entry of the same path stands for it.
    pub superseded: bool,
}

impl Database {
    /// Marks entries failed. The caller names none twice.
    pub async fn fail_entries(&self, id: TransferId, failures: &[StoredFailure]) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        fail(&mut tx, id, failures).await?;
        tx.commit().await
    }

    /// Keeps how many of a transfer's declared bytes will not be here.
    pub async fn keep_void_bytes(&self, id: TransferId, bytes: u64) -> sqlx::Result<()> {
        sqlx::query("UPDATE transfers SET failed_bytes = $1 WHERE id = $2 AND failed_bytes <> $1")
            .bind(big(bytes))
            .bind(&id.0[..])
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Failed entries from `from` on, at most `limit`.
    pub async fn failures(&self, id: TransferId, from: u64, limit: u32) -> sqlx::Result<Vec<StoredFailure>> {
        let sql = "SELECT entry, cause, detail, superseded FROM failures WHERE transfer = $1 AND entry >= $2
                   ORDER BY entry LIMIT $3";
        let rows: Vec<(i64, String, String, bool)> = sqlx::query_as(sql)
            .bind(&id.0[..])
            .bind(big(from))
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await?;
        Ok(rows
            .into_iter()
            .map(|(entry, cause, detail, superseded)| StoredFailure {
                entry: EntryIndex(entry as u32),
                cause: FailureCause::named(&cause).unwrap_or(FailureCause::Unreadable),
                detail,
                superseded,
            })
            .collect())
    }

    /// Bytes of all their details.
    pub async fn detail_bytes(&self, id: TransferId) -> sqlx::Result<usize> {
        let sql =
            "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(detail)), 0) AS BIGINT) FROM failures WHERE transfer = $1";
        let (bytes,): (i64,) = sqlx::query_as(sql).bind(&id.0[..]).fetch_one(&self.read).await?;
        Ok(count(bytes) as usize)
    }

    /// The indices of all failed entries, in order, and whether each is superseded.
    pub async fn failed_entries(&self, id: TransferId) -> sqlx::Result<Vec<(EntryIndex, bool)>> {
        let sql = "SELECT entry, superseded FROM failures WHERE transfer = $1 ORDER BY entry";
        let rows: Vec<(i64, bool)> = sqlx::query_as(sql).bind(&id.0[..]).fetch_all(&self.read).await?;
        Ok(rows.into_iter().map(|(entry, superseded)| (EntryIndex(entry as u32), superseded)).collect())
    }
}

/// Bytes of their details: these count against quotas as the manifest does.
pub(crate) fn detail_bytes(failures: &[StoredFailure]) -> usize {
    failures.iter().map(|failure| failure.detail.len()).sum()
}

/// [`Database::fail_entries`], inside a transaction.
pub(super) async fn fail(
    tx: &mut sqlx::Transaction<'_, Db>,
    id: TransferId,
    failures: &[StoredFailure],
) -> sqlx::Result<()> {
    for failure in failures {
        sqlx::query(
            "INSERT INTO failures (transfer, entry, cause, detail) VALUES ($1, $2, $3, $4)
             ON CONFLICT (transfer, entry) DO NOTHING",
        )
        .bind(&id.0[..])
        .bind(i64::from(failure.entry.0))
        .bind(failure.cause.name())
        .bind(&failure.detail)
        .execute(&mut **tx)
        .await?;
    }
    let sql = "UPDATE transfers SET failed = failed + $1, manifest_bytes = manifest_bytes + $2 WHERE id = $3";
    sqlx::query(sql)
        .bind(failures.len() as i64)
        .bind(big(detail_bytes(failures) as u64))
        .bind(&id.0[..])
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Marks failures superseded, inside a transaction.
pub(super) async fn supersede(
    tx: &mut sqlx::Transaction<'_, Db>,
    id: TransferId,
    entries: &[EntryIndex],
) -> sqlx::Result<()> {
    for entry in entries {
        sqlx::query("UPDATE failures SET superseded = TRUE WHERE transfer = $1 AND entry = $2")
            .bind(&id.0[..])
            .bind(i64::from(entry.0))
            .execute(&mut **tx)
            .await?;
    }
    if !entries.is_empty() {
        sqlx::query("UPDATE transfers SET failed = failed - $1 WHERE id = $2")
            .bind(entries.len() as i64)
            .bind(&id.0[..])
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
