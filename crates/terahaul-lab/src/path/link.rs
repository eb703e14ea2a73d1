//! One direction of a path. Pure: time is an argument, the seed decides the rest.

use std::time::Duration;

use terahaul_core::Rate;

use super::bottleneck::Bottleneck;
use super::counters::{LinkCounters, SAMPLE};
use super::loss::Loss;
use super::seeded::Seeded;
use super::spec::{PathSpec, QueueSpec, ReorderSpec};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It comes out at the other end at this time.
    Deliver(Duration),
    /// The path lost it.
    Lost,
    /// The queue had no room for it, or the policer did not let it pass.
    Dropped,
}

/// Which way a link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the near end to the far one.
    Out,
    /// From the far end to the near one.
    Back,
}

/// A bottleneck, then a delay; loss between the two, or before both.
#[derive(Clone, Debug)]
pub struct Link {
    bottleneck: Bottleneck,
    loss: Loss,
    loss_first: bool,
    delay: Duration,
    jitter: Duration,
    reorder: ReorderSpec,
    chance: Seeded,
    /// When the last packet that kept its place comes out; none may overtake it unless reordering says so.
    last_due: Duration,
    counters: LinkCounters,
    counting_since: Duration,
    /// Sum over the packets that came of the bytes that each found waiting.
    met_waiting: u128,
    /// Packets that came to the bottleneck.
    met: u64,
}

/// Samples end after ten hours, so that a path that is forgotten does not fill memory.
const MAX_SAMPLES: usize = 360_000;

impl Link {
    /// One direction of `spec`.
    pub fn new(spec: &PathSpec, direction: Direction) -> Self {
        let (rate, stream) = match direction {
            Direction::Out => (spec.rate, 0),
            Direction::Back => (spec.return_rate(), 2),
        };
        Self {
            bottleneck: bottleneck(spec, rate),
            loss: Loss::new(spec.loss, spec.seed, stream),
            loss_first: spec.loss_before_bottleneck,
            delay: spec.rtt / 2,
            jitter: spec.jitter,
            reorder: spec.reorder,
            chance: Seeded::new(spec.seed, stream + 1),
            last_due: Duration::ZERO,
            counters: LinkCounters::default(),
            counting_since: Duration::ZERO,
            met_waiting: 0,
            met: 0,
        }
    }

    /// How long a packet is under way when nothing waits.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// A packet of `len` bytes comes. `now` never goes back.
    pub fn handle_packet(&mut self, now: Duration, len: u32) -> Verdict {
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(len);
        if self.loss_first && self.loss.takes_next() {
            self.counters.lost += 1;
            return Verdict::Lost;
        }
        self.met_waiting += u128::from(self.bottleneck.waiting(now));
        self.met += 1;
        let Some(leaves) = self.bottleneck.handle_packet(now, len) else {
            self.counters.queue_dropped += 1;
            return Verdict::Dropped;
        };
        self.counters.queue_peak_bytes = self.counters.queue_peak_bytes.max(self.bottleneck.waiting(now));
        if !self.loss_first && self.loss.takes_next() {
            self.counters.lost += 1;
            return Verdict::Lost;
        }
        let due = self.due(leaves);
        self.count_delivery(due, len);
        Verdict::Deliver(due)
    }

    /// The lab itself lost packets.
    pub fn handle_missed(&mut self, packets: u64) {
        self.counters.missed += packets;
    }

    /// What has happened since the counters were started.
    pub fn counters(&self) -> LinkCounters {
        let mut counters = self.counters.clone();
        if self.met > 0 {
            counters.queue_mean_bytes = self.met_waiting as f64 / self.met as f64;
        }
        counters
    }

    /// Starts the counters and the clock of their samples anew.
    pub fn restart_counters(&mut self, now: Duration) -> LinkCounters {
        let counters = self.counters();
        self.counters = LinkCounters::default();
        self.met_waiting = 0;
        self.met = 0;
        self.counting_since = now;
        counters
    }

