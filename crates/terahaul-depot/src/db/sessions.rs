//! Browser sessions: each stands for a token.

use sqlx::{FromRow, Row as _};

use super::{Database, Db, Row, big};

/// A stored session.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub hash: Vec<u8>,
    pub token: String,
    pub expires: i64,
}

impl FromRow<'_, Row> for SessionRow {
    fn from_row(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            hash: row.try_get("hash")?,
            token: row.try_get("token")?,
            expires: row.try_get("expires")?,
        })
    }
}

/// All of a token's sessions but those that end last.
const OLDEST_OF_TOKEN: &str = "DELETE FROM sessions WHERE token = $1
    AND hash NOT IN (SELECT hash FROM sessions WHERE token = $1 ORDER BY expires DESC LIMIT $2)";

impl Database {
    /// Its token has `most` sessions then, of which the newest are kept.
    pub async fn insert_session(
        &self,
        SessionRow { hash, token, expires }: &SessionRow,
        most: usize,
    ) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        let others = big(most.saturating_sub(1) as u64);
        sqlx::query(OLDEST_OF_TOKEN).bind(token).bind(others).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO sessions (hash, prefix, token, expires) VALUES ($1, $2, $3, $4)")
            .bind(hash)
            .bind(&hash[..8])
            .bind(token)
            .bind(expires)
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }

    /// Sessions whose hash starts so; the caller compares the whole.
    pub async fn sessions_by_prefix(&self, prefix: &[u8]) -> sqlx::Result<Vec<SessionRow>> {
        sqlx::query_as::<Db, SessionRow>("SELECT hash, token, expires FROM sessions WHERE prefix = $1")
            .bind(prefix)
            .fetch_all(&self.read)
            .await
    }

    pub async fn delete_session(&self, hash: &[u8]) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM sessions WHERE hash = $1").bind(hash).execute(&self.write).await?;
        Ok(())
    }

    pub async fn delete_expired_sessions(&self, now: i64) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM sessions WHERE expires <= $1").bind(now).execute(&self.write).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_sessions_of_a_token_are_found_without_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        let plan = db.plan(OLDEST_OF_TOKEN).await;
        let by_token = plan.iter().filter(|step| step.contains("sessions_by_token (token=?)")).count();
        assert_eq!(by_token, 2, "{plan:?}");
        assert!(
            !plan.iter().any(|step| step.contains("SCAN sessions") || step.contains("TEMP B-TREE")),
            "{plan:?}"
        );
    }
}
