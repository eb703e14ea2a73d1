//! What only SQLite has: the connection and its settings.

use std::fs::OpenOptions;
use std::future::{Future, ready};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::error::BoxDynError;
use sqlx::migrate::{MigrateError, Migration, MigrationSource, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};

use crate::DepotError;
use crate::private::keep_private;

/// The database in use.
pub(super) type Db = sqlx::Sqlite;
/// Its connections.
pub(super) type Pool = sqlx::Pool<Db>;

/// One row of an answer.
pub(super) type Row = sqlx::sqlite::SqliteRow;

/// `SQLITE_FULL`, which has no further kinds; `SQLITE_IOERR_WRITE`; and `SQLITE_IOERR_SHMSIZE` and `SQLITE_IOERR_SHMOPEN`, of the file beside
/// the log.
const LACKING_ROOM: [u32; 4] = [13, 778, 4874, 4618];
/// `SQLITE_IOERR_FSYNC`.
const UNSYNCED: u32 = 1034;

/// SQLite's own code, with its kind above the lowest byte.
fn code_of(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Whether room on the disk is what a statement lacked, as far as can be told: of a quota that is used up, SQLite says no more than
/// that it could not write.
pub(crate) fn lacks_room(error: &sqlx::Error) -> bool {
    code_of(error).is_some_and(|code| LACKING_ROOM.contains(&code))
}

/// The same, or that it could not be synced: so NFS says late that there is no room, and a disk that it has failed.
pub(crate) fn may_lack_room(error: &sqlx::Error) -> bool {
    lacks_room(error) || code_of(error) == Some(UNSYNCED)
}

/// Whether the file is no database, or not whole: `SQLITE_NOTADB`, or any kind of `SQLITE_CORRUPT`.
pub(crate) fn is_damaged(error: &sqlx::Error) -> bool {
    code_of(error).is_some_and(|code| matches!(code & 0xFF, 11 | 26))
}

/// Every change of the tables, the oldest first: what it does, and its statements. A released one never changes; the
/// database keeps their sums and refuses to be opened by a program that knows others.
const MIGRATIONS: [(&str, &str); 9] = [
    ("depot", include_str!("../../migrations/0001_depot.sql")),
    ("kept days", include_str!("../../migrations/0002_kept_days.sql")),
    ("block counts", include_str!("../../migrations/0003_block_counts.sql")),
    ("manifest bytes", include_str!("../../migrations/0004_manifest_bytes.sql")),
    ("transfer indices", include_str!("../../migrations/0005_transfer_indices.sql")),
    ("clock", include_str!("../../migrations/0006_clock.sql")),
    ("open transfers", include_str!("../../migrations/0007_open_transfers.sql")),
    ("sessions of tokens", include_str!("../../migrations/0008_sessions_of_tokens.sql")),
    ("generation", include_str!("../../migrations/0009_generation.sql")),
];

/// [`MIGRATIONS`], or the first of them, for sqlx. Its macros would do the same, and build a second SQLite for the compiler to load.
#[derive(Debug)]
struct Embedded(&'static [(&'static str, &'static str)]);

impl MigrationSource<'static> for Embedded {
    fn resolve(self) -> Pin<Box<dyn Future<Output = Result<Vec<Migration>, BoxDynError>> + Send>> {
        let migration = |(version, (what, sql)): (i64, &(&'static str, &'static str))| {
            Migration::new(version, (*what).into(), MigrationType::Simple, (*sql).into(), false)
        };
        Box::pin(ready(Ok((1..).zip(self.0).map(migration).collect())))
    }
}

/// A database that a later version has changed is as it should be, and no disk's fault.
fn migrating(error: MigrateError) -> DepotError {
    match error {
        MigrateError::VersionMissing(_) => DepotError::Newer,
        other => sqlx::Error::Migrate(Box::new(other)).into(),
    }
}

/// Whether a connection that was given back may be used again. Where SQLite ends a transaction by itself, as it does on a full disk, the
/// driver's ROLLBACK fails and its count of open transactions stays: all that came later would be within a savepoint that is never
/// released, and so seen by this connection alone and gone with it.
async fn is_idle(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    // Behind a ROLLBACK that is queued.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// That the file can be written to. Where opening it for that failed once, SQLite opens it to be read, and says so of each statement that would
/// write, for as long as the connection is kept.
async fn check_writable(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let mut begun = connection.begin().await?;
    // Beginning alone is let be. This is a value that nobody reads, and it stays as it is.
    sqlx::query("PRAGMA user_version = 1").execute(&mut *begun).await?;
    begun.rollback().await
}

/// Whether a file of the database could not be opened: `SQLITE_CANTOPEN`, or `SQLITE_READONLY` where it could be to be read.
pub(crate) fn is_unopened(error: &sqlx::Error) -> bool {
    code_of(error).is_some_and(|code| matches!(code & 0xFF, 8 | 14))
}

/// What SQLite calls a file beside the database.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The depot's database.
#[derive(Clone)]
pub(crate) struct Database {
    /// For statements that change nothing.
    pub(super) read: Pool,
    /// SQLite has one writer: a single connection queues writes in order instead of failing them as busy.
    pub(super) write: Pool,
}

impl Database {
    /// Whether a depot's database is in `file`. One without its tables is what a restore leaves that ran out of room, or a copy of a young
    /// one without the log that holds them. One beside which there is a log was not closed, or is a copy: then it is read through, as the log
    /// may be another's.
    pub async fn is_in(file: &Path) -> Result<bool, DepotError> {
        // SQLite is not asked about an empty one: it takes the log beside it for another's, and removes it.
        match file.metadata() {
            Ok(found) if found.len() > 0 => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DepotError::io(format!("opening {}", file.display()))(error));
            }
            _ => return Ok(false),
        }
        let options = SqliteConnectOptions::new().filename(file).read_only(true);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let table = sqlx::query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'transfers'");
        let found = table.fetch_optional(&mut connection).await?;
        let log = beside(file, "-wal");
        if found.is_some() && log.metadata().is_ok_and(|log| log.len() > 0) {
            let checked = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut connection).await;
            let said = match checked {
                Err(error) if is_damaged(&error) => error.to_string(),
                checked => checked?,
            };
            if said != "ok" {
                return Err(DepotError::DamagedDatabase { path: file.to_owned(), said });
            }
        }
        connection.close().await?;
        Ok(found.is_some())
    }

    /// Opens the database file, or makes it, and brings its tables up to date.
    pub async fn open(file: &Path) -> Result<Self, DepotError> {
        // Names of files are in it. SQLite would make it for everybody to read, and makes the log beside it as this is.
        for ending in ["", "-wal", "-shm"] {
            keep_private(&beside(file, ending));
        }
        let made = OpenOptions::new().mode(0o600).write(true).create(true).truncate(false).open(file);
        made.map_err(DepotError::io(format!("opening {}", file.display())))?;
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
        let mut first = SqliteConnection::connect_with(&options).await?;
        check_writable(&mut first).await?;
        first.close().await?;
        // Of the only connection.
        let is_read_only = Arc::new(AtomicBool::new(false));
        let connecting = Arc::clone(&is_read_only);
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(60))
            .after_connect(move |connection, _| {
                let is_read_only = Arc::clone(&connecting);
                Box::pin(async move {
                    // Whoever has it is told by what he would write.
                    is_read_only.store(check_writable(connection).await.is_err(), Ordering::Relaxed);
                    Ok(())
                })
            })
            .after_release(move |connection, _| {
                let is_kept = !is_read_only.load(Ordering::Relaxed);
                Box::pin(async move { Ok(is_kept && is_idle(connection).await?) })
            })
            .connect_with(options.clone())
            .await?;
        let migrator = Migrator::new(Embedded(&MIGRATIONS)).await.map_err(migrating)?;
        migrator.run(&write).await.map_err(migrating)?;
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

    /// While this is held, whatever writes waits.
    #[cfg(test)]
    pub async fn hold(&self) -> sqlx::Result<sqlx::pool::PoolConnection<Db>> {
        self.write.acquire().await
    }

    /// How a statement is going to find its rows, step by step.
    #[cfg(test)]
    pub async fn plan(&self, sql: &str) -> Vec<String> {
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(&sql).fetch_all(&self.read).await.unwrap();
        rows.into_iter().map(|(.., step)| step).collect()
    }

    /// An open transfer, made at second `number`; all of them have one owner, `t`.
    #[cfg(test)]
    pub async fn add_transfer(&self, number: u8) -> terahaul_core::TransferId {
        let id = terahaul_core::TransferId([number; 16]);
        sqlx::query(
            "INSERT INTO tokens (id, prefix, hash, label, scopes, created) VALUES ('t', x'00', x'00', 't', 0, 0)
             ON CONFLICT (id) DO NOTHING",
        )
        .execute(&self.write)
        .await
        .unwrap();
        let created = i64::from(number);
        let term = super::Term { days: 1, expires: i64::MAX };
        let new = super::NewTransfer { id, owner: "t", name: "t", created, term, resume_key: None };
        assert!(self.insert_transfer(&new, usize::MAX).await.unwrap());
        id
    }

    /// Blocks with proofs by chance, as pieces have them.
    #[cfg(test)]
    pub async fn add_blocks(&self, id: terahaul_core::TransferId, count: u32) {
        sqlx::query(
            "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $1)
             INSERT INTO blocks (transfer, block, proof) SELECT $2, n, randomblob(32) FROM numbers",
        )
        .bind(i64::from(count))
        .bind(&id.0[..])
        .execute(&self.write)
        .await
        .unwrap();
    }

    /// What a transfer's rows hold of its entries: names, hashes and checksums.
    #[cfg(test)]
    pub async fn content_bytes(&self, id: terahaul_core::TransferId) -> u64 {
        let sql = "SELECT (SELECT COALESCE(SUM(LENGTH(body) + COALESCE(LENGTH(hashes), 0)), 0) FROM batches WHERE transfer = $1)
                   + (SELECT COALESCE(SUM(LENGTH(proof)), 0) FROM blocks WHERE transfer = $1)
                   + (SELECT COALESCE(SUM(LENGTH(crcs)), 0) FROM checksums WHERE transfer = $1)";
        let (bytes,): (i64,) = sqlx::query_as(sql).bind(&id.0[..]).fetch_one(&self.read).await.unwrap();
        super::count(bytes)
    }

    /// Fails as a statement does on a disk without room.
    #[cfg(test)]
    pub async fn overfill(&self) -> sqlx::Result<()> {
        // No fewer pages than there are.
        sqlx::query("PRAGMA max_page_count = 1").execute(&self.write).await?;
        sqlx::query("CREATE TABLE more AS SELECT zeroblob(100000)").execute(&self.write).await.map(drop)
    }

    /// Whether removing a block's row fails.
    #[cfg(test)]
    pub async fn keep_rows_of_blocks(&self, keep: bool) {
        let sql = match keep {
            true => "CREATE TRIGGER kept BEFORE DELETE ON blocks BEGIN SELECT RAISE(ABORT, 'kept'); END",
            false => "DROP TRIGGER kept",
        };
        sqlx::query(sql).execute(&self.write).await.unwrap();
    }

    /// Whether what changes a transfer's state fails when it is committed, and no sooner.
    #[cfg(test)]
    pub async fn fail_commits(&self, fail: bool) {
        let sql = match fail {
            true => {
                "CREATE TABLE owing (id BLOB REFERENCES transfers (id) DEFERRABLE INITIALLY DEFERRED);
                 CREATE TRIGGER owed AFTER UPDATE OF state ON transfers BEGIN INSERT INTO owing VALUES (x'00'); END"
            }
            false => "DROP TRIGGER owed; DROP TABLE owing",
        };
        sqlx::raw_sql(sql).execute(&self.write).await.unwrap();
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;
    use crate::error_code::ApiCode;

    #[derive(Debug, thiserror::Error)]
    #[error("SQLite's {0}")]
    struct Failed(&'static str);

    impl DatabaseError for Failed {
        fn message(&self) -> &str {
            "it failed"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> BoxDynError {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    /// A user at the quota of their file system could not remove what filled it, and was told to check the disk.
    #[test]
    fn a_quota_that_is_used_up_is_a_lack_of_room() {
        // The last is SQLITE_IOERR_READ.
        for (code, lacking) in [("13", true), ("778", true), ("4874", true), ("266", false)] {
            let error = sqlx::Error::Database(Box::new(Failed(code)));
            assert_eq!(lacks_room(&error), lacking, "{code}");
            let error = DepotError::from(error);
            let said = (error.code(), error.retry(), error.to_string().contains("raise the quota"));
            let expected =
                if lacking { (ApiCode::DiskFull, false, true) } else { (ApiCode::Internal, true, false) };
            assert_eq!(said, expected, "{code}");
        }
        assert!(!lacks_room(&sqlx::Error::PoolClosed));
    }

    #[tokio::test]
    async fn a_database_of_a_later_version_is_said_to_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("depot.db");
        let db = Database::open(&file).await.unwrap();
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (99, 'later', TRUE, x'00', 0)";
        sqlx::query(later).execute(&db.write).await.unwrap();
        db.close().await;
        assert!(matches!(Database::open(&file).await, Err(DepotError::Newer)));
    }

    /// It was taken into use, and its damage called the disk's.
    #[tokio::test]
    async fn a_copy_whose_parts_are_of_different_moments_is_refused_by_what_helps() {
        let folder = tempfile::tempdir().unwrap();
        let [file, older] = ["depot.db", "older.db"].map(|name| folder.path().join(name));
        let db = Database::open(&file).await.unwrap();
        db.close().await;
        std::fs::copy(&file, &older).unwrap();
        for number in 1..9 {
            let db = Database::open(&file).await.unwrap();
            let id = db.add_transfer(number).await;
            db.add_blocks(id, 500).await;
            if number == 8 {
                std::fs::copy(beside(&file, "-wal"), beside(&older, "-wal")).unwrap();
            }
            assert!(Database::is_in(&file).await.unwrap());
            db.close().await;
        }
        let refused = Database::is_in(&older).await.unwrap_err();
        assert!(matches!(&refused, DepotError::DamagedDatabase { path, .. } if *path == older), "{refused}");
        assert!(refused.to_string().contains("depot.db-wal"), "{refused}");
        assert_eq!(refused.code(), ApiCode::Damaged);
        for (code, damaged) in [("11", true), ("779", true), ("26", true), ("266", false)] {
            let error = sqlx::Error::Database(Box::new(Failed(code)));
            assert_eq!(is_damaged(&error), damaged, "{code}");
            let said = DepotError::from(error).to_string();
            assert_eq!(said.contains("depot.db-wal"), damaged, "{said}");
        }
    }

    /// The database of a depot that knew the first so many changes.
    async fn older(file: &Path, version: usize) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        let migrator = Migrator::new(Embedded(&MIGRATIONS[..version])).await.unwrap();
        migrator.run(&mut db).await.unwrap();
        sqlx::raw_sql(
            "INSERT INTO tokens (id, prefix, hash, label, scopes, created) VALUES ('t', x'00', x'00', 't', 0, 0)",
        )
        .execute(&mut db)
        .await
        .unwrap();
        db
    }

    #[tokio::test]
    async fn what_an_older_depots_manifests_take_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("depot.db");
        let mut old = older(&file, 3).await;
        sqlx::raw_sql(
            "INSERT INTO transfers (id, owner, name, state, created, expires, bytes, failed_bytes) VALUES
                 (x'01', 't', 'a', 'complete', 1, 9, 10, 1), (x'02', 't', 'empty', 'open', 1, 9, 0, 0);
             INSERT INTO batches (transfer, first_entry, entries, seal, body) VALUES
                 (x'01', 0, 2, FALSE, x'0102030405'), (x'01', 2, 1, TRUE, x'00');",
        )
        .execute(&mut old)
        .await
        .unwrap();
        old.close().await.unwrap();
        let db = Database::open(&file).await.unwrap();
        for owner in [None, Some("t")] {
            let declared = db.declared(owner).await.unwrap();
            assert_eq!((declared.bytes, declared.manifest_bytes), (9, 6 + 3 * 32));
        }
        db.close().await;
    }

    #[tokio::test]
    async fn how_many_blocks_an_older_depots_transfers_have_is_counted_where_all_of_them_are_here() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("depot.db");
        let mut old = older(&file, 2).await;
        sqlx::raw_sql(
            "INSERT INTO transfers (id, owner, name, state, created, expires, blocks) VALUES
                 (x'01', 't', 'whole', 'complete', 1, 9, 3), (x'02', 't', 'without bytes', 'complete', 1, 9, 1),
                 (x'03', 't', 'its last blocks are void', 'partial', 1, 9, 5), (x'04', 't', 'open', 'open', 1, 9, 7);
             INSERT INTO blocks (transfer, block, proof) VALUES
                 (x'01', 0, x''), (x'01', 1, x''), (x'03', 0, x''), (x'04', 0, x'');
             INSERT INTO failures (transfer, entry, cause, detail) VALUES (x'03', 1, 'changed', '');",
        )
        .execute(&mut old)
        .await
        .unwrap();
        old.close().await.unwrap();
        let db = Database::open(&file).await.unwrap();
        let blocks: Vec<(i64,)> =
            sqlx::query_as("SELECT blocks FROM transfers ORDER BY id").fetch_all(&db.read).await.unwrap();
        assert_eq!(blocks, [(2,), (0,), (5,), (7,)]);
        db.close().await;
    }

    /// A depot whose disk had been full for two seconds took everything from then on for durable, and committed none of it.
    #[tokio::test]
    async fn what_is_written_after_sqlite_has_ended_a_transaction_by_itself_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("depot.db")).await.unwrap();
        sqlx::query("CREATE TABLE kept (number BIGINT)").execute(&db.write).await.unwrap();
        let insert = "INSERT INTO kept VALUES (1)";
        let mut tx = db.write.begin().await.unwrap();
        sqlx::query(insert).execute(&mut *tx).await.unwrap();
        // As it does where COMMIT finds no room.
        sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.unwrap();
        assert!(tx.commit().await.is_err());
        // The next one fails, too.
        let mut tx = db.write.begin().await.unwrap();
        sqlx::query(insert).execute(&mut *tx).await.unwrap();
        tx.rollback().await.unwrap();
        let mut tx = db.write.begin().await.unwrap();
        sqlx::query(insert).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        let (kept,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM kept").fetch_one(&db.read).await.unwrap();
        assert_eq!(kept, 1, "what another connection sees");
        db.close().await;
    }
}
