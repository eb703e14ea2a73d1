//! What is moved: a file, a source tree, a packed tree, a tree of which a little changed, or many operations on small files.
//!
//! [`WorkSpec`] is what was asked for, [`Inputs`] the files that were made for it, and [`Content`] what must arrive.

mod content;
mod copied;
mod error;
mod held;
mod inputs;
mod linux_source;
mod spec;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use content::{Content, Difference};
pub use error::WorkError;
pub use inputs::Inputs;
pub use linux_source::unpacked_source;
pub use spec::{Direction, Kind, TreeOrigin, WorkSpec};

pub(crate) use held::HeldFolder;
pub(crate) use inputs::{listing, remove_all};

/// Fails once the user wants to stop, between two pieces of what may take long.
pub(crate) fn heed(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}
