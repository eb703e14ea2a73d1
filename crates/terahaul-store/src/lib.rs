//! Where a depot's bytes live, and the shell round a receiver.
//!
//! A transfer in a depot is one flat object, its address space: [`Store`] makes, publishes and removes such objects,
//! [`FlatTransfer`] reads and writes one. No name from the network ever reaches the store: names are in the
//! database. [`BlockSource`] and [`BlockSink`] are what the engine reads from and writes to, a store's transfer or a
//! user's folder alike; [`Inbound`] verifies blocks, groups syncs and records what is durable in a [`Ledger`].

mod blocks;
mod flat_blocks;
mod inbound;
mod ledger;
mod store;

pub use blocks::{BlockSink, BlockSource, BlockWriter, EntryFailure, SinkError};
pub use flat_blocks::{FlatSink, FlatSource, KnownValue};
pub use inbound::{Arrival, Inbound, InboundError, OnDurable};
pub use ledger::{Ledger, LedgerError, MemoryLedger};
pub use store::{FlatTransfer, Store, StoreError, StorePlace};
