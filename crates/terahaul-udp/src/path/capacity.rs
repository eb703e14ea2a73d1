//! How fast the narrowest line carries, from how far it pulls a burst apart.
//!
//! Packets that are sent at once leave the bottleneck one behind the other, at its rate, whatever else it carries
//! meanwhile that did not come in between. So packets that were sent together and did not arrive together measure
//! the line (Keshav's packet pairs, 1991, over more than a pair). A single one may be far off; the median of many is not.
//!
//! What a full queue drops of a burst never was on the line. With it, a queue of five packets made a line of 4 Mbit/s pass for one of 100, and
//! the more was sent, the faster the line seemed (simulated, 20 ms). What is lost behind the line does not count either, as nobody knows where
//! a packet was lost: then what is measured is what arrives.
//!
//! Network cards and systems hand over several packets at once, when a timer fires. What came together came on the line until then, so
//! where a burst comes in three groups or more, it is measured from the end of the first to the end of the last but one: the timer
//! of the last may have fired long after the burst was over.

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
    /// Bytes of those that were sent with it and before it, and have not come.
    pub missing: u64,
    /// When it arrived, in microseconds of the other end's clock.
    pub arrived: u64,
}

/// The median of the last bursts' rates.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    rates: VecDeque<f64>,
    median: Option<f64>,
    /// What the last report told last: the next may tell of the rest of the burst.
    open: Option<Burst>,
}

/// The packets of one burst that reports have told of so far.
#[derive(Clone, Copy, Debug)]
struct Burst {
    first: Passage,
    /// The last of those that arrived with the first.
    first_group: Passage,
    /// The last of those that arrived last but one, where they are not those.
    middle: Option<Passage>,
    last: Passage,
    /// Its rate is among those that count.
    counts: bool,
}

impl Capacity {
    /// Bytes from the first packet's end to the last's in the shortest burst that counts, unless the queue takes none of that length
    /// ([`super::BurstRoom`]).
    pub const SHORTEST: u64 = 6_000;
    const SAMPLES: usize = 31;
    /// Fewer say little.
    const ENOUGH: usize = 3;

