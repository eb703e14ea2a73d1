//! UDP data channels: drives `terahaul-udp`'s sessions over sockets.
//!
//! A client offers UDP in its first message, the server answers in its own ([`Terms`]), and keys come from the control
//! channel's TLS session ([`Secret`]). A client that sends over a long path does not wait for the answer, so that the path is measured
//! meanwhile ([`expected`]). Each end runs as an [`exchange`] with its threads: the pump, an intake a socket,
//! and those that read or write blocks. At a server all sessions share one [`Port`], and the memory for blocks ([`pool`]).

mod content;
mod exchange;
mod group;
mod keys;
mod pool;
mod port;
mod received;
mod receiving;
mod repairing;
mod running;
mod sending;
mod socket;
mod terms;

pub(crate) use group::intakes;
pub use keys::Secret;
pub(crate) use port::Place;
pub use port::Port;
pub(crate) use receiving::Told;
pub(crate) use running::{Line, Running};
pub(crate) use sending::Cargoes;
pub use terms::Terms;
pub(crate) use terms::{Wish, expected, offer, offer_again};

use terahaul_core::ChannelId;

/// Where only the other end's host is known.
pub(crate) const ANY_PORT: u16 = 9;
/// The number by which a session's UDP channels are told to close, all of them together.
pub(crate) const UDP: ChannelId = ChannelId(u32::MAX);
