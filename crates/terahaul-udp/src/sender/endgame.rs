//! The last bytes: nothing fresh is left to send, and a loss now would cost a round trip of its own.
//!
//! While the last packets are under way the line is idle, so they are sent once more, those first that will be reported last:
//! a copy of the oldest would hardly come before the report that says whether one is needed. Where there are several paths, the
//! quick ones copy in this way what is still under way on the slow ones. What is lost for certain goes out in as many copies as
//! make another loss unlikely. On a long path repairs go before all copies ([`super::repairs`]).

use std::collections::VecDeque;
use std::time::Duration;

use super::flight::{Flight, Load};
use super::outgoing::Segment;
use super::repairs::Repairs;
use crate::{PathIndex, Time};

/// Repairs and copies of what is under way.
#[derive(Debug, Default)]
pub(crate) struct Endgame {
    pub(crate) repairs: Repairs,
    /// With when the report of each should come, the latest first.
    copies: Option<VecDeque<(Time, Segment)>>,
    /// Paths on which a copy comes too late, one bit each.
    late: u64,
}

fn bit(path: PathIndex) -> u64 {
    1 << (path.0 % 64)
}

impl Endgame {
    /// Whether nothing but this is left to send.
    pub(crate) fn has_begun(&self) -> bool {
        self.copies.is_some()
    }

