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
