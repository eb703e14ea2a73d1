//! Sealing datagrams as they are written, out of the blocks where those lie; opening them apart from the session, so that each
//! channel's thread does it without the session's lock.

use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, PACKET_HEADER_LEN, PACKET_TAG_LEN, PacketError, PacketHeader, PacketNumber,
};

use crate::ReplayWindow;

/// Bytes that a packet's payload travels with.
pub const OVERHEAD: usize = PACKET_HEADER_LEN + PACKET_TAG_LEN;

/// Encrypts one direction of a session.
///
/// No number repeats in a channel, and each channel has keys of its own, so the number serves as the nonce. Keys come from a layer above,
/// and change with `number >> 22`, which is below what AES-GCM allows under one key.
pub trait Seal {
    /// Encrypts a payload where it lies, and writes the tag behind it; `header` is authenticated with it.
    fn seal(&mut self, header: &PacketHeader, payload: &mut [u8], tag: &mut [u8; PACKET_TAG_LEN]);
}

/// Decrypts one direction of a session.
pub trait Open {
    /// Decrypts `sealed`, a payload and its tag, where it lies; `false` when header, payload and tag are not the other
    /// end's. Then the payload may hold anything.
    fn open(&mut self, header: &PacketHeader, sealed: &mut [u8]) -> bool;
}

/// Why a datagram is dropped. Nobody is told: an answer would serve whoever forges packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Discard {
    /// It is no packet.
    #[error(transparent)]
    Malformed(#[from] PacketError),
    /// Of another session or channel.
    #[error("a packet of another session")]
    Stranger,
    /// It came before, or too late to tell.
    #[error("a packet that came before")]
    Replayed,
    /// It was not sealed under this session's keys.
    #[error("a packet that was not sealed by the other end")]
    Forged,
}

/// An opened packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Its number.
    pub number: PacketNumber,
    /// The datagram's length, header and tag included.
    pub len: usize,
    /// Its frames.
    pub payload: &'a [u8],
}

/// What one channel lets in: packets of this session and channel, each once.
#[derive(Clone, Debug)]
pub struct Gate {
    connection: ConnectionId,
    channel: ChannelNumber,
    replay: ReplayWindow,
}

impl Gate {
    /// Lets packets in that bear the name that this end chose for the session.
    pub fn new(connection: ConnectionId, channel: ChannelNumber) -> Self {
        Self { connection, channel, replay: ReplayWindow::default() }
    }

    /// Opens a datagram where it lies.
    pub fn open<'a>(&mut self, keys: &mut impl Open, datagram: &'a mut [u8]) -> Result<Opened<'a>, Discard> {
        let len = datagram.len();
        let header = PacketHeader::decode(datagram)?;
        if header.connection != self.connection || header.channel != self.channel {
            return Err(Discard::Stranger);
        }
        if !self.replay.may_be_new(header.number) {
            return Err(Discard::Replayed);
        }
        if !keys.open(&header, &mut datagram[PACKET_HEADER_LEN..]) {
            return Err(Discard::Forged);
        }
        self.replay.record(header.number);
        Ok(Opened { number: header.number, len, payload: &datagram[PACKET_HEADER_LEN..len - PACKET_TAG_LEN] })
    }
}

/// Packets on their way out, one behind the other as a system's segmentation takes them.
pub(crate) struct Burst<'a> {
    keys: &'a mut dyn Seal,
    buffer: &'a mut [u8],
    len: usize,
    /// Routers may mark them.
    pub(crate) ecn: bool,
}

