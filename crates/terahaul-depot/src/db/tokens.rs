//! Tokens: only their hashes are kept.

use sqlx::{FromRow, Row as _};

use super::{Database, Db, Row, big, count};

/// A stored token.
#[derive(Clone, Debug)]
pub(crate) struct TokenRow {
    pub id: String,
    pub hash: Vec<u8>,
    pub label: String,
    pub scopes: i64,
    quota: Option<i64>,
    pub generation: Option<i64>,
    pub created: i64,
    pub last_used: Option<i64>,
    pub expires: Option<i64>,
    pub revoked: Option<i64>,
}

impl FromRow<'_, Row> for TokenRow {
    fn from_row(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            hash: row.try_get("hash")?,
            label: row.try_get("label")?,
            scopes: row.try_get("scopes")?,
            quota: row.try_get("quota")?,
            generation: row.try_get("generation")?,
            created: row.try_get("created")?,
            last_used: row.try_get("last_used")?,
            expires: row.try_get("expires")?,
            revoked: row.try_get("revoked")?,
        })
    }
}

impl TokenRow {
    /// A token that is about to be stored.
    pub fn new(id: String, hash: [u8; 32], label: String, scopes: i64, created: i64) -> Self {
        let (quota, generation, last_used, expires, revoked) = (None, None, None, None, None);
        Self {
            id,
            hash: hash.to_vec(),
            label,
            scopes,
            quota,
            generation,
            created,
            last_used,
            expires,
            revoked,
        }
    }

    /// Most bytes that the token's transfers may declare together.
    pub fn quota(&self) -> Option<u64> {
        self.quota.map(count)
    }

    /// Sets what [`TokenRow::quota`] returns.
    pub fn set_quota(&mut self, quota: Option<u64>) {
        self.quota = quota.map(big);
    }
}

const COLUMNS: &str = "id, hash, label, scopes, quota, generation, created, last_used, expires, revoked";

impl Database {
    pub async fn insert_token(&self, token: &TokenRow) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO tokens (id, prefix, hash, label, scopes, quota, generation, created, expires, counted_from)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(&token.id)
        .bind(&token.hash[..8])
        .bind(&token.hash)
        .bind(&token.label)
        .bind(token.scopes)
        .bind(token.quota)
        .bind(token.generation)
        .bind(token.created)
        .bind(token.expires)
        .bind(token.expires.map(|_| token.created))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Tokens whose hash starts so; the caller compares the whole.
    pub async fn tokens_by_prefix(&self, prefix: &[u8]) -> sqlx::Result<Vec<TokenRow>> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE prefix = $1");
        sqlx::query_as::<Db, TokenRow>(&sql).bind(prefix).fetch_all(&self.read).await
    }

    pub async fn token(&self, id: &str) -> sqlx::Result<Option<TokenRow>> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE id = $1");
        sqlx::query_as::<Db, TokenRow>(&sql).bind(id).fetch_optional(&self.read).await
    }

    /// All tokens that were not revoked, oldest first.
    pub async fn tokens(&self) -> sqlx::Result<Vec<TokenRow>> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE revoked IS NULL ORDER BY created, id");
        sqlx::query_as::<Db, TokenRow>(&sql).fetch_all(&self.read).await
    }

    /// The owner's tokens, newest first, revoked ones included.
    pub async fn owner_tokens(&self) -> sqlx::Result<Vec<TokenRow>> {
        let sql =
            format!("SELECT {COLUMNS} FROM tokens WHERE generation IS NOT NULL ORDER BY generation DESC");
        sqlx::query_as::<Db, TokenRow>(&sql).fetch_all(&self.read).await
    }

    /// Revokes a token and ends its sessions; `false` when there is none to revoke.
    pub async fn revoke_token(&self, id: &str, now: i64) -> sqlx::Result<bool> {
        let mut tx = self.write.begin().await?;
        let done = sqlx::query("UPDATE tokens SET revoked = $1 WHERE id = $2 AND revoked IS NULL")
            .bind(now)
            .bind(id)
            .execute(&mut *tx)
            .await?;
        sqlx::query("DELETE FROM sessions WHERE token = $1").bind(id).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Moves a token's end, which is counted from `now`; `false` when there is none that was not revoked. The owner's own has no end.
    pub async fn extend_token(&self, id: &str, now: i64, expires: i64) -> sqlx::Result<bool> {
        let sql = "UPDATE tokens SET expires = $1, counted_from = $2
             WHERE id = $3 AND revoked IS NULL AND generation IS NULL";
        let done = sqlx::query(sql).bind(expires).bind(now).bind(id).execute(&self.write).await?;
        Ok(done.rows_affected() > 0)
    }

    /// Notes when a token was last used, unless something else is being written: that is not waited for.
    pub async fn touch_token(&self, id: &str, now: i64) -> sqlx::Result<()> {
        let Some(mut writer) = self.write.try_acquire() else { return Ok(()) };
        sqlx::query("UPDATE tokens SET last_used = $1 WHERE id = $2")
            .bind(now)
            .bind(id)
            .execute(&mut *writer)
            .await?;
        Ok(())
    }
}
