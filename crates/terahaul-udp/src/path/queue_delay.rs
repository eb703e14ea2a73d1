//! How long packets wait on the way out, from the two ends' clocks, which agree on nothing.
//!
//! The time from one end's clock to the other's, less the smallest seen, is what a packet waited, as long as the clocks
//! run alike. They do not quite: some ten microseconds a second apart is common, and a clock may be set. So the wait is also
//! never more than what the round trip, measured by one clock, has in excess, and a fall that no queue explains is taken
//! for a clock that was set, or another route. What waits on the way back does not count, which a round trip alone could
//! not tell.

use std::time::Duration;

use super::WindowedMin;
use crate::Time;

/// One channel's estimate.
#[derive(Clone, Debug)]
pub struct QueueDelay {
    base: WindowedMin,
    latest: Duration,
}

impl Default for QueueDelay {
    fn default() -> Self {
        Self { base: WindowedMin::new(Self::MEMORY), latest: Duration::ZERO }
    }
}

impl QueueDelay {
    /// For how long the smallest is believed: at 100 µs of skew a second, an error of 2 ms at most.
    const MEMORY: Duration = Duration::from_secs(10);
    /// A fall below the smallest by more than the queue and this is not a shorter queue.
    const STEP: Duration = Duration::from_millis(20);

    /// A packet took `one_way` nanoseconds from clock to clock, when round trips had `excess` over the shortest.
    pub fn handle_sample(&mut self, now: Time, one_way: i64, excess: Duration) {
        match self.base.value() {
            Some(base) if one_way.saturating_add(Self::STEP.as_nanos() as i64) < base => {
                let waiting = self.latest.min(excess).as_nanos() as i64;
                self.base.restart(now, one_way.saturating_sub(waiting));
            }
            _ => self.base.handle_sample(now, one_way),
        }
        let base = self.base.value().unwrap_or(one_way);
        let waited = Duration::from_nanos(one_way.saturating_sub(base).max(0) as u64);
        self.latest = waited.min(excess);
    }

    /// What the last sample waited.
    pub fn latest(&self) -> Duration {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// Samples every 10 ms for a minute, with a queue of 20 ms for 400 ms of every 500; returns the largest error.
    fn worst_error(offset_ms: impl Fn(f64) -> f64, back_ms: f64) -> f64 {
        let mut delay = QueueDelay::default();
        let mut worst = 0f64;
        for step in 0..6_000u32 {
            let seconds = f64::from(step) * 0.01;
            let queue = if step % 50 < 40 && step > 50 { 20.0 } else { 0.0 };
            let back = if step % 80 < 40 { back_ms } else { 0.0 };
            let one_way = ((30.0 + queue + offset_ms(seconds)) * 1e6) as i64;
            delay.handle_sample(Time::ZERO + ms(seconds * 1e3), one_way, ms(queue + back));
            worst = worst.max((delay.latest().as_secs_f64() * 1e3 - queue).abs());
        }
        worst
    }

    #[test]
    fn clocks_with_any_offset_measure_the_wait() {
        assert!(worst_error(|_| 0.0, 0.0) < 0.001);
        assert!(worst_error(|_| -3.6e6, 0.0) < 0.001);
    }

    #[test]
    fn clocks_that_drift_apart_by_100_ppm_are_off_by_two_milliseconds_at_most() {
        assert!(worst_error(|s| s * 0.1, 0.0) < 2.1);
        assert!(worst_error(|s| -s * 0.1, 0.0) < 2.1);
    }

    #[test]
    fn a_queue_on_the_way_back_does_not_count() {
        assert!(worst_error(|_| 0.0, 50.0) < 0.001);
    }

    #[test]
    fn a_clock_that_is_set_does_not_look_like_a_queue() {
        let hour = 3.6e6;
        assert!(worst_error(|s| if s > 30.0 { hour } else { 0.0 }, 0.0) < 0.001);
        assert!(worst_error(|s| if s > 30.0 { -hour } else { 0.0 }, 0.0) < 0.001);
        assert!(worst_error(|s| if s > 30.0 { -hour } else { s * 0.1 }, 0.0) < 2.1);
    }
}
