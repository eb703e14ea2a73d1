//! The units of a transfer, each its own type: an address is not a count, and a count is not a rate.

mod byte_count;
mod position;
mod quantity;
mod rate;
mod span;
mod transfer_id;

pub use byte_count::{ByteCount, ByteCountError};
pub use position::{Address, BLOCK_SIZE, BlockNumber, EntryIndex};
pub use rate::{Rate, RateError};
pub use span::Span;
pub use transfer_id::TransferId;
