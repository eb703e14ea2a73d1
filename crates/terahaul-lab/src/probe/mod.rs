//! What a path to a depot is like, what limits it, and what to do about it.
//!
//! Pure: what was measured goes in, sentences come out. The command line does the measuring.

mod advice;
mod forecast;
mod limit;

use serde::{Deserialize, Serialize};

pub use advice::{Advice, advise};
pub use forecast::{Forecast, forecast};
pub use limit::{Limit, find_limit};

/// What was measured. What could not be is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// Seconds that TCP took to connect, each time: the round trip.
    pub connects: Vec<f64>,
    /// Seconds from connecting to an answer over HTTPS, once.
    pub first_answer: Option<f64>,
    /// To the depot.
    pub up: Option<Transferred>,
    /// From the depot.
    pub down: Option<Transferred>,
    /// This end.
    pub here: Here,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transferred {
    /// Bytes a second once it had got going.
    pub bytes_per_second: f64,
    /// Data channels at the end.
    pub channels: usize,
    /// Share of this machine's processors that was busy, by whatever.
    pub processors_busy: Option<f64>,
    /// TCP segments that were sent again, of all that this machine sent meanwhile; of sending only.
    pub resent: Option<f64>,
    /// Seconds that TCP took to connect meanwhile: the round trip with a queue in it, if there is one.
    pub loaded_rtt: Option<f64>,
    /// Of what was sent, the share that the depot had on its disk when the measuring ended.
    pub durable: Option<f64>,
}

/// This end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Here {
    /// The largest send buffer that the kernel gives a connection, in bytes.
    pub send_buffer: Option<u64>,
    /// The largest receive buffer.
    pub receive_buffer: Option<u64>,
    /// What TCP uses unless told otherwise.
    pub congestion_control: String,
    /// What it could use.
    pub congestion_controls: Vec<String>,
    /// AES-128-GCM on one processor, bytes a second.
    pub aes: Option<f64>,
    /// ChaCha20-Poly1305 on one processor.
    pub chacha: Option<f64>,
    /// Reading from the folder that was named, bytes a second.
    pub disk_read: Option<f64>,
    /// Writing to it and syncing.
    pub disk_write: Option<f64>,
}

impl Measurements {
    /// The round trip without what queues add: the shortest.
    pub fn rtt(&self) -> Option<f64> {
        self.connects.iter().copied().min_by(f64::total_cmp)
    }

    /// The round trip as it usually was: the median.
    pub fn usual_rtt(&self) -> Option<f64> {
        let mut sorted = self.connects.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}
