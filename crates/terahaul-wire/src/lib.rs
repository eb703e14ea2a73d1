//! The native protocol `terahaul/1`: bytes in, typed values out.
//!
//! `docs/protocol.md` is normative; this crate is its grammar and its limits. It does no I/O and never allocates
//! for a length it has not checked. Control messages are CBOR (RFC 8949), each behind a four-byte length; data
//! channels over TCP carry fixed headers, those over UDP [`packet`]s.

mod batch;
mod extras;
mod frame;
mod message;
pub mod packet;
mod piece;

pub use batch::{Batch, BatchBuilder, decode_entries, encode_entries};
pub use frame::{FRAME_HEADER_LEN, FrameError, FrameHeader, TRAILER_LEN, Trailer};
pub use message::{
    Advice, Bind, Cause, Control, DecodeError, ErrorCode, Failed, Guessed, Hello, MAX_MESSAGE, Message,
    OpenReceive, OpenSend, Opened, RunList, Sums, UdpAnswer, UdpOffer, WireError, decode_message,
    encode_message, message_len,
};
pub use piece::{MAX_PIECE, PIECE_HEADER_LEN, PieceHeader};

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
/// ALPN name of a control channel.
pub const ALPN_CONTROL: &[u8] = b"terahaul/1";
/// ALPN name of a data channel.
pub const ALPN_DATA: &[u8] = b"terahaul-data/1";
/// Most entries in one batch.
pub const MAX_BATCH_ENTRIES: usize = 1000;
/// Most runs of blocks in one message; longer lists are split.
pub const MAX_RUNS: usize = 20_000;
/// Most sums of chunks in one message.
pub const MAX_SUMS: usize = 1 << 16;
/// Bytes that are told of a guessed group's value.
pub const GUESS_LEN: usize = 8;
/// Pieces of advice on one entry in one session, at most: whatever a file is like, it comes to an end.
pub const MAX_ADVICE: u32 = 17;
/// Most data channels in a session.
pub const MAX_CHANNELS: u32 = 64;
