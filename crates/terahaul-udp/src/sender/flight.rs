//! The packets that one channel has under way, and which of them are lost.
//!
//! | a packet is | until | then |
//! |---|---|---|
//! | under way | a report has it | arrived |
//! | under way | a report has one that was sent long enough after it (RACK, RFC 8985), or much more than can be remembered | lost |
//! | under way | its channel is given up, or what was sent on it long ago (`give_up`) | lost |
//! | lost | a report has it after all | arrived late: packets are allowed more time to be overtaken |
//! | lost | nothing was heard of it for long (`forget_lost`) | forgotten |

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::outgoing::Segment;
use crate::{Ranges, Time};

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Time,
    /// Bytes sent on the path so far, this packet included.
    pub(crate) path_bytes: u64,
    /// The path's round in which it was sent.
    pub(crate) round: u64,
    /// The datagram's length.
    pub(crate) len: u32,
    /// Routers might mark it.
    pub(crate) ecn: bool,
    pub(crate) load: Load,
}

/// What a packet carries, as far as its loss matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Data(Segment),
    /// A probe of the path's MTU: its loss says nothing of congestion.
    MtuProbe,
    /// Nothing that has to be sent again.
    Signal,
}

/// The packets under way on a channel, by number.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The number of `ring[0]`.
    first: u64,
    /// `None` is settled: arrived, lost, or never sent.
    ring: VecDeque<Option<Sent>>,
    /// Numbers that no packet has, from `first` on, in order.
    left_out: VecDeque<u64>,
    /// What reports have told of, from `first` on.
    arrived: Ranges,
    /// When the newest packet that arrived had been sent.
    newest_arrived: Option<(u64, Time)>,
    /// Lost, and perhaps only late.
    lost: VecDeque<(u64, Sent)>,
}

/// Lost packets that are remembered in case they were late.
const MAX_LOST: usize = 4096;
/// Packets from the oldest to the newest that are remembered once a report has come, and runs of those that arrived. What honest
/// receivers leave untold is never as much: 10 Gbit/s over a satellite are 600,000 packets.
const MOST_PACKETS: u64 = 1 << 20;
const MOST_RUNS: usize = 4096;
/// Packets in a burst: as many full ones as a system takes in one call, and a short one.
const MOST_IN_BURST: u64 = 64;

