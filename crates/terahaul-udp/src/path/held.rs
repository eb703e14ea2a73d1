//! How long the news that a packet arrived is held back at the two ends.
//!
//! A receiver reports many packets at once, and on a busy machine the threads that take in packets and reports wait for a processor.
//! Neither is the path's doing, so neither is in the round trip; but a window that does not cover it leaves the line idle for as long.
//! On a path of less than a millisecond that is as long as the path.

use std::time::Duration;

/// The mean, over the last few reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    mean: Option<Duration>,
}

impl Held {
    /// The most that threads are believed to add to what waiting for a report takes. What is beyond that is not the ends' doing.
    const MOST: Duration = Duration::from_millis(1);

    /// The packets of a report were sent so long ago, in the mean, and the newest of them had this round trip.
    pub fn handle_report(&mut self, age: Duration, round_trip: Duration) {
        let held = age.saturating_sub(round_trip);
        self.mean = Some(self.mean.map_or(held, |mean| mean - mean / 8 + held / 8));
    }

    /// What is held back where the receiver reports so often: half of that time at least.
    pub fn value(&self, interval: Duration) -> Duration {
        let least = interval / 2;
        self.mean.unwrap_or(least).clamp(least, least + Self::MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_micros(250);

    #[test]
    fn threads_that_wait_for_a_processor_are_covered() {
        let mut held = Held::default();
        assert_eq!(held.value(INTERVAL), INTERVAL / 2);
        for _ in 0..50 {
            held.handle_report(Duration::from_micros(900), Duration::from_micros(300));
        }
        assert!(held.value(INTERVAL).abs_diff(Duration::from_micros(600)) < Duration::from_micros(2));
    }

    #[test]
    fn what_no_thread_waits_for_is_not() {
        let mut held = Held::default();
        held.handle_report(Duration::from_secs(1), Duration::from_millis(100));
        assert_eq!(held.value(INTERVAL), INTERVAL / 2 + Held::MOST);
    }
}
