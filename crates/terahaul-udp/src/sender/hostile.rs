//! A receiver that says what no honest one would: what it has the sender send, and to whom, and what it has it keep.

use std::net::SocketAddr;
use std::time::Duration;

use terahaul_core::BlockNumber;
use terahaul_wire::packet::{
    ChannelNumber, ChannelReport, ConnectionId, MAX_CARGO, PACKET_TAG_LEN, PacketFrame, PacketHeader,
    PacketNumber, Report,
};

use super::{ChallengeKey, ChannelConfig, PathConfig, Sender, SenderConfig};
use crate::rate::{Eagerness, Fixed, Model, RateLaw};
use crate::{Datagram, Opened, PathIndex, Ranges, Seal, SessionError, Time};

const ROUND_TRIP: Duration = Duration::from_millis(10);
/// What its packets count as: less than any datagram of the sender's.
const PACKET: usize = 200;
const KEY: ChallengeKey = ChallengeKey([7; 32]);

/// Nothing is sealed: nobody opens it.
struct Unsealed;

impl Seal for Unsealed {
    fn seal(&mut self, _: &PacketHeader, _: &mut [u8], _: &mut [u8; PACKET_TAG_LEN]) {}
}

fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9))
}

/// The sender, and what its receiver has said.
struct Hostile {
    sender: Sender,
    now: Time,
    packets: u64,
    reports: u32,
    floor: u32,
    /// What came on each channel, but for this one.
    heard: Vec<Ranges>,
    deaf_to: Option<u64>,
}

impl Hostile {
    /// Of a sender that was told where its receiver is on each of these channels, if anywhere.
    fn new(remotes: &[Option<SocketAddr>], law: Box<dyn RateLaw>) -> Self {
        let config = SenderConfig {
            connection: ConnectionId([0; 8]),
            channels: remotes
                .iter()
                .map(|remote| ChannelConfig { remote: *remote, path: PathIndex(0) })
                .collect(),
            paths: vec![PathConfig { max_datagram: 1_472 }],
            round_trip: ROUND_TRIP,
            max_blocks: 4,
            max_rate: None,
            challenges: KEY,
        };
        let heard = vec![Ranges::default(); remotes.len()];
        let sender = Sender::new(Time::ZERO, config, vec![law]);
        Self { sender, now: Time::ZERO, packets: 0, reports: 0, floor: 0, heard, deaf_to: None }
    }

    /// The next packet's number.
    fn next_number(&self) -> u64 {
        self.packets
    }

    /// Says it on that channel, from there.
    fn say(&mut self, channel: u8, from: SocketAddr, frame: &PacketFrame<'_>) -> Result<bool, SessionError> {
        let mut payload = Vec::new();
        frame.encode(&mut payload);
        let packet = Opened { number: PacketNumber(self.packets), len: PACKET, payload: &payload };
        self.packets += 1;
        let channel = ChannelNumber(channel);
        let datagram = Datagram { arrived: self.now, channel, from, congested: false };
        self.sender.handle_packet(self.now, &datagram, &packet)
    }

    fn report(&mut self, from: SocketAddr, channels: Vec<ChannelReport>) {
        self.report_on(0, from, channels).unwrap();
    }

    fn report_on(
        &mut self,
        channel: u8,
        from: SocketAddr,
        channels: Vec<ChannelReport>,
    ) -> Result<bool, SessionError> {
        self.reports += 1;
        let report = Report {
            number: self.reports,
            at: self.now.micros(),
            credit: 1 << 20,
            floor: self.floor,
            done: Vec::new(),
            declined: Vec::new(),
            channels,
            gaps: Vec::new(),
        };
        self.say(channel, from, &PacketFrame::Report(report))
    }

    /// Is there on that channel, and answers what it is asked.
    fn prove(&mut self, channel: u8, from: SocketAddr) {
        let number = self.next_number();
        self.report_on(channel, from, Vec::new()).unwrap();
        let challenge = KEY.challenge(ChannelNumber(channel), number, from);
        self.say(channel, from, &PacketFrame::Response(challenge)).unwrap();
        assert!(self.sender.channels[ChannelNumber(channel)].is_proven());
    }

