//! One terabyte through the real engine: FileSender's challenge of 2013, on one machine.
//!
//! The bytes come from a [`Generator`], go through the client, TLS over loopback and a depot, are hashed at both
//! ends, and end in a [`HashStore`]. What is measured is all of a transfer but the disks.

mod generator;
mod hash_store;
mod record;
mod root;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use terahaul_core::{
    BlockNumber, BlockProof, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Hash, Mtime,
};
use terahaul_depot::{Bound, Depot, DepotConfig, DepotError, ServeError, Server};
use terahaul_net::client::{Client, ClientError, Options, Progress, SendRequest, Sending, Sent};
use terahaul_net::endpoint::Endpoint;
use terahaul_wire::Batch;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use generator::Generator;
pub use hash_store::HashStore;
pub use record::Record;
pub use root::expected_root;

/// What the challenge asked for.
pub const GOAL: Duration = Duration::from_secs(5 * 3600);
/// What its winner took.
pub const REACHED_IN_2013: Duration = Duration::from_secs(3 * 3600 + 19 * 60);

/// What to send, and where to keep how far it is.
#[derive(Clone, Debug)]
pub struct Job {
    /// How much.
    pub size: ByteCount,
    /// What the bytes are made from.
    pub seed: u64,
    /// The depot's data and the record: about 40 kB for each gigabyte.
    pub state: PathBuf,
    /// Data channels; as many as help where `None`.
    pub channels: Option<u32>,
}

