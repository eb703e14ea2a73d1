//! Packets of UDP data channels: a header, frames under authenticated encryption, a tag.
//!
//! ```text
//! header, 16 bytes: 0x41 · channel u8 · packet number u48 · connection id, 8 bytes        (little-endian)
//! frames:           pad 0 · data 1, 8 · ping 2 · report 3 · sync 4 · challenge 5 · response 6 · repair 7, 9
//! tag, 16 bytes
//! ```
//! Nothing is allocated for a count that was not checked against the packet's length, and whatever decodes encodes to
//! the same bytes.

mod frame;
mod header;
mod part;
mod report;
#[cfg(test)]
mod tests;
mod varint;

pub use frame::{MAX_REPORT_INTERVAL, MAX_UDP_CHANNELS, PacketFrame, PacketFrames, Sync};
pub use header::{
    ChannelNumber, ConnectionId, PACKET_HEADER_LEN, PACKET_TAG_LEN, PacketHeader, PacketNumber,
};
pub use part::{
    DataHeader, MAX_CARGO, MAX_PART_HEADER_LEN, MIN_SHARD, PartHeader, PartOf, RepairHeader, VALUE_LEN,
    most_repairs, part_header_len,
};
pub use report::{
    BlockGaps, ChannelReport, MAX_ARRIVALS, MAX_BLOCK_RUNS, MAX_GAP_BLOCKS, MAX_REPORT_RUNS, Report,
};
pub use varint::MAX_VARINT;

/// Why a packet is refused. The end that sent it is at fault, or it was not sent by a Terahaul at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It ends before it should.
    #[error("a packet ends in the middle: the two programs do not fit; upgrade the older")]
    Short,
    /// Another protocol's, or another version's.
    #[error("a datagram begins with {0:#04x} and is no packet of this version: upgrade the older program")]
    Foreign(u8),
    /// A frame of unknown kind.
    #[error("a packet has a frame of unknown kind {0}: the two programs do not fit; upgrade the older")]
    Kind(u8),
    /// An integer that is not in its shortest form.
    #[error("a packet has an integer that is longer than it needs to be: upgrade the older program")]
    NotShortest,
    /// A number or a count beyond its limit.
    #[error("a packet has a number beyond its limit: upgrade the older program")]
    Range,
    /// Runs that are empty or touch.
    #[error("a report has runs that are empty or touch each other: upgrade the older program")]
    Runs,
    /// Bytes outside a block, or none.
    #[error("a packet has bytes that lie outside their block: upgrade the older program")]
    Data,
    /// A repair that no block of that length has.
    #[error("a packet has a repair that its block cannot have: upgrade the older program")]
    Repair,
    /// Something follows the padding.
    #[error("a packet has bytes behind its padding: upgrade the older program")]
    Padding,
}
