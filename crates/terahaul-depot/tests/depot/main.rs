//! A depot as its clients see it: over HTTP through its real router, and as native sessions use it.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod access;
mod clock;
mod damage;
mod downloads;
mod full_disk;
mod limits;
mod million;
mod refusals;
mod reopening;
mod rig;
mod round_trip;
mod server;
mod transfers;
