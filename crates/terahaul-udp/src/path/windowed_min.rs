//! The smallest of the samples of late.

use std::time::Duration;

use crate::Time;

/// The smallest sample of the last one to two windows. Two numbers, however many the samples.
#[derive(Clone, Debug)]
pub struct WindowedMin {
    window: Duration,
    older: Option<i64>,
    newer: Option<i64>,
    turn: Time,
}

impl WindowedMin {
    /// Remembers a sample for `window` at least, and twice as long at most.
    pub fn new(window: Duration) -> Self {
        Self { window, older: None, newer: None, turn: Time::ZERO }
    }

    /// A sample.
    pub fn handle_sample(&mut self, now: Time, sample: i64) {
        if self.newer.is_none() && self.older.is_none() {
            self.turn = now + self.window;
        } else if now >= self.turn {
            let gap = now >= self.turn + self.window;
            self.older = if gap { None } else { self.newer };
            self.newer = None;
            self.turn = if gap { now } else { self.turn } + self.window;
        }
        self.newer = Some(self.newer.map_or(sample, |least| least.min(sample)));
    }

    /// The smallest.
    pub fn value(&self) -> Option<i64> {
        match (self.older, self.newer) {
            (Some(older), Some(newer)) => Some(older.min(newer)),
            (older, newer) => older.or(newer),
        }
    }

    /// What was smallest is forgotten; `sample` takes its place.
    pub fn restart(&mut self, now: Time, sample: i64) {
        *self = Self::new(self.window);
        self.handle_sample(now, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_sample_of_the_window_is_smaller_and_none_older_than_two_windows_counts(
            samples in proptest::collection::vec((0u64..4_000, -100i64..100), 1..100),
        ) {
            let window = Duration::from_secs(10);
            let mut min = WindowedMin::new(window);
            let mut now = Time::ZERO;
            let mut all = Vec::new();
            for (gap, sample) in samples {
                now = now + Duration::from_millis(gap);
                min.handle_sample(now, sample);
                all.push((now, sample));
                let since = |span: Duration| all.iter().filter(|(at, _)| now.since(*at) <= span).map(|(_, s)| *s).min();
                let value = min.value();
                prop_assert!(value <= since(window) || value == since(window));
                prop_assert!(value >= since(window * 2));
            }
        }
    }
}
