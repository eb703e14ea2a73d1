//! What a path to a depot is like, what limits it, and what to do about it.
//!
//! [`measuring`] fills [`Measurements`]; all else here is pure: what was measured goes in, sentences and times come out.

mod advice;
mod forecast;
mod limit;
pub mod measuring;
mod samples;
mod supply;

use serde::{Deserialize, Serialize};

pub use crate::figures::{bits, bytes, milliseconds, percent, span};
pub use advice::{Advice, advise};
pub use forecast::{Forecast, forecast};
pub use limit::{Limit, find_limit};

use crate::work::Direction;

/// What was measured. What could not be is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// Seconds that TCP took to connect, each time: the round trip.
    pub connects: Vec<f64>,
    /// Over TCP.
    #[serde(flatten)]
    pub tcp: Directions,
    /// Over UDP, where a transfer would try that.
    pub udp: Directions,
    /// UDP was tried, and no datagram came back.
    pub udp_blocked: bool,
    /// This end.
    pub here: Here,
}

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directions {
    /// To the depot.
    pub up: Option<Transferred>,
    /// From the depot.
    pub down: Option<Transferred>,
}

impl Directions {
    /// One of them.
    pub fn of(&self, direction: Direction) -> Option<&Transferred> {
        match direction {
            Direction::Put => self.up.as_ref(),
            Direction::Get => self.down.as_ref(),
        }
    }

    /// What was measured of them.
    pub fn measured(&self) -> impl Iterator<Item = &Transferred> {
        [&self.up, &self.down].into_iter().flatten()
    }
}

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transferred {
    /// Bytes a second once it had got going.
    pub bytes_per_second: f64,
    /// Seconds that it was late before it had this rate: it had to connect, to be answered and to speed up.
    pub delay: f64,
    /// Whether it was over before that, so that the path can carry more.
    pub at_least: bool,
    /// Data channels, the most that were seen; 0 where none was.
    pub channels: usize,
    /// Whether they were UDP's. What is known of TCP's segments and buffers is not, then.
    pub udp: bool,
    /// All bytes, where all arrived.
    pub bytes: Option<u64>,
    /// Seconds that they took, from connecting to the receipt.
    pub seconds: Option<f64>,
    /// What this machine's end of the data channels used; of sending only, as the receiver's does not matter.
    pub congestion_control: Option<String>,
    /// Share of this machine's processors that was busy, by whatever.
    pub processors_busy: Option<f64>,
    /// TCP segments that were sent again, of all that the data channels sent; of sending only.
    pub resent: Option<f64>,
    /// TCP segments that came out of order, of all that came; of receiving only.
    pub disordered: Option<f64>,
    /// Share of the time in which the depot's receive window was full; of sending only.
    pub window_full: Option<f64>,
    /// Share of the time in which this kernel's send buffers were; of sending only.
    pub buffer_full: Option<f64>,
    /// Seconds that TCP took to connect meanwhile: the round trip with a queue in it, if there is one.
    pub loaded_rtt: Option<f64>,
    /// Seconds from when the depot had received everything until it had everything on its disk.
    pub behind: Option<f64>,
}

/// This end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Here {
    /// How many processors it has.
    pub processors: usize,
    /// What the kernel gives a connection to send from.
    pub send_buffer: Option<Buffer>,
    /// What it gives it to receive into.
    pub receive_buffer: Option<Buffer>,
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

impl Here {
    /// What the disk reads of what is sent, or writes of what is received, in bytes a second.
    fn disk(&self, direction: Direction) -> Option<f64> {
        match direction {
            Direction::Put => self.disk_read,
            Direction::Get => self.disk_write,
        }
    }

    /// The buffer that a connection has to send from, or to receive into.
    fn buffer(&self, direction: Direction) -> Option<Buffer> {
        match direction {
            Direction::Put => self.send_buffer,
            Direction::Get => self.receive_buffer,
        }
    }
}

/// How large a connection's buffer is, in bytes, as `net.ipv4.tcp_wmem` and `tcp_rmem` have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Even when memory is short.
    pub least: u64,
    /// At first.
    pub usual: u64,
    /// When it helps.
    pub most: u64,
}

/// TCP sends the first packet of a connection again after a second.
const FIRST_PACKET_AGAIN: f64 = 0.9;

impl Measurements {
    /// What a transfer in this direction would go by: the faster of what was measured.
    pub fn fastest(&self, direction: Direction) -> Option<&Transferred> {
        let both = [&self.tcp, &self.udp].into_iter().filter_map(|ways| ways.of(direction));
        both.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }

    /// The same where that is UDP.
    fn faster_udp(&self, direction: Direction) -> Option<&Transferred> {
        self.fastest(direction).filter(|moved| moved.udp)
    }

    /// The round trip without what queues add: the shortest.
    pub fn rtt(&self) -> Option<f64> {
        self.connects.iter().copied().min_by(f64::total_cmp)
    }

    /// The round trip as it usually was: the median.
    pub fn usual_rtt(&self) -> Option<f64> {
        let answered = self.answered();
        answered.get(answered.len() / 2).copied()
    }

    /// How far a round trip usually was from that.
    pub fn jitter(&self) -> Option<f64> {
        let (answered, usual) = (self.answered(), self.usual_rtt()?);
        Some(answered.iter().map(|rtt| (rtt - usual).abs()).sum::<f64>() / answered.len() as f64)
    }

    /// Connections whose first packet, or its answer, was lost.
    pub fn lost_connects(&self) -> usize {
        self.connects.len() - self.answered().len()
    }

    /// Round trips in which nothing was lost, the shortest first.
    fn answered(&self) -> Vec<f64> {
        let longest = self.rtt().unwrap_or(0.0) + FIRST_PACKET_AGAIN;
        let mut answered: Vec<f64> = self.connects.iter().copied().filter(|rtt| *rtt < longest).collect();
        answered.sort_by(f64::total_cmp);
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_first_packet_is_no_round_trip() {
        let measured =
            Measurements { connects: vec![0.102, 0.1, 1.101, 0.101, 0.103], ..Measurements::default() };
        assert_eq!(
            (measured.rtt(), measured.usual_rtt(), measured.lost_connects()),
            (Some(0.1), Some(0.102), 1)
        );
        assert!((measured.jitter().unwrap() - 0.001).abs() < 1e-9);
        let nothing = Measurements::default();
        assert_eq!(
            (nothing.rtt(), nothing.usual_rtt(), nothing.jitter(), nothing.lost_connects()),
            (None, None, None, 0)
        );
    }
}
