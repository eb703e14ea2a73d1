//! The packets that one channel has under way, and which of them are lost.
//!
//! | a packet is | until | then |
//! |---|---|---|
//! | under way | a report has it | arrived |
//! | under way | a report has one that was sent long enough after it (RACK, RFC 8985) | lost |
//! | under way | its channel is given up (`give_up`) | lost |
//! | lost | a report has it after all | arrived late: packets are allowed more time to be overtaken |
//! | lost | nothing was heard of it for long (`forget_lost`) | forgotten |

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::outgoing::Segment;
use crate::Time;

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
    /// When the newest packet that arrived had been sent.
    newest_arrived: Option<(u64, Time)>,
    /// Lost, and perhaps only late.
    lost: VecDeque<(u64, Sent)>,
}

/// Lost packets that are remembered in case they were late.
const MAX_LOST: usize = 4096;

impl Flight {
    /// The next packet's number.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
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
            let from = run.start.max(self.first);
            for number in from..run.end.max(from) {
                let slot = &mut self.ring[(number - self.first) as usize];
                let Some(sent) = slot.take() else { continue };
                if self.newest_arrived.is_none_or(|(newest, _)| number > newest) {
                    self.newest_arrived = Some((number, sent.at));
                }
                arrived(number, sent);
            }
        }
        self.drop_settled();
        let mut late = Vec::new();
        if !self.lost.is_empty() {
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
        while self.left_out.front().is_some_and(|number| *number < self.first) {
            self.left_out.pop_front();
        }
    }

    /// Packets sent `patience` before one that arrived are lost, if that one's number is larger.
    pub(crate) fn detect_lost(&mut self, patience: Duration, mut lost: impl FnMut(Sent)) {
        let Some((newest, sent_at)) = self.newest_arrived else { return };
        let limit = newest.saturating_sub(self.first) as usize;
        for at in 0..limit.min(self.ring.len()) {
            let Some(sent) = self.ring[at] else { continue };
            if sent.at + patience > sent_at {
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

    /// Nothing on this channel arrives any more: all that is under way is lost.
    pub(crate) fn give_up(&mut self, mut lost: impl FnMut(Sent)) {
        for at in 0..self.ring.len() {
            if let Some(sent) = self.ring[at] {
                self.lose(at, sent);
                lost(sent);
            }
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
    fn a_report_of_packets_never_sent_is_a_lie() {
        assert!(flight(5).handle_runs(std::slice::from_ref(&(0..6)), |_, _| ()).is_none());
        let mut with_gap = flight(5);
        with_gap.leave_out();
        with_gap.record(*flight(1).newest_first().next().unwrap());
        assert!(with_gap.handle_runs(&[4..7], |_, _| ()).is_none());
        assert_eq!(arrive(&mut with_gap, &[6..7, 0..5]), [6, 0, 1, 2, 3, 4]);
        assert_eq!((with_gap.floor(), with_gap.next_number()), (7, 7));
        let mut given_up = flight(5);
        let mut lost = 0;
        given_up.give_up(|_| lost += 1);
        assert_eq!((lost, given_up.newest_first().count(), given_up.next_number()), (5, 0, 5));
    }
}
