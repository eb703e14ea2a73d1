//! Sending, into a transfer that is removed afterwards.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Mtime, TransferId};
use terahaul_net::client::{Client, ClientError, ErrorKind, SendRequest, Sending};
use terahaul_wire::Batch;

use super::gauge::Gauge;
use super::{FIRST_BYTES, MOST_BYTES, Plan, TICK, uncompressed};
use crate::probe::Transferred;
use crate::probe::supply::Supply;
use crate::terabyte::Generator;
use crate::work::Direction;

/// How long what is declared may take to arrive after the measuring, however long the queue is.
const REST: Duration = Duration::from_secs(30);

/// A temporary transfer that is being sent.
pub struct Upload {
    sending: Arc<Sending>,
    address: SocketAddr,
    plan: Plan,
    begun: Instant,
    /// Ends the thread that declares files, when this is dropped.
    given_up: Arc<AtomicBool>,
}

/// What sending has shown.
#[derive(Debug)]
pub struct Uploaded {
    /// The measurement; `None` if nothing arrived.
    pub moved: Option<Transferred>,
    /// Whether the transfer is complete, and can be received.
    pub complete: bool,
    /// Why it ended before its time, if it did.
    pub cut_short: Option<ClientError>,
}

impl Upload {
    /// Opens the transfer. It expires after a day, whatever becomes of this program; `key` finds it again.
    pub async fn open(
        client: Client,
        address: SocketAddr,
        key: String,
        plan: Plan,
    ) -> Result<Self, ClientError> {
        let begun = Instant::now();
        let request = SendRequest {
            name: "terahaul probe".into(),
            resume_key: Some(key),
            expires_in_days: Some(1),
            ..SendRequest::default()
        };
        let source = Arc::new(Generator::new(1));
        let (ready, _) = Sending::open(client, request, uncompressed(plan.udp), source).await?;
        let sending = ready.start();
        Ok(Self { sending: Arc::new(sending), address, plan, begun, given_up: Arc::default() })
    }

    /// The transfer.
    pub fn transfer(&self) -> TransferId {
        self.sending.transfer()
    }

    /// Sends for the planned time, and waits until all has arrived.
    pub async fn run(self) -> Result<Uploaded, ClientError> {
        let watched = Arc::clone(&self.sending);
        let gauge = Gauge::start(self.begun, self.address, self.plan.udp, move || watched.progress());
        let fed = self.feed().await;
        let until = self.begun.elapsed().as_secs_f64();
        let finished = match fed {
            Ok(()) => self.finish().await,
            Err(error) => Err(error),
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        let readings = gauge.stop().await;
        let (complete, cut_short) = match finished {
            Ok(complete) => (complete, None),
            Err(error) if error.kind() == ErrorKind::NoRoom => (false, Some(error)),
            Err(error) => return Err(error),
        };
        let (bytes, seconds) = complete.then_some((self.sending.progress().total.0, seconds)).unzip();
        let moved = readings.transferred(Direction::Put, self.plan.rtt, until);
        let moved = moved.map(|moved| Transferred { bytes, seconds, ..moved });
        Ok(Uploaded { moved, complete, cut_short })
    }

    async fn feed(&self) -> Result<(), ClientError> {
        let (sending, given_up) = (Arc::clone(&self.sending), Arc::clone(&self.given_up));
        let (plan, begun) = (self.plan, self.begun);
        tokio::task::spawn_blocking(move || feed(&sending, plan, begun, &given_up)).await?
    }

    /// Whether all arrived in time.
    async fn finish(&self) -> Result<bool, ClientError> {
        match tokio::time::timeout(REST, self.sending.finish()).await {
            Ok(finished) => finished.map(|_| true),
            Err(_) => Ok(false),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.sending.interrupt();
    }
}

/// Declares files until the time is over, which begins with the first bytes.
fn feed(sending: &Sending, plan: Plan, begun: Instant, given_up: &AtomicBool) -> Result<(), ClientError> {
    let mut supply = Supply::new(plan.rtt, MOST_BYTES);
    let mut over = None;
    while !given_up.load(Ordering::Relaxed) && !sending.has_ended() {
        let (now, moved) = (Instant::now(), sending.progress().sent.0);
        if over.is_none() && moved > 0 {
            over = Some(now + plan.time);
        }
        if now >= over.unwrap_or(begun + FIRST_BYTES) || supply.is_used_up() && moved >= MOST_BYTES {
            break;
        }
        supply.handle_moved((now - begun).as_secs_f64(), moved);
        while let Some(size) = supply.poll_file() {
            // A batch of its own seals its last block, so that it is sent at once.
            let first = sending.next_entry();
            sending.append(Batch { first, entries: vec![entry(first.0, size)], seal: true })?;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

fn entry(number: u32, size: u64) -> Entry {
    Entry {
        path: EntryPath::new(format!("{number:06}").into_bytes())
            .unwrap_or_else(|_| unreachable!("a plain name")),
        kind: EntryKind::File { size: ByteCount(size) },
        mtime: Mtime::default(),
        mode: 0o600,
        extra: None,
    }
}
