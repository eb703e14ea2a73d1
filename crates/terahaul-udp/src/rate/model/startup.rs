//! Finding out what the line carries, as fast as it can be done without flooding it.
//!
//! | a report shows | next |
//! |---|---|
//! | for the first time what the line carries, on a [`FAR`] path where nothing waits | startup, at that at least |
//! | that packets wait | cruise, at what the line carries, or arrives where much is lost, and no larger window |
//! | more loss than was usual below | cruise, held at what arrives |
//! | a window of all that the line carries | cruise |
//! | anything else | startup; the window grows by three times what has arrived, and by up to thirty-one times that towards a wide line |

use super::loss_guard::HEAVY;
use super::{Model, is_empty};
use crate::Time;
use crate::path::FAR;
use crate::rate::PathReport;

impl Model {
    /// `measured`: this report is the first by which the line's capacity is known.
    pub(super) fn startup(&mut self, now: Time, report: &PathReport, measured: bool) {
        let full = self.capacity * self.idle_loop + self.alpha();
        let known = report.capacity.is_some();
        if measured && self.shortest >= FAR && is_empty(self.waiting, self.keep) {
            // Growing towards it would cost two round trips. Over shorter paths it would spare little, and others begin more often meanwhile.
            self.window = self.window.max(full);
        }
        if !report.sender_limited {
            // A line that bursts show to be far wider is approached faster.
            let factor = if known { (full / self.window).clamp(4.0, 32.0) } else { 4.0 };
            self.window += report.arrived as f64 * (factor - 1.0);
        }
        let settled = (self.round.cohort.arrived + self.round.cohort.lost) as f64;
        let usual = self.settled.loss();
        let lost = self.round.cohort.loss();
        let packets = settled / self.datagram;
        let chance = 3.0 * (10.0 * usual.max(0.005) / packets.max(1.0)).sqrt();
        let arrival = report.arrival_rate.unwrap_or(0.0).max(self.capacity * 0.5);
        let line = match report.arrival_rate {
            // Others may be starting, too: what arrives is what this transfer can have.
            Some(rate) if lost.max(usual) > HEAVY => rate,
            _ if known => self.capacity,
            _ => arrival,
        };
        let filling = line * self.idle_loop + self.alpha();
        if report.waiting.saturating_sub(report.jitter).as_secs_f64() > (2.0 * self.keep).max(0.001) {
            self.guard.learn(usual);
            // Others may have what this transfer has not even asked for yet.
            self.cruise_at(now, filling.min(self.window));
        } else if packets > 200.0 && lost > usual + chance.max(0.05) {
            self.guard.learn(usual);
            let window = report.arrival_rate.unwrap_or(arrival) / (1.0 - usual) * self.idle_loop;
            self.guard.hold_at(now, window, report.round);
            self.cruise_at(now, window);
        } else if known && self.window >= full {
            self.guard.learn(usual);
            self.cruise_at(now, filling);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Eagerness, RateLaw};
    use super::*;
    use std::time::Duration;

    /// The window after the first report that knows a line of 125 MB/s, of which packets wait so long.
    fn first_window(round_trip: Duration, waiting: Duration) -> u64 {
        let mut law = Model::new(Eagerness::Fair, round_trip);
        let report = PathReport {
            round_trip: round_trip + waiting,
            shortest: round_trip,
            waiting,
            standing: waiting,
            capacity: Some(125e6),
            arrived: 20_000,
            datagram: 1_200,
            ..PathReport::default()
        };
        law.handle_report(Time::ZERO + round_trip, &report);
        law.window()
    }

    #[test]
    fn a_far_line_is_taken_at_once_where_nobody_waits() {
        let (far, near) = (Duration::from_millis(100), Duration::from_millis(20));
        let line = (125e6 * far.as_secs_f64()) as u64;
        assert!((line..line * 11 / 10).contains(&first_window(far, Duration::ZERO)));
        assert!(first_window(far, Duration::from_millis(3)) < line / 8, "somebody else uses it");
        assert!(first_window(near, Duration::ZERO) < line / 16, "there is time to grow");
    }
}
