//! CUBIC (RFC 9438): what most of the Internet's TCP does, for comparison.
//!
//! The window grows along a cubic curve of the time since the last loss: fast at first, flat where the loss was, and fast
//! again beyond. Never slower than Reno would. Slow start ends with the first loss or when packets begin to wait
//! (HyStart++, RFC 9406, without its second phase). Loss of a packet that was sent before the last reduction says nothing
//! new. Packets are paced at 1.25 of the window a round trip, as RFC 9002 (section 7.7) advises.
//!
//! | phase | event | next |
//! |---|---|---|
//! | slow start | a loss, a mark, packets wait | avoidance |
//! | avoidance | a loss, a mark | avoidance, at 0.7 of the window |
//! | any | silence, a new path | slow start, from the least window |

use std::time::Duration;

use super::{Cohort, PathReport, RateLaw};
use crate::Time;

/// RFC 9438's C: how steep the curve is, in datagrams a second cubed.
const C: f64 = 0.4;
/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// Datagrams in the first window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
const LEAST_WINDOW: f64 = 2.0;

/// The law. Windows are in datagrams here.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last reduction, and when that was.
    most: f64,
    epoch: Option<Epoch>,
    /// What was sent in rounds before this was sent before the last reduction.
    recovered: u64,
    round_trip: Duration,
    datagram: f64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    /// Seconds until the curve is back at `most`.
    k: f64,
    /// What Reno's window would be.
    reno: f64,
}

impl Cubic {
    /// For a path of which nothing is known but a guess of its round trip.
    pub fn new(round_trip: Duration) -> Self {
        Self {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            most: 0.0,
            epoch: None,
            recovered: 0,
            round_trip,
            datagram: 1_200.0,
        }
    }

    fn slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn reduce(&mut self, round: u64) {
        // Fast convergence: whoever had more before gives way to newcomers.
        self.most = if self.window < self.most { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(LEAST_WINDOW);
        self.threshold = self.window;
        self.epoch = None;
        self.recovered = round + 1;
    }

    fn grow(&mut self, now: Time, arrived: f64) {
        if self.slow_start() {
            self.window += arrived;
            return;
        }
        let (window, most) = (self.window, self.most);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            k: ((most - window).max(0.0) / C).cbrt(),
            reno: window,
        });
        let most = most.max(window.min(epoch.reno));
        let later = now.since(epoch.began) + self.round_trip;
        let target = C * (later.as_secs_f64() - epoch.k).powi(3) + most;
        let additive = if epoch.reno < most { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        epoch.reno += additive * arrived / window;
        let target = target.clamp(window, 1.5 * window).max(epoch.reno);
        self.window += (target - window).max(0.0) / window * arrived;
    }
}

impl RateLaw for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn handle_report(&mut self, now: Time, report: &PathReport) {
        self.round_trip = report.round_trip.max(report.shortest);
        self.datagram = f64::from(report.datagram);
        if report.congested > 0 && report.round >= self.recovered {
            self.reduce(report.round);
        }
        if self.slow_start() && report.waiting > (report.shortest / 8).clamp(MIN_ETA, MAX_ETA) {
            self.threshold = self.window;
            self.most = self.window;
        }
        if !report.sender_limited {
            self.grow(now, report.arrived as f64 / self.datagram);
        }
    }

    fn handle_cohort(&mut self, _: Time, cohort: &Cohort) {
        if cohort.lost > 0 && cohort.round >= self.recovered {
            self.reduce(cohort.round + 1);
        }
    }

    fn handle_silence(&mut self, _: Time) {
        self.threshold = (self.window * BETA).max(LEAST_WINDOW);
        self.most = self.window;
        self.window = LEAST_WINDOW;
        self.epoch = None;
    }

    fn handle_new_path(&mut self, _: Time, round_trip: Duration) {
        *self = Self { recovered: self.recovered, ..Self::new(round_trip) };
    }

    fn rate(&self) -> f64 {
        let gain = if self.slow_start() { 2.0 } else { 1.25 };
        gain * self.window * self.datagram / self.round_trip.as_secs_f64().max(1e-5)
    }

    fn window(&self) -> u64 {
        (self.window * self.datagram) as u64
    }

    fn phase(&self) -> &'static str {
        if self.slow_start() { "slow start" } else { "avoidance" }
    }
}

const MIN_ETA: Duration = Duration::from_millis(4);
const MAX_ETA: Duration = Duration::from_millis(16);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn report(round: u64, arrived: u64) -> PathReport {
        PathReport {
            round_trip: RTT,
            shortest: RTT,
            arrived,
            round,
            datagram: 1_000,
            ..PathReport::default()
        }
    }

    /// RFC 9438's figure: after a loss at W, the window is back at W after the cube root of 0.3 W / C seconds.
    #[test]
    fn after_a_loss_the_window_is_back_when_the_curve_says_so() {
        let mut law = Cubic { window: 1_000.0, threshold: 100.0, ..Cubic::new(RTT) };
        law.datagram = 1_000.0;
        law.handle_cohort(Time::ZERO, &Cohort { round: 5, arrived: 1, lost: 1_000 });
        assert_eq!(law.window(), 700_000);
        let k = (300.0f64 / 0.4).cbrt();
        let mut back_at = None;
        for round in 0..200u64 {
            let now = Time::ZERO + RTT * round as u32;
            law.handle_report(now, &report(round + 7, law.window()));
            if back_at.is_none() && law.window() >= 990_000 {
                back_at = Some(now.since(Time::ZERO).as_secs_f64());
            }
        }
        let back_at = back_at.unwrap();
        assert!((0.6 * k..1.05 * k).contains(&back_at), "{back_at} s, the curve says {k} s");
    }

    #[test]
    fn one_reduction_a_round_trip_whatever_is_lost_in_it() {
        let mut law = Cubic { window: 1_000.0, threshold: 100.0, ..Cubic::new(RTT) };
        law.datagram = 1_000.0;
        for round in [5, 5, 6] {
            law.handle_cohort(Time::ZERO, &Cohort { round, arrived: 1, lost: 1_000 });
        }
        assert_eq!(law.window(), 700_000);
        law.handle_cohort(Time::ZERO, &Cohort { round: 7, arrived: 1, lost: 1_000 });
        assert_eq!(law.window(), 489_999);
    }
}
