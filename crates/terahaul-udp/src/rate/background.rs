//! What nobody else wants: LEDBAT (RFC 6817), for `--priority background`.
//!
//! The window moves by how far packets' waiting on the way out is from a target, up below it and down above it, by at most
//! a datagram a round trip or a 256th of the window. Any loss halves it. The target is a quarter of the path's shortest round trip, 25 ms at
//! most, where RFC 6817 allows 100 ms: with that, a queue shorter than 100 ms would be filled.
//!
//! What waits is what stands in the queue all through a round trip, where a radio link's jitter is told from it ([`crate::path::StandingQueue`]).
//!
//! A window that only looks at waiting takes another's queue for the path's own length. So every now and then it shrinks
//! to a few datagrams for two round trips and then grows back fast to where it was (LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus);
//! the pauses take a tenth of the time.
//!
//! | phase | event | next |
//! |---|---|---|
//! | slow start | waiting passes three quarters of the target; a loss; the window of before a pause | steady |
//! | steady | nine times as long as the last pause and growth took | pause |
//! | pause | two round trips | slow start |
//! | any | silence, a new path | slow start |

use std::time::Duration;

use super::{Cohort, PathReport, RateLaw};
use crate::Time;

const FIRST_WINDOW: f64 = 10.0;
const LEAST_WINDOW: f64 = 2.0;
/// Fewer are not sent as soon as others arrive, but apart: where a radio link has slots, they would meet it at the same moment each
/// time, and what they wait for the next slot would pass for a queue, for ever.
const FEW: f64 = 16.0;

/// The law. Windows are in datagrams here.
#[derive(Clone, Debug)]
pub struct Background {
    phase: Phase,
    window: f64,
    /// Where slow start ends.
    threshold: f64,
    round: u64,
    /// Rounds before this were sent before the last reduction.
    recovered: u64,
    round_trip: Duration,
    datagram: f64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    SlowStart { since: Time },
    Steady { pause_at: Time },
    Pause { until_round: u64, since: Time },
}

fn target(shortest: Duration) -> Duration {
    (shortest / 4).clamp(Duration::from_millis(1), Duration::from_millis(25))
}

impl Background {
    /// For a path of which nothing is known but a guess of its round trip.
    pub fn new(round_trip: Duration) -> Self {
        Self {
            phase: Phase::SlowStart { since: Time::ZERO },
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            round: 0,
            recovered: 0,
            round_trip,
            datagram: 1_200.0,
        }
    }

    fn steady(&mut self, now: Time, since: Time) {
        let first = since == Time::ZERO;
        // A slow start that a limit held up takes as long as that holds; one that nothing does takes a few rounds.
        let took = if first { self.round_trip * 2 } else { now.since(since).min(self.round_trip * 20) };
        self.phase = Phase::Steady { pause_at: now + took * 9 };
    }

    fn reduce(&mut self, now: Time) {
        self.window = (self.window / 2.0).max(LEAST_WINDOW);
        self.recovered = self.round + 1;
        if let Phase::SlowStart { since } = self.phase {
            self.steady(now, since);
        }
    }
}

impl RateLaw for Background {
    fn name(&self) -> &'static str {
        "background"
    }

    fn handle_report(&mut self, now: Time, report: &PathReport) {
        self.round_trip = report.round_trip.max(report.shortest);
        self.datagram = f64::from(report.datagram);
        self.round = report.round;
        let target = target(report.shortest);
        let arrived = report.arrived as f64 / self.datagram;
        match self.phase {
            Phase::SlowStart { since } => {
                if report.waiting > target * 3 / 4 + report.jitter || self.window >= self.threshold {
                    self.steady(now, since);
                } else if !report.sender_limited {
                    self.window += arrived;
                }
            }
            Phase::Steady { pause_at } if now >= pause_at => {
                self.threshold = self.window;
                self.window = LEAST_WINDOW;
                self.phase = Phase::Pause { until_round: report.round + 3, since: now };
            }
            Phase::Steady { .. } => {
                let off_target = 1.0 - report.standing.as_secs_f64() / target.as_secs_f64();
                let gain = (self.window / 256.0).max(1.0);
                if off_target < 0.0 {
                    // Down faster than up: LEDBAT++'s multiplicative decrease.
                    self.window += off_target.max(-1.0) * arrived * 0.25;
                } else if !report.sender_limited {
                    self.window += gain * off_target * arrived / self.window;
                }
            }
            Phase::Pause { until_round, since } if report.round >= until_round => {
                self.phase = Phase::SlowStart { since };
            }
            Phase::Pause { .. } => {}
        }
        if report.congested > 0 && report.round >= self.recovered {
            self.reduce(now);
        }
        self.window = self.window.max(LEAST_WINDOW);
    }

    fn handle_cohort(&mut self, now: Time, cohort: &Cohort) {
        if cohort.lost > 0 && cohort.round >= self.recovered {
            self.reduce(now);
        }
    }

    fn handle_silence(&mut self, now: Time) {
        self.window = LEAST_WINDOW;
        self.phase = Phase::SlowStart { since: now };
    }

    fn handle_new_path(&mut self, now: Time, round_trip: Duration) {
        let phase = Phase::SlowStart { since: now };
        *self = Self { phase, round: self.round, recovered: self.recovered, ..Self::new(round_trip) };
    }

    fn rate(&self) -> f64 {
        let gain = match self.phase {
            Phase::SlowStart { .. } => 2.0,
            _ if self.window < FEW => 0.9,
            _ => 1.1,
        };
        gain * self.window * self.datagram / self.round_trip.as_secs_f64().max(1e-5)
    }

    fn window(&self) -> u64 {
        (self.window * self.datagram) as u64
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::SlowStart { .. } => "slow start",
            Phase::Steady { .. } => "steady",
            Phase::Pause { .. } => "pause",
        }
    }
}