/// Why it cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum TerabyteError {
    /// The folder belongs to another job.
    #[error(
        "{folder} holds a run of {size} with seed {seed}: give the same --size and --seed, or another --state"
    )]
    Other {
        /// Which.
        folder: PathBuf,
        /// Its size.
        size: ByteCount,
        /// Its seed.
        seed: u64,
    },
    /// The state cannot be kept.
    #[error("the state in {folder} cannot be kept ({source}): give another folder with --state")]
    State {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The depot cannot be opened.
    #[error(transparent)]
    Depot(#[from] DepotError),
    /// Its port cannot be.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Sending failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The depot did not sign what was sent.
    #[error(
        "what arrived is not what was sent ({0}): this is a fault of this program or of this machine's memory"
    )]
    Different(&'static str),
    /// A thread failed.
    #[error("a thread failed ({0}): run the same command again")]
    Thread(#[from] tokio::task::JoinError),
}

/// A terabyte under way: a depot and a client in one process.
pub struct Terabyte {
    job: Job,
    record: Record,
    begun: Instant,
    sending: Arc<Sending>,
    resumed: bool,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Terabyte {
    /// What an earlier run of the same job has left in its folder, if any.
    pub fn record(job: &Job) -> Result<Option<Record>, TerabyteError> {
        let record = Record::read(&job.state).map_err(|source| state_error(&job.state, source))?;
        match record {
            Some(Record { size, seed, .. }) if (size, seed) != (job.size, job.seed) => {
                Err(TerabyteError::Other { folder: job.state.clone(), size, seed })
            }
            other => Ok(other),
        }
    }

    /// Starts, or goes on where an earlier run of the same job has stopped.
    pub async fn start(job: Job) -> Result<Self, TerabyteError> {
        let mut record = Self::record(&job)?.unwrap_or_else(|| Record::new(job.size, job.seed));
        record.runs += 1;
        let failed = |source| state_error(&job.state, source);
        let store = HashStore::open(job.state.join("store")).map_err(failed)?;
        record.write(&job.state).map_err(failed)?;
        let config = DepotConfig { overcommit: true, ..DepotConfig::new(job.state.join("depot")) };
        let depot = Depot::open_with_store(config, Arc::new(store)).await?;
        let bound = Bound::to(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = bound.address();
        let server = Server::listen(bound, depot.clone(), None)?;
        let endpoint = Endpoint { host: address.ip().to_string(), port: address.port(), pin: server.pin() };
        let token = depot.owner_token().await?;
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(server.run(stopped));
        let begun = Instant::now();
        let request = SendRequest {
            name: "a terabyte".into(),
            resume_key: Some(format!("{:032x}", job.seed)),
            ..SendRequest::default()
        };
        let options = Options { channels: job.channels, ..Options::default() };
        let source = Arc::new(Generator::new(job.seed));
        let client = Client::new(endpoint, token)?;
        let (ready, stored) = Sending::open(client, request, options, source).await?;
        let (sending, resumed) = (Arc::new(ready.start()), !stored.entries.is_empty());
        if !resumed {
            // What took an earlier run its time is not what is sent now: it was killed after all had arrived, and before it knew of that.
            record = Record { runs: 1, ..Record::new(job.size, job.seed) };
            record.write(&job.state).map_err(failed)?;
            let batch = Batch { first: EntryIndex(0), entries: vec![entry(job.size)], seal: true };
            sending.declare(batch).await?;
        }
        Ok(Self { job, record, begun, sending, resumed, stop, server })
    }

    /// Whether an earlier run is continued.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The transfer, for others to wait for.
    pub fn sending(&self) -> Arc<Sending> {
        Arc::clone(&self.sending)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.sending.progress()
    }

    /// Keeps how far it is, so that a crash costs no more than what came after.
    pub fn keep(&self) -> Result<(), TerabyteError> {
        self.so_far().write(&self.job.state).map_err(|source| state_error(&self.job.state, source))
    }

    fn so_far(&self) -> Record {
        let mut record = self.record.clone();
        record.seconds += self.begun.elapsed().as_secs_f64();
        record.moved += self.progress().sent;
        record
    }

    /// Stops in good order; the same job goes on from here.
    pub async fn stop(self) -> Result<(), TerabyteError> {
        let kept = self.keep();
        self.sending.interrupt();
        self.close().await;
        kept
    }

    async fn close(self) {
        // A server that has ended already need not be told.
        let _ = self.stop.send(true);
        if let Err(error) = self.server.await {
            tracing::debug!("the depot's task failed: {error}");
        }
    }

    /// All has arrived: the clock stops, and what was signed is kept, to be compared.
    pub async fn conclude(self, sent: Sent) -> Result<Arrived, TerabyteError> {
        sent.statement
            .verify(&sent.signature)
            .map_err(|_| TerabyteError::Different("the signature is not the depot's"))?;
        if sent.statement.bytes != self.job.size {
            return Err(TerabyteError::Different("the size differs"));
        }
        let signed = sent.statement.root;
        let record = Record { signed: Some(signed.to_hex()), ..self.so_far() };
        let job = self.job.clone();
        // First of all: from now on nothing is sent again, whatever happens here.
        record.write(&job.state).map_err(|source| state_error(&job.state, source))?;
        self.close().await;
        Ok(Arrived { job, record, signed, proofs: sent.proofs.1 })
    }
}

/// A terabyte of which all has arrived and is signed.
pub struct Arrived {
    job: Job,
    record: Record,
    signed: Hash,
    /// What the run that ended has hashed while it sent.
    proofs: BTreeMap<BlockNumber, BlockProof>,
}

impl Arrived {
    /// What an earlier run has left to be compared, if any.
    pub fn left(job: &Job, record: &Record) -> Option<Self> {
        let signed = Hash::from_hex(record.signed.as_ref()?)?;
        Some(Self { job: job.clone(), record: record.clone(), signed, proofs: BTreeMap::new() })
    }

    /// Compares what was signed with what the generator makes. May be given up, and done by a later run.
    pub async fn compare(self) -> Result<Record, TerabyteError> {
        let Self { job: Job { size, seed, state, .. }, record, signed, proofs } = self;
        let expected = move || expected_root(&entry(size), Generator::new(seed), &proofs);
        if tokio::task::spawn_blocking(expected).await? != Some(signed) {
            return Err(TerabyteError::Different("the root differs"));
        }
        let record = Record { root: record.signed, signed: None, ..record };
        record.write(&state).map_err(|source| state_error(&state, source))?;
        Ok(record)
    }
}

fn state_error(folder: &Path, source: io::Error) -> TerabyteError {
    TerabyteError::State { folder: folder.to_owned(), source }
}

/// The only file. It has no time of its own, so that every run of a job declares the same.
fn entry(size: ByteCount) -> Entry {
    Entry {
        path: EntryPath::new(&b"terabyte"[..]).unwrap_or_else(|_| unreachable!("a plain name")),
        kind: EntryKind::File { size },
        mtime: Mtime::default(),
        mode: 0o644,
        extra: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(state: &Path) -> Job {
        Job { size: ByteCount(9_000_001), seed: 1, state: state.to_owned(), channels: Some(1) }
    }

    /// It was forgotten that all had arrived, and all was sent again.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_stop_while_the_root_is_compared_leaves_nothing_but_that_to_do() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let terabyte = Terabyte::start(job.clone()).await.unwrap();
        let sent = terabyte.sending().finish().await.unwrap();
        drop(terabyte.conclude(sent).await.unwrap());
        let kept = || Terabyte::record(&job).unwrap().unwrap();
        let before = kept();
        assert_eq!(before.root, None);
        let record = Arrived::left(&job, &before).unwrap().compare().await.unwrap();
        assert_eq!(record, kept());
        assert_eq!(record, Record { root: before.signed.clone(), signed: None, ..before });
        assert!(record.root.is_some() && Arrived::left(&job, &record).is_none());
        let false_word = Record { signed: Some(Hash([9; 32]).to_hex()), root: None, ..record };
        let compared = Arrived::left(&job, &false_word).unwrap().compare().await;
        assert!(matches!(compared, Err(TerabyteError::Different(_))));
    }

    /// The time of both was that of one.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_sent_anew_begins_its_time_anew() {
        let state = tempfile::tempdir().unwrap();
        let first = Terabyte::start(job(state.path())).await.unwrap();
        first.sending().finish().await.unwrap();
        // As if it was killed before it heard of that.
        first.stop().await.unwrap();
        let kept = Terabyte::record(&job(state.path())).unwrap().unwrap();
        assert!(kept.moved.0 >= 9_000_001 && kept.seconds > 0.0, "{kept:?}");
        let second = Terabyte::start(job(state.path())).await.unwrap();
        assert!(!second.is_resumed());
        assert_eq!((second.record.runs, second.record.seconds, second.record.moved), (1, 0.0, ByteCount(0)));
        second.stop().await.unwrap();
    }
}
