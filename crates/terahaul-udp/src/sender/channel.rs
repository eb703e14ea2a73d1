//! One channel of the sending end: its packets under way, and where the other end of it is.
//!
//! | state | event | next |
//! |---|---|---|
//! | untried | a packet is reported | alive |
//! | untried, alive | packets sent later on other channels of the path arrive, and none of the last three or more on this one | silent |
//! | untried, alive | packets of it are reported, but nothing has come on it for long | silent |
//! | silent | a packet is reported, and something came on it lately | alive |
//!
//! An untried channel beside one that is alive may have a few packets under way and a silent one none but its pings, so a port that is filtered
//! costs little.
//!
//! **Addresses.** The other end is where its newest packet came from. Until it has shown that it reads what is sent
//! there (a challenge), no more than three times what came from there goes there: nobody can be flooded by a packet
//! that was caught and sent again from elsewhere, nor by a receiver that gives somebody else's address for its own: what the challenge
//! is follows from nothing that it knows ([`super::challenge`]). An address that has shown it once keeps that as long as
//! the receiver speaks from there: reports go out on all channels in turn, so one whose packets all other channels tell of,
//! and never itself, ends where nobody is any more. That does not count where this end chose the address.

use std::net::SocketAddr;
use std::time::Duration;

use terahaul_wire::packet::ChannelNumber;

use super::challenge::ChallengeKey;
use super::flight::{Flight, Sent};
use crate::path::{Allowance, QueueDelay};
use crate::{Opened, PathIndex, Time};

/// Whether packets on the channel arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// Nothing was reported yet.
    Untried,
    /// Packets arrive.
    Alive,
    /// They do not, while those of other channels do.
    Silent,
}

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    number: ChannelNumber,
    key: ChallengeKey,
    pub(crate) path: PathIndex,
    pub(crate) state: ChannelState,
    pub(crate) flight: Flight,
    /// The next number that no packet has.
    left_out: u64,
    pub(crate) waiting: QueueDelay,
    remote: Option<Remote>,
    /// The address that this end was given: nobody else has named it.
    chosen: Option<SocketAddr>,
    heard_at: Time,
    /// Reports since then that told of packets which had arrived on this channel.
    told_since: u32,
    /// The last address that answered a challenge, or that this end was given.
    proven: Option<SocketAddr>,
    newest_heard: Option<u64>,
    pub(crate) bytes_sent: u64,
    /// What the last report said in all.
    pub(crate) bytes_arrived: u64,
    pub(crate) congested: u64,
    pub(crate) ping_at: Time,
    pub(crate) pings: u32,
}

#[derive(Clone, Copy, Debug)]
struct Remote {
    address: SocketAddr,
    allowance: Allowance,
    challenge: u64,
    challenge_at: Option<Time>,
    challenges: u32,
}

/// How long a receiver may tell of a channel's packets without a word on that channel, and in how many reports: they may be
/// few, and of those that it sends on this channel some are lost.
const UNHEARD: Duration = Duration::from_secs(5);
const UNHEARD_REPORTS: u32 = 64;

/// At least: the round trip is known from what the other end says, who may say that there is none.
const CHALLENGES_APART: Duration = Duration::from_millis(10);

impl Channel {
    pub(crate) fn new(
        number: ChannelNumber,
        path: PathIndex,
        remote: Option<SocketAddr>,
        key: ChallengeKey,
    ) -> Self {
        Self {
            number,
            left_out: key.left_out(number, 0),
            key,
            path,
            state: ChannelState::Untried,
            flight: Flight::default(),
            waiting: QueueDelay::default(),
            remote: remote.map(Remote::proven),
            chosen: remote,
            heard_at: Time::ZERO,
            told_since: 0,
            proven: remote,
            newest_heard: None,
            bytes_sent: 0,
            bytes_arrived: 0,
            congested: 0,
            ping_at: Time::ZERO,
            pings: 0,
        }
    }

    /// Where to send `len` bytes, if they may be sent.
    pub(crate) fn remote_for(&self, len: u64) -> Option<SocketAddr> {
        self.remote.filter(|remote| remote.allowance.left() >= len).map(|remote| remote.address)
    }

    /// Whether the other end is known to read what is sent to its address.
    pub(crate) fn is_proven(&self) -> bool {
        self.remote.is_some_and(|remote| remote.allowance == Allowance::ANY)
    }

    /// A report told of packets that arrived.
    pub(crate) fn handle_told(&mut self) {
        self.told_since = self.told_since.saturating_add(1);
    }

    /// Whether the other end still is where packets go, as far as is known: it tells of them, so it would be heard.
    pub(crate) fn is_there(&self, now: Time) -> bool {
        self.told_since < UNHEARD_REPORTS
            || now.since(self.heard_at) < UNHEARD
            || self.remote.map(|remote| remote.address) == self.chosen
    }

    /// The next packet's number.
    pub(crate) fn next_number(&self) -> u64 {
        let next = self.flight.next_number();
        next + u64::from(next == self.left_out)
    }

    /// The next packet went out.
    pub(crate) fn handle_sent(&mut self, sent: Sent) {
        let next = self.flight.next_number();
        if next == self.left_out {
            self.flight.leave_out();
            self.left_out = self.key.left_out(self.number, next + 1);
        }
        let len = sent.len.into();
        self.bytes_sent += len;
        if let Some(remote) = &mut self.remote {
            remote.allowance.handle_sent(len);
        }
        self.flight.record(sent);
    }

