//! `terahaul cp` against a real sshd on loopback.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

#[path = "../cli/rig.rs"]
#[allow(dead_code)]
mod rig;

mod alike;
mod changing;
mod deep;
mod deleting;
mod delta;
mod false_far;
mod hostile;
mod installing;
mod lists;
mod local;
mod many;
mod names;
mod partial;
mod permissions;
mod resume;
mod rights;
mod rsync;
mod space;
mod sshd;
mod starting;
mod terminal;
mod trees;
mod udp;
mod ways;
mod words;
