//! When the next packets may go out.

use std::time::Duration;

use crate::Time;

/// Spreads packets so that a rate holds over more than a burst, and a burst is short.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// When what was sent so far will have been paid for.
    paid_until: Time,
}

impl Pacer {
    /// How long a burst lasts at the rate. A driver that wakes later catches up by no more than this.
    pub const BURST: Duration = Duration::from_millis(1);
    /// The most bytes in a burst: what a system takes in one call.
    pub const MOST: u64 = 64 << 10;

    /// May send at once.
    pub fn new(now: Time) -> Self {
        Self { paid_until: now }
    }

    /// When the next burst may go out.
    pub fn next(&self) -> Time {
        self.paid_until
    }

    /// How many bytes may go out now: a burst, or nothing. At least `least`, so that something goes at any rate.
    pub fn quota(&self, now: Time, rate: f64, least: u64) -> u64 {
        if now < self.paid_until {
            return 0;
        }
        ((rate * Self::BURST.as_secs_f64()) as u64).min(Self::MOST).max(least)
    }

    /// So many bytes went out.
    pub fn handle_sent(&mut self, now: Time, bytes: u64, rate: f64) {
        let nanos = bytes as f64 / rate.max(1.0) * 1e9;
        self.paid_until = self.paid_until.max(now - Self::BURST) + Duration::from_nanos(nanos as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rate_holds_however_late_the_driver_wakes(
            rate in 10_000f64..2e9,
            late in proptest::collection::vec(0u64..900, 100..200),
        ) {
            let mut pacer = Pacer::new(Time::ZERO);
            let mut now = Time::ZERO;
            let mut sent = 0;
            for micros in late {
                now = now.max(pacer.next()) + Duration::from_micros(micros);
                let quota = pacer.quota(now, rate, 3_000);
                prop_assert!((3_000..=Pacer::MOST).contains(&quota));
                pacer.handle_sent(now, quota, rate);
                sent += quota;
            }
            let span = pacer.next().since(Time::ZERO).as_secs_f64();
            prop_assert!(sent as f64 <= rate * span * 1.001 + 1.0);
            prop_assert_eq!(pacer.quota(pacer.next() - Duration::from_nanos(1), rate, 3_000), 0);
        }
    }
}
