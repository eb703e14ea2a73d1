//! The program as users meet it: real processes, real files, a real port.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod completing;
mod exit_codes;
mod gone;
mod interrupts;
mod lab;
mod lab_alone;
mod login;
mod long_path;
mod manage;
mod names;
mod network_change;
mod output;
mod package;
mod probe;
mod receive;
mod relay;
// The trials use it too; each needs a part.
#[allow(dead_code)]
mod rig;
mod send;
mod serve;
mod slow_disk;
mod tools;
mod udp;
mod udp_paths;
mod udp_survival;
mod verify;
