//! What transfers have to survive: crashes, full disks, changing files, odd names and hostile peers, with real
//! processes. Short forms run with every test; the long ones are `#[ignore]`d and run by `make soak`.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod access;
mod changing;
mod crashes;
mod hostile;
mod names;
mod ordinary;
mod planted;
mod proxy;
mod random;
#[path = "../cli/rig.rs"]
#[allow(dead_code)]
mod rig;
mod space;
mod trial;
