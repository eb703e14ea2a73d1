//! Browser sessions: each stands for a token.

use sqlx::{FromRow, Row as _};

use super::{Database, Db, Row};

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

impl Database {
    pub async fn insert_session(&self, SessionRow { hash, token, expires }: &SessionRow) -> sqlx::Result<()> {
        sqlx::query("INSERT INTO sessions (hash, prefix, token, expires) VALUES ($1, $2, $3, $4)")
            .bind(hash)
            .bind(&hash[..8])
            .bind(token)
            .bind(expires)
            .execute(&self.write)
            .await?;
        Ok(())
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
