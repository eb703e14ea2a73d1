//! Data channels: blocking threads that carry blocks, sealed and opened in place.

mod based;
mod bases;
mod cargo;
mod connect;
mod cut;
mod gone;
mod guesses;
mod outbound;
mod packing;
mod planning;
mod receiving;
mod record;
mod sealed_reader;
mod sealed_writer;
mod sending;
mod unpacking;
mod watched;

pub(crate) use cargo::{Loaded, Loader, NotLoaded, unload};
pub use connect::{DataChannel, Unbound, connect_data};
pub(crate) use cut::cut;
#[cfg(all(test, target_os = "linux"))]
pub(crate) use cut::tests;
pub(crate) use gone::{is_gone, keep_watch, leads_nowhere};
pub(crate) use outbound::Answer;
pub use outbound::{Next, Outbound, OutboundEvent, Placement};
pub(crate) use packing::is_full;
pub use packing::{SharedCompression, shared_compression};
pub(crate) use receiving::ELSEWHERE;
pub use receiving::{OnBytes, OnRefused, ReceiveError, inbound_wire_error, receive_blocks};
pub use sealed_reader::SealedReader;
pub use sealed_writer::SealedWriter;
pub use sending::{Sender, SharedPace, send_blocks};
pub(crate) use unpacking::Unpacker;
