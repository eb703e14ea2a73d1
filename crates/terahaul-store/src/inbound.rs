//! The shell round [`Receiver`]: verified writes, group syncs on a thread of their own, a record of what is durable.
//!
//! HTTP uploads, native data channels and a receiving client all deliver blocks here, at the same time if need be.
//! One lock guards the receiver's state and is never held while bytes are written, synced or recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use terahaul_core::{Admission, BlockNumber, BlockRefusal, BlockRun, GroupSync, Receiver};

use crate::guess::Purpose;
use crate::sync_thread::sync_loop;
use crate::{Arrival, BasisError, BlockSink, Guess, Ledger, LedgerError, OnGuess, SinkError};

/// Why a block was not taken, or the transfer cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    /// The sender offered what the manifest does not allow.
    #[error(transparent)]
    Refused(#[from] BlockRefusal),
    /// The bytes are not those the sender claims.
    #[error(
        "block {block} arrived with another value ({got}) than its sender computed ({claimed}): it has to be sent again"
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
        "block {0} was sent twice with different content: the first is kept; a file changed while it was being sent, so send it again when it is left alone"
    )]
    Conflict(BlockNumber),
    /// Writing failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// What was to be copied is not here.
    #[error(transparent)]
    Basis(#[from] BasisError),
    /// Recording failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A sync failed.
    #[error(transparent)]
    Broken(SyncFailure),
    /// The transfer was cancelled or removed.
    #[error("the transfer was closed: open it again to go on")]
    Closed,
}

impl InboundError {
    /// Whether room on the receiving disk is what is missing.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Sink(error) => error.is_full(),
            Self::Ledger(error) => error.is_full(),
            Self::Broken(failure) => failure.full,
            _ => false,
        }
    }

    /// Whether the same block may be taken a moment later though nobody does anything about it. A sync or a record that failed
    /// may succeed the next time: senders try again, though not for as long as they put up with a connection that is lost.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(BlockRefusal::Busy(_))
            | Self::Mismatch { .. }
            | Self::Basis(BasisError::Lost(_)) => true,
            Self::Ledger(_) | Self::Broken(_) => !self.is_full(),
            Self::Refused(BlockRefusal::Outside(_) | BlockRefusal::Length { .. })
            | Self::Conflict(_)
            | Self::Sink(_)
            | Self::Basis(BasisError::Outside)
            | Self::Closed => false,
        }
    }
}

/// Why blocks that were received could not be made durable.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct SyncFailure {
    /// What the sink or the ledger said, with its remedy.
    pub reason: String,
    /// Whether room on the disk is what is missing.
    pub full: bool,
}

/// Called, from the sync thread, with each group that became durable. It may call anything of [`Inbound`] save
/// `flush`, which waits for that very thread.
pub type OnDurable = Box<dyn Fn(&[BlockRun]) + Send + Sync>;

/// Called, from the sync thread, with what is the matter when a sync failed and every block received and not yet durable
/// is missing again. Senders believe those blocks delivered: end their session, so that they resume from what is
/// durable.
pub type OnLost = Box<dyn Fn(&SyncFailure) + Send + Sync>;

/// A transfer being received.
pub struct Inbound {
    pub(crate) shared: Arc<Shared>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    sync_thread: ThreadId,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// The sync thread alone waits here.
    pub(crate) work: Condvar,
    /// Flushes wait here for the end of a sync. Apart from `work`, or two flushes would keep waking each other.
    pub(crate) done: Condvar,
    /// Blocks that are to begin wait here for the end of their guesses, or of what else is writing them.
    pub(crate) settled: Condvar,
    /// Held by whoever writes. Closing waits for it: after that nothing is written any more.
    writes: RwLock<()>,
    pub(crate) sink: Arc<dyn BlockSink>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Bytes of the blocks kept that were copied out of old files.
    pub(crate) copied: AtomicU64,
    /// The others.
    pub(crate) sent: AtomicU64,
}

