//! The native protocol `terahaul/1`: bytes in, typed values out.
//!
//! `docs/protocol.md` is normative; this crate is its grammar and its limits. It does no I/O and never allocates
//! for a length it has not checked. Control messages are CBOR (RFC 8949), each behind a four-byte length; data
//! channels over TCP carry fixed headers, those over UDP [`packet`]s.

mod batch;
mod delta;
mod error;
mod extras;
mod frame;
mod framing;
mod message;
pub mod packet;
mod piece;
mod runs;

pub use batch::{Batch, BatchBuilder, MAX_BATCH_ENTRIES, decode_entries, encode_entries};
pub use delta::{Advice, GUESS_LEN, Guessed, MAX_ADVICE, MAX_SUMS, Sums};
pub use error::{DecodeError, ErrorCode, WireError};
pub use frame::{FRAME_HEADER_LEN, FrameError, FrameHeader, TRAILER_LEN, Trailer};
pub use framing::{Control, MAX_MESSAGE, decode_message, encode_message, message_len};
pub use message::{Bind, Cause, Failed, Hello, Message, OpenReceive, OpenSend, Opened, UdpAnswer, UdpOffer};
pub use piece::{MAX_PIECE, PIECE_HEADER_LEN, PieceHeader};
pub use runs::{FIRST_RUNS, MAX_RUNS, RunList};

/// The protocol's version, negotiated in [`Hello`].
pub const VERSION: u16 = 1;
/// The capability, in [`Hello`], of an end that takes [`Extra`](terahaul_core::Extra)s in batches. A depot has it not.
pub const EXTRAS: &str = "extras";
/// The capability of an end that takes [notes](Message::Note).
pub const NOTES: &str = "notes";
/// Capability: entries get their addresses when the receiver has accepted them, and none if it declined them.
pub const PLACE_ACCEPTED: &str = "place-accepted";
/// Capability: a packed block's value is made of its [bytes](terahaul_core::PackedValue::Bytes).
pub const PACKED_BYTES: &str = "packed-bytes";
/// What both ends of a copy between hosts have.
pub const COPY: &[&str] = &[PLACE_ACCEPTED, PACKED_BYTES, EXTRAS, NOTES];
/// Capability: this end takes blocks in pieces, raw or compressed with Zstandard.
pub const ZSTD: &str = "zstd";
/// Capability: this end sends, or takes, blocks in pieces that are copied from the receiver's old file (see
/// [`Sums`] and [`Guessed`]).
pub const DELTA: &str = "delta-guessed";
/// Capability: this server takes a manifest's [first batch](OpenSend::first) with the request to open.
pub const FIRST_BATCH: &str = "first-batch";
/// Capability: this server takes [offers of UDP](Message::OfferUdp) while a session runs.
pub const LATER_UDP: &str = "later-udp";
/// Capability: this server hears from those who send to it which [channels](Message::CloseChannel) they have lost.
pub const LOST_CHANNELS: &str = "lost-channels";
/// ALPN name of a control channel.
pub const ALPN_CONTROL: &[u8] = b"terahaul/1";
/// ALPN name of a data channel.
pub const ALPN_DATA: &[u8] = b"terahaul-data/1";
/// Most entries in a depot's transfer.
pub const MAX_ENTRIES: u32 = 2_000_000;
/// Most data channels in a session.
pub const MAX_CHANNELS: u32 = 64;