    /// That the newest packet of a channel has come and, as it says, so many bytes.
    fn newest(&self, channel: u8, bytes: u64) -> Option<ChannelReport> {
        let newest = self.sender.channels[ChannelNumber(channel)].flight.next_number().checked_sub(1)?;
        Some(ChannelReport {
            channel: ChannelNumber(channel),
            bytes,
            congested: 0,
            runs: vec![newest..newest + 1],
            arrivals: vec![(PacketNumber(newest), self.now.micros())],
        })
    }

    /// Lets the sender send what it will in so much time. Returns what goes where.
    fn wait(&mut self, time: Duration) -> Vec<(SocketAddr, u64)> {
        let until = self.now + time;
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 65_000]);
        while self.now < until {
            self.sender.handle_timeout(self.now);
            while let Some(transmit) = self.sender.poll_transmit(self.now, &mut Unsealed, &mut buffer) {
                sent.push((transmit.to, transmit.len as u64));
                for datagram in buffer[..transmit.len].chunks(transmit.segment) {
                    let number = PacketHeader::decode(datagram).unwrap().number.0;
                    if self.deaf_to != Some(number) {
                        self.heard[usize::from(transmit.channel.0)].insert(number..number + 1);
                    }
                }
            }
            let next = self.sender.poll_timeout().map_or(until, |(at, _)| at);
            self.now = next.max(self.now).min(until);
        }
        sent
    }

    fn hand_in(&mut self, block: u32) {
        self.sender.handle_block(BlockNumber(block), vec![7; MAX_CARGO as usize]).unwrap();
    }
}

fn fixed(rate: f64) -> Box<dyn RateLaw> {
    Box::new(Fixed::new(rate, ROUND_TRIP))
}

/// Who receives knows the session's keys, and may send from an address that is not its own.
#[test]
fn a_new_address_answers_what_only_it_can_have_heard() {
    let (own, victim) = (host(1), host(9));
    let mut hostile = Hostile::new(&[None], fixed(10e6));
    hostile.hand_in(0);
    hostile.report(own, Vec::new());
    hostile.wait(Duration::from_millis(50));
    let number = hostile.next_number();
    hostile.say(0, victim, &PacketFrame::Response(number)).unwrap();
    let mut got = 0;
    for _ in 0..100 {
        let sent = hostile.wait(Duration::from_millis(100));
        got += sent.iter().filter(|(to, _)| *to == victim).map(|(_, len)| len).sum::<u64>();
    }
    assert!(got <= 3 * PACKET as u64, "{got} bytes for {PACKET}");
}

/// A filter may let pass what goes one way. Who receives greets until it hears something.
#[test]
fn who_can_only_be_heard_has_told_of_nothing() {
    let mut waiting = Hostile::new(&[None], fixed(10e6));
    assert_eq!(waiting.report_on(0, host(1), Vec::new()), Ok(false), "nothing was sent yet");
    waiting.wait(ROUND_TRIP);
    let told = waiting.newest(0, 0);
    assert!(told.is_some(), "it is asked whether it hears something");
    assert_eq!(waiting.report_on(0, host(1), Vec::new()), Ok(false));
    assert_eq!(waiting.report_on(0, host(1), told.clone().into_iter().collect()), Ok(true));
    assert_eq!(waiting.report_on(0, host(1), told.into_iter().collect()), Ok(false), "that is known");
}

#[test]
fn while_blocks_are_under_way_pings_that_arrive_tell_nothing() {
    let mut waiting = Hostile::new(&[Some(host(1))], fixed(10e6));
    waiting.wait(ROUND_TRIP);
    let ping = waiting.newest(0, 0);
    waiting.hand_in(0);
    waiting.wait(ROUND_TRIP);
    let part = waiting.newest(0, 0);
    assert_ne!(ping, part);
    assert_eq!(waiting.report_on(0, host(1), ping.into_iter().collect()), Ok(false));
    assert_eq!(waiting.report_on(0, host(1), part.into_iter().collect()), Ok(true));
}

