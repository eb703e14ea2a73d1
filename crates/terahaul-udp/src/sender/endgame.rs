//! The last bytes: nothing fresh is left to send, and a loss now would cost a round trip of its own.
//!
//! While the last packets are under way the line is idle, so they are sent once more, the newest first: a copy of the
//! oldest would hardly come before the report that says whether one is needed. What is lost for certain goes out in as
//! many copies as make another loss unlikely.

use std::collections::VecDeque;

use super::flight::{Flight, Load};
use super::outgoing::Segment;
use crate::Time;

/// Copies of what is under way.
#[derive(Debug, Default)]
pub(crate) struct Endgame {
    copies: Option<VecDeque<(Time, Segment)>>,
}

impl Endgame {
    /// The last byte was sent: `flights` are all that is under way.
    pub(crate) fn begin<'a>(&mut self, flights: impl Iterator<Item = &'a Flight>) {
        if self.copies.is_some() {
            return;
        }
        let mut copies: Vec<(Time, Segment)> = flights
            .flat_map(Flight::newest_first)
            .filter_map(|sent| match sent.load {
                Load::Data(segment) => Some((sent.at, segment)),
                _ => None,
            })
            .collect();
        copies.sort_by_key(|(at, segment)| std::cmp::Reverse((*at, segment.serial, segment.offset)));
        self.copies = Some(copies.into());
    }

    /// More is to be sent after all.
    pub(crate) fn end(&mut self) {
        self.copies = None;
    }

    /// Whether there may be another copy to send.
    pub(crate) fn has_more(&self) -> bool {
        self.copies.as_ref().is_some_and(|copies| !copies.is_empty())
    }

    /// The next copy, of what was sent at `not_before` or later: older ones are reported soon.
    pub(crate) fn next(&mut self, not_before: Time) -> Option<Segment> {
        let copies = self.copies.as_mut()?;
        match copies.pop_front() {
            Some((at, segment)) if at >= not_before => Some(segment),
            _ => {
                copies.clear();
                None
            }
        }
    }
}
