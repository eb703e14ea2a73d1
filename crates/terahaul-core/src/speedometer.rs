//! Speed over the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{ByteCount, Rate};

/// Keeps a few seconds of samples of a growing byte count.
#[derive(Clone, Debug)]
pub struct Speedometer {
    window: Duration,
    samples: VecDeque<(Instant, ByteCount)>,
}

impl Default for Speedometer {
    /// Over five seconds.
    fn default() -> Self {
        Self::over(Duration::from_secs(5))
    }
}

impl Speedometer {
    /// Over so long. A count that grows in steps wants many of them in it.
    pub fn over(window: Duration) -> Self {
        Self { window, samples: VecDeque::new() }
    }

    /// The count stands at `total` now.
    pub fn handle_total(&mut self, now: Instant, total: ByteCount) {
        self.samples.push_back((now, total));
        while self.samples.len() > 2
            && self.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) > self.window)
        {
            self.samples.pop_front();
        }
    }

    /// The speed over the window; `None` until there are two samples and some progress.
    pub fn rate(&self) -> Option<Rate> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.0.saturating_duration_since(first.0).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        Rate::per_second((last.1.0.saturating_sub(first.1.0) as f64 / seconds) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_of_the_last_seconds_not_of_the_whole() {
        #[allow(clippy::disallowed_methods)]
        let t0 = Instant::now();
        let mut meter = Speedometer::default();
        assert_eq!(meter.rate(), None);
        for second in 0..=60u64 {
            let total = if second <= 50 { 0 } else { (second - 50) * 1_000_000 };
            meter.handle_total(t0 + Duration::from_secs(second), ByteCount(total));
        }
        assert_eq!(meter.rate(), Rate::per_second(1_000_000));
    }
}
