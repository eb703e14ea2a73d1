//! What the clock has shown, from one start of the depot to the next.

use sqlx::{FromRow, Row as _};

use super::{Database, Db, Row};
use crate::clock_watch::Watched;

impl FromRow<'_, Row> for Watched {
    fn from_row(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            boot: row.try_get("boot")?,
            started: row.try_get("started")?,
            ahead: row.try_get("ahead")?,
        })
    }
}

impl Database {
    /// What was kept last.
    pub async fn watched_clock(&self) -> sqlx::Result<Option<Watched>> {
        sqlx::query_as::<Db, Watched>("SELECT boot, started, ahead FROM clock")
            .fetch_optional(&self.read)
            .await
    }

    /// Keeps what the clock has shown so far.
    pub async fn keep_clock(&self, watched: &Watched) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        keep(&mut tx, watched).await?;
        tx.commit().await
    }
}

/// The same as part of a transaction.
pub(super) async fn keep(tx: &mut sqlx::Transaction<'_, Db>, watched: &Watched) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM clock").execute(&mut **tx).await?;
    sqlx::query("INSERT INTO clock (boot, started, ahead) VALUES ($1, $2, $3)")
        .bind(&watched.boot)
        .bind(watched.started)
        .bind(watched.ahead)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
