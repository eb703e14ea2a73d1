//! The rate that the user gave, whatever the path says.
//!
//! What MCDTP (Czifro, 2018), Tsunami (Meiss, 2004) and RBUDP (He and others, 2002) do: for a line that nobody else uses.
//! Losses are reported and sent again; nothing slows down. Tsunami and RBUDP were measured on such lines; on any other
//! this takes what is not its own, so the command line refuses it unless it is asked for by name.

use std::time::Duration;

use super::{Cohort, PathReport, RateLaw};
use crate::Time;
use crate::path::MtuSearch;

/// Always the same rate.
#[derive(Clone, Debug)]
pub struct Fixed {
    rate: f64,
    window: u64,
}

impl Fixed {
    /// `rate` in bytes a second.
    pub fn new(rate: f64, round_trip: Duration) -> Self {
        Self { rate, window: Self::window_for(rate, round_trip, MtuSearch::BASE) }
    }

    /// Only what nobody reports on is bounded: a path that died fills no memory. Of a low rate too there is always a datagram under way.
    fn window_for(rate: f64, round_trip: Duration, datagram: u32) -> u64 {
        ((rate * (round_trip.as_secs_f64() * 3.0 + 0.1)) as u64).max(4 * u64::from(datagram))
    }
}

impl RateLaw for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn handle_report(&mut self, _: Time, report: &PathReport) {
        self.window = Self::window_for(self.rate, report.round_trip, report.datagram);
    }

    fn handle_cohort(&mut self, _: Time, _: &Cohort) {}

    fn handle_silence(&mut self, _: Time) {}

    fn handle_new_path(&mut self, _: Time, round_trip: Duration) {
        self.window = Self::window_for(self.rate, round_trip, MtuSearch::BASE);
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn phase(&self) -> &'static str {
        "fixed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rate_still_sends_datagrams_of_any_size() {
        let mut law = Fixed::new(1_000.0, Duration::from_micros(100));
        assert!(law.window() >= 1_200);
        law.handle_report(Time::ZERO, &PathReport { datagram: 8_952, ..PathReport::default() });
        assert!(law.window() >= 8_952);
    }
}
