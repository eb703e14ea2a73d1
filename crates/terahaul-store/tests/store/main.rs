//! What others rely on in a store and in what arrives.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod inbound;
mod power_cut;
mod rig;
mod stores;
