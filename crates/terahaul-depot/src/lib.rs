//! The depot: a running `terahaul serve`.
//!
//! [`Depot`] owns the database, the store and the live transfers. Two front ends share it: the HTTP API with the
//! page ([`Depot::http_router`]) and native sessions. Both authenticate the same tokens, fill transfers through the
//! same [`Live`], and read them through the same [`Published`].

mod api;
mod auth;
mod blocking;
mod clock_watch;
mod config;
mod data_lock;
mod data_watch;
mod db;
mod depot;
mod error;
mod error_code;
#[cfg(test)]
mod fixture;
mod keys;
#[cfg(test)]
mod logged;
mod native;
mod places;
mod private;
mod server;
mod transfer;
mod zip;

pub use api::Connection;
pub use auth::{Caller, CreatedToken, Identity, NewToken, Scope, Scopes, TokenId, TokenInfo};
pub use config::{Clock, DepotConfig, Limits};
pub use db::TransferState;
pub use depot::Depot;
pub use error::DepotError;
pub use error_code::ApiCode;
pub use server::{Bound, ServeError, Server};
pub use transfer::{
    Appended, Before, CreateTransfer, Created, EntryRecord, EntryState, Extents, Failure, Finished, Live,
    ManifestBatch, ManifestReader, Page, Placed, Published, TransferInfo,
};
