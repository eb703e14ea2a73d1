//! What happened to packets: one [`LinkCounters`] a direction.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use terahaul_core::ByteCount;

use super::spec::{PathSpec, QueueSpec};

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCounters {
    /// From the near end to the far one.
    pub near_to_far: LinkCounters,
    /// The way back.
    pub far_to_near: LinkCounters,
}

/// One direction. Packets are IP packets as the line sees them, of the MTU at most; bytes include their headers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets that came to the link.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that left at the other end, or still fly there.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets lost by the path's loss, after the bottleneck or before it as the path says.
    pub lost: u64,
    /// Packets dropped because the queue was full, or by the policer.
    pub queue_dropped: u64,
    /// Packets held back so that others overtook them.
    pub reordered: u64,
    /// Packets that the lab itself lost because this machine was too slow. Anything but 0 spoils a measurement.
    pub missed: u64,
    /// The fullest queue, in bytes.
    pub queue_peak_bytes: u64,
    /// The queue that an arriving packet met, on average, in bytes.
    pub queue_mean_bytes: f64,
    /// Bytes delivered in each [`SAMPLE`] since the counters started.
    pub samples: Vec<u64>,
}

/// How long a sample of [`LinkCounters::samples`] is.
pub const SAMPLE: Duration = Duration::from_millis(100);

impl PathCounters {
    /// Adds those of another path beside it.
    pub(super) fn add(&mut self, other: Self) {
        self.near_to_far.add(other.near_to_far);
        self.far_to_near.add(other.far_to_near);
    }

    /// What happened, in a paragraph for people.
    pub fn report(&self, spec: &PathSpec) -> String {
        let mut text = format!("the path was {spec}. ");
        text += &format!("Out: {}. ", self.near_to_far.report(spec));
        text += &format!("Back: {}.", self.far_to_near.report(spec));
        let missed = self.near_to_far.missed + self.far_to_near.missed;
        if missed > 0 {
            text += &format!(
                " This machine was too slow and lost {missed} packets besides: do not trust what was measured"
            );
        }
        text
    }
}

impl LinkCounters {
    /// Takes the samples of the first `time`. Later ones are of what was still under way then.
    pub(crate) fn take_samples(&mut self, time: Duration) -> Vec<u64> {
        let mut samples = std::mem::take(&mut self.samples);
        samples.truncate(time.as_nanos().div_ceil(SAMPLE.as_nanos()) as usize);
        samples
    }

    /// Adds those of another link beside it: the fullest queues as if they were so at one time.
    fn add(&mut self, other: Self) {
        let (all, both) = (self.sent + other.sent, (self.sent as f64, other.sent as f64));
        if all > 0 {
            self.queue_mean_bytes =
                (self.queue_mean_bytes * both.0 + other.queue_mean_bytes * both.1) / all as f64;
        }
        self.sent = all;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.lost += other.lost;
        self.queue_dropped += other.queue_dropped;
        self.reordered += other.reordered;
        self.missed += other.missed;
        self.queue_peak_bytes += other.queue_peak_bytes;
        let len = self.samples.len().max(other.samples.len());
        self.samples.resize(len, 0);
        self.samples.iter_mut().zip(other.samples).for_each(|(sum, more)| *sum += more);
    }

    fn report(&self, spec: &PathSpec) -> String {
        let place = if spec.loss_before_bottleneck { "before" } else { "after" };
        let bytes = ByteCount(self.sent_bytes);
        let mut text =
            format!("{} packets sent ({bytes}), {} lost {place} the bottleneck", self.sent, self.lost);
        if spec.queue == QueueSpec::None {
            return text + &format!(", {} dropped by the policer", self.queue_dropped);
        }
        let (mean, peak) = (ByteCount(self.queue_mean_bytes as u64), ByteCount(self.queue_peak_bytes));
        text += &format!(
            ", {} dropped in the queue, which held {mean} on average and {peak} at most",
            self.queue_dropped
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::ready;

    #[test]
    fn what_went_over_two_paths_adds_up() {
        let one = LinkCounters {
            sent: 3,
            delivered_bytes: 10,
            queue_peak_bytes: 5,
            queue_mean_bytes: 4.0,
            samples: vec![4, 6],
            ..LinkCounters::default()
        };
        let other = LinkCounters { sent: 1, delivered_bytes: 7, samples: vec![0, 0, 7], ..one.clone() };
        let mut sum = one;
        sum.add(other);
        let expected = LinkCounters {
            sent: 4,
            delivered_bytes: 17,
            queue_peak_bytes: 10,
            queue_mean_bytes: 4.0,
            samples: vec![4, 6, 7],
            ..LinkCounters::default()
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn what_is_still_under_way_is_in_no_sample_of_the_time_before() {
        let samples_of = |time| {
            let mut counters = LinkCounters { samples: vec![1, 2, 4, 8], ..LinkCounters::default() };
            counters.take_samples(Duration::from_millis(time))
        };
        assert_eq!(samples_of(200), [1, 2]);
        assert_eq!(samples_of(201), [1, 2, 4]);
        assert_eq!(samples_of(2_000), [1, 2, 4, 8]);
    }

    #[test]
    fn the_report_says_where_packets_went_and_when_not_to_trust_it() {
        let spec = ready::find("transatlantic").unwrap();
        let near_to_far = LinkCounters {
            sent: 700,
            sent_bytes: 1_000_000,
            lost: 7,
            queue_dropped: 3,
            ..LinkCounters::default()
        };
        let mut counters = PathCounters { near_to_far, ..PathCounters::default() };
        let report = counters.report(&spec);
        assert!(
            report.contains("700 packets sent (1.0 MB), 7 lost after the bottleneck, 3 dropped in the queue")
        );
        assert!(!report.contains("do not trust"));
        counters.far_to_near.missed = 1;
        assert!(counters.report(&spec).contains("do not trust"));
    }
}
