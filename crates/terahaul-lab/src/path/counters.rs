//! What happened to packets: one [`LinkCounters`] a direction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

impl LinkCounters {
    /// The share of the sent packets that the path's loss took.
    pub fn loss_share(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}
