//! `terahaul cp`: copies between two hosts that have ssh and nothing else set up, and on one host.
//!
//! ssh starts the far side, carries the greeting, and by its end tells the far side to end. The bytes go over the
//! native protocol straight to the far side's port, or, where that is blocked, over the same protocol through ssh.

mod alike;
mod bases;
mod copy_key;
mod error;
mod failures;
pub mod far;
pub mod greeting;
mod install;
mod job;
mod landing;
mod leash;
mod local;
mod naming;
mod near;
mod notes;
mod offer;
pub mod operand;
mod overheard;
mod pull;
mod push;
mod report;
pub mod rules;
mod skipped;
pub mod ssh;
mod summary;
mod through_ssh;
pub mod top;

pub use error::{CopyError, CopyErrorKind};
pub use failures::{Failure, Failures};
pub use job::Job;
pub use local::copy_local;
pub use near::{FarSide, Way};
pub use notes::Item;
pub use pull::pull;
pub use push::push;
pub use report::{Looks, Report};
pub use summary::{Copied, Landed};
