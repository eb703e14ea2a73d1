//! Finding out what the line carries, as fast as it can be done without flooding it.
//!
//! | a report shows | next |
//! |---|---|
//! | what the line carries, on a [`FAR`] path where no more waits than this transfer would keep waiting; once, and not after a silence | startup, at that at least, and at what later reports of two round trips say |
//! | that packets wait | cruise, at what the line carries, or arrives where much is lost, and no larger window |
//! | that twice as much is sent, much of it lost, and no more arrives | cruise, at what arrives |
//! | more loss than was usual below | cruise, held at what arrives |
//! | a window of all that the line carries | cruise |
//! | within [`ON_APPROVAL`] round trips of that, in cruise, that far more waits than this transfer keeps waiting | half of the window: somebody else uses the line |
//! | anything else | startup; the window grows by three times what has arrived, and by up to thirty-one times that towards a wide line |

use super::Model;
use super::loss_guard::HEAVY;
use crate::Time;
use crate::path::FAR;
use crate::rate::{Cohort, PathReport};

/// For so many round trips after a far line was taken: the next one's reports tell better what it carries, and the one after that whether
/// anybody else uses it.
const GROWING_INTO: u64 = 2;
const ON_APPROVAL: u64 = 3;

/// Whether more arrives of more that is sent. A policer drops what is beyond its rate from the first round trip on, and all that is added: what is
/// lost so passes for usual. Of bursts into a short queue much is lost, too, and as much of more of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    since: Cohort,
    pub(super) is_futile: bool,
}

impl Gain {
    /// Takes in what became of a round's packets.
    pub(super) fn handle_cohort(&mut self, cohort: &Cohort) {
        let sent = |cohort: &Cohort| cohort.arrived + cohort.lost;
        if sent(cohort) >= 2 * sent(&self.since) {
            let gained = cohort.arrived as f64 > 1.4 * self.since.arrived as f64;
            self.is_futile = cohort.loss() > HEAVY && !gained && sent(&self.since) > 0;
            self.since = *cohort;
        }
    }
}

/// Whether all of a far line was taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    No,
    /// In this round.
    In(u64),
    /// It was, or is not to be any more: others use it, or nothing was heard for long and what is known of it may be true no more.
    Past,
}

impl Model {
    /// A far line that looked idle, and of which all was taken, may be another's: nobody sees on the way in what queue there always is.
    pub(super) fn share_what_was_taken(&mut self, report: &PathReport) {
        let much = (4.0 * self.keeping.seconds()).max(self.shortest.as_secs_f64() / 8.0);
        if self.has_taken(report, ON_APPROVAL) && self.waiting > much {
            self.taken = Taken::Past;
            self.window /= 2.0;
        }
    }

    fn has_taken(&self, report: &PathReport, rounds: u64) -> bool {
        matches!(self.taken, Taken::In(round) if report.round < round + rounds)
    }

    pub(super) fn startup(&mut self, now: Time, report: &PathReport) {
        let full = self.capacity * self.idle_loop + self.alpha();
        let known = report.capacity.is_some();
        if known && self.taken == Taken::No && self.shortest >= FAR && self.waiting < self.keeping.seconds() {
            // Growing towards it would cost two round trips. Over shorter paths it would spare little, and others begin more often meanwhile.
            self.taken = Taken::In(report.round);
        }
        let growing_into = self.has_taken(report, GROWING_INTO);
        if growing_into {
            self.window = self.window.max(full);
        } else if !report.sender_limited {
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
        if report.waiting.saturating_sub(report.jitter).as_secs_f64()
            > (2.0 * self.keeping.seconds()).max(0.001)
        {
            self.guard.learn(usual);
            // Others may have what this transfer has not even asked for yet.
            self.cruise_at(now, filling.min(self.window));
        } else if self.gain.is_futile {
            // What else is lost shows at the rate of what arrives.
            self.guard.learn(usual);
            self.guard.look_from(report.round + 1);
            self.cruise_at(now, report.arrival_rate.unwrap_or(arrival) * self.idle_loop);
        } else if packets > 200.0 && lost > usual + chance.max(0.05) {
            self.guard.learn(usual);
            let window = report.arrival_rate.unwrap_or(arrival) / (1.0 - usual) * self.idle_loop;
            self.guard.hold_at(now, window, report.round);
            self.cruise_at(now, window);
        } else if known && self.window >= full && !growing_into {
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

    /// Of a line of 125 MB/s, of which packets wait so long.
    fn report(round: u64, round_trip: Duration, waiting: Duration) -> PathReport {
        PathReport {
            round_trip: round_trip + waiting,
            shortest: round_trip,
            waiting,
            standing: waiting,
            capacity: Some(125e6),
            arrived: 20_000,
            datagram: 1_200,
            round,
            ..PathReport::default()
        }
    }

    /// The window after the first report that knows the line.
    fn first_window(round_trip: Duration, waiting: Duration) -> u64 {
        let mut law = Model::new(Eagerness::Fair, round_trip);
        law.handle_report(Time::ZERO + round_trip, &report(0, round_trip, waiting));
        law.window()
    }

    #[test]
    fn of_a_far_line_that_others_use_half_is_left_to_them() {
        let round_trip = Duration::from_millis(100);
        let mut law = Model::new(Eagerness::Fair, round_trip);
        let mut window = |round: u32, waiting_ms| {
            let waiting = Duration::from_millis(waiting_ms);
            law.handle_report(Time::ZERO + round_trip * round, &report(round.into(), round_trip, waiting));
            law.window() as f64 / 12.5e6
        };
        let taken = window(1, 0);
        assert!(taken > 1.0, "{taken}");
        let alone = window(2, 10);
        assert!(alone > 1.0, "as much as it has brought itself: {alone}");
        let half = window(3, 30);
        assert!((0.4..0.6).contains(&half), "{half}");
        let later = window(4, 30);
        assert!(later > 0.4, "once: {later}");
    }

    #[test]
    fn a_far_line_is_taken_at_once_where_nobody_waits() {
        let (far, near) = (Duration::from_millis(100), Duration::from_millis(20));
        let line = (125e6 * far.as_secs_f64()) as u64;
        assert!((line..line * 11 / 10).contains(&first_window(far, Duration::ZERO)));
        assert!(first_window(far, Duration::from_millis(5)) < line / 8, "somebody else uses it");
        assert!(first_window(near, Duration::ZERO) < line / 16, "there is time to grow");
    }

    /// What comes back may be a hundredth of it.
    #[test]
    fn a_far_line_is_not_taken_at_once_after_a_silence() {
        let round_trip = Duration::from_millis(100);
        // It was taken before, and it was not.
        for waiting in [Duration::ZERO, Duration::from_millis(20)] {
            let mut law = Model::new(Eagerness::Fair, round_trip);
            law.handle_report(Time::ZERO + round_trip, &report(1, round_trip, waiting));
            law.handle_silence(Time::ZERO + round_trip * 5);
            for round in 2..5 {
                let report = report(round.into(), round_trip, Duration::ZERO);
                law.handle_report(Time::ZERO + round_trip * (4 + round), &report);
                assert!(law.window() < 12_500_000 / 2, "{} in round {round}", law.window());
            }
        }
    }
}
