//! Keys of UDP data channels: from the control channel's TLS session, a fresh one for each direction, channel and four million
//! packets.
//!
//! ```text
//! secret = TLS exporter (RFC 8446, section 7.5), "EXPORTER-terahaul-udp", 32 bytes
//! key, iv = HKDF-Expand-SHA256(secret, "terahaul udp" · direction u8 · channel u8 · epoch u64 · client's id · server's id), 16 and 12 bytes
//! ```
//! AES-128-GCM; the nonce is the iv with the packet's number in its last eight bytes. An epoch is 2²² packets, which is below
//! what AES-GCM allows under a key (RFC 9001, section 6.6: 2²³ packets).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use terahaul_udp::{Open, Seal};
use terahaul_wire::packet::{ConnectionId, PACKET_TAG_LEN, PacketHeader};
use zeroize::Zeroizing;

/// The label under which both ends export it.
const LABEL: &[u8] = b"EXPORTER-terahaul-udp";
const EPOCH_BITS: u32 = 22;

/// What both ends of a control channel know and nobody else does.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// Of a control channel at the client. `None` if its handshake is not finished.
    pub fn of_client(connection: &rustls::ClientConnection) -> Option<Self> {
        connection
            .export_keying_material([0; 32], LABEL, None)
            .ok()
            .map(|secret| Self(Zeroizing::new(secret)))
    }

    /// Of a control channel at the server.
    pub fn of_server(connection: &rustls::ServerConnection) -> Option<Self> {
        connection
            .export_keying_material([0; 32], LABEL, None)
            .ok()
            .map(|secret| Self(Zeroizing::new(secret)))
    }
}

/// Who sends what is sealed with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    FromClient,
    /// The server.
    FromServer,
}

/// One direction's keys.
pub struct Keys {
    secret: Prk,
    direction: Direction,
    ids: [[u8; 8]; 2],
    /// The two latest of each channel.
    channels: Vec<Channel>,
}

#[derive(Default)]
struct Channel {
    current: Option<Epoch>,
    other: Option<Epoch>,
}

struct Epoch {
    number: u64,
    key: LessSafeKey,
    iv: [u8; 12],
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    /// For `channels` channels of the session that client and server call `ids`.
    pub fn new(secret: &Secret, direction: Direction, ids: [ConnectionId; 2], channels: usize) -> Self {
        Self {
            secret: Prk::new_less_safe(HKDF_SHA256, &*secret.0),
            direction,
            ids: ids.map(|id| id.0),
            channels: (0..channels).map(|_| Channel::default()).collect(),
        }
    }

    fn derive(&self, channel: u8, number: u64) -> Option<Epoch> {
        let direction = [u8::from(self.direction == Direction::FromServer), channel];
        let epoch = number.to_le_bytes();
        let info = [&b"terahaul udp"[..], &direction, &epoch, &self.ids[0], &self.ids[1]];
        let mut bytes = Zeroizing::new([0; 28]);
        self.secret.expand(&info, Length(28)).ok()?.fill(&mut bytes[..]).ok()?;
        let (key, iv) = bytes.split_at(16);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).ok()?);
        Some(Epoch { number, key, iv: iv.try_into().ok()? })
    }

    /// The key of a packet. Derives it if it is none of the two latest.
    fn epoch(&mut self, header: &PacketHeader) -> Option<&Epoch> {
        let (at, wanted) = (usize::from(header.channel.0), header.number.0 >> EPOCH_BITS);
        let is = |epoch: &Option<Epoch>| epoch.as_ref().is_some_and(|epoch| epoch.number == wanted);
        let channel = self.channels.get(at)?;
        if !is(&channel.current) && !is(&channel.other) {
            let derived = self.derive(header.channel.0, wanted)?;
            let channel = self.channels.get_mut(at)?;
            // A packet that claims a far epoch must not push out the key in use.
            match &channel.current {
                Some(current) if current.number + 1 != wanted => channel.other = Some(derived),
                _ => channel.other = channel.current.replace(derived),
            }
        }
        let channel = self.channels.get(at)?;
        let wanted = if is(&channel.current) { &channel.current } else { &channel.other };
        wanted.as_ref()
    }
}

impl Epoch {
    fn nonce(&self, header: &PacketHeader) -> Nonce {
        let mut nonce = self.iv;
        for (byte, counter) in nonce[4..].iter_mut().zip(header.number.0.to_be_bytes()) {
            *byte ^= counter;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Seal for Keys {
    fn seal(&mut self, header: &PacketHeader, payload: &mut [u8], tag: &mut [u8; PACKET_TAG_LEN]) {
        let sealed = self.epoch(header).and_then(|epoch| {
            let (nonce, aad) = (epoch.nonce(header), Aad::from(header.encode()));
            epoch.key.seal_in_place_separate_tag(nonce, aad, payload).ok()
        });
        match sealed {
            Some(sealed) => tag.copy_from_slice(sealed.as_ref()),
            // Nothing goes out in the clear: without a key it is no packet.
            None => {
                payload.fill(0);
                tag.fill(0);
            }
        }
    }
}

impl Open for Keys {
    fn open(&mut self, header: &PacketHeader, sealed: &mut [u8]) -> bool {
        let Some(epoch) = self.epoch(header) else { return false };
        epoch.key.open_in_place(epoch.nonce(header), Aad::from(header.encode()), sealed).is_ok()
    }
}

#[cfg(test)]
impl Secret {
    /// One that no handshake has made.
    pub(crate) fn of_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_wire::packet::{ChannelNumber, PACKET_TAG_LEN, PacketNumber};

    const IDS: [ConnectionId; 2] = [ConnectionId([1; 8]), ConnectionId([2; 8])];

    fn keys(secret: u8, direction: Direction) -> Keys {
        Keys::new(&Secret::of_bytes([secret; 32]), direction, IDS, 2)
    }

    fn sealed(keys: &mut Keys, channel: u8, number: u64) -> (PacketHeader, Vec<u8>) {
        let (channel, number) = (ChannelNumber(channel), PacketNumber(number));
        let header = PacketHeader { channel, number, connection: IDS[1] };
        let mut bytes = [&b"content"[..], &[0; PACKET_TAG_LEN]].concat();
        let (payload, tag) = bytes.split_last_chunk_mut().unwrap();
        keys.seal(&header, payload, tag);
        assert_ne!(bytes[..7], *b"content");
        (header, bytes)
    }

    #[test]
    fn only_the_other_end_opens_what_one_end_sealed_in_every_epoch() {
        let mut client = keys(7, Direction::FromClient);
        let mut server = keys(7, Direction::FromClient);
        // Also back across the border between two epochs, and after a claim of a far one.
        for number in [0, 1, (1 << 22) - 1, 1 << 22, (1 << 22) - 2, 1 << 40, (1 << 22) + 1] {
            for channel in [0, 1] {
                let (header, bytes) = sealed(&mut client, channel, number);
                let mut opened = bytes.clone();
                assert!(server.open(&header, &mut opened), "{number}");
                assert_eq!(opened[..7], *b"content");
                let other = PacketHeader { channel: ChannelNumber(1 - channel), ..header };
                assert!(!server.open(&other, &mut bytes.clone()));
                assert!(!keys(8, Direction::FromClient).open(&header, &mut bytes.clone()));
                assert!(!keys(7, Direction::FromServer).open(&header, &mut bytes.clone()));
            }
        }
        let (header, mut bytes) = sealed(&mut client, 0, 3);
        let unknown = PacketHeader { channel: ChannelNumber(2), ..header };
        assert!(!server.open(&unknown, &mut bytes));
    }
}
