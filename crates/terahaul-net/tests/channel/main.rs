//! Both ends of a data channel, in memory.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod failing;
mod pieces;
mod rig;
mod sealed_channel;