pub(crate) struct State {
    pub(crate) receiver: Receiver,
    pub(crate) closed: bool,
    /// The sync thread is gone: nothing more becomes durable.
    pub(crate) ended: bool,
    /// Syncs begun so far.
    pub(crate) attempts: u64,
    /// The number of the last sync that failed, and why.
    pub(crate) failed_attempt: u64,
    pub(crate) failure: Option<SyncFailure>,
    /// How often all that was not durable was given up. A block that began before the last time may be on a disk
    /// that has forgotten its first bytes.
    pub(crate) losses: u64,
    /// Blocks were lost, and no flush has been called since.
    pub(crate) loss_untold: bool,
    /// After a failure, no block is taken before this: a disk in trouble is not hammered.
    pub(crate) hold_off: Option<Instant>,
    pub(crate) on_durable: Vec<(u64, Arc<OnDurable>)>,
    pub(crate) on_lost: Vec<(u64, Arc<OnLost>)>,
    next_listener: u64,
    /// What is in the places of blocks that have not begun.
    pub(crate) guesses: BTreeMap<BlockNumber, Guess>,
    pub(crate) on_guess: Option<Arc<OnGuess>>,
    /// Blocks that are being guessed just now.
    pub(crate) guessing: BTreeSet<BlockNumber>,
}

