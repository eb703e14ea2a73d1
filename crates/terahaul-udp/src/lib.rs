//! A session over UDP data channels. Pure: time, keys and identifiers are arguments.

mod ranges;
mod replay;
mod seal;
mod time;

pub use ranges::Ranges;
pub use replay::ReplayWindow;
pub use seal::{Discard, Gate, OVERHEAD, Open, Opened, Seal, seal_all};
pub use time::Time;
