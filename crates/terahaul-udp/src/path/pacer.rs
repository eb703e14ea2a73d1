//! When the next packets may go out.

use std::time::Duration;

use crate::Time;

/// Spreads packets so that a rate holds over more than a burst, and a burst is short.
///
/// What is owed is counted in bytes and not in time: where the rate turns out to be higher than was thought, what went out at the lower one
/// keeps nothing waiting.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// When something went out last.
    since: Time,
    /// Bytes that were sent by then and not paid for; what was not used before, where it is negative.
    owed: f64,
}

impl Pacer {
    /// How long a burst lasts at the rate. A driver that wakes later catches up by no more than this.
    pub const BURST: Duration = Duration::from_millis(1);
    /// The most bytes in a burst: what a system takes in one call.
    pub const MOST: u64 = 64 << 10;

    /// May send at once.
    pub fn new(now: Time) -> Self {
        Self { since: now, owed: 0.0 }
    }

    /// When the next burst may go out, at so many bytes a second.
    pub fn next(&self, rate: f64) -> Time {
        let nanos = self.owed.max(0.0) / rate.max(1.0) * 1e9;
        self.since + Duration::from_nanos(nanos.ceil() as u64)
    }

    /// How many bytes may go out now: a burst, or nothing. At least `least`, so that something goes at any rate.
    pub fn quota(&self, now: Time, rate: f64, least: u64) -> u64 {
        if now < self.next(rate) {
            return 0;
        }
        Self::burst(rate).max(least)
    }

    /// Bytes in a burst at so many bytes a second.
    pub fn burst(rate: f64) -> u64 {
        ((rate * Self::BURST.as_secs_f64()) as u64).min(Self::MOST)
    }

    /// So many bytes went out.
    pub fn handle_sent(&mut self, now: Time, bytes: u64, rate: f64) {
        let rate = rate.max(1.0);
        let unused = rate * Self::BURST.as_secs_f64();
        let owed = self.owed - rate * now.since(self.since).as_secs_f64();
        (self.since, self.owed) = (now, owed.max(-unused) + bytes as f64);
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
                now = now.max(pacer.next(rate)) + Duration::from_micros(micros);
                let quota = pacer.quota(now, rate, 3_000);
                prop_assert!((3_000..=Pacer::MOST).contains(&quota));
                pacer.handle_sent(now, quota, rate);
                sent += quota;
            }
            let span = pacer.next(rate).since(Time::ZERO).as_secs_f64();
            prop_assert!(sent as f64 <= rate * span * 1.001 + 1.0);
            prop_assert_eq!(pacer.quota(pacer.next(rate) - Duration::from_nanos(1), rate, 3_000), 0);
        }
    }

    #[test]
    fn what_was_sent_at_a_low_rate_is_paid_for_at_the_one_of_now() {
        let mut pacer = Pacer::new(Time::ZERO);
        pacer.handle_sent(Time::ZERO, 7_200, 100.0);
        let late = pacer.next(100.0).since(Time::ZERO);
        assert!(late > Duration::from_secs(70), "{late:?}");
        let late = pacer.next(1e6).since(Time::ZERO);
        assert!(late < Duration::from_millis(8), "{late:?}");
    }
}
