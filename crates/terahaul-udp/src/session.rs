//! What both ends of a session have in common.

use std::net::SocketAddr;

use terahaul_core::BlockNumber;
use terahaul_wire::packet::{ChannelNumber, PacketError};

use crate::Time;

/// Why an end called. For logs and for tests: the call to make is always `handle_timeout` (the sender) and then
/// `poll_transmit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// The next packets may go out.
    Pacing,
    /// Reports are overdue: something is sent to ask for one.
    Probe,
    /// The other end's new address has not answered.
    Challenge,
    /// A channel that went silent is tried again.
    Silent,
    /// Nothing is under way: the path is kept open.
    KeepAlive,
    /// A report is due.
    Report,
    /// The last report is said again.
    Repeat,
    /// The sender does not know yet where this end is.
    Greeting,
}

/// How a datagram came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When the system took it in, where that is known: what the thread that brings it was kept waiting for is not the path's doing.
    pub arrived: Time,
    /// On which channel.
    pub channel: ChannelNumber,
    /// Where it came from.
    pub from: SocketAddr,
    /// A router marked it (ECN): its queue was long.
    pub congested: bool,
}

/// Packets to be sent: one behind the other in the buffer, each `segment` bytes long but perhaps the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// On which channel.
    pub channel: ChannelNumber,
    /// To which address.
    pub to: SocketAddr,
    /// Bytes in all.
    pub len: usize,
    /// Bytes in each packet.
    pub segment: usize,
    /// Routers may mark them (ECN): they go out as ECT(0), and all others as what may not be marked.
    pub ecn: bool,
}

/// What the other end did that no Terahaul does. It is to blame, and another try will not help: the session is over,
/// and its blocks go back to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A packet that cannot be read.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A channel that was not agreed on.
    #[error("the other end speaks of UDP channel {0}, which was not agreed on: upgrade the older program")]
    Channel(u8),
    /// A frame that only the other role sends.
    #[error("the other end sends what only this end may send: upgrade the older program")]
    Direction,
    /// More blocks at once than were allowed.
    #[error("the other end began more blocks than it was allowed: upgrade the older program")]
    Credit,
    /// Packets of one block that do not fit together.
    #[error("packets of block {0} contradict each other: upgrade the older program")]
    Contradiction(BlockNumber),
    /// A report of packets or blocks that were never sent.
    #[error("the other end reports what was never sent to it: upgrade the older program")]
    NeverSent,
}
