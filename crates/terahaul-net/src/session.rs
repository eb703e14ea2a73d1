//! The data channels of one session, at either end: threads, their sockets, and how they end.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use terahaul_core::{BlockNumber, ChannelId, Priority};
use terahaul_store::{BlockSource, Inbound};
use terahaul_wire::{Bind, ErrorCode, Message, Sums, WireError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::channel::{
    DataChannel, Outbound, STALL, Sender, SharedCompression, SharedPace, cut, is_full, receive_blocks,
    send_blocks, turn,
};
use crate::client::{Seen, SeenUdp};
use crate::udp::{Cargoes, Line, Port, Running, Terms, Told, UDP};

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

/// The data channels of a session.
pub struct Session {
    role: Role,
    max_channels: u32,
    sockets: Mutex<BTreeMap<ChannelId, TcpStream>>,
    udp: Mutex<Option<Arc<Running>>>,
    stage: Mutex<Stage>,
    /// Threads that wait for another stage, or for their turn, hear here that it comes, or will not.
    staged: Condvar,
    bytes: AtomicU64,
    /// What channels of earlier sessions have done.
    before: u64,
    /// Over UDP, bytes and what was copied instead.
    udp_carried: AtomicU64,
    /// TCP was to yield to others, and cannot.
    stubborn: AtomicBool,
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
            stage: Mutex::new(Stage::Opening),
            staged: Condvar::new(),
            bytes: AtomicU64::new(0),
            udp_carried: AtomicU64::new(0),
            stubborn: AtomicBool::new(false),
            events,
        })
    }

    fn sockets(&self) -> MutexGuard<'_, BTreeMap<ChannelId, TcpStream>> {
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

    fn wait_unless_closed(&self, wait: Duration) -> io::Result<()> {
        let going_on = |stage: &mut Stage| *stage != Stage::Closed;
        let stage = self.staged.wait_timeout_while(self.stage(), wait, going_on);
        match *stage.unwrap_or_else(PoisonError::into_inner).0 {
            Stage::Closed => Err(io::ErrorKind::ConnectionAborted.into()),
            Stage::Opening | Stage::Open { .. } => Ok(()),
        }
    }

    /// Bytes of blocks that went over this session's channels, in its role's direction.
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

    /// Bytes that arrived over UDP on each path, by this session's datagrams; nothing without UDP.
    pub(crate) fn udp_path_bytes(&self) -> Vec<u64> {
        self.udp().as_ref().map(|running| running.path_bytes()).unwrap_or_default()
    }

    /// What TCP's channels have done.
    pub(crate) fn carried_by_tcp(&self) -> u64 {
        self.carried().saturating_sub(self.before + self.udp_carried.load(Ordering::Relaxed))
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
        Seen { tcp: self.carried_by_tcp(), udp, left }
    }

    /// Whether TCP was to yield to others, and this system has none that does.
    pub(crate) fn is_stubborn(&self) -> bool {
        self.stubborn.load(Ordering::Relaxed)
    }

    /// Cuts TCP's channels; their threads give back their blocks.
    pub(crate) fn cut_tcp(&self) {
        self.sockets().values().for_each(cut);
    }

    /// Ends the UDP channels; their blocks go back.
    pub(crate) fn end_udp(&self) {
        if let Some(running) = &*self.udp() {
            running.end();
        }
    }

    /// Whether UDP channels run.
    pub(crate) fn has_udp(&self) -> bool {
        self.udp().as_ref().is_some_and(|running| !running.has_ended())
    }

    /// Runs UDP channels on threads of their own until they end, in place of those that there may be.
    pub(crate) fn adopt_udp(self: &Arc<Self>, terms: Terms, line: Line) -> io::Result<()> {
        self.end_udp();
        let running = Arc::new(match &self.role {
            Role::Send { .. } => Running::sending(terms, line)?,
            Role::Receive { .. } => Running::receiving(terms, line)?,
        });
        *self.udp() = Some(Arc::clone(&running));
        if self.is_closed() {
            running.end();
        }
        let session = Arc::clone(self);
        let started = std::thread::Builder::new().name("udp".into()).spawn(move || {
            let problem = session.run_udp(&running);
            if session.forget_udp(&running) {
                // Without a control channel there is nobody to tell.
                let _ = session.events.send(SessionEvent::UdpEnded(problem));
            }
        });
        started.map(drop).inspect_err(|_| *self.udp() = None)
    }

    /// These channels have ended. `false` if others have taken their place.
    fn forget_udp(&self, ended: &Arc<Running>) -> bool {
        let mut udp = self.udp();
        let last = udp.as_ref().is_some_and(|running| Arc::ptr_eq(running, ended));
        if last {
            *udp = None;
        }
        last
    }

    fn run_udp(&self, running: &Running) -> Option<String> {
        // The limit is of all channels. A session that closes meanwhile has ended its UDP too.
        let wait = |pace, bytes| drop(self.wait_unless_closed(turn(pace, bytes).unwrap_or_default()));
        match &self.role {
            Role::Send { outbound, source, pace, .. } => {
                let handed = |bytes, copied| {
                    self.udp_carried.fetch_add(bytes + copied, Ordering::Relaxed);
                    wait(pace, bytes);
                };
                // Channels that end before the session is open may have a successor, whose blocks are not theirs to give back.
                let claims = AtomicBool::new(false);
                let begin = || {
                    let compression = self.wait_until_open()?;
                    let going_on = !running.has_ended();
                    claims.store(going_on, Ordering::Relaxed);
                    going_on.then_some(compression)
                };
                let ended = || {
                    if claims.load(Ordering::Relaxed) {
                        outbound.close_channel(UDP);
                    }
                };
                let cargoes =
                    Cargoes { outbound, source: &**source, begin: &begin, ended: &ended, handed: &handed };
                let problem = running.send(&cargoes);
                if claims.load(Ordering::Relaxed) {
                    outbound.handle_channel_lost(UDP);
                }
                problem
            }
            Role::Receive { inbound, pace } => running.receive(
                inbound,
                &Told {
                    refused: &|block, error| {
                        let _ = self.events.send(SessionEvent::Refused(block, error));
                    },
                    bytes: &|bytes, copied| {
                        self.udp_carried.fetch_add(bytes + copied, Ordering::Relaxed);
                        self.bytes.fetch_add(bytes, Ordering::Relaxed);
                        wait(pace, bytes);
                    },
                    broken: &|error| {
                        let _ = self.events.send(SessionEvent::Broken(error));
                    },
                },
            ),
        }
    }

    /// Runs `channel` on a thread of its own until it ends.
    pub fn adopt(self: &Arc<Self>, id: ChannelId, channel: DataChannel) -> Result<(), WireError> {
        let refuse = |error: std::io::Error| WireError::passing(ErrorCode::Unavailable, error.to_string());
        let socket = channel.socket().map_err(refuse)?;
        {
            let mut sockets = self.sockets();
            if sockets.len() >= self.max_channels as usize || sockets.contains_key(&id) {
                return Err(WireError::fatal(
                    ErrorCode::LimitExceeded,
                    format!(
                        "a session has at most {} data channels, each with its own number",
                        self.max_channels
                    ),
                ));
            }
            if self.is_closed() {
                return Err(WireError::passing(ErrorCode::Unavailable, "the session is closing"));
            }
            sockets.insert(id, socket);
        }
        let session = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("channel-{}", id.0));
        let started = thread.spawn(move || {
            let problem = session.run(id, channel);
            session.sockets().remove(&id);
            // Without a control channel there is nobody to tell.
            let _ = session.events.send(SessionEvent::ChannelEnded(id, problem));
        });
        started.map(drop).map_err(|error| {
            self.sockets().remove(&id);
            refuse(error)
        })
    }

    fn run(&self, id: ChannelId, channel: DataChannel) -> Option<String> {
        match &self.role {
            Role::Send { outbound, source, pace, priority, .. } => {
                let compression = self.wait_until_open()?;
                let socket = channel.socket();
                if *priority == Priority::Background && !socket.as_ref().is_ok_and(yields) {
                    self.stubborn.store(true, Ordering::Relaxed);
                }
                let line_full = || socket.as_ref().is_ok_and(is_full);
                let sender = Sender {
                    outbound,
                    source: &**source,
                    channel: id,
                    pace,
                    compression: &compression,
                    line_full: &line_full,
                };
                let sent = send_blocks(channel.into_writer(), &sender);
                let delivered = sent.is_ok() && socket.is_ok_and(|socket| was_read_to_its_end(&socket));
                if !delivered {
                    outbound.handle_channel_lost(id);
                }
                sent.err().map(|error| error.to_string())
            }
            Role::Receive { inbound, pace } => {
                let reader = match channel.into_reader() {
                    Ok(reader) => reader,
                    Err(error) => return Some(error.to_string()),
                };
                let on_refused = |block, error| {
                    let _ = self.events.send(SessionEvent::Refused(block, error));
                };
                let on_bytes = |bytes| {
                    self.bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.wait_unless_closed(turn(pace, bytes).unwrap_or_default())
                };
                let error = receive_blocks(reader, inbound, &on_refused, &on_bytes).err()?;
                if let Some(wire_error) = error.wire_error() {
                    let _ = self.events.send(SessionEvent::Broken(wire_error));
                }
                Some(error.to_string())
            }
        }
    }

    /// Cuts every channel; their threads end.
    pub fn close(&self) {
        *self.stage() = Stage::Closed;
        self.staged.notify_all();
        if let Role::Send { outbound, .. } = &self.role {
            outbound.close();
        }
        self.end_udp();
        for socket in self.sockets().values() {
            // What it has sent arrives. A socket that is gone already needs no shutting down.
            let _ = socket.shutdown(Shutdown::Both);
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
    const LONGEST: Duration = Duration::from_secs(2);
    session.close();
    let ended = async { while session.channels() > 0 && events.recv().await.is_some() {} };
    if tokio::time::timeout(LONGEST, ended).await.is_err() {
        tracing::debug!("{} data channels are still at their last block", session.channels());
    }
}

/// The next sums for the sender, once there is room for them among the messages: until then messages are read, because the
/// other end may be waiting for that.
pub(crate) async fn next_sums(
    sums: &mut Option<mpsc::Receiver<Sums>>,
    messages: &mpsc::Sender<Message>,
) -> Option<Sums> {
    let Some(sums) = sums else { return std::future::pending().await };
    drop(messages.reserve().await);
    sums.recv().await
}

/// Has a connection take only what others leave (TCP-LP: Kuzmanovic and Knightly, 2006). Most systems have that as a module,
/// and may keep it from users.
fn yields(socket: &TcpStream) -> bool {
    rustix::net::sockopt::set_tcp_congestion(socket, "lp").is_ok()
}

/// Whether the other end has read everything and closed in order. Closing first could destroy what it has not read
/// yet, and blocks it has read need not be sent again. An end of file that this end's own `close` caused says the same
/// and does no harm: the session is over, which gives back the blocks of every channel. A channel that is cut ends with an
/// error.
fn was_read_to_its_end(mut socket: &TcpStream) -> bool {
    /// A server's TLS says a little after its handshake that nobody has read.
    const MOST: usize = 64 << 10;
    if socket.set_read_timeout(Some(STALL)).is_err() {
        return false;
    }
    let (mut buffer, mut heard) = ([0; 4096], 0);
    while heard < MOST {
        match socket.read(&mut buffer) {
            Ok(0) => return true,
            Ok(more) => heard += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    false
}

/// The sessions of a depot, by what their data channels present. Secrets are looked up by their hash, so the time
/// a look-up takes says nothing about a secret.
#[derive(Default)]
pub struct Sessions {
    by_hash: Mutex<HashMap<[u8; 32], Weak<Session>>>,
    udp: Option<Arc<Port>>,
}

/// Keeps a session open for data channels; dropped, it closes the session.
pub struct SessionGuard {
    sessions: Arc<Sessions>,
    hash: [u8; 32],
    session: Arc<Session>,
}

impl Sessions {
    /// With a port for UDP data channels, where there is one.
    pub fn with_udp(port: Option<Port>) -> Self {
        Self { udp: port.map(Arc::new), ..Self::default() }
    }

    pub(crate) fn udp(&self) -> Option<Arc<Port>> {
        self.udp.clone()
    }

    /// Opens `session` to data channels that present `secret`.
    pub fn register(self: &Arc<Self>, secret: &[u8; 32], session: Arc<Session>) -> SessionGuard {
        let hash = hash_of(secret);
        self.table().insert(hash, Arc::downgrade(&session));
        SessionGuard { sessions: Arc::clone(self), hash, session }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<[u8; 32], Weak<Session>>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a bound data channel to its session.
    pub fn bind(&self, channel: DataChannel, bind: &Bind) -> Result<(), WireError> {
        let session = self.table().get(&hash_of(&bind.secret)).and_then(Weak::upgrade);
        match session {
            Some(session) => session.adopt(ChannelId(bind.channel), channel),
            None => Err(WireError::fatal(ErrorCode::Denied, "a data channel presented no session's secret")),
        }
    }
}

impl SessionGuard {
    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.sessions.table().remove(&self.hash);
        self.session.close();
    }
}

fn hash_of(secret: &[u8; 32]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret).as_ref());
    bytes
}
