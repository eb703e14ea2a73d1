//! How much of a temporary transfer to declare.
//!
//! A depot counts what is declared against its quotas and its free space, and all of it has to arrive before the transfer can be
//! received from. So little is declared ahead of what moves: enough for a line to stay full, and not more than arrives
//! soon after the measuring ends.

use std::collections::VecDeque;

/// What may be ahead before anything is known.
const LEAST_AHEAD: f64 = (1 << 20) as f64;
/// Seconds of the present rate that may be ahead.
const AHEAD: f64 = 0.25;
/// The same in round trips: one until the depot has accepted what is declared, and a rate that doubles in each.
const AHEAD_ROUND_TRIPS: f64 = 4.0;
/// Files that what is ahead is made of.
const FILES: f64 = 4.0;
/// Sizes of a file.
const SMALLEST: u64 = 64 << 10;
const LARGEST: u64 = 64 << 20;
/// Whole blocks, so that most of what is sent is as in a large file.
const BLOCK: u64 = terahaul_core::BLOCK_SIZE;

/// Says how large the next file is, and when it is time for it.
#[derive(Clone, Debug)]
pub(super) struct Supply {
    ahead_seconds: f64,
    window: f64,
    most: u64,
    declared: u64,
    /// When how many bytes had moved, over the last `window` seconds.
    moved: VecDeque<(f64, u64)>,
}

impl Supply {
    /// For a path of this round trip in seconds, and at most so many bytes.
    pub fn new(rtt: f64, most: u64) -> Self {
        Self {
            ahead_seconds: AHEAD.max(AHEAD_ROUND_TRIPS * rtt),
            window: rtt.max(0.1),
            most,
            declared: 0,
            moved: VecDeque::new(),
        }
    }

    /// So many bytes have gone out by now.
    pub fn handle_moved(&mut self, now: f64, moved: u64) {
        self.moved.push_back((now, moved));
        while self.moved.len() > 2 && self.moved.get(1).is_some_and(|(at, _)| now - at >= self.window) {
            self.moved.pop_front();
        }
    }

    /// The next file's size, if one is to be declared now.
    pub fn poll_file(&mut self) -> Option<u64> {
        let (first, last) = (self.moved.front()?, self.moved.back()?);
        let rate = (last.1 - first.1) as f64 / (last.0 - first.0).max(1e-3);
        let ahead = LEAST_AHEAD.max(rate * self.ahead_seconds);
        let room = ahead - self.declared.saturating_sub(last.1) as f64;
        let size = ((ahead / FILES) as u64).clamp(SMALLEST, LARGEST);
        let size = if size > BLOCK { size / BLOCK * BLOCK } else { size };
        let size = size.min(self.most - self.declared);
        if room < size as f64 || size == 0 {
            return None;
        }
        self.declared += size;
        Some(size)
    }

    /// Whether all that was allowed is declared.
    pub fn is_used_up(&self) -> bool {
        self.declared == self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends over a line of `rate` for four seconds; each file may be sent a round trip after it was declared. Returns
    /// the share of the last two seconds in which the line was busy, and the bytes that were still to be sent at the end.
    fn run(rate: f64, rtt: f64) -> (f64, f64) {
        const STEP: f64 = 0.005;
        let mut supply = Supply::new(rtt, u64::MAX);
        let (mut waiting, mut accepted, mut moved) = (VecDeque::new(), 0.0, 0.0);
        let (mut busy, mut declared) = (0.0, 0.0);
        let steps = ((2.0 + 20.0 * rtt).max(4.0) / STEP) as u32;
        for step in 0..steps {
            let now = f64::from(step) * STEP;
            supply.handle_moved(now, moved as u64);
            while let Some(size) = supply.poll_file() {
                waiting.push_back((now + rtt, size as f64));
                declared += size as f64;
            }
            while waiting.front().is_some_and(|(at, _)| *at <= now) {
                accepted += waiting.pop_front().unwrap().1;
            }
            let sent = (accepted - moved).min(rate * STEP);
            moved += sent;
            if step >= steps / 2 {
                busy += sent / (rate * STEP) / f64::from(steps - steps / 2);
            }
        }
        (busy, declared - moved)
    }

    proptest! {
        #[test]
        fn a_line_stays_full_and_little_is_left_at_the_end(exponent in 5.0f64..9.5, rtt in 0.0001f64..0.6) {
            let rate = 10f64.powf(exponent);
            let (busy, left) = run(rate, rtt);
            prop_assert!(busy > 0.95, "{busy}");
            prop_assert!(left <= (rate * (0.25 + 4.0 * rtt)).max(1.1e6), "{left}");
        }
    }

    #[test]
    fn no_more_is_declared_than_was_allowed() {
        let mut supply = Supply::new(0.0, 150_000);
        assert_eq!(supply.poll_file(), None, "nothing is known yet");
        supply.handle_moved(0.0, 0);
        let sizes: Vec<u64> = std::iter::from_fn(|| supply.poll_file()).collect();
        assert_eq!(sizes, [150_000]);
        assert!(supply.is_used_up());
    }
}
