//! Reads counters now and then while something is transferred.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terahaul_net::client::Progress;

use super::connects::connect_once;
use super::processors;
use super::tcp_info::Connections;
use crate::probe::Transferred;
use crate::probe::samples::{Sample, summarise};
use crate::work::Direction;

/// Between two readings.
const EACH: Duration = Duration::from_millis(25);
/// Between two connections that measure the round trip meanwhile.
const CONNECT_EACH: Duration = Duration::from_millis(250);
/// In the time of so many, two are made from beginning to end unless their packets are lost or late.
const TWO_TAKE: f64 = 3.0;
/// Seconds after which the first packet of a connection is sent again (RFC 6298).
const SENT_AGAIN: f64 = 1.0;

/// Reads until it is stopped or dropped.
pub(super) struct Gauge {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Vec<Sample>>>,
    connector: Option<JoinHandle<Vec<(f64, f64)>>>,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Readings {
    samples: Vec<Sample>,
    /// When a connection was begun, and the seconds that it took.
    connects: Vec<(f64, f64)>,
}

impl Gauge {
    /// Reads `progress`, and what the kernel knows of the connections to `address` unless the data goes over UDP. Times are since
    /// `begun`.
    pub fn start(
        begun: Instant,
        address: SocketAddr,
        udp: bool,
        progress: impl Fn() -> Progress + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            let mut connections = if udp { None } else { Connections::to(address.port()).ok() };
            // At the beginning nothing has moved. This thread may be late for it.
            let mut samples = vec![Sample::default()];
            loop {
                // The last reading is of the end.
                let last = stopped.load(Ordering::Relaxed);
                let tcp = connections.as_mut().and_then(|connections| connections.sum().ok());
                if tcp.is_none() {
                    connections = None;
                }
                let progress = progress();
                samples.push(Sample {
                    at: begun.elapsed().as_secs_f64(),
                    moved: progress.sent.0,
                    over_udp: udp.then_some(progress.over_udp.0),
                    durable: progress.done.0,
                    channels: progress.channels,
                    tcp,
                    processors: processors::now(),
                });
                if last {
                    return samples;
                }
                std::thread::sleep(EACH);
            }
        });
        let stopped = Arc::clone(&stop);
        let connector = std::thread::spawn(move || {
            let mut connects = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let at = begun.elapsed().as_secs_f64();
                connects.extend(connect_once(address).map(|seconds| (at, seconds)));
                std::thread::sleep(CONNECT_EACH);
            }
            connects
        });
        Self { stop, reader: Some(reader), connector: Some(connector) }
    }

    /// Everything that was read. Waits for a connection that is being made, five seconds at most.
    pub async fn stop(self) -> Readings {
        // A thread that panicked has nothing to say.
        tokio::task::spawn_blocking(move || self.join()).await.unwrap_or_default()
    }

    fn join(mut self) -> Readings {
        self.stop.store(true, Ordering::Relaxed);
        // As above.
        Readings {
            samples: self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default(),
            connects: self.connector.take().and_then(|connector| connector.join().ok()).unwrap_or_default(),
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Readings {
    /// What they say about a transfer that had until then. `None` where nothing moved.
    pub fn transferred(&self, direction: Direction, rtt: f64, until: f64) -> Option<Transferred> {
        let moved = summarise(&self.samples, direction, rtt, until)?;
        let loaded_rtt = self.loaded_rtt(until / 2.0, until);
        // What was over before two connections could be made in it has hardly got going. Where they could, but their packets were lost, it has.
        let hardly_going = until / 2.0 < TWO_TAKE * (CONNECT_EACH.as_secs_f64() + rtt);
        let at_least = moved.at_least || loaded_rtt.is_none() && hardly_going;
        Some(Transferred { loaded_rtt, at_least, ..moved })
    }

    /// The median round trip between two times; `None` of fewer than two. A queue delays every connection, a lost packet the
    /// one whose first it was.
    fn loaded_rtt(&self, from: f64, until: f64) -> Option<f64> {
        let within = |at: f64| at >= from && at <= until;
        let mut taken: Vec<f64> =
            self.connects.iter().filter(|(at, _)| within(*at)).map(|(_, seconds)| *seconds).collect();
        taken.sort_by(f64::total_cmp);
        let [fastest, _, ..] = taken[..] else { return None };
        taken.retain(|seconds| *seconds < fastest + SENT_AGAIN);
        taken.get((taken.len() - 1) / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded_rtt(connects: &[f64]) -> Option<f64> {
        let connects = connects.iter().map(|seconds| (1.0, *seconds)).collect();
        Readings { connects, ..Readings::default() }.loaded_rtt(0.0, 2.0)
    }

    #[test]
    fn a_connection_whose_first_packet_was_lost_is_no_queue() {
        assert_eq!(loaded_rtt(&[0.1, 1.108]), Some(0.1));
        assert_eq!(loaded_rtt(&[1.108, 0.1, 1.11]), Some(0.1));
        assert_eq!(loaded_rtt(&[1.108]), None);
    }

    #[test]
    fn what_was_over_before_two_connections_could_be_made_is_a_lower_bound() {
        let samples = (0..=60u32).map(|number| Sample {
            at: f64::from(number) / 40.0,
            moved: u64::from(number) * 1_000_000,
            ..Sample::default()
        });
        let mut readings = Readings { samples: samples.collect(), connects: vec![(0.0, 0.03), (1.2, 0.03)] };
        let received = readings.transferred(Direction::Get, 0.03, 1.5).unwrap();
        assert_eq!((received.at_least, received.loaded_rtt), (true, None));
        readings.connects.push((0.8, 0.05));
        let received = readings.transferred(Direction::Get, 0.03, 1.5).unwrap();
        assert_eq!((received.at_least, received.loaded_rtt), (false, Some(0.03)));
    }

    #[test]
    fn what_had_time_for_connections_of_which_packets_were_lost_has_got_going() {
        let samples = (0..=160u32).map(|number| Sample {
            at: f64::from(number) / 40.0,
            moved: u64::from(number) * 100_000,
            ..Sample::default()
        });
        let readings = Readings { samples: samples.collect(), connects: vec![(0.0, 0.1), (0.6, 3.1)] };
        let received = readings.transferred(Direction::Get, 0.1, 4.0).unwrap();
        assert_eq!((received.at_least, received.loaded_rtt), (false, None));
    }

    #[test]
    fn a_queue_delays_every_connection() {
        assert_eq!(loaded_rtt(&[0.19, 0.1, 0.2, 0.18, 0.17]), Some(0.18));
        assert_eq!(loaded_rtt(&[1.2, 3.9]), Some(1.2));
    }
}
