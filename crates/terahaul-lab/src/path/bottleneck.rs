//! The bottleneck: a line of a rate, and what waits before it. Pure.

use std::time::Duration;

use terahaul_core::Rate;

/// A line that sends one byte after the other, with a drop-tail queue before it; or a policer, which lets packets pass
/// at once or drops them.
///
/// Both are one clock, which says when the line will have sent all that it took. A queue is full when the clock is too
/// far ahead; so is a policer's bucket empty. They differ in when a packet leaves.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    rate: Rate,
    /// How far the clock may be ahead.
    room: Picos,
    policed: bool,
    free_at: Picos,
}

/// Picoseconds: at 10 Gbit/s a packet's time is no whole number of nanoseconds, and the remainders would add up.
type Picos = u64;
const PICOS_IN_NANO: u64 = 1_000;

impl Bottleneck {
    /// A line of this rate before which so many bytes may wait.
    pub fn queue(rate: Rate, bytes: u64) -> Self {
        Self { rate, room: picos_for(rate, bytes), policed: false, free_at: 0 }
    }

    /// A policer of this rate whose bucket holds so many bytes.
    pub fn policer(rate: Rate, bytes: u64) -> Self {
        Self { policed: true, ..Self::queue(rate, bytes) }
    }

    /// A packet comes. Returns when it leaves, or `None` when there is no room for it.
    pub fn handle_packet(&mut self, now: Duration, len: u32) -> Option<Duration> {
        let now = picos(now);
        let free_at = self.free_at.max(now) + picos_for(self.rate, u64::from(len));
        if free_at - now > self.room {
            return None;
        }
        self.free_at = free_at;
        let leaves = if self.policed { now } else { free_at };
        Some(Duration::from_nanos(leaves / PICOS_IN_NANO))
    }

    /// The bytes that wait or are on their way out; for a policer, those missing in its bucket.
    pub fn waiting(&self, now: Duration) -> u64 {
        let picos = u128::from(self.free_at.saturating_sub(picos(now)));
        (picos * u128::from(self.rate.bytes_per_second()) / 1_000_000_000_000) as u64
    }
}

fn picos(time: Duration) -> Picos {
    time.as_secs() * 1_000_000_000_000 + u64::from(time.subsec_nanos()) * PICOS_IN_NANO
}

fn picos_for(rate: Rate, bytes: u64) -> Picos {
    let picos = u128::from(bytes) * 1_000_000_000_000 / u128::from(rate.bytes_per_second());
    // Half of the range is a hundred days.
    u64::try_from(picos).unwrap_or(u64::MAX).min(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(mbit: u64) -> Rate {
        Rate::per_second(mbit * 125_000).unwrap()
    }

    proptest! {
        #[test]
        fn packets_leave_in_order_and_never_faster_than_the_line(
            mbit in 1u64..10_000,
            packets in proptest::collection::vec((0u64..100_000, 40u32..9_000), 1..500),
        ) {
            let rate = rate(mbit);
            let mut line = Bottleneck::queue(rate, 1_000_000);
            let (mut now, mut last) = (Duration::ZERO, Duration::ZERO);
            for (gap, len) in packets {
                now += Duration::from_nanos(gap);
                let waiting = line.waiting(now);
                match line.handle_packet(now, len) {
                    Some(leaves) => {
                        let alone = rate.time_for(u64::from(len));
                        let rounding = Duration::from_nanos(2);
                        prop_assert!(leaves + rounding >= now + alone);
                        prop_assert!(leaves + rounding >= last + alone);
                        last = leaves;
                    }
                    None => prop_assert!(waiting + u64::from(len) + 2 > 1_000_000),
                }
                prop_assert!(line.waiting(now) <= 1_000_001);
            }
        }

        #[test]
        fn a_full_line_carries_its_rate(mbit in 1u64..20_000, mtu in 576u32..9_000) {
            let rate = rate(mbit);
            let mut line = Bottleneck::queue(rate, u64::from(mtu) * 100);
            let mut bytes = 0u64;
            let mut now = Duration::ZERO;
            let mut last = Duration::ZERO;
            while bytes < u64::from(mtu) * 5_000 {
                match line.handle_packet(now, mtu) {
                    Some(leaves) => { bytes += u64::from(mtu); last = leaves; }
                    None => now += rate.time_for(u64::from(mtu)),
                }
            }
            let reached = bytes as f64 / last.as_secs_f64() / rate.bytes_per_second() as f64;
            prop_assert!((reached - 1.0).abs() < 0.001, "{}", reached);
        }

        #[test]
        fn a_policer_lets_a_bucket_pass_at_once_and_then_its_rate(mbit in 1u64..10_000, seconds in 1u64..5) {
            let rate = rate(mbit);
            let bucket = 1_500 * 20;
            let mut policer = Bottleneck::policer(rate, bucket);
            let mut passed = 0u64;
            let gap = rate.time_for(1_500) / 3;
            let mut now = Duration::ZERO;
            while now < Duration::from_secs(seconds) && passed < 15_000_000 {
                if let Some(leaves) = policer.handle_packet(now, 1_500) {
                    prop_assert!(leaves <= now && leaves + Duration::from_nanos(1) >= now);
                    passed += 1_500;
                }
                now += gap;
            }
            let allowed = bucket as f64 + rate.bytes_per_second() as f64 * now.as_secs_f64();
            prop_assert!(passed as f64 <= allowed + 1_500.0);
            prop_assert!(passed as f64 >= (allowed - 3_000.0) * 0.99, "{} of {}", passed, allowed);
        }
    }
}