    /// The last byte was sent: `flights` are all that is under way, each with its path's round trip.
    pub(crate) fn begin<'a>(&mut self, flights: impl Iterator<Item = (Duration, &'a Flight)>) {
        let mut copies: Vec<(Time, Segment)> = flights
            .flat_map(|(round_trip, flight)| flight.newest_first().map(move |sent| (round_trip, sent)))
            .filter_map(|(round_trip, sent)| match sent.load {
                Load::Data(segment) => Some((sent.at + round_trip, segment)),
                _ => None,
            })
            .collect();
        copies.sort_by_key(|(due, segment)| std::cmp::Reverse((*due, segment.serial, segment.offset)));
        self.copies = Some(copies.into());
        self.late = 0;
    }

    /// More is to be sent after all.
    pub(crate) fn end(&mut self) {
        self.repairs.end();
        self.copies = None;
    }

    /// Whether there may be something to send on `path`, where packets have so much room.
    pub(crate) fn has_more(&self, path: PathIndex, room: usize) -> bool {
        self.repairs.has_more(room)
            || self.late & bit(path) == 0 && self.copies.as_ref().is_some_and(|copies| !copies.is_empty())
    }

    /// The next copy for `path`, of what will be reported at `from` or later: others are reported soon.
    pub(crate) fn next(&mut self, path: PathIndex, from: Time) -> Option<Segment> {
        let copies = self.copies.as_mut()?;
        match copies.front() {
            Some((due, _)) if *due >= from => copies.pop_front().map(|(_, segment)| segment),
            _ => {
                // Those behind are reported sooner still.
                self.late |= bit(path);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use terahaul_core::BlockNumber;
    use terahaul_wire::packet::{
        ChannelNumber, ChannelReport, ConnectionId, PACKET_HEADER_LEN, PACKET_TAG_LEN, PacketFrame,
        PacketFrames, PacketNumber, Report,
    };

    use super::*;
    use crate::rate::Fixed;
    use crate::seal::tests::Clear;
    use crate::sender::flight::Sent;
    use crate::sender::{ChallengeKey, ChannelConfig, PathConfig, Sender, SenderConfig};
    use crate::{Datagram, Opened};

    const ROUND_TRIP: Duration = Duration::from_millis(8);
    const QUICK: PathIndex = PathIndex(0);
    const SLOW: PathIndex = PathIndex(1);
    const ROOM: usize = 1_200;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn segment(serial: u32, number: u32) -> Segment {
        Segment { serial, offset: number * 1_000, len: 1_000 }
    }

    /// What was sent, in which millisecond.
    fn flight(sent: impl IntoIterator<Item = (u64, Load)>) -> Flight {
        let mut flight = Flight::default();
        for (ms, load) in sent {
            flight.record(Sent { at: at(ms), path_bytes: 0, round: 0, len: 1_040, ecn: false, load });
        }
        flight
    }

    /// Of 1 ms, and of 10 ms.
    fn begun(quick: &Flight, slow: &Flight) -> Endgame {
        let mut endgame = Endgame::default();
        let flights = [(1, quick), (10, slow)].map(|(ms, flight)| (Duration::from_millis(ms), flight));
        endgame.begin(flights.into_iter());
        endgame
    }

    #[test]
    fn parts_of_blocks_that_are_under_way_are_copied_once_the_last_to_be_reported_first() {
        let data = |number| Load::Data(segment(0, number));
        let mut quick =
            flight([(0, data(0)), (1, Load::Signal), (2, data(1)), (3, Load::MtuProbe), (4, data(2))]);
        quick.handle_runs(std::slice::from_ref(&(0..1)), |_, _| ()).unwrap();
        let slow = flight([(0, data(3)), (1, data(4))]);
        let mut endgame = begun(&quick, &slow);
        assert!(endgame.has_begun() && endgame.has_more(QUICK, ROOM));
        let copies: Vec<_> = std::iter::from_fn(|| endgame.next(QUICK, Time::ZERO)).collect();
        assert_eq!(copies, [4, 3, 2, 1].map(|number| segment(0, number)));
        assert!(!endgame.has_more(QUICK, ROOM), "there is no second copy");
    }

    #[test]
    fn what_is_reported_soon_is_not_copied_and_nobody_comes_again_for_it() {
        let [old, new] = [(0, 0), (4, 1)].map(|(ms, number)| (ms, Load::Data(segment(0, number))));
        let mut endgame = begun(&flight([old, new]), &Flight::default());
        assert_eq!(endgame.next(SLOW, at(6)), None, "the copy would come later than what is sent again");
        assert!(!endgame.has_more(SLOW, ROOM) && endgame.has_more(QUICK, ROOM), "not on any path");
        assert_eq!(endgame.next(QUICK, at(3)), Some(segment(0, 1)));
        assert_eq!(endgame.next(QUICK, at(3)), None);
        assert!(!endgame.has_more(QUICK, ROOM));
    }

    #[test]
    fn what_more_is_sent_before_is_copied_at_the_real_end() {
        let mut flight = flight([(0, Load::Data(segment(0, 0)))]);
        let mut endgame = begun(&flight, &Flight::default());
        assert_eq!(endgame.next(QUICK, at(9)), None);
        endgame.end();
        assert!(!endgame.has_begun() && !endgame.has_more(QUICK, ROOM));
        assert_eq!(endgame.next(QUICK, Time::ZERO), None);
        let sent = Sent { load: Load::Data(segment(1, 0)), ..*flight.newest_first().next().unwrap() };
        flight.record(Sent { at: at(9), ..sent });
        let mut endgame = begun(&flight, &Flight::default());
        assert!(endgame.has_more(QUICK, ROOM));
        assert_eq!(endgame.next(QUICK, at(9)), Some(segment(1, 0)));
    }

    /// A sender, and what its one path has carried.
    struct End {
        sender: Sender,
        now: Time,
        reports: u32,
    }

    impl End {
        fn new(rate: f64) -> Self {
            let config = SenderConfig {
                connection: ConnectionId([0; 8]),
                channels: vec![ChannelConfig { remote: "192.0.2.1:1".parse().ok(), path: QUICK }],
                paths: vec![PathConfig { max_datagram: 1_472 }],
                round_trip: ROUND_TRIP,
                max_blocks: 4,
                max_rate: None,
                challenges: ChallengeKey([7; 32]),
            };
            let sender = Sender::new(Time::ZERO, config, vec![Box::new(Fixed::new(rate, ROUND_TRIP))]);
            Self { sender, now: Time::ZERO, reports: 0 }
        }

        fn hand_in(&mut self, block: u32, bytes: usize) {
            self.sender.handle_block(BlockNumber(block), vec![7; bytes]).unwrap();
        }

        /// The parts of blocks that go out within so much time, in order.
        fn run(&mut self, time: Duration) -> Vec<Segment> {
            let until = self.now + time;
            let (mut sent, mut buffer) = (Vec::new(), vec![0; 65_000]);
            while self.now < until {
                while let Some(transmit) = self.sender.poll_transmit(self.now, &mut Clear(1), &mut buffer) {
                    for packet in buffer[..transmit.len].chunks(transmit.segment) {
                        let frames = &packet[PACKET_HEADER_LEN..packet.len() - PACKET_TAG_LEN];
                        sent.extend(PacketFrames::new(frames).filter_map(|frame| match frame.unwrap() {
                            PacketFrame::Data(header, bytes) => Some(Segment {
                                serial: header.of.serial,
                                offset: header.offset,
                                len: bytes.len() as u32,
                            }),
                            _ => None,
                        }));
                    }
                }
                self.now = self.now + Duration::from_micros(50);
            }
            sent
        }

        /// The receiver has these packets.
        fn report(&mut self, runs: std::ops::Range<u64>) {
            self.reports += 1;
            let arrivals = vec![(PacketNumber(runs.end - 1), self.now.micros())];
            let channel = ChannelReport { runs: vec![runs], arrivals, ..ChannelReport::default() };
            let channels = vec![channel];
            let report = Report {
                number: self.reports,
                at: self.now.micros(),
                credit: 4,
                channels,
                ..Report::default()
            };
            let mut payload = Vec::new();
            PacketFrame::Report(report).encode(&mut payload);
            let number = PacketNumber(self.reports.into());
            let packet = Opened { number, len: ROOM, payload: &payload };
            let (channel, from) = (ChannelNumber(0), "192.0.2.1:1".parse().unwrap());
            let datagram = Datagram { arrived: self.now, channel, from, congested: false };
            self.sender.handle_packet(self.now, &datagram, &packet).unwrap();
        }

        fn next_number(&self) -> u64 {
            self.sender.channels[ChannelNumber(0)].flight.next_number()
        }
    }

    /// How often each part went out.
    fn times(sent: &[Segment]) -> BTreeMap<(u32, u32), usize> {
        let mut times = BTreeMap::new();
        sent.iter().for_each(|part| *times.entry((part.serial, part.offset)).or_default() += 1);
        times
    }

    #[test]
    fn a_transfer_of_less_than_a_round_trip_goes_out_twice_and_no_more() {
        let mut end = End::new(1e9);
        end.hand_in(0, 20_000);
        end.sender.handle_last();
        let sent = end.run(ROUND_TRIP * 10);
        assert_eq!(sent.iter().map(|part| part.len).sum::<u32>(), 40_000);
        assert!(times(&sent).values().all(|times| *times == 2), "{sent:?}");
        // The newest first: of the oldest a report comes next.
        let half = sent.len() / 2;
        assert!(sent[..half].iter().eq(sent[half..].iter().rev()), "{sent:?}");
    }

    #[test]
    fn of_a_longer_one_three_eighths_of_a_round_trip_go_out_twice() {
        // 160 packets a round trip, in bursts of 24. For the time that the copies take, what is copied comes to be reported.
        let mut end = End::new(24e6);
        end.hand_in(0, 400_000);
        end.sender.handle_last();
        let sent = end.run(ROUND_TRIP * 10);
        let times = times(&sent);
        let twice = times.values().filter(|times| **times == 2).count();
        assert!((36..=84).contains(&twice), "{twice} of {}", times.len());
        assert_eq!(sent.len(), times.len() + twice);
        assert!(times.values().rev().take(twice).all(|times| *times == 2), "the last ones");
    }

    #[test]
    fn what_was_reported_is_not_sent_twice() {
        let mut end = End::new(1e9);
        end.hand_in(0, 20_000);
        end.run(ROUND_TRIP);
        end.report(0..end.next_number());
        end.hand_in(1, 20_000);
        let sent = end.run(ROUND_TRIP / 4);
        end.report(0..end.next_number() - 1);
        end.sender.handle_last();
        assert_eq!(end.run(ROUND_TRIP * 10), sent[sent.len() - 1..], "of the last nothing was said");
    }

    #[test]
    fn while_more_may_follow_nothing_is_sent_twice_and_what_follows_goes_first() {
        let mut end = End::new(1e9);
        end.hand_in(0, 20_000);
        assert_eq!(end.run(ROUND_TRIP).iter().map(|part| part.len).sum::<u32>(), 20_000);
        end.report(0..1);
        end.hand_in(1, 3_000);
        end.sender.handle_last();
        let sent = end.run(ROUND_TRIP);
        let first = sent.iter().take_while(|part| part.serial == 1).count();
        assert!(sent[..first].iter().map(|part| part.len).sum::<u32>() >= 3_000, "{sent:?}");
        assert!(times(&sent[..first]).len() == 3);
    }

    #[test]
    fn what_is_lost_goes_out_once_and_at_the_end_in_four_copies_at_most() {
        for (is_last, copies) in [(false, 1..=1), (true, 2..=4)] {
            let mut end = End::new(1e9);
            end.hand_in(0, 20_000);
            end.run(ROUND_TRIP / 2);
            end.report(0..1);
            let lost = end.next_number();
            end.hand_in(1, 3_000);
            end.run(ROUND_TRIP);
            if is_last {
                end.sender.handle_last();
            }
            // All of the second block has come, and of the first the first packet alone.
            end.report(lost..end.next_number());
            let sent = end.run(ROUND_TRIP * 2);
            assert!(sent.iter().all(|part| part.serial == 0) && !sent.is_empty());
            let times = times(&sent);
            assert!(times.values().all(|times| copies.contains(times)), "{times:?}");
        }
    }
}
