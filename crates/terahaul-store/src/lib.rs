//! Where a depot's bytes live, and the shell round a receiver.
//!
//! A transfer in a depot is one flat object, its address space: [`Store`] makes, publishes and removes such objects,
//! [`FlatTransfer`] reads and writes one. No name from the network ever reaches the store: names are in the
//! database. [`BlockSource`] and [`BlockSink`] are what the engine reads from and writes to, a store's transfer or a
//! user's folder alike; [`Inbound`] verifies blocks, groups syncs and records what is durable in a [`Ledger`].

mod arrival;
mod blocks;
mod directory;
mod fault;
mod flat_blocks;
mod folders;
mod free_space;
mod generation;
mod guess;
mod inbound;
mod ledger;
mod limits;
mod making;
mod memory;
mod nowhere;
mod os_folders;
mod sparse;
mod store;
mod sync_thread;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(any(test, feature = "conformance"))]
pub mod power_cut;

pub use arrival::Arrival;
pub use blocks::{BasisError, BlockSink, BlockSource, BlockWriter, EntryFailure, PIECE, SinkError, piece_at};
pub use directory::DirectoryStore;
pub use fault::{is_full, is_no_place};
pub use flat_blocks::{FlatSink, FlatSource, Recorded};
pub use folders::{FlatFile, Folders};
pub use free_space::free_space;
pub use generation::Generation;
pub use guess::{Guess, OnGuess};
pub use inbound::{Inbound, InboundError, OnDurable, OnLost, SyncFailure};
pub use ledger::{Ledger, LedgerError, MemoryLedger};
pub use limits::{remedy_of_too_many_files, said_of_no_thread};
pub use making::{make_private_folders, unless_there};
pub use memory::MemoryStore;
pub use nowhere::Nowhere;
pub use os_folders::OsFolders;
pub use store::{FlatTransfer, Store, StoreError, StorePlace};
