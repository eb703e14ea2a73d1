//! What a new address is asked, and which packet numbers are left out: nothing that the other end could know without reading
//! what comes to it.

use std::fmt;
use std::net::SocketAddr;

use terahaul_wire::packet::ChannelNumber;

/// One number in so many is left out, on average: too few for reports to become longer, enough to find a receiver out soon.
const LEFT_OUT_APART: u64 = 1_500;

/// What challenges are made from, and the numbers that are left out: 32 random bytes that are this end's alone, and so not of the session's secret.
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
        self.number_of(&said)
    }

    /// The first packet number of `channel` behind `number` that is left out: who tells of all numbers, whether they came or
    /// not, tells of that one too (RFC 9000, section 21.4).
    pub(crate) fn left_out(&self, channel: ChannelNumber, number: u64) -> u64 {
        // Shorter than what a challenge is made from, and so never the same.
        let mut said = [0; 9];
        said[0] = channel.0;
        said[1..].copy_from_slice(&number.to_le_bytes());
        number + 1 + self.number_of(&said) % (2 * LEFT_OUT_APART)
    }

    fn number_of(&self, said: &[u8]) -> u64 {
        let hash = blake3::keyed_hash(&self.0, said);
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
