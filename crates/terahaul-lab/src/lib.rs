//! The lab: emulated network paths, and what is measured on them.
//!
//! [`Path`] is a path: two network namespaces, a TUN device in each, and between them a link with a rate, a queue, a
//! delay and seeded loss. [`Namespace`] is one end of it, in which programs run. What the link does to packets is
//! pure ([`path::Link`]): time and seeds are arguments. The rest is its shell.

pub mod ciphers;
pub mod compare;
pub mod error;
mod figures;
pub mod limits;
pub mod machine;
pub mod namespace;
pub mod path;
pub mod peer;
pub mod probe;
pub mod report;
pub mod stolen;
pub mod terabyte;
pub mod warm_memory;
pub mod work;

pub use error::LabError;
pub use namespace::Namespace;
pub use path::{Path, PathCounters, PathSpec};
pub use stolen::ProcessorTime;
pub use warm_memory::WarmMemory;