impl Shared {
    /// A poisoned lock means another thread panicked between two consistent states; the data is still right.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writing may begin, and is waited for while this is kept.
    pub(crate) fn writing(&self) -> Result<RwLockReadGuard<'_, ()>, InboundError> {
        let writing = self.writes.read().unwrap_or_else(PoisonError::into_inner);
        if self.state().closed { Err(InboundError::Closed) } else { Ok(writing) }
    }

    fn wait_for_writes(&self) {
        drop(self.writes.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn listener_id(&mut self) -> u64 {
        self.next_listener += 1;
        self.next_listener
    }

    pub(crate) fn broken(&self) -> InboundError {
        self.failure.clone().map_or(InboundError::Closed, InboundError::Broken)
    }
}

impl Inbound {
    /// Receives into `sink`, recording in `ledger`, from where `receiver` stands.
    pub fn start(
        receiver: Receiver,
        sink: Arc<dyn BlockSink>,
        ledger: Arc<dyn Ledger>,
    ) -> std::io::Result<Self> {
        let state = State {
            receiver,
            closed: false,
            ended: false,
            attempts: 0,
            failed_attempt: 0,
            failure: None,
            losses: 0,
            loss_untold: false,
            hold_off: None,
            on_durable: Vec::new(),
            on_lost: Vec::new(),
            next_listener: 0,
            guesses: BTreeMap::new(),
            on_guess: None,
            guessing: BTreeSet::new(),
        };
        let (copied, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let state = Mutex::new(state);
        let shared = Arc::new(Shared {
            state,
            work: Condvar::new(),
            done: Condvar::new(),
            settled: Condvar::new(),
            writes: RwLock::new(()),
            sink,
            ledger,
            copied,
            sent,
        });
        let worker = Arc::clone(&shared);
        let syncer =
            std::thread::Builder::new().name("group-sync".into()).spawn(move || sync_loop(&worker))?;
        let sync_thread = syncer.thread().id();
        Ok(Self { shared, syncer: Mutex::new(Some(syncer)), sync_thread })
    }

    /// Looks at, or changes, the receiver's state. Do not block in `act`.
    pub fn with<T>(&self, act: impl FnOnce(&mut Receiver) -> T) -> T {
        let mut state = self.shared.state();
        let value = act(&mut state.receiver);
        // It may have been the end of the manifest, or the failure of what was still awaited: a sync may be due now.
        if state.receiver.poll_timeout().is_some() {
            self.shared.work.notify_one();
        }
        value
    }

    /// Bytes of the blocks kept that were sent, however they were packed.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Bytes that were not sent but copied out of the files that those of the blocks replace.
    pub fn copied(&self) -> u64 {
        self.shared.copied.load(Ordering::Relaxed)
    }

    /// Calls `listener` with every group that becomes durable from now on, until the returned number is removed.
    pub fn add_listener(&self, listener: OnDurable) -> u64 {
        let mut state = self.shared.state();
        let id = state.listener_id();
        state.on_durable.push((id, Arc::new(listener)));
        id
    }

    /// Calls `listener` whenever blocks that were received are missing again, until the returned number is removed.
    pub fn add_loss_listener(&self, listener: OnLost) -> u64 {
        let mut state = self.shared.state();
        let id = state.listener_id();
        state.on_lost.push((id, Arc::new(listener)));
        id
    }

    /// Ends what `add_listener` or `add_loss_listener` began. A call that has begun may still be running.
    pub fn remove_listener(&self, id: u64) {
        let mut state = self.shared.state();
        state.on_durable.retain(|(other, _)| *other != id);
        state.on_lost.retain(|(other, _)| *other != id);
    }

    /// Starts taking `block`; give its bytes to the [`Arrival`]. One that is being guessed is waited for.
    pub fn begin(&self, block: BlockNumber, len: u64) -> Result<Arrival<'_>, InboundError> {
        self.begin_for(block, len, Purpose::Keep, Duration::ZERO)
    }

    /// The same of a block that may be arriving elsewhere, which is waited for so long before it is refused for that.
    pub fn begin_within(
        &self,
        patience: Duration,
        block: BlockNumber,
        len: u64,
    ) -> Result<Arrival<'_>, InboundError> {
        self.begin_for(block, len, Purpose::Keep, patience)
    }

    pub(crate) fn begin_for(
        &self,
        block: BlockNumber,
        len: u64,
        purpose: Purpose,
        patience: Duration,
    ) -> Result<Arrival<'_>, InboundError> {
        let until = Instant::now() + patience;
        let (admission, losses, guess) = {
            let mut state = self.shared.state();
            let admission = loop {
                while state.guessing.contains(&block) {
                    state = self.shared.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.closed {
                    return Err(InboundError::Closed);
                }
                if let Some(until) = state.hold_off {
                    if Instant::now() < until {
                        return Err(state.broken());
                    }
                    state.hold_off = None;
                }
                let left = until.saturating_duration_since(Instant::now());
                match state.receiver.admit(block, len) {
                    Err(BlockRefusal::Busy(_)) if !left.is_zero() => {
                        let waited = self.shared.settled.wait_timeout(state, left);
                        state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    }
                    admission => break admission?,
                }
            };
            let guess = state.guesses.remove(&block);
            if purpose == Purpose::Guess && matches!(admission, Admission::Write(_)) {
                state.guessing.insert(block);
            }
            (admission, state.losses, guess)
        };
        match admission {
            Admission::Compare(shape) => Ok(Arrival::compared(&self.shared, shape)),
            Admission::Discard(shape) => Ok(Arrival::discarded(&self.shared, shape)),
            Admission::Write(shape) => {
                // From here on a drop of the arrival gives the block back, also when the sink refuses it.
                let mut arrival = Arrival::admitted(&self.shared, shape, losses, guess);
                arrival.purpose = purpose;
                let _writing = self.shared.writing()?;
                arrival.writer = Some(self.shared.sink.begin(&arrival.shape)?);
                Ok(arrival)
            }
        }
    }

    /// Waits until all that was received before the call is durable. Blocks that are still arriving are not waited
    /// for. After a failure this tries again at once. Blocks that were received and then lost make it fail, once:
    /// they are missing again. Where all have arrived since, none is.
    pub fn flush(&self) -> Result<(), InboundError> {
        let mut state = self.shared.state();
        if std::mem::take(&mut state.loss_untold) && !state.receiver.has_arrived() {
            return Err(state.broken());
        }
        state.hold_off = None;
        // Every sync takes all that is received and not durable, so when as many blocks are durable as were
        // received by now, they are the same ones and perhaps more. Where some are freed meanwhile, as many never are.
        let target = state.receiver.received().len();
        let (begun, losses) = (state.attempts, state.losses);
        loop {
            let (received, durable) = (state.receiver.received().len(), state.receiver.durable().len());
            if durable >= target || (durable == received && state.losses == losses) {
                return Ok(());
            }
            if state.losses != losses || state.failed_attempt > begun {
                state.loss_untold = false;
                return Err(state.broken());
            }
            if state.ended {
                return Err(InboundError::Closed);
            }
            state.receiver.handle_flush();
            self.shared.work.notify_one();
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops: arrivals fail from now on, and the sync thread ends after a last sync of what is here. Returns when it
    /// has ended, unless a listener is the caller; what is being written is waited for, and nothing is written any more.
    pub fn close(&self) {
        self.shared.state().closed = true;
        self.shared.work.notify_one();
        self.shared.settled.notify_all();
        self.shared.wait_for_writes();
        let mut state = self.shared.state();
        state.receiver.handle_closed();
        if std::thread::current().id() == self.sync_thread {
            return;
        }
        while !state.ended {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let syncer = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(syncer) = syncer {
            // The thread's own panic is already reported by its hook; there is nothing to add here.
            let _ = syncer.join();
        }
    }

    /// How long blocks are refused after a sync failed.
    pub(crate) const HOLD_OFF: Duration = GroupSync::INTERVAL;
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.close();
    }
}
