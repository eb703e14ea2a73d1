//! How long a packet and its report take.

use std::time::Duration;

use super::WindowedMin;
use crate::Time;

/// Round trips without the time for which the receiver held its report back (RFC 6298, RFC 9002).
#[derive(Clone, Debug)]
pub struct RoundTrip {
    latest: Duration,
    smoothed: Duration,
    variation: Duration,
    min: WindowedMin,
    measured: bool,
}

impl RoundTrip {
    /// For how long the smallest is believed: long enough to have seen the path without a queue, short enough to notice
    /// that the path has become longer.
    const MEMORY: Duration = Duration::from_secs(30);

    /// Before the first measurement: what another connection over the path has seen.
    pub fn expecting(guess: Duration) -> Self {
        Self {
            latest: guess,
            smoothed: guess,
            variation: guess / 4,
            min: WindowedMin::new(Self::MEMORY),
            measured: false,
        }
    }

    /// A packet took so long.
    pub fn handle_sample(&mut self, now: Time, sample: Duration) {
        self.latest = sample;
        self.min.handle_sample(now, sample.as_nanos() as i64);
        if !self.measured {
            self.measured = true;
            self.smoothed = sample;
            self.variation = sample / 2;
            return;
        }
        let off = self.smoothed.abs_diff(sample);
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + sample) / 8;
    }

    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// The last sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The moving average.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The shortest of late; before any, the guess.
    pub fn min(&self) -> Duration {
        self.min.value().map_or(self.smoothed, |nanos| Duration::from_nanos(nanos.max(0) as u64))
    }

    /// How long to wait for a report before asking for one, when reports come at least every `interval`.
    pub fn probe_timeout(&self, interval: Duration) -> Duration {
        self.smoothed + (self.variation * 4).max(Duration::from_millis(5)) + interval * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_shortest_is_remembered_for_a_while_and_not_for_ever() {
        let mut rtt = RoundTrip::expecting(ms(500));
        assert_eq!(rtt.min(), ms(500));
        let mut now = Time::ZERO;
        rtt.handle_sample(now, ms(100));
        for _ in 0..300 {
            now = now + ms(100);
            rtt.handle_sample(now, ms(140));
        }
        assert_eq!((rtt.min(), rtt.latest()), (ms(100), ms(140)));
        for _ in 0..310 {
            now = now + ms(100);
            rtt.handle_sample(now, ms(140));
        }
        assert_eq!(rtt.min(), ms(140));
        assert!(rtt.smoothed().abs_diff(ms(140)) < ms(1));
        assert!(rtt.probe_timeout(ms(10)) < ms(180));
    }
}
