//! How long packets wait because of a queue, and not because a radio link holds them back.
//!
//! Wi-Fi, mobile networks and satellites hold packets back until their next slot, or until a frame has got through. A report that tells of
//! one or two packets shows that and not a queue. A law that takes it for one sends less, and then even fewer packets come in a report:
//! that ended at a hundredth of a line on which nobody else was (simulated, 500 Mbit/s over 40 ms, slots of 10 ms).
//!
//! | what is seen | it means | what counts as the queue |
//! |---|---|---|
//! | waiting goes up and down many times a round trip, from nothing, in two of them in a row | jitter, remembered for [`StandingQueue::MEMORY`] | the least of the last round trip (RFC 6817, section 2.4.2; Copa's standing round trip), less the jitter that does not show |
//! | anything else | a queue | what the last report says |
//!
//! A queue that fills or drains turns once in a round trip or less often, and one that others keep does not begin from nothing. Jitter that
//! does not show is still there: where packets follow each other closely and stay in order, each waits at least as long as the one before it
//! has left to wait, so that all of them wait for nearly as long as one may.

use std::collections::VecDeque;
use std::time::Duration;

use super::WindowedMin;
use crate::Time;

/// One path's estimate, of how long packets of each report wait at least.
#[derive(Clone, Debug)]
pub struct StandingQueue {
    latest: Duration,
    /// Those of the last round trip that no later one is below.
    recent: VecDeque<(Time, Duration)>,
    span: Option<Span>,
    /// What jitter shows of itself now.
    shown: Duration,
    /// The most that it has shown of late. Less than zero, as the largest is wanted.
    most: WindowedMin,
    /// Less than this does not pass for a queue.
    least: Duration,
}

/// What the round trip under way has shown.
#[derive(Clone, Copy, Debug)]
struct Span {
    began: Time,
    samples: u32,
    last: Duration,
    least: Duration,
    most: Duration,
    /// All differences between two in a row, and the largest.
    moved: Duration,
    step: Duration,
}

impl Default for StandingQueue {
    fn default() -> Self {
        Self {
            latest: Duration::ZERO,
            recent: VecDeque::new(),
            span: None,
            shown: Duration::ZERO,
            most: WindowedMin::new(Self::MEMORY),
            least: Self::LEAST,
        }
    }
}

impl StandingQueue {
    /// As long as the shortest way is remembered, beyond which packets are said to wait ([`super::QueueDelay`]): those that waited least are
    /// few that followed others at a distance, and it is such that show jitter.
    const MEMORY: Duration = Duration::from_secs(10);
    /// Fewer reports say nothing of jitter.
    const ENOUGH: u32 = 8;
    /// Jitter from here on counts, twice that on a far path: busy ends make less.
    const LEAST: Duration = Duration::from_millis(1);

    /// Packets of a report waited so long at least, on a path with this round trip.
    pub fn handle_sample(&mut self, now: Time, waited: Duration, round_trip: Duration) {
        self.latest = waited;
        self.least = (round_trip / 32).clamp(Self::LEAST, Self::LEAST * 2);
        while self.recent.back().is_some_and(|(_, later)| *later >= waited) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, waited));
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) > round_trip) {
            self.recent.pop_front();
        }
        let span = self.span.get_or_insert_with(|| Span::new(now, waited));
        span.handle_sample(waited);
        if now.since(span.began) >= round_trip && span.samples >= Self::ENOUGH {
            let before = std::mem::replace(&mut self.shown, span.jitter());
            let from_nothing = span.least < self.shown / 4;
            let jitter = if from_nothing { self.shown.min(before) } else { Duration::ZERO };
            self.most.handle_sample(now, -(jitter.as_nanos() as i64));
            self.span = Some(Span::new(now, waited));
        }
    }

    fn jitter(&self) -> Option<Duration> {
        let most = Duration::from_nanos(self.most.value().map_or(0, i64::unsigned_abs));
        (most >= self.least).then_some(most)
    }

    /// What of a report's waiting may be jitter that shows.
    pub fn shown(&self) -> Duration {
        self.jitter().map_or(Duration::ZERO, |most| most.min(self.shown))
    }

    /// What all packets wait because of jitter that does not show.
    pub fn hidden(&self) -> Duration {
        self.jitter().map_or(Duration::ZERO, |most| most.saturating_sub(self.shown))
    }

    /// How long the queue keeps packets waiting.
    pub fn value(&self) -> Duration {
        match (self.jitter(), self.recent.front()) {
            (Some(_), Some((_, least))) => least.saturating_sub(self.hidden()),
            _ => self.latest,
        }
    }
}

impl Span {
    fn new(began: Time, waited: Duration) -> Self {
        Self {
            began,
            samples: 0,
            last: waited,
            least: waited,
            most: waited,
            moved: Duration::ZERO,
            step: Duration::ZERO,
        }
    }

    fn handle_sample(&mut self, waited: Duration) {
        let step = self.last.abs_diff(waited);
        self.samples += 1;
        self.moved += step;
        self.step = self.step.max(step);
        (self.last, self.least, self.most) = (waited, self.least.min(waited), self.most.max(waited));
    }

    /// From nothing to the longest that a packet is held back, if it is for any time up to that.
    fn jitter(&self) -> Duration {
        // What has filled and run empty again once has moved by twice its range.
        let turned = self.moved.saturating_sub((self.most - self.least) * 2);
        // Two in a row differ by a third of the longest, of which the range has taken a part.
        (turned * 4 / self.samples.saturating_sub(2).max(1)).min(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    /// Reports every sixteenth of a round trip, for a second, of which each says that packets waited so many milliseconds.
    fn after(queue: &mut StandingQueue, from: u32, waited: impl Fn(u32) -> f64) -> f64 {
        for report in from..from + 800 {
            let waited = Duration::from_secs_f64(waited(report) / 1e3);
            queue.handle_sample(Time::ZERO + ROUND_TRIP / 16 * report, waited, ROUND_TRIP);
        }
        queue.value().as_secs_f64() * 1e3
    }

    /// Up to 5 ms, by chance.
    fn held_back(report: u32) -> f64 {
        let mixed = (report + 1).wrapping_mul(2_654_435_761);
        f64::from((mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b) >> 16) / 65_536.0 * 5.0
    }

    #[test]
    fn jitter_is_no_queue_and_a_queue_is_one_in_spite_of_it() {
        let mut queue = StandingQueue::default();
        assert!(after(&mut queue, 0, held_back) < 1.0);
        assert!((6.0..9.0).contains(&after(&mut queue, 800, |report| 8.0 + held_back(report))));
        // Packets that follow each other closely all wait for nearly as long as one may.
        assert!(after(&mut queue, 1_600, |_| 4.5) < 1.0);
        // It is forgotten with the path's length that belongs to it.
        assert_eq!(after(&mut queue, 100_000, |_| 4.5), 4.5);
    }

    #[test]
    fn a_queue_that_fills_and_drains_counts_as_it_is() {
        let saw = |report: u32| f64::from(report % 16) / 2.0;
        let drained = |report: u32| if report % 64 < 16 { 0.0 } else { 5.0 };
        // Others make it go up and down all the time.
        let shared = |report: u32| 6.0 + held_back(report);
        for waited in [&saw as &dyn Fn(u32) -> f64, &drained, &shared] {
            let mut queue = StandingQueue::default();
            let value = after(&mut queue, 0, waited);
            assert!((value - waited(799)).abs() < 0.001, "{value} in place of {}", waited(799));
        }
    }
}
