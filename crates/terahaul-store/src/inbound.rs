//! The shell round [`Receiver`]: verified writes, group syncs on a thread of their own, a record of what is durable.
//!
//! HTTP uploads, native data channels and a receiving client all deliver blocks here, at the same time if need be.

use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{
    Admission, BlockHasher, BlockNumber, BlockProof, BlockRefusal, BlockRun, BlockShape, Hash, Receiver,
};

use crate::{BlockSink, BlockWriter, Ledger, LedgerError, SinkError};

/// Why a block was not taken, or the transfer cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    /// The sender offered what the manifest does not allow.
    #[error(transparent)]
    Refused(#[from] BlockRefusal),
    /// The bytes are not those the sender claims.
    #[error(
        "block {block} arrived with another value ({got}) than its sender computed ({claimed}): it will be sent again"
    )]
    Mismatch {
        /// Which block.
        block: BlockNumber,
        /// What the sender computed.
        claimed: String,
        /// What arrived.
        got: String,
    },
    /// A block that is here already was sent again with other content.
    #[error(
        "block {0} was sent twice with different content: the first is kept; a file changed while it was being sent"
    )]
    Conflict(BlockNumber),
    /// Writing failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// Recording failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An earlier sync failed, and the reason was this.
    #[error("{0}")]
    Broken(String),
    /// The transfer was cancelled or removed.
    #[error("the transfer was closed")]
    Closed,
}

/// Called, from the sync thread, with each group that became durable.
pub type OnDurable = Box<dyn Fn(&[BlockRun]) + Send + Sync>;

/// A transfer being received.
pub struct Inbound {
    shared: Arc<Shared>,
    syncer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    sink: Arc<dyn BlockSink>,
    ledger: Arc<dyn Ledger>,
}

struct State {
    receiver: Receiver,
    closed: bool,
    /// Why the last sync failed; cleared by the next that succeeds.
    broken: Option<String>,
    listeners: Vec<(u64, Arc<OnDurable>)>,
    next_listener: u64,
}

impl Shared {
    /// A poisoned lock means another thread panicked between two consistent states; the data is still right.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbound {
    /// Receives into `sink`, recording in `ledger`, from where `receiver` stands.
    pub fn start(
        receiver: Receiver,
        sink: Arc<dyn BlockSink>,
        ledger: Arc<dyn Ledger>,
    ) -> std::io::Result<Self> {
        let state = State { receiver, closed: false, broken: None, listeners: Vec::new(), next_listener: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), sink, ledger });
        let worker = Arc::clone(&shared);
        let syncer =
            std::thread::Builder::new().name("group-sync".into()).spawn(move || sync_loop(&worker))?;
        Ok(Self { shared, syncer: Mutex::new(Some(syncer)) })
    }

    /// Looks at, or changes, the receiver's state. Do not block in `act`.
    pub fn with<T>(&self, act: impl FnOnce(&mut Receiver) -> T) -> T {
        act(&mut self.shared.state().receiver)
    }

    /// Calls `listener` with every group that becomes durable from now on, until the returned number is removed.
    pub fn add_listener(&self, listener: OnDurable) -> u64 {
        let mut state = self.shared.state();
        state.next_listener += 1;
        let id = state.next_listener;
        state.listeners.push((id, Arc::new(listener)));
        id
    }

    /// Ends what `add_listener` began.
    pub fn remove_listener(&self, id: u64) {
        self.shared.state().listeners.retain(|(other, _)| *other != id);
    }

    /// Starts taking `block`; give its bytes to the [`Arrival`].
    pub fn begin(&self, block: BlockNumber, len: u64) -> Result<Arrival<'_>, InboundError> {
        let admission = {
            let mut state = self.shared.state();
            if state.closed {
                return Err(InboundError::Closed);
            }
            if let Some(reason) = &state.broken {
                return Err(InboundError::Broken(reason.clone()));
            }
            state.receiver.admit(block, len)?
        };
        match admission {
            Admission::Compare(shape) => Ok(Arrival {
                inbound: self,
                hasher: Some(BlockHasher::new(&shape)),
                writer: None,
                shape,
                admitted: false,
            }),
            Admission::Write(shape) => {
                // From here on a drop of the arrival gives the block back.
                let hasher = Some(BlockHasher::new(&shape));
                let mut arrival = Arrival { inbound: self, hasher, writer: None, shape, admitted: true };
                arrival.writer = Some(self.shared.sink.begin(&arrival.shape)?);
                Ok(arrival)
            }
        }
    }

    /// Waits until all that was received before is durable.
    pub fn flush(&self) -> Result<(), InboundError> {
        let mut state = self.shared.state();
        state.broken = None;
        loop {
            if state.closed {
                return Err(InboundError::Closed);
            }
            if let Some(reason) = &state.broken {
                return Err(InboundError::Broken(reason.clone()));
            }
            if state.receiver.received().len() == state.receiver.durable().len() {
                return Ok(());
            }
            state.receiver.handle_flush();
            self.shared.changed.notify_all();
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops: arrivals fail from now on, and the sync thread ends after a last sync of what is here.
    pub fn close(&self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        let syncer = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(syncer) = syncer
            && syncer.thread().id() != std::thread::current().id()
        {
            // The thread's own panic is already reported by its hook; there is nothing to add here.
            let _ = syncer.join();
        }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.close();
    }
}

/// One block on its way in.
pub struct Arrival<'a> {
    inbound: &'a Inbound,
    shape: BlockShape,
    hasher: Option<BlockHasher>,
    /// `None` for a duplicate, which is compared and not written.
    writer: Option<Box<dyn BlockWriter + 'a>>,
    admitted: bool,
}

