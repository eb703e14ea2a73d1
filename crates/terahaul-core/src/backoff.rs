//! How long to wait before trying again.

use std::time::Duration;

/// Doubling delays with jitter, from a quarter of a second to thirty seconds.
///
/// Randomness is an argument: a number from 0 to 1 chosen by the caller.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LAST: Duration = Duration::from_secs(30);

    /// It worked: the next failure starts over.
    pub fn handle_success(&mut self) {
        self.failures = 0;
    }

    /// It failed: how long to wait. `random` is in 0..1 and spreads the delay from half to the whole.
    pub fn handle_failure(&mut self, random: f64) -> Duration {
        let whole = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LAST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute_and_start_over() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..10).map(|_| backoff.handle_failure(1.0).as_millis()).collect();
        assert_eq!(&delays[..4], [250, 500, 1000, 2000]);
        assert_eq!(delays[9], 30_000);
        backoff.handle_success();
        assert_eq!(backoff.handle_failure(0.0).as_millis(), 125);
    }
}
