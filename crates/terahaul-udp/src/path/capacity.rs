//! How fast the narrowest line carries, from how far it pulls a burst apart.
//!
//! Packets that are sent at once leave the bottleneck one behind the other, at its rate, whatever else it carries
//! meanwhile that did not come in between. So packets that were sent together and did not arrive together measure
//! the line (Keshav's packet pairs, 1991, over more than a pair). A single one may be far off; the median of many is not.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// A packet's way: when it was sent, the bytes sent on the path until then (its own included), when it arrived by the
/// other end's clock.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// When it was sent.
    pub sent: Time,
    /// Bytes sent on the path so far, its own included.
    pub path_bytes: u64,
    /// When it arrived, in microseconds of the other end's clock.
    pub arrived: u64,
}

/// The median of the last bursts' rates.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    rates: VecDeque<f64>,
    median: Option<f64>,
}

impl Capacity {
    const SAMPLES: usize = 31;
    /// Fewer say little.
    const ENOUGH: usize = 3;
    /// Bytes in the shortest burst that counts.
    const SHORTEST: u64 = 6_000;

    /// The passages that one report tells of, in the order in which they were sent.
    pub fn handle_passages(&mut self, passages: &[Passage]) {
        for (first, last) in bursts(passages) {
            let bytes = last.path_bytes - first.path_bytes;
            let micros = last.arrived.saturating_sub(first.arrived);
            // What arrives at once was handed over at once by the system: it says nothing.
            if bytes < Self::SHORTEST || micros < 10 {
                continue;
            }
            if self.rates.len() == Self::SAMPLES {
                self.rates.pop_front();
            }
            self.rates.push_back(bytes as f64 * 1e6 / micros as f64);
        }
        if self.rates.len() >= Self::ENOUGH {
            let mut sorted: Vec<f64> = self.rates.iter().copied().collect();
            sorted.sort_by(f64::total_cmp);
            self.median = Some(sorted[sorted.len() / 2]);
        }
    }

    /// Bytes a second, once enough bursts were seen.
    pub fn rate(&self) -> Option<f64> {
        self.median
    }
}

/// First and last passages that were sent together.
fn bursts(passages: &[Passage]) -> impl Iterator<Item = (Passage, Passage)> + '_ {
    passages
        .chunk_by(|one, next| next.sent.since(one.sent) < Duration::from_micros(1))
        .filter_map(|burst| Some((*burst.first()?, *burst.last()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 16 packets every 10 ms over a line; other packets take every third place of some bursts.
    fn measured(line: f64, disturbed: usize) -> Option<f64> {
        let mut capacity = Capacity::default();
        let mut path_bytes = 0;
        for burst in 0..40u64 {
            let sent = Time::ZERO + Duration::from_millis(10 * burst);
            let share = if burst as usize % 5 < disturbed { 1.5 } else { 1.0 };
            let passages: Vec<Passage> = (0..16u64)
                .map(|packet| {
                    path_bytes += 1_400;
                    let behind = (packet + 1) as f64 * 1_400.0 / line * share;
                    Passage { sent, path_bytes, arrived: 7_000_000 + burst * 10_000 + (behind * 1e6) as u64 }
                })
                .collect();
            capacity.handle_passages(&passages);
        }
        capacity.rate()
    }

    #[test]
    fn a_line_is_measured_by_what_it_does_to_a_burst() {
        for line in [1e6, 12.5e6, 125e6] {
            for disturbed in 0..2 {
                let measured = measured(line, disturbed).unwrap();
                assert!((measured / line - 1.0).abs() < 0.02, "{measured} of {line}");
            }
        }
    }

    #[test]
    fn what_arrives_at_once_says_nothing() {
        assert_eq!(measured(1e12, 0), None);
    }
}
