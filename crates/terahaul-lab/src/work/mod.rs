//! What is moved: a file, a source tree, a packed tree, a tree of which a little changed, or many operations on small files.
//!
//! [`WorkSpec`] is what was asked for, [`Inputs`] the files that were made for it, and [`Content`] what must arrive.

mod content;
mod error;
mod inputs;
mod linux_source;
mod spec;

pub use content::{Content, Difference};
pub use error::WorkError;
pub use inputs::Inputs;
pub use linux_source::unpacked_source;
pub use spec::{Direction, Kind, TreeOrigin, WorkSpec};

pub(crate) use inputs::remove_all;
