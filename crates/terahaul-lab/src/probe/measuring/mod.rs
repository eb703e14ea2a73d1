//! Measuring: the part of a probe that touches sockets, clocks and disks.

mod connects;
mod down;
mod gauge;
mod here;
mod processors;
mod tcp_info;
mod up;

use std::time::Duration;

pub use connects::{Reached, reach};
pub use down::download;
pub use here::here;
use terahaul_core::{Compress, Transport};
use terahaul_net::client::Options;
pub use up::{Upload, Uploaded};

/// Most that is sent, however fast the path is: it has to be kept at the depot for a moment.
const MOST_BYTES: u64 = 2 << 30;

/// Between two looks at how far it is.
const TICK: Duration = Duration::from_millis(5);
/// How long the first bytes may take. A packet that opens a connection and is lost is sent again after a second, its successor after
/// two more (RFC 6298), and several connections are opened one after the other.
const FIRST_BYTES: Duration = Duration::from_secs(15);

/// How to measure a direction.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// For how long, from the first bytes.
    pub time: Duration,
    /// The path's round trip, in seconds.
    pub rtt: f64,
    /// Over UDP, not TCP.
    pub udp: bool,
}

impl Plan {
    /// For `time`, or else as long as it takes until connections have got going and it has been seen what they carry:
    /// four seconds, and more where the round trip is long.
    pub fn new(time: Option<Duration>, rtt: f64) -> Self {
        const USUAL: f64 = 4.0;
        const ROUND_TRIPS: f64 = 20.0;
        /// A path whose round trips are longer than seconds is broken, and not measured for minutes.
        const LONGEST: f64 = 20.0;
        let usual = Duration::from_secs_f64(USUAL.max(ROUND_TRIPS * rtt).min(LONGEST));
        Self { time: time.unwrap_or(usual), rtt, udp: false }
    }

    /// The same over UDP.
    pub fn over_udp(self) -> Self {
        Self { udp: true, ..self }
    }
}

/// Every byte that is counted has to go over the path as it is.
fn uncompressed(udp: bool) -> Options {
    let transport = if udp { Transport::Udp } else { Transport::Tcp };
    Options { compress: Compress::No, transport, ..Options::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_measured_for_longer_unless_told_otherwise() {
        assert_eq!(Plan::new(None, 0.1).time, Duration::from_secs(4));
        assert_eq!(Plan::new(None, 0.6).time, Duration::from_secs(12));
        assert_eq!(Plan::new(None, 3.0).time, Duration::from_secs(20));
        assert_eq!(Plan::new(Some(Duration::from_secs(1)), 0.6).time, Duration::from_secs(1));
    }
}
