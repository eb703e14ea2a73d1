//! What was made while the clock was behind.

use super::Database;
use crate::clock_watch::Correction;
use crate::config::DAY;

impl Database {
    /// Moves when transfers and tokens were made and when they expire, of those that were made by the wrong time; returns how many
    /// these are. What has been kept anew since, by the right time, is right already.
    pub async fn correct_times(&self, Correction { from, to, by }: Correction) -> sqlx::Result<u64> {
        let mut tx = self.write.begin().await?;
        let transfers = sqlx::query(
            "UPDATE transfers SET created = created + $1, expires = expires + $1,
             completed = CASE WHEN completed <= $3 THEN completed + $1 ELSE completed END
             WHERE created BETWEEN $2 AND $3 AND expires > 0 AND expires <= $3 + kept_days * $4",
        )
        .bind(by)
        .bind(from)
        .bind(to)
        .bind(DAY)
        .execute(&mut *tx)
        .await?;
        let tokens = sqlx::query(
            "UPDATE tokens SET created = created + $1, expires = expires + $1 WHERE created BETWEEN $2 AND $3",
        )
        .bind(by)
        .bind(from)
        .bind(to)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(transfers.rows_affected() + tokens.rows_affected())
    }
}