/// It goes on telling from elsewhere that what went to an address which it has proven has come.
#[test]
fn an_address_that_the_receiver_has_left_is_not_sent_to_without_end() {
    let (left, own) = (host(9), host(1));
    let mut hostile = Hostile::new(&[None, None], fixed(1e6));
    hostile.hand_in(0);
    hostile.prove(0, left);
    let mut got = 0;
    for _ in 0..3_000 {
        let sent = hostile.wait(ROUND_TRIP);
        if hostile.now >= Time::ZERO + Duration::from_secs(10) {
            got += sent.iter().filter(|(to, _)| *to == left).map(|(_, len)| len).sum::<u64>();
        }
        let newest = hostile.newest(0, 0);
        hostile.report_on(1, own, newest.into_iter().collect()).unwrap();
    }
    assert!(got < 20_000, "{got} bytes in 20 seconds");
}

/// Its own address may be as wrong: it need not hear a packet to tell of it.
#[test]
fn who_tells_of_packets_without_having_heard_them_is_found_out() {
    let mut hostile = Hostile::new(&[Some(host(1))], fixed(10e6));
    hostile.hand_in(0);
    let found = (0..500).find_map(|_| {
        hostile.wait(ROUND_TRIP);
        let all =
            hostile.newest(0, 0).map(|newest| ChannelReport { runs: vec![0..newest.runs[0].end], ..newest });
        hostile.report_on(0, host(1), all.into_iter().collect()).err()
    });
    assert_eq!(found, Some(SessionError::NeverSent));
}

/// The first packet is told of after 80 seconds, and from then on all but one: nothing says any more how long the path is.
#[test]
fn a_packet_that_is_never_told_of_does_not_keep_all_that_are_sent_behind_it() {
    let rate = 10e6;
    let mut hostile = Hostile::new(&[Some(host(1))], fixed(rate));
    hostile.hand_in(0);
    hostile.wait(Duration::from_secs(80));
    let told = ChannelReport { runs: vec![0..1], ..hostile.newest(0, 0).unwrap() };
    let arrivals = vec![(PacketNumber(0), hostile.now.micros())];
    hostile.report(host(1), vec![ChannelReport { arrivals, ..told.clone() }]);
    hostile.deaf_to = Some(hostile.sender.channels[ChannelNumber(0)].flight.next_number() + 100);
    let mut most = 0;
    for block in 1..1_000 {
        if hostile.sender.outgoing.is_drained() {
            hostile.hand_in(block);
        }
        hostile.wait(ROUND_TRIP);
        hostile.floor = hostile.sender.outgoing.next_serial() - 1;
        let runs = hostile.heard[0].iter().rev().cloned().collect();
        hostile.report(host(1), vec![ChannelReport { runs, arrivals: Vec::new(), ..told.clone() }]);
        most = most.max(hostile.sender.channels[ChannelNumber(0)].flight.remembered());
    }
    // What goes out in three seconds.
    assert!(most < (3.0 * rate / 1_200.0) as usize, "{most} packets are remembered");
}

/// All but the newest packet of many counts as lost, over and over.
#[test]
fn what_is_lost_on_purpose_is_not_copied_without_end() {
    // The whole block is under way before anything is told.
    let mut hostile = Hostile::new(&[Some(host(1))], fixed(1e9));
    hostile.hand_in(0);
    hostile.sender.handle_last();
    let mut most = 0;
    while hostile.sender.channels[ChannelNumber(0)].flight.next_number() < 100_000 {
        hostile.wait(ROUND_TRIP / 2);
        let report = hostile.newest(0, 0);
        hostile.report(host(1), report.into_iter().collect());
        most = most.max(hostile.sender.outgoing.to_send_again());
    }
    assert!(most < 10_000, "{most} segments wait to be sent again");
}

#[test]
fn more_than_was_sent_has_not_arrived_whatever_the_other_end_says() {
    let mut hostile = Hostile::new(&[Some(host(1)); 5], Box::new(Model::new(Eagerness::Full, ROUND_TRIP)));
    for block in 0..200 {
        if hostile.sender.wants_block() {
            hostile.hand_in(block);
        }
        hostile.wait(ROUND_TRIP);
        let channels = (0..5).filter_map(|channel| hostile.newest(channel, (1 << 62) - 1)).collect();
        hostile.report(host(1), channels);
    }
    let status = hostile.sender.status().next().unwrap();
    assert!(status.arrived <= status.sent, "{status}");
    assert!(
        hostile.sender.routes[PathIndex(0)].law.window() < 1 << 30,
        "{}",
        hostile.sender.routes[PathIndex(0)].law.window()
    );
}
