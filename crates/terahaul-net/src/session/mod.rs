//! The data channels of one session, at either end: how far it is, what they have done, and how they end.

mod keeping;
mod signed_word;
mod table;
mod tcp;
mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockNumber, ChannelId, Pace, Priority, Seen, SeenUdp, Turn};
use terahaul_store::{BlockSource, Inbound};
use terahaul_wire::{Advice, ErrorCode, Message, WireError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::channel::{Outbound, SharedCompression, SharedPace};
use crate::udp::Running;
pub(crate) use keeping::Keeping;
pub use signed_word::SignedWord;
pub use table::{SessionGuard, Sessions};
pub use tcp::NotAdopted;

/// Blocks that one session may have refused.
const MOST_REFUSED: u32 = 10_000;
/// How long threads that end may be at their last blocks.
const LAST_BLOCKS: Duration = Duration::from_secs(2);

/// What this end does on its data channels.
#[derive(Clone)]
pub enum Role {
    /// Takes blocks.
    Receive {
        /// Into here.
        inbound: Arc<Inbound>,
        /// At most how fast.
        pace: SharedPace,
    },
    /// Gives blocks.
    Send {
        /// Which, and when.
        outbound: Arc<Outbound>,
        /// Where from.
        source: Arc<dyn BlockSource>,
        /// At most how fast.
        pace: SharedPace,
        /// When to compress.
        compression: SharedCompression,
        /// How the path is shared with others.
        priority: Priority,
    },
}

/// What a session's control channel hears from its data channels.
#[derive(Debug)]
pub enum SessionEvent {
    /// A block was not kept; the sender should be told.
    Refused(BlockNumber, WireError),
    /// The session cannot go on.
    Broken(WireError),
    /// A channel ended; `Some` says why, when not in order.
    ChannelEnded(ChannelId, Option<String>),
    /// The UDP channels ended, all of them together; `Some` says why, when not in order.
    UdpEnded(Option<String>),
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The other end has not said what it can do: channels over UDP may measure the path, and take no block.
    Opening,
    Open {
        /// The other end takes compressed blocks.
        takes_zstd: bool,
    },
    Closed,
}

/// A TCP channel whose thread runs.
struct Open {
    socket: TcpStream,
    /// It was [cut](crate::channel::cut): nothing that its thread hears says that its blocks have arrived.
    is_cut: Arc<AtomicBool>,
}

/// The data channels of a session.
pub struct Session {
    role: Role,
    max_channels: u32,
    sockets: Mutex<BTreeMap<ChannelId, Open>>,
    udp: Mutex<Option<Arc<Running>>>,
    /// The UDP channels have ended.
    udp_gone: Condvar,
    stage: Mutex<Stage>,
    /// Threads that wait for another stage, or for their turn, hear here that it comes, or will not.
    staged: Condvar,
    bytes: Arc<AtomicU64>,
    /// TCP channels that there were so far.
    opened: AtomicU64,
    /// What channels of earlier sessions have done.
    before: u64,
    /// Over UDP, bytes and what was copied instead.
    udp_carried: Arc<AtomicU64>,
    /// TCP was to yield to others, and cannot.
    stubborn: AtomicBool,
    /// It was said that what goes out over TCP does not arrive.
    is_told: AtomicBool,
    /// Blocks that were refused so far.
    refused: AtomicU32,
    events: UnboundedSender<SessionEvent>,
}

impl Session {
    /// A session without channels.
    pub fn new(role: Role, max_channels: u32, events: UnboundedSender<SessionEvent>) -> Arc<Self> {
        let before = match &role {
            Role::Receive { inbound, .. } => inbound.copied(),
            Role::Send { outbound, .. } => outbound.carried().0,
        };
        Arc::new(Self {
            role,
            before,
            max_channels,
            sockets: Mutex::default(),
            udp: Mutex::default(),
            udp_gone: Condvar::new(),
            stage: Mutex::new(Stage::Opening),
            staged: Condvar::new(),
            bytes: Arc::default(),
            opened: AtomicU64::new(0),
            udp_carried: Arc::default(),
            stubborn: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            events,
        })
    }

    fn sockets(&self) -> MutexGuard<'_, BTreeMap<ChannelId, Open>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        *self.stage() == Stage::Closed
    }

    /// The other end has said what it can do: blocks may go.
    pub fn begin(&self, takes_zstd: bool) {
        let mut stage = self.stage();
        if *stage == Stage::Opening {
            *stage = Stage::Open { takes_zstd };
        }
        self.staged.notify_all();
    }

    /// Waits until the session is open, and says when it compresses; `None` if it was closed.
    fn wait_until_open(&self) -> Option<SharedCompression> {
        let opening = |stage: &mut Stage| *stage == Stage::Opening;
        let stage = self.staged.wait_while(self.stage(), opening).unwrap_or_else(PoisonError::into_inner);
        match (*stage, &self.role) {
            (Stage::Opening | Stage::Closed, _) => None,
            (Stage::Open { takes_zstd: true }, Role::Send { compression, .. }) => Some(compression.clone()),
            (Stage::Open { .. }, _) => Some(None),
        }
    }

    /// Waits until it is these bytes' turn to be sent, where there is a limit. An error where the session is closed by then, or the channel
    /// `is_over`: then those behind them come earlier.
    fn wait_to_send(&self, pace: &SharedPace, bytes: u64, is_over: impl Fn() -> bool) -> io::Result<()> {
        self.wait_for_turn(pace, bytes, is_over, |pace, turn| pace.handle_left(turn))
    }

    /// The same for bytes that have come already, and count in any case.
    fn wait_for_more(&self, pace: &SharedPace, bytes: u64, is_over: impl Fn() -> bool) -> io::Result<()> {
        self.wait_for_turn(pace, bytes, is_over, |pace, turn| pace.handle_moved(Instant::now(), turn))
    }

    fn wait_for_turn(
        &self,
        pace: &SharedPace,
        bytes: u64,
        is_over: impl Fn() -> bool,
        leave: impl Fn(&mut Pace, Turn),
    ) -> io::Result<()> {
        let locked = |pace| Mutex::lock(pace).unwrap_or_else(PoisonError::into_inner);
        let waiting = pace.as_deref().map(|pace| (pace, locked(pace).handle_wish(bytes)));
        let mut stage = self.stage();
        loop {
            if *stage == Stage::Closed || is_over() {
                if let Some((pace, turn)) = waiting {
                    leave(&mut locked(pace), turn);
                    self.staged.notify_all();
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let wait = waiting.and_then(|(pace, turn)| locked(pace).poll_turn(Instant::now(), turn));
            let Some(wait) = wait else { return Ok(()) };
            stage = self.staged.wait_timeout(stage, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// So many bytes had their turn and will not be sent: whoever waits need not wait for those.
    fn give_back(&self, pace: &SharedPace, bytes: u64) {
        if let Some(pace) = pace.as_deref() {
            pace.lock().unwrap_or_else(PoisonError::into_inner).handle_returned(bytes);
            self.wake();
        }
    }

    /// Has threads that wait look whether their channel is over.
    fn wake(&self) {
        // With the lock: none of them is between its look and its sleep.
        let _stage = self.stage();
        self.staged.notify_all();
    }

    /// Bytes of blocks' content that went over this session's channels, in its role's direction.
    pub fn bytes(&self) -> u64 {
        match &self.role {
            Role::Receive { .. } => self.bytes.load(Ordering::Relaxed),
            Role::Send { outbound, .. } => outbound.sent().0,
        }
    }

    /// The same and what was copied instead: what the channels have done.
    pub fn carried(&self) -> u64 {
        match &self.role {
            Role::Receive { inbound, .. } => self.bytes() + inbound.copied(),
            Role::Send { outbound, .. } => outbound.carried().0,
        }
    }

    /// Channels that are open now, those over UDP counted as one.
    pub fn channels(&self) -> usize {
        self.sockets().len() + usize::from(self.udp().is_some())
    }

    fn udp(&self) -> MutexGuard<'_, Option<Arc<Running>>> {
        self.udp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether blocks come to this end.
    pub(crate) fn receives(&self) -> bool {
        matches!(self.role, Role::Receive { .. })
    }

    /// What TCP's channels have done.
    pub(crate) fn carried_by_tcp(&self) -> u64 {
        self.carried().saturating_sub(self.before + self.udp_carried.load(Ordering::Relaxed))
    }

    /// What of that was copied.
    pub(crate) fn copied(&self) -> u64 {
        self.carried().saturating_sub(self.bytes())
    }

    /// What the law of the ways looks at.
    pub(crate) fn seen(&self) -> Seen {
        let udp =
            self.udp().as_ref().map(|running| SeenUdp { bytes: running.bytes(), silent: running.silence() });
        let left = match &self.role {
            Role::Send { outbound, .. } => outbound.declared().0.0.saturating_sub(outbound.durable().0),
            Role::Receive { inbound, .. } => {
                inbound.with(|receiver| receiver.wanted_bytes().0.saturating_sub(receiver.received_bytes().0))
            }
        };
        let opened = self.opened.load(Ordering::Relaxed);
        Seen { tcp: self.carried_by_tcp(), opened, udp, left, copied: self.copied() }
    }

    /// Has the sender told that a block is not kept. It may not listen: what waits to be told is bounded by the session's end.
    fn refuse(&self, block: BlockNumber, error: WireError) {
        // Without a control channel there is nobody to tell.
        let _ = match self.refused.fetch_add(1, Ordering::Relaxed) {
            ..MOST_REFUSED => self.events.send(SessionEvent::Refused(block, error)),
            MOST_REFUSED => self.events.send(SessionEvent::Broken(WireError::passing(
                ErrorCode::LimitExceeded,
                "too many of its blocks were refused in one session",
            ))),
            _ => Ok(()),
        };
    }

    /// Whether TCP was to yield to others, and this system has none that does.
    pub(crate) fn is_stubborn(&self) -> bool {
        self.stubborn.load(Ordering::Relaxed)
    }

    /// Cuts every channel; their threads end.
    pub fn close(&self) {
        *self.stage() = Stage::Closed;
        self.staged.notify_all();
        if let Role::Send { outbound, .. } = &self.role {
            outbound.close();
        }
        self.end_udp();
        for open in self.sockets().values() {
            // What it has sent arrives. A socket that is gone already needs no shutting down.
            let _ = open.socket.shutdown(Shutdown::Both);
        }
    }
}

/// A client's session; dropped, it closes.
pub(crate) struct OwnSession(Arc<Session>);

impl OwnSession {
    /// Without channels.
    pub fn new(role: Role, events: UnboundedSender<SessionEvent>) -> Self {
        Self(Session::new(role, terahaul_wire::MAX_CHANNELS, events))
    }
}

impl Deref for OwnSession {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for OwnSession {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Closes `session` and waits until its threads have given back their blocks: to the next session those would be in
/// use, and what came for them would come again. A thread that a disk holds up is not waited for for long.
pub(crate) async fn close_and_wait(session: &Session, events: &mut UnboundedReceiver<SessionEvent>) {
    session.close();
    let ended = async { while session.channels() > 0 && events.recv().await.is_some() {} };
    if tokio::time::timeout(LAST_BLOCKS, ended).await.is_err() {
        tracing::debug!("{} data channels are still at their last block", session.channels());
    }
}

/// What a receiver tells of old files in one session.
pub struct Telling {
    /// In order.
    pub messages: mpsc::Receiver<Message>,
    /// The sender would have it go on so. Nothing once another session has begun.
    pub advise: Box<dyn Fn(Advice) + Send + Sync>,
}

/// What the sender is told next of old files, once there is room for it among the messages: until then messages are read, because
/// the other end may be waiting for that.
pub(crate) async fn next_told(
    telling: &mut Option<Telling>,
    messages: &mpsc::Sender<Message>,
) -> Option<Message> {
    let Some(telling) = telling else { return std::future::pending().await };
    drop(messages.reserve().await);
    telling.messages.recv().await
}

#[cfg(test)]
mod tests {
    use terahaul_core::Receiver;
    use terahaul_store::{MemoryLedger, Nowhere};

    use super::*;

    /// Into nowhere.
    pub(super) fn receiving() -> (Role, UnboundedSender<SessionEvent>, UnboundedReceiver<SessionEvent>) {
        let inbound =
            Inbound::start(Receiver::default(), Arc::new(Nowhere), Arc::new(MemoryLedger::default()));
        let (events, heard) = mpsc::unbounded_channel();
        (Role::Receive { inbound: Arc::new(inbound.unwrap()), pace: None }, events, heard)
    }

    #[test]
    fn a_sender_whose_blocks_are_refused_without_end_is_not_told_without_end() {
        let (role, events, mut heard) = receiving();
        let session = Session::new(role, 1, events);
        for block in 0..3 * MOST_REFUSED {
            session.refuse(BlockNumber(block), WireError::passing(ErrorCode::Conflict, "refused"));
        }
        let mut told = || heard.try_recv().ok();
        for block in 0..MOST_REFUSED {
            assert!(matches!(told(), Some(SessionEvent::Refused(refused, _)) if refused.0 == block));
        }
        let ended = told();
        assert!(
            matches!(&ended, Some(SessionEvent::Broken(error)) if error.code == ErrorCode::LimitExceeded)
        );
        assert!(told().is_none());
    }
}
