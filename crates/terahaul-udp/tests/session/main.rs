//! Whole sessions in a simulated network.
#![allow(clippy::unwrap_used)]
// A test that cannot go on says so by panicking.

mod adverse;
mod changing;
mod ecn;
mod fairness;
mod figures;
mod multipath;
mod recovery;
mod sim;