    /// A packet came from there. `true` if it moved the other end to another host.
    pub(crate) fn handle_heard(&mut self, now: Time, from: SocketAddr, packet: &Opened<'_>) -> bool {
        let (number, len) = (packet.number.0, packet.len as u64);
        if self.newest_heard.is_some_and(|newest| number <= newest) {
            return false;
        }
        self.newest_heard = Some(number);
        (self.heard_at, self.told_since) = (now, 0);
        if let Some(remote) = &mut self.remote
            && remote.address == from
        {
            remote.allowance.handle_heard(len);
            return false;
        }
        let moved = self.remote.is_some_and(|old| old.address.ip() != from.ip());
        if self.proven == Some(from) {
            self.remote = Some(Remote::proven(from));
        } else {
            let challenge = self.key.challenge(self.number, number, from);
            let mut allowance = Allowance::default();
            allowance.handle_heard(len);
            self.remote =
                Some(Remote { address: from, allowance, challenge, challenge_at: Some(now), challenges: 0 });
        }
        moved
    }

    /// The other end answered a challenge, from `from`.
    pub(crate) fn handle_response(&mut self, number: u64, from: SocketAddr) {
        if let Some(remote) = &mut self.remote
            && remote.address == from
            && remote.allowance != Allowance::ANY
            && remote.challenge == number
        {
            *remote = Remote::proven(from);
            self.proven = Some(from);
        }
    }

    /// When the next challenge goes out.
    pub(crate) fn challenge_at(&self) -> Option<Time> {
        self.remote.and_then(|remote| remote.challenge_at)
    }

    /// A challenge to send now.
    pub(crate) fn poll_challenge(&mut self, now: Time, apart: Duration) -> Option<u64> {
        let remote = self.remote.as_mut()?;
        if now < remote.challenge_at? {
            return None;
        }
        remote.challenges += 1;
        remote.challenge_at = Some(now + apart.max(CHALLENGES_APART) * (1 << remote.challenges.min(5)));
        Some(remote.challenge)
    }
}

impl Remote {
    fn proven(address: SocketAddr) -> Self {
        Self { address, allowance: Allowance::ANY, challenge: 0, challenge_at: None, challenges: 0 }
    }
}

#[cfg(test)]
mod tests {
    use terahaul_wire::packet::PacketNumber;

    use super::super::flight::Load;
    use super::*;

    fn host(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    fn channel(remote: Option<SocketAddr>) -> Channel {
        Channel::new(ChannelNumber(0), PathIndex(0), remote, ChallengeKey([7; 32]))
    }

    /// A packet of 100 bytes comes from there.
    fn hear(channel: &mut Channel, number: u64, from: SocketAddr) -> bool {
        let packet = Opened { number: PacketNumber(number), len: 100, payload: &[] };
        channel.handle_heard(Time::ZERO, from, &packet)
    }

    #[test]
    fn an_unproven_address_gets_three_times_what_came_from_it() {
        let mut channel = channel(None);
        assert_eq!(channel.remote_for(1), None, "nobody is known");
        assert!(!hear(&mut channel, 0, host(1, 1)));
        assert_eq!(channel.remote_for(301), None);
        assert_eq!(channel.remote_for(300), Some(host(1, 1)));
        channel.handle_sent(Sent {
            at: Time::ZERO,
            path_bytes: 300,
            round: 0,
            len: 300,
            ecn: false,
            load: Load::Signal,
        });
        assert_eq!(channel.remote_for(1), None);
        let challenge = channel.poll_challenge(Time::ZERO, Duration::from_secs(1)).unwrap();
        assert_eq!(channel.poll_challenge(Time::ZERO, Duration::from_secs(1)), None);
        channel.handle_response(challenge, host(9, 9));
        assert_eq!(channel.remote_for(1), None, "somebody else's answer proves nothing");
        channel.handle_response(challenge, host(1, 1));
        assert_eq!(channel.remote_for(1 << 40), Some(host(1, 1)));
        assert_eq!(channel.challenge_at(), None);
    }

    #[test]
    fn the_number_of_a_packet_is_no_answer_to_what_a_new_address_is_asked() {
        let mut channel = channel(None);
        hear(&mut channel, 7, host(1, 1));
        channel.handle_response(7, host(1, 1));
        assert!(!channel.is_proven(), "whoever sent the packet has chosen its number");
        let challenge = channel.poll_challenge(Time::ZERO, Duration::from_secs(1)).unwrap();
        channel.handle_response(challenge, host(1, 1));
        assert!(channel.is_proven());
    }

    #[test]
    fn who_says_that_there_is_no_round_trip_is_not_challenged_without_pause() {
        let mut channel = channel(None);
        hear(&mut channel, 0, host(1, 1));
        assert!(channel.poll_challenge(Time::ZERO, Duration::ZERO).is_some());
        assert!(channel.challenge_at().is_some_and(|at| at > Time::ZERO));
    }

    #[test]
    fn the_newest_packet_says_where_the_other_end_is_and_a_proven_address_is_not_asked_again() {
        let mut channel = channel(Some(host(1, 1)));
        assert!(!hear(&mut channel, 5, host(1, 2)), "another port of the same host");
        assert!(!hear(&mut channel, 4, host(3, 1)), "an old packet");
        assert_eq!(channel.remote_for(1), Some(host(1, 2)));
        assert!(hear(&mut channel, 6, host(3, 1)));
        assert!(hear(&mut channel, 7, host(1, 1)));
        assert_eq!(channel.remote_for(1 << 40), Some(host(1, 1)), "proven before");
    }
}