    /// The passages that one report tells of, in the order in which they were sent; `shortest` is how many bytes a burst has to have to count.
    pub fn handle_passages(&mut self, passages: &[Passage], shortest: u64) {
        for together in passages.chunk_by(are_together) {
            let Some((first, rest)) = together.split_first() else { continue };
            let (mut burst, rest) = match self.open.take() {
                // What is told of late counts alone.
                Some(open) if are_together(&open.last, first) && first.path_bytes > open.last.path_bytes => {
                    (open, together)
                }
                _ => (Burst::new(*first), rest),
            };
            rest.iter().for_each(|passage| burst.handle_next(*passage));
            if let Some(rate) = burst.rate(shortest) {
                if burst.counts {
                    self.rates.pop_back();
                } else if self.rates.len() == Self::SAMPLES {
                    self.rates.pop_front();
                }
                self.rates.push_back(rate);
                burst.counts = true;
            }
            self.open = Some(burst);
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

impl Burst {
    fn new(first: Passage) -> Self {
        Self { first, first_group: first, middle: None, last: first, counts: false }
    }

    /// The next of its packets.
    fn handle_next(&mut self, next: Passage) {
        let ended = std::mem::replace(&mut self.last, next);
        if next.arrived > ended.arrived {
            self.middle = (ended.arrived > self.first.arrived).then_some(ended);
        } else if next.arrived == self.first.arrived {
            self.first_group = next;
        }
    }

    /// Bytes a second.
    fn rate(&self, shortest: u64) -> Option<f64> {
        let between = self.middle.and_then(|middle| rate(&self.first_group, &middle, shortest));
        between.or_else(|| rate(&self.first, &self.last, shortest))
    }
}

fn rate(from: &Passage, to: &Passage, shortest: u64) -> Option<f64> {
    let lost = to.missing.saturating_sub(from.missing);
    let bytes = to.path_bytes.saturating_sub(from.path_bytes).saturating_sub(lost);
    let micros = to.arrived.saturating_sub(from.arrived);
    // What arrives at once was handed over at once by the system: it says nothing.
    (bytes >= shortest && micros >= 10).then(|| bytes as f64 * 1e6 / micros as f64)
}

fn are_together(one: &Passage, next: &Passage) -> bool {
    let apart = next.sent.since(one.sent).max(one.sent.since(next.sent));
    apart < Duration::from_micros(1)
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
                    let arrived = 7_000_000 + burst * 10_000 + (behind * 1e6) as u64;
                    Passage { sent, path_bytes, missing: 0, arrived }
                })
                .collect();
            capacity.handle_passages(&passages, Capacity::SHORTEST);
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

    /// The first packet of a burst is reported at once, and the system hands over the others together.
    #[test]
    fn a_burst_that_two_reports_tell_of_is_one() {
        let mut capacity = Capacity::default();
        for burst in 0..3u64 {
            let passage = |packet: u64| Passage {
                sent: Time::ZERO + Duration::from_millis(10 * burst),
                path_bytes: (burst * 16 + packet + 1) * 1_400,
                missing: 0,
                arrived: burst * 10_000 + if packet == 0 { 0 } else { 210 },
            };
            capacity.handle_passages(&[passage(0)], Capacity::SHORTEST);
            capacity.handle_passages(&(1..12).map(passage).collect::<Vec<_>>(), Capacity::SHORTEST);
            capacity.handle_passages(&(12..16).map(passage).collect::<Vec<_>>(), Capacity::SHORTEST);
        }
        assert_eq!(capacity.rates.len(), 3);
        assert_eq!(capacity.rate(), Some(100e6));
    }

    /// The timer of a far machine's network card hands over what has come: the first packet at once, the last ones long after they came.
    #[test]
    fn what_a_timer_hands_over_in_groups_is_measured_between_them() {
        const LINE: f64 = 125e6;
        let mut capacity = Capacity::default();
        for burst in 0..3u64 {
            let passages: Vec<Passage> = (0..24u64)
                .map(|packet| {
                    let came = (packet * 1_228) as f64 / LINE * 1e6;
                    let groups = (came / 200.0).ceil() as u64;
                    Passage {
                        sent: Time::ZERO + Duration::from_millis(10 * burst),
                        path_bytes: (burst * 24 + packet + 1) * 1_228,
                        missing: 0,
                        arrived: burst * 10_000 + groups * 200,
                    }
                })
                .collect();
            // Two reports tell of the last one.
            let told = if burst == 2 { 15 } else { 24 };
            capacity.handle_passages(&passages[..told], Capacity::SHORTEST);
            capacity.handle_passages(&passages[told..], Capacity::SHORTEST);
        }
        let measured = capacity.rate().unwrap();
        assert!((measured / LINE - 1.0).abs() < 0.05, "{measured}");
    }

    /// A queue of five packets drops the others, and has room for the last, which is short.
    #[test]
    fn what_a_full_queue_drops_of_a_burst_was_not_on_the_line() {
        const LINE: u64 = 500_000;
        let mut capacity = Capacity::default();
        for burst in 0..3u64 {
            let passages: Vec<Passage> = (1..=6u64)
                .map(|packet| {
                    let missing = if packet == 6 { 40 * 1_400 } else { 0 };
                    let behind = packet * 1_400;
                    Passage {
                        sent: Time::ZERO + Duration::from_millis(100 * burst),
                        path_bytes: burst * 100_000 + behind + missing,
                        missing,
                        arrived: burst * 100_000 + behind * 1_000_000 / LINE,
                    }
                })
                .collect();
            capacity.handle_passages(&passages, Capacity::SHORTEST);
        }
        assert_eq!(capacity.rate(), Some(LINE as f64));
    }

    #[test]
    fn what_arrives_at_once_says_nothing() {
        assert_eq!(measured(1e12, 0), None);
    }
}
