//! The database: accounts, transfers, manifests and the record of what is durable.
//!
//! All SQL here is portable to PostgreSQL; what only SQLite has is in [`sqlite`]. Numbers of bytes and entries are
//! `BIGINT` and stay far below 2⁶³ (the address space ends at 16 PiB).

mod batches;
mod blocks;
mod clock;
mod correction;
mod failures;
mod generation;
mod sessions;
mod sqlite;
mod tokens;
mod transfers;

pub(crate) use batches::{EncodedBatch, StoredBatch};
pub(crate) use failures::{StoredFailure, detail_bytes};
pub(crate) use sessions::SessionRow;
pub(crate) use sqlite::{Database, is_damaged, is_unopened, lacks_room, may_lack_room};
pub(crate) use tokens::TokenRow;
pub use transfers::TransferState;
pub(crate) use transfers::{
    Change, Completion, Declared, Growth, NewTransfer, REMOVED, Reopening, Standing, TRANSFER_BYTES, Term,
    TransferRow,
};

use sqlite::{Db, Pool, Row};

/// A `u64` as the database keeps it.
fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads back what [`big`] wrote.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