impl<'a> Burst<'a> {
    pub(crate) fn new(keys: &'a mut dyn Seal, buffer: &'a mut [u8]) -> Self {
        Self { keys, buffer, len: 0, ecn: false }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it can have in all.
    pub(crate) fn most(&self) -> usize {
        self.buffer.len()
    }

    /// Adds a packet of these frames, the last of which ends with `data`, and returns its length. `None` if it does not fit.
    pub(crate) fn push(&mut self, header: &PacketHeader, frames: &[&[u8]], data: &[u8]) -> Option<usize> {
        let len = OVERHEAD + frames.iter().map(|frames| frames.len()).sum::<usize>() + data.len();
        let datagram = self.buffer.get_mut(self.len..self.len + len)?;
        let (head, sealed) = datagram.split_at_mut(PACKET_HEADER_LEN);
        head.copy_from_slice(&header.encode());
        let (payload, tag) = sealed.split_last_chunk_mut()?;
        let mut left = &mut *payload;
        for part in frames.iter().copied().chain([data]) {
            let (here, behind) = left.split_at_mut(part.len());
            here.copy_from_slice(part);
            left = behind;
        }
        self.keys.seal(header, payload, tag);
        self.len += len;
        Some(len)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// No encryption, and a tag that depends on every bit: what a session needs to be tested.
    pub(crate) struct Clear(pub u64);

    impl Clear {
        fn tag(&self, header: &PacketHeader, payload: &[u8]) -> [u8; PACKET_TAG_LEN] {
            let mut sum = self.0;
            for byte in header.encode().iter().chain(payload) {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(7);
            }
            let mut tag = [0; PACKET_TAG_LEN];
            tag[..8].copy_from_slice(&sum.to_le_bytes());
            tag
        }
    }

    impl Seal for Clear {
        fn seal(&mut self, header: &PacketHeader, payload: &mut [u8], tag: &mut [u8; PACKET_TAG_LEN]) {
            *tag = self.tag(header, payload);
        }
    }

    impl Open for Clear {
        fn open(&mut self, header: &PacketHeader, sealed: &mut [u8]) -> bool {
            let (payload, tag) = sealed.split_last_chunk::<PACKET_TAG_LEN>().unwrap();
            self.tag(header, payload) == *tag
        }
    }

    const HERE: ConnectionId = ConnectionId([7; 8]);

    fn datagrams(numbers: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; 42 * numbers.clone().count()];
        let mut keys = Clear(1);
        let mut burst = Burst::new(&mut keys, &mut bytes);
        let header = |number| PacketHeader {
            channel: ChannelNumber(2),
            number: PacketNumber(number),
            connection: HERE,
        };
        for number in numbers {
            let content = [number as u8; 10];
            let written = burst.push(&header(number), &[&content[..1], &content[..2]], &content[3..]);
            assert_eq!(written, Some(42));
        }
        assert_eq!(burst.push(&header(100), &[], &[]), None, "it is full");
        assert_eq!(burst.len(), burst.most());
        bytes
    }

    #[test]
    fn each_packet_of_a_batch_opens_once() {
        let mut gate = Gate::new(HERE, ChannelNumber(2));
        for _ in 0..2 {
            for (number, datagram) in datagrams(0..5).chunks_mut(42).enumerate() {
                let number = number as u64;
                match gate.open(&mut Clear(1), datagram) {
                    Ok(opened) => {
                        assert_eq!((opened.number, opened.len), (PacketNumber(number), 42));
                        assert_eq!(opened.payload, [number as u8; 10]);
                    }
                    Err(discard) => assert_eq!(discard, Discard::Replayed),
                }
            }
        }
        assert_eq!(gate.open(&mut Clear(1), &mut datagrams(3..4)), Err(Discard::Replayed));
        assert!(gate.open(&mut Clear(1), &mut datagrams(9..10)).is_ok());
    }

    #[test]
    fn a_forged_packet_is_dropped_and_does_not_keep_the_real_one_out() {
        let mut gate = Gate::new(HERE, ChannelNumber(2));
        for at in 0..42 {
            let mut datagram = datagrams(0..1);
            datagram[at] ^= 1;
            assert!(gate.open(&mut Clear(1), &mut datagram).is_err(), "byte {at}");
        }
        assert_eq!(gate.open(&mut Clear(2), &mut datagrams(0..1)), Err(Discard::Forged));
        assert!(gate.open(&mut Clear(1), &mut datagrams(0..1)).is_ok());
    }
}