impl Flight {
    /// The next packet's number.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// What it takes to remember them.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.ring.len()
    }

    /// The next packet was sent. Times never go back.
    pub(crate) fn record(&mut self, sent: Sent) {
        self.ring.push_back(Some(sent));
    }

    /// No packet has the next number.
    pub(crate) fn leave_out(&mut self) {
        self.left_out.push_back(self.next_number());
        self.ring.push_back(None);
    }

    /// The newest packet that arrived, and when it had been sent.
    pub(crate) fn newest_arrived(&self) -> Option<(u64, Time)> {
        self.newest_arrived
    }

    /// The packets under way, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Sent> {
        self.ring.iter().rev().flatten()
    }

    /// The packets under way, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &Sent> {
        self.ring.iter().flatten()
    }

    /// The packets under way that have a larger number than every one that arrived, oldest first.
    pub(crate) fn unheard(&self) -> impl Iterator<Item = &Sent> {
        let heard = self.newest_arrived.map_or(0, |(newest, _)| newest + 1);
        self.ring.range(heard.saturating_sub(self.first).min(self.ring.len() as u64) as usize..).flatten()
    }

    /// The packet of this number, if it is under way.
    pub(crate) fn under_way(&self, number: u64) -> Option<&Sent> {
        self.ring.get(number.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// Bytes of the packets that were sent in one burst with `number` and before it, are under way, and are in none of a report's `runs`.
    pub(crate) fn missing_before(&self, number: u64, runs: &[Range<u64>]) -> u64 {
        let Some(burst) = self.under_way(number).map(|sent| sent.at) else { return 0 };
        let least = number.saturating_sub(MOST_IN_BURST).max(self.first);
        // Runs come newest first.
        let at = runs.partition_point(|run| run.start > number);
        let (mut missing, mut newer) = (0, number);
        for run in &runs[at..] {
            for gap in (run.end.max(least)..newer).rev() {
                match self.under_way(gap) {
                    Some(sent) if sent.at == burst => missing += u64::from(sent.len),
                    Some(_) => return missing,
                    None => {}
                }
            }
            newer = run.start;
            if newer <= least || self.under_way(newer).is_some_and(|sent| sent.at != burst) {
                break;
            }
        }
        missing
    }

    /// Reports need not speak of packets below this any more.
    pub(crate) fn floor(&self) -> u64 {
        self.lost.front().map_or(self.first, |(number, _)| *number)
    }

    /// A report has these packets. Calls `arrived` for each that was under way, in no particular order, and returns how
    /// many had been taken for lost. `None`: the report has packets that were never sent.
    pub(crate) fn handle_runs(
        &mut self,
        runs: &[Range<u64>],
        mut arrived: impl FnMut(u64, Sent),
    ) -> Option<Vec<Sent>> {
        let next = self.next_number();
        if runs.iter().any(|run| run.end > next || self.has_left_out(run)) {
            return None;
        }
        for run in runs {
            let run = run.start.max(self.first)..run.end;
            // Each report repeats what many before it have told.
            for number in self.arrived.missing_in(run.clone()).flatten() {
                let slot = &mut self.ring[(number - self.first) as usize];
                let Some(sent) = slot.take() else { continue };
                if self.newest_arrived.is_none_or(|(newest, _)| number > newest) {
                    self.newest_arrived = Some((number, sent.at));
                }
                arrived(number, sent);
            }
            self.arrived.insert(run);
        }
        self.drop_settled();
        let mut late = Vec::new();
        let has_late = |run: &Range<u64>| {
            let at = self.lost.partition_point(|(number, _)| *number < run.start);
            self.lost.get(at).is_some_and(|(number, _)| *number < run.end)
        };
        if runs.iter().any(has_late) {
            // Runs come newest first.
            self.lost.retain(|(number, sent)| {
                let at = runs.partition_point(|run| run.start > *number);
                let has = runs.get(at).is_some_and(|run| run.contains(number));
                if has {
                    late.push(*sent);
                }
                !has
            });
        }
        Some(late)
    }

    fn has_left_out(&self, run: &Range<u64>) -> bool {
        let at = self.left_out.partition_point(|number| *number < run.start);
        self.left_out.get(at).is_some_and(|number| *number < run.end)
    }

    fn drop_settled(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first += 1;
        }
        self.arrived.remove_below(self.first);
        while self.left_out.front().is_some_and(|number| *number < self.first) {
            self.left_out.pop_front();
        }
    }

    /// Below this nothing is waited for, once something behind it has come: there would be too much to remember.
    fn waited_from(&self) -> u64 {
        let too_many = self.arrived.len().saturating_sub(MOST_RUNS);
        let last = too_many.checked_sub(1).and_then(|last| self.arrived.iter().nth(last));
        last.map_or(0, |run| run.end).max(self.next_number().saturating_sub(MOST_PACKETS))
    }

    /// Packets sent `patience` before one that arrived are lost, if that one's number is larger.
    pub(crate) fn detect_lost(&mut self, patience: Duration, mut lost: impl FnMut(Sent)) {
        let Some((newest, sent_at)) = self.newest_arrived else { return };
        let limit = newest.saturating_sub(self.first) as usize;
        let waited_from = self.waited_from();
        for at in 0..limit.min(self.ring.len()) {
            let Some(sent) = self.ring[at] else { continue };
            if sent.at + patience > sent_at && self.first + at as u64 >= waited_from {
                break;
            }
            self.lose(at, sent);
            lost(sent);
        }
        self.drop_settled();
    }

    fn lose(&mut self, at: usize, sent: Sent) {
        self.ring[at] = None;
        if self.lost.len() == MAX_LOST {
            self.lost.pop_front();
        }
        self.lost.push_back((self.first + at as u64, sent));
    }

    /// Nothing that was sent on this channel before `before` arrives any more: what is under way of it is lost.
    pub(crate) fn give_up(&mut self, before: Time, mut lost: impl FnMut(Sent)) {
        for at in 0..self.ring.len() {
            let Some(sent) = self.ring[at] else { continue };
            if sent.at >= before {
                break;
            }
            self.lose(at, sent);
            lost(sent);
        }
        self.drop_settled();
    }

    /// What was sent before `before` and lost does not come any more.
    pub(crate) fn forget_lost(&mut self, before: Time) {
        while self.lost.front().is_some_and(|(_, sent)| sent.at < before) {
            self.lost.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(packets: u64) -> Flight {
        let mut flight = Flight::default();
        for number in 0..packets {
            flight.record(Sent {
                at: Time::from_nanos(number * 1_000_000),
                path_bytes: number * 100,
                round: 0,
                len: 100,
                ecn: false,
                load: Load::Signal,
            });
        }
        flight
    }

    fn arrive(flight: &mut Flight, runs: &[Range<u64>]) -> Vec<u64> {
        let mut numbers = Vec::new();
        flight.handle_runs(runs, |number, _| numbers.push(number)).unwrap();
        numbers
    }

    fn lose(flight: &mut Flight, patience_ms: u64) -> Vec<u64> {
        let mut lost = Vec::new();
        flight.detect_lost(Duration::from_millis(patience_ms), |sent| lost.push(sent.at.nanos() / 1_000_000));
        lost
    }

    #[test]
    fn what_was_sent_long_before_one_that_arrived_is_lost_once() {
        let mut flight = flight(20);
        assert_eq!(lose(&mut flight, 3), []);
        assert_eq!(arrive(&mut flight, &[10..11, 0..2]), [10, 0, 1]);
        assert_eq!(lose(&mut flight, 3), [2, 3, 4, 5, 6, 7]);
        assert_eq!(lose(&mut flight, 3), []);
        assert_eq!(flight.floor(), 2);
        assert_eq!(arrive(&mut flight, &[8..12, 0..2]), [8, 9, 11]);
        assert_eq!(lose(&mut flight, 0), []);
    }

    #[test]
    fn a_packet_that_was_only_late_is_noticed() {
        let mut flight = flight(20);
        arrive(&mut flight, std::slice::from_ref(&(10..20)));
        assert_eq!(lose(&mut flight, 5).len(), 10);
        let late = flight.handle_runs(&[10..20, 3..4], |_, _| panic!("nothing is under way")).unwrap();
        assert_eq!(late.iter().map(|sent| sent.at.nanos()).collect::<Vec<_>>(), [3_000_000]);
        assert_eq!(flight.floor(), 0);
        flight.forget_lost(Time::from_nanos(9_000_000));
        assert_eq!(flight.floor(), 9);
        flight.forget_lost(Time::NEVER);
        assert_eq!(flight.floor(), 20);
    }

    #[test]
    fn the_oldest_is_not_waited_for_when_too_much_would_have_to_be_remembered() {
        let mut long = flight(MOST_PACKETS + 10);
        arrive(&mut long, &[1..MOST_PACKETS + 10]);
        assert_eq!(lose(&mut long, 1 << 30), [0]);
        assert_eq!((long.floor(), long.remembered()), (0, 0));
        let runs = MOST_RUNS as u64 + 10;
        let mut torn = flight(2 * runs + 10);
        for number in 0..runs {
            arrive(&mut torn, &[2 * number + 1..2 * number + 2]);
        }
        let lost = lose(&mut torn, 1 << 30);
        assert_eq!(lost, (0..10).map(|number| 2 * number).collect::<Vec<_>>());
        assert_eq!(torn.arrived.len(), MOST_RUNS);
    }

    #[test]
    fn only_what_has_not_come_of_the_same_burst_is_missing_before_a_packet() {
        let mut flight = flight(4);
        let burst = Sent { at: Time::from_nanos(9_000_000), ..*flight.newest_first().next().unwrap() };
        (4..12).for_each(|_| flight.record(burst));
        let missing =
            |flight: &Flight, number, runs: &[Range<u64>]| flight.missing_before(number, runs) / 100;
        assert_eq!(
            missing(&flight, 11, &[11..12, 8..10, 5..6]),
            3,
            "10, 7, 6; and none below the oldest that came"
        );
        assert_eq!(missing(&flight, 9, &[8..10, 5..6, 0..1]), 3, "7, 6, 4");
        assert_eq!(missing(&flight, 11, &[0..12]), 0);
        assert_eq!(missing(&flight, 4, &[4..5, 0..2]), 0, "others were sent before");
        arrive(&mut flight, &[5..7, 0..1]);
        assert_eq!(missing(&flight, 11, &[11..12, 5..7, 0..1]), 5, "7 to 10, and 4");
        assert_eq!(missing(&flight, 5, &[5..7]), 0, "it is not under way");
    }

    #[test]
    fn what_was_told_before_is_not_looked_at_again() {
        let mut flight = flight(100);
        let told = [60..90, 20..50];
        assert_eq!(arrive(&mut flight, &told).len(), 60);
        assert!(told.iter().all(|run| flight.arrived.missing_in(run.clone()).next().is_none()));
        assert_eq!(arrive(&mut flight, &[60..90, 15..50]), [15, 16, 17, 18, 19]);
        assert_eq!(arrive(&mut flight, &[0..15]).len(), 15);
        assert_eq!((flight.first, flight.arrived.len()), (50, 1), "below the first nothing is looked at");
    }

    #[test]
    fn a_report_of_packets_never_sent_is_a_lie() {
        assert!(flight(5).handle_runs(std::slice::from_ref(&(0..6)), |_, _| ()).is_none());
        let mut with_gap = flight(5);
        with_gap.leave_out();
        with_gap.record(*flight(1).newest_first().next().unwrap());
        assert!(with_gap.handle_runs(&[4..7], |_, _| ()).is_none());
        assert_eq!(arrive(&mut with_gap, &[6..7, 0..5]), [6, 0, 1, 2, 3, 4]);
        assert_eq!((with_gap.floor(), with_gap.next_number()), (7, 7));
    }

    #[test]
    fn what_is_given_up_is_lost_and_what_was_sent_later_is_not() {
        let mut given_up = flight(5);
        let mut lost = 0;
        given_up.give_up(Time::from_nanos(2_000_000), |_| lost += 1);
        assert_eq!((lost, given_up.newest_first().count()), (2, 3));
        given_up.give_up(Time::NEVER, |_| lost += 1);
        assert_eq!((lost, given_up.newest_first().count(), given_up.next_number()), (5, 0, 5));
    }
}
