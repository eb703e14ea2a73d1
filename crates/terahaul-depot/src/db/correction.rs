//! What was made, extended or finished while the clock was behind.

use super::{Database, clock};
use crate::clock_watch::{Correction, Watched};
use crate::config::DAY;

impl Database {
    /// Moves when transfers and tokens were made and finished and when they expire, where that is told by the wrong time; returns how many
    /// had such times. Which moment a transfer's days are counted from is told by when it expires: one that was made before the depot
    /// started may have been extended since. Where they are counted from another moment than its finish, that has them counted anew, as it
    /// would have by the right time. What has been kept anew since, by the right time, is right already. `watched` is kept with it, so that
    /// nothing is moved twice.
    pub async fn correct_times(
        &self,
        Correction { from, to, by }: Correction,
        watched: &Watched,
    ) -> sqlx::Result<u64> {
        let mut tx = self.write.begin().await?;
        // One statement, in which all conditions see what was before it.
        let transfers = sqlx::query(
            "UPDATE transfers SET
             expires = CASE
                 WHEN expires - kept_days * $4 BETWEEN $2 AND $3 THEN expires + $1
                 WHEN completed BETWEEN $2 AND $3 AND expires < completed + $1 + kept_days * $4
                     THEN completed + $1 + kept_days * $4
                 ELSE expires END,
             completed = CASE WHEN completed BETWEEN $2 AND $3 THEN completed + $1 ELSE completed END,
             created = CASE WHEN created BETWEEN $2 AND $3 THEN created + $1 ELSE created END
             WHERE expires > 0 AND (expires - kept_days * $4 BETWEEN $2 AND $3
                 OR completed BETWEEN $2 AND $3 OR created BETWEEN $2 AND $3)",
        )
        .bind(by)
        .bind(from)
        .bind(to)
        .bind(DAY)
        .execute(&mut *tx)
        .await?;
        let tokens = sqlx::query(
            "UPDATE tokens SET
             expires = CASE WHEN counted_from BETWEEN $2 AND $3 THEN expires + $1 ELSE expires END,
             counted_from = CASE WHEN counted_from BETWEEN $2 AND $3 THEN counted_from + $1 ELSE counted_from END,
             created = CASE WHEN created BETWEEN $2 AND $3 THEN created + $1 ELSE created END
             WHERE created BETWEEN $2 AND $3 OR counted_from BETWEEN $2 AND $3",
        )
        .bind(by)
        .bind(from)
        .bind(to)
        .execute(&mut *tx)
        .await?;
        clock::keep(&mut tx, watched).await?;
        tx.commit().await?;
        Ok(transfers.rows_affected() + tokens.rows_affected())
    }
}
