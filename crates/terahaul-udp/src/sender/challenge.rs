//! What a new address is asked: nothing that the other end could know without reading what comes there.

use std::fmt;
use std::net::SocketAddr;

use terahaul_wire::packet::ChannelNumber;

/// What challenges are made from: 32 random bytes that are this end's alone, and so not of the session's secret.
#[derive(Clone)]
pub struct ChallengeKey(pub [u8; 32]);

impl ChallengeKey {
    /// What `address` is asked, because packet `number` of `channel` came from there. The other end chooses all three.
    pub(crate) fn challenge(&self, channel: ChannelNumber, number: u64, address: SocketAddr) -> u64 {
        let mut said = [0; 27];
        said[0] = channel.0;
        said[1..9].copy_from_slice(&number.to_le_bytes());
        let host = match address {
            SocketAddr::V4(address) => address.ip().to_ipv6_mapped(),
            SocketAddr::V6(address) => *address.ip(),
        };
        said[9..25].copy_from_slice(&host.octets());
        said[25..].copy_from_slice(&address.port().to_le_bytes());
        let hash = blake3::keyed_hash(&self.0, &said);
        hash.as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes)
    }
}

impl fmt::Debug for ChallengeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChallengeKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_channel_packet_and_address_has_a_challenge_of_its_own() {
        let [key, other] = [1, 2].map(|byte| ChallengeKey([byte; 32]));
        let address = |text: &str| text.parse().unwrap();
        let mut challenges = vec![other.challenge(ChannelNumber(0), 7, address("192.0.2.1:9"))];
        for (channel, number, from) in [
            (0, 7, "192.0.2.1:9"),
            (1, 7, "192.0.2.1:9"),
            (0, 8, "192.0.2.1:9"),
            (0, 7, "192.0.2.2:9"),
            (0, 7, "192.0.2.1:10"),
            (0, 7, "[2001:db8::1]:9"),
        ] {
            challenges.push(key.challenge(ChannelNumber(channel), number, address(from)));
        }
        challenges.sort_unstable();
        challenges.dedup();
        assert_eq!(challenges.len(), 7);
        assert_eq!(format!("{key:?}"), "ChallengeKey");
    }
}
