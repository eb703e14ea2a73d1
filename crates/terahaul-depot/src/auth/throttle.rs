//! Counts the failed attempts of whoever guesses, without remembering everyone. A right credential is always heard.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::PoisonError;

use terahaul_net::PeerNetwork;

/// Failed attempts, counted by minute in a table of fixed size that peers share by hash.
pub(crate) struct Throttle {
    slots: Mutex<Vec<Slot>>,
    key: [u8; 32],
}

#[derive(Clone, Copy, Default)]
struct Slot {
    minute: i64,
    failures: u32,
}

impl Throttle {
    const SLOTS: usize = 4096;
    /// Failures a minute before a peer hears no more why it failed.
    const ALLOWED: u32 = 60;

    /// `key` keeps peers from choosing whom they share a slot with.
    pub fn new(key: [u8; 32]) -> Self {
        Self { slots: Mutex::new(vec![Slot::default(); Self::SLOTS]), key }
    }

    fn slot_of(&self, peer: PeerNetwork) -> usize {
        let hash = blake3::keyed_hash(&self.key, peer.prefix());
        usize::from(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])) % Self::SLOTS
    }

    /// Counts a failed attempt; `false` when the peer has had too many this minute.
    pub fn handle_failure(&self, peer: IpAddr, now: i64) -> bool {
        // Behind a proxy on this machine, everyone comes from here; a listener for both kinds sees IPv4 as part of IPv6.
        if peer.to_canonical().is_loopback() {
            return true;
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[self.slot_of(peer.into())];
        let minute = now / 60;
        if slot.minute != minute {
            *slot = Slot { minute, failures: 0 };
        }
        slot.failures = slot.failures.saturating_add(1);
        slot.failures <= Self::ALLOWED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guesser_is_stopped_for_the_rest_of_the_minute_and_no_one_else() {
        let throttle = Throttle::new([1; 32]);
        let guesser: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..Throttle::ALLOWED {
            assert!(throttle.handle_failure(guesser, 600));
        }
        assert!(!throttle.handle_failure(guesser, 659));
        assert!(throttle.handle_failure("192.0.2.2".parse().unwrap(), 659));
        assert!(throttle.handle_failure(guesser, 660));
    }

    #[test]
    fn ipv4_peers_of_a_listener_for_both_kinds_are_told_apart() {
        let throttle = Throttle::new([1; 32]);
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..=Throttle::ALLOWED {
            throttle.handle_failure(peer("::ffff:192.0.2.1"), 600);
            assert!(throttle.handle_failure(peer("::ffff:127.0.0.1"), 600));
        }
        assert!(throttle.handle_failure(peer("::ffff:192.0.2.2"), 600));
        assert!(!throttle.handle_failure(peer("192.0.2.1"), 600));
    }
}
