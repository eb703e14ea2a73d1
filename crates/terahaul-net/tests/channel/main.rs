//! Both ends of a data channel, most of them in memory.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod altered;
mod failing;
mod pieces;
mod rig;
mod sealed_channel;
