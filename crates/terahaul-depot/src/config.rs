//! What a depot is told when it starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use terahaul_core::ByteCount;

/// Settings of a depot.
#[derive(Clone, Debug)]
pub struct DepotConfig {
    /// The data folder: database, store and keys.
    pub data: PathBuf,
    /// Most bytes that all transfers together may declare.
    pub quota: Option<ByteCount>,
    /// Days until a transfer expires, unless its sender asks for fewer or more.
    pub expiry_days: u32,
    /// Takes transfers that declare more bytes than the disk has free.
    pub overcommit: bool,
    /// Refusals that keep one client from using up the depot.
    pub limits: Limits,
    /// Where the time comes from.
    pub clock: Clock,
    /// How long after its start a depot begins to remove what has expired: a machine's clock may be years ahead until the network
    /// has set it right.
    pub trusts_clock_after: Duration,
}

/// Limits of one transfer and of one depot.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most entries in a transfer.
    pub entries: u64,
    /// Most characters in a transfer's name.
    pub name_chars: usize,
    /// Longest time a transfer may be kept, in days.
    pub expiry_days: u32,
    /// Most uploads over HTTP at once; each may hold 512 KiB. What is said of where many entries are placed is among them.
    pub uploads: usize,
    /// Most downloads over HTTP at once; each may hold 5 MiB, one of a ZIP file 9. Lists of entries, of blocks and of their values, and
    /// of many transfers, are among them, and may hold more.
    pub downloads: usize,
    /// Most JSON bodies of more than 64 KiB at once; each may hold 4 MiB.
    pub long_bodies: usize,
    /// How long an HTTP client may take nothing of what it is sent: a proxy that has a file for it may be long in passing it on. Its
    /// place among the downloads is another's then.
    pub stalled: Duration,
    /// How long a request that is running may go on without a look whether its token still holds.
    pub recheck: Duration,
    /// Most open transfers of one token: each is a row that every append of anybody reads, and a file, whether it holds something or not.
    pub open_transfers: usize,
    /// Most browser sessions of one token; the oldest end.
    pub sessions: usize,
    /// Most transfers that are received or read at once; each has a file open, and a received one a thread.
    pub transfers_in_use: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: terahaul_wire::MAX_ENTRIES.into(),
            name_chars: 200,
            expiry_days: 3650,
            uploads: 128,
            downloads: 128,
            long_bodies: 64,
            stalled: Duration::from_secs(600),
            recheck: Duration::from_secs(5),
            open_transfers: 1000,
            sessions: 1000,
            transfers_in_use: 1024,
        }
    }
}

impl DepotConfig {
    /// The defaults, with data in `data`.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            quota: None,
            expiry_days: 30,
            overcommit: false,
            limits: Limits::default(),
            clock: Clock::system(),
            trusts_clock_after: Duration::from_secs(600),
        }
    }
}

/// Seconds since 1970 UTC, and seconds that pass whatever those are set to: the system's, or a test's.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Set { shown: Arc<AtomicI64>, passed: Arc<AtomicI64> },
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows what `seconds` holds.
    pub fn set_by(seconds: Arc<AtomicI64>) -> Self {
        Self::set_apart(Arc::clone(&seconds), seconds)
    }

    /// A clock that shows what `shown` holds, while so many seconds have passed as `passed` holds.
    pub fn set_apart(shown: Arc<AtomicI64>, passed: Arc<AtomicI64>) -> Self {
        Self(Source::Set { shown, passed })
    }

    /// Seconds since 1970 UTC.
    pub fn now(&self) -> i64 {
        match &self.0 {
            Source::System => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
            }
            Source::Set { shown, .. } => shown.load(Ordering::Relaxed),
        }
    }

    /// Which start of the machine `passed` counts from; empty where the system does not say.
    pub(crate) fn boot(&self) -> String {
        match &self.0 {
            Source::System => {
                let said = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
                said.map_or_else(|_| String::new(), |id| id.trim().to_owned())
            }
            Source::Set { .. } => "set".to_owned(),
        }
    }

    /// Seconds that have passed since some moment. The time that the machine sleeps counts, setting its clock does not.
    pub(crate) fn passed(&self) -> i64 {
        match &self.0 {
            Source::System => clock_gettime(ClockId::Boottime).tv_sec,
            Source::Set { passed, .. } => passed.load(Ordering::Relaxed),
        }
    }
}

/// Seconds in a day.
pub(crate) const DAY: i64 = 86_400;
