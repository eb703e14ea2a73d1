//! What only SQLite has: the connection and its settings.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::DepotError;

/// The database in use.
pub(super) type Db = sqlx::Sqlite;
/// Its connections.
pub(super) type Pool = sqlx::Pool<Db>;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// The depot's database.
#[derive(Clone)]
pub(crate) struct Database {
    /// For statements that change nothing.
    pub(super) read: Pool,
    /// SQLite has one writer: a single connection queues writes in order instead of failing them as busy.
    pub(super) write: Pool,
}

impl Database {
    /// Opens the database file, or makes it, and brings its tables up to date.
    pub async fn open(file: &Path) -> Result<Self, DepotError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // In WAL mode, NORMAL may lose the last commits in a power cut; a durable acknowledgement must not be.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(30))
            .pragma("cache_size", "-4096")
            .pragma("journal_size_limit", "67108864");
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options.clone())
            .await?;
        MIGRATIONS.run(&write).await.map_err(|error| sqlx::Error::Migrate(Box::new(error)))?;
        let read = SqlitePoolOptions::new()
            .max_connections(4)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options.read_only(true))
            .await?;
        Ok(Self { read, write })
    }

    /// Whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.write.is_closed()
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