impl Arrival<'_> {
    /// What the block holds.
    pub fn shape(&self) -> &BlockShape {
        &self.shape
    }

    /// The next bytes. The caller gives exactly the block's length in all.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), InboundError> {
        if let Some(hasher) = &mut self.hasher {
            parts.iter().for_each(|part| hasher.update(part));
        }
        if let Some(writer) = &mut self.writer {
            writer.write(parts)?;
        }
        Ok(())
    }

    /// All bytes were given. `claimed` is the sender's value; without one the computed value is taken.
    pub fn finish(mut self, claimed: Option<Hash>) -> Result<Hash, InboundError> {
        let Some(hasher) = self.hasher.take() else { return Err(InboundError::Closed) };
        let proof = hasher.finish();
        let value = proof.value();
        if let Some(claimed) = claimed.filter(|claimed| *claimed != value) {
            return Err(InboundError::Mismatch {
                block: self.shape.number,
                claimed: claimed.to_hex(),
                got: value.to_hex(),
            });
        }
        match self.writer.take() {
            None => self.compare(&proof)?,
            Some(writer) => {
                writer.finish()?;
                let mut state = self.inbound.shared.state();
                state.receiver.handle_verified(Instant::now(), &self.shape, proof);
                self.admitted = false;
                drop(state);
                self.inbound.shared.changed.notify_all();
            }
        }
        Ok(value)
    }

    fn compare(&self, proof: &BlockProof) -> Result<(), InboundError> {
        let fresh = self.inbound.shared.state().receiver.fresh_proof(self.shape.number).cloned();
        let known = match fresh {
            Some(fresh) => Some(fresh),
            None => self.inbound.shared.ledger.proof(&self.shape)?,
        };
        if known.is_some_and(|known| known != *proof) {
            return Err(InboundError::Conflict(self.shape.number));
        }
        Ok(())
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if self.admitted {
            self.inbound.shared.state().receiver.handle_dropped(self.shape.number);
        }
    }
}

fn sync_loop(shared: &Shared) {
    let mut state = shared.state();
    loop {
        if state.closed {
            state.receiver.handle_flush();
        }
        if let Some(group) = state.receiver.poll_sync(Instant::now()) {
            drop(state);
            let result = shared
                .sink
                .sync()
                .map_err(InboundError::from)
                .and_then(|()| shared.ledger.record(&group).map_err(InboundError::from));
            state = shared.state();
            match result {
                Ok(()) => {
                    state.receiver.handle_synced(&group);
                    state.broken = None;
                    let listeners: Vec<_> = state.listeners.iter().map(|(_, f)| Arc::clone(f)).collect();
                    drop(state);
                    let runs = runs_of(&group);
                    listeners.iter().for_each(|listener| listener(&runs));
                    state = shared.state();
                }
                Err(error) => {
                    state.receiver.handle_sync_failed(Instant::now());
                    state.broken = Some(error.to_string());
                    if state.closed {
                        return;
                    }
                }
            }
            shared.changed.notify_all();
            continue;
        }
        if state.closed {
            return;
        }
        let wait = state.receiver.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.unwrap_or(Duration::from_secs(3600));
        state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn runs_of(group: &[(BlockNumber, BlockProof)]) -> Vec<BlockRun> {
    let mut runs: Vec<BlockRun> = Vec::new();
    for (block, _) in group {
        match runs.last_mut() {
            Some(run) if run.first.0 + run.count == block.0 => run.count += 1,
            _ => runs.push(BlockRun { first: *block, count: 1 }),
        }
    }
    runs
}
