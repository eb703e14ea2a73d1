//! A packet's header: the part that is authenticated and not encrypted.

use super::PacketError;

/// Bytes in a packet's header.
pub const PACKET_HEADER_LEN: usize = 16;
/// Bytes of authentication behind a packet's payload.
pub const PACKET_TAG_LEN: usize = 16;
/// The first byte of every packet of this version. Neither QUIC nor DTLS nor STUN begins so.
const MAGIC: u8 = 0x41;

/// Which of a session's UDP channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelNumber(pub u8);

/// A packet's number on its channel in its direction. Never used twice under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// The largest that a header holds: 2⁴⁸ − 1.
    pub const MAX: Self = Self((1 << 48) - 1);
}

/// Names a session to the end that chose it, wherever packets come from. Eight random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub [u8; 8]);

/// What stands before the sealed part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Which channel.
    pub channel: ChannelNumber,
    /// Which packet, up to [`PacketNumber::MAX`].
    pub number: PacketNumber,
    /// The session, as the end that receives this packet named it.
    pub connection: ConnectionId,
}

impl PacketHeader {
    /// Where a datagram has its channel's number, for whoever deals datagrams before they are decoded.
    pub const CHANNEL_AT: usize = 1;

    /// Reads the header of a datagram that has room for a tag and at least one byte of payload.
    pub fn decode(datagram: &[u8]) -> Result<Self, PacketError> {
        if datagram.len() <= PACKET_HEADER_LEN + PACKET_TAG_LEN {
            return Err(PacketError::Short);
        }
        if datagram[0] != MAGIC {
            return Err(PacketError::Foreign(datagram[0]));
        }
        let mut number = [0; 8];
        number[..6].copy_from_slice(&datagram[2..8]);
        let mut connection = [0; 8];
        connection.copy_from_slice(&datagram[8..16]);
        Ok(Self {
            channel: ChannelNumber(datagram[Self::CHANNEL_AT]),
            number: PacketNumber(u64::from_le_bytes(number)),
            connection: ConnectionId(connection),
        })
    }

    /// Writes the header.
    pub fn encode(self) -> [u8; PACKET_HEADER_LEN] {
        let mut bytes = [0; PACKET_HEADER_LEN];
        bytes[0] = MAGIC;
        bytes[Self::CHANNEL_AT] = self.channel.0;
        bytes[2..8].copy_from_slice(&self.number.0.to_le_bytes()[..6]);
        bytes[8..].copy_from_slice(&self.connection.0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_reads_back(channel: u8, number in 0..=PacketNumber::MAX.0, connection: [u8; 8]) {
            let header = PacketHeader {
                channel: ChannelNumber(channel),
                number: PacketNumber(number),
                connection: ConnectionId(connection),
            };
            let mut datagram = header.encode().to_vec();
            datagram.extend([0; PACKET_TAG_LEN + 1]);
            prop_assert_eq!(PacketHeader::decode(&datagram), Ok(header));
            datagram.pop();
            prop_assert_eq!(PacketHeader::decode(&datagram), Err(PacketError::Short));
        }
    }

    #[test]
    fn what_another_protocol_sends_is_not_taken_for_a_packet() {
        for first in [0x00, 0x16, 0x40, 0xc0] {
            let mut datagram = [0; 64];
            datagram[0] = first;
            assert_eq!(PacketHeader::decode(&datagram), Err(PacketError::Foreign(first)));
        }
    }
}
