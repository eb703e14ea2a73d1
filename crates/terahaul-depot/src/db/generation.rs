//! Which store the database goes with.

use terahaul_store::Generation;

use super::{Database, Db, big, count};

impl Database {
    /// The one that was kept last.
    pub async fn generation(&self) -> sqlx::Result<Option<Generation>> {
        let row: Option<(i64,)> =
            sqlx::query_as::<Db, _>("SELECT number FROM generation").fetch_optional(&self.read).await?;
        Ok(row.map(|(number,)| Generation(count(number))))
    }

    /// Keeps it.
    pub async fn keep_generation(&self, generation: Generation) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        sqlx::query("DELETE FROM generation").execute(&mut *tx).await?;
        sqlx::query("INSERT INTO generation (number) VALUES ($1)")
            .bind(big(generation.0))
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }
}