    fn due(&mut self, leaves: Duration) -> Duration {
        let mut due = leaves + self.delay;
        if !self.jitter.is_zero() {
            due += self.jitter.mul_f64(self.chance.share());
        }
        due = due.max(self.last_due);
        if self.reorder != ReorderSpec::NONE && self.chance.chance(self.reorder.share) {
            self.counters.reordered += 1;
            return due + self.reorder.by;
        }
        self.last_due = due;
        due
    }

    fn count_delivery(&mut self, due: Duration, len: u32) {
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(len);
        let sample = (due.saturating_sub(self.counting_since).as_nanos() / SAMPLE.as_nanos()) as usize;
        if sample < MAX_SAMPLES {
            if self.counters.samples.len() <= sample {
                self.counters.samples.resize(sample + 1, 0);
            }
            self.counters.samples[sample] += u64::from(len);
        }
    }
}

fn bottleneck(spec: &PathSpec, rate: Rate) -> Bottleneck {
    let bytes = spec.queue.bytes(rate, spec.rtt, spec.mtu);
    match spec.queue {
        QueueSpec::None => Bottleneck::policer(rate, bytes),
        _ => Bottleneck::queue(rate, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::LossSpec;
    use proptest::prelude::*;

    fn spec() -> PathSpec {
        PathSpec::clean(Rate::per_second(125_000_000).unwrap(), Duration::from_millis(100))
    }

    /// Packets at random moments; gaps in nanoseconds.
    fn verdicts(link: &mut Link, packets: &[(u64, u32)]) -> Vec<(Duration, Verdict)> {
        let mut now = Duration::ZERO;
        packets
            .iter()
            .map(|(gap, len)| {
                now += Duration::from_nanos(*gap);
                (now, link.handle_packet(now, *len))
            })
            .collect()
    }

    fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
        proptest::collection::vec((0u64..40_000, 40u32..1_500), 1..800)
    }

    proptest! {
        #[test]
        fn a_packet_alone_takes_half_the_round_trip_and_its_time_on_the_line(len in 40u32..1_500) {
            let mut link = Link::new(&spec(), Direction::Out);
            let now = Duration::from_secs(1);
            let on_the_line = Duration::from_nanos(u64::from(len) * 8);
            prop_assert_eq!(
                link.handle_packet(now, len),
                Verdict::Deliver(now + Duration::from_millis(50) + on_the_line)
            );
        }

        #[test]
        fn order_is_kept_whatever_the_jitter(packets in packets(), jitter_us in 0u64..5_000, seed: u64) {
            let spec = PathSpec { jitter: Duration::from_micros(jitter_us), seed, ..spec() };
            let mut link = Link::new(&spec, Direction::Out);
            let mut last = Duration::ZERO;
            for (now, verdict) in verdicts(&mut link, &packets) {
                if let Verdict::Deliver(due) = verdict {
                    prop_assert!(due >= last);
                    prop_assert!(due >= now + spec.rtt / 2);
                    last = due;
                }
            }
        }

        #[test]
        fn every_packet_is_counted_once(packets in packets(), before: bool, seed: u64) {
            let spec = PathSpec {
                loss: LossSpec::Uniform(0.1),
                loss_before_bottleneck: before,
                queue: QueueSpec::Bytes(20_000),
                reorder: ReorderSpec { share: 0.1, by: Duration::from_millis(1) },
                seed,
                ..spec()
            };
            let mut link = Link::new(&spec, Direction::Back);
            let verdicts = verdicts(&mut link, &packets);
            let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, v)| wanted(v)).count() as u64;
            let counters = link.counters();
            prop_assert_eq!(counters.sent, packets.len() as u64);
            prop_assert_eq!(counters.lost, count(|v| *v == Verdict::Lost));
            prop_assert_eq!(counters.queue_dropped, count(|v| *v == Verdict::Dropped));
            prop_assert_eq!(counters.sent, counters.delivered + counters.lost + counters.queue_dropped);
            prop_assert_eq!(counters.samples.iter().sum::<u64>(), counters.delivered_bytes);
            prop_assert!(counters.queue_peak_bytes <= 20_001);
            prop_assert!(counters.queue_mean_bytes <= counters.queue_peak_bytes as f64);
        }

        #[test]
        fn one_seed_makes_one_history(packets in packets(), seed: u64) {
            let spec = PathSpec {
                loss: LossSpec::Uniform(0.05),
                jitter: Duration::from_millis(1),
                reorder: ReorderSpec { share: 0.05, by: Duration::from_millis(1) },
                seed,
                ..spec()
            };
            let history = || verdicts(&mut Link::new(&spec, Direction::Out), &packets);
            prop_assert_eq!(history(), history());
        }

        #[test]
        fn after_the_bottleneck_the_same_packets_are_lost_whenever_they_come(
            packets in proptest::collection::vec(0u64..40_000, 1..500),
            seed: u64,
        ) {
            let spec = PathSpec { loss: LossSpec::Uniform(0.1), seed, ..spec() };
            let lost = |gaps: &dyn Fn(u64) -> u64| -> Vec<bool> {
                let packets: Vec<_> = packets.iter().map(|gap| (gaps(*gap), 1_500)).collect();
                let verdicts = verdicts(&mut Link::new(&spec, Direction::Out), &packets);
                verdicts.iter().map(|(_, verdict)| *verdict == Verdict::Lost).collect()
            };
            prop_assert_eq!(lost(&|gap| gap), lost(&|gap| gap * 3 + 7));
        }
    }

    #[test]
    fn a_packet_lost_after_the_bottleneck_has_used_the_line_and_before_it_has_not() {
        for (before, leaves_after) in [(true, 1u64), (false, 2)] {
            let spec = PathSpec { loss: LossSpec::Uniform(1.0), loss_before_bottleneck: before, ..spec() };
            let mut link = Link::new(&spec, Direction::Out);
            assert_eq!(link.handle_packet(Duration::ZERO, 1_500), Verdict::Lost);
            link.loss = Loss::new(LossSpec::None, 1, 0);
            let due = Duration::from_micros(12 * leaves_after) + Duration::from_millis(50);
            assert_eq!(link.handle_packet(Duration::ZERO, 1_500), Verdict::Deliver(due));
        }
    }

    #[test]
    fn packets_held_back_are_overtaken_and_as_many_as_asked() {
        let spec = PathSpec { reorder: ReorderSpec { share: 0.02, by: Duration::from_millis(1) }, ..spec() };
        let mut link = Link::new(&spec, Direction::Out);
        let all: Vec<_> = (0..100_000).map(|_| (12_000, 1_500)).collect();
        let dues: Vec<_> = verdicts(&mut link, &all)
            .into_iter()
            .filter_map(|(_, verdict)| if let Verdict::Deliver(due) = verdict { Some(due) } else { None })
            .collect();
        let overtaken = dues.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((1_800..2_200).contains(&link.counters().reordered), "{}", link.counters().reordered);
        assert!((1_700..2_200).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn samples_show_the_rate_over_time_and_start_anew() {
        let mut link = Link::new(&spec(), Direction::Out);
        // Half the rate for a second.
        for number in 0..41_666u64 {
            link.handle_packet(Duration::from_nanos(number * 24_000), 1_500);
        }
        let before = link.restart_counters(Duration::from_secs(1));
        assert_eq!(before.samples[0] / 100_000, 31, "the first half of the first sample is still under way");
        for sample in &before.samples[1..10] {
            assert!(sample.abs_diff(6_250_000) < 3_000, "{sample}");
        }
        link.handle_packet(Duration::from_secs(1), 1_500);
        assert_eq!(link.counters().samples, [1_500]);
        assert_eq!(link.counters().sent, 1);
    }
}
