//! The server's UDP port: a few sockets for all sessions, told apart by their names here. Each socket has a thread,
//! and a channel's packets always come to the same one ([`group`]).
//!
//! A datagram that names no session, or was not sealed by its other end, is answered by nothing and costs one look-up.
//!
//! | a name's [`Place`] | a datagram for it |
//! |---|---|
//! | is reserved: a client has asked for a session | is kept, with when it came, as far as there is room |
//! | is taken: the session has its threads | goes to the session, behind those that were kept |
//! | is gone | is nobody's |

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use quinn_udp::RecvMeta;
use terahaul_wire::packet::{ChannelNumber, ConnectionId, PacketHeader};

use super::exchange::Intake;
use super::group;
use super::pool::{Pool, Share};
use super::socket::{Batch, Socket};
use super::terms::connection_id;

const LOOK: Duration = Duration::from_millis(200);
/// Memory for datagrams that are kept for one session: what a client sends ahead of the answer.
const MOST_KEPT: usize = 160 << 10;
/// What one takes beside its bytes.
const EACH_KEPT: usize = 256;

type Table = Mutex<HashMap<[u8; 8], Seat>>;

/// Who has a name.
enum Seat {
    /// A session that does not take datagrams yet.
    Reserved(Kept),
    Taken(Weak<dyn Intake>),
}

/// Datagrams that came before their session took any, in their order.
#[derive(Default)]
struct Kept {
    datagrams: Vec<(Vec<u8>, RecvMeta, Instant)>,
    memory: usize,
}

impl Kept {
    /// What there is no room for is lost, as on any line.
    fn keep(&mut self, bytes: &[u8], meta: &RecvMeta, age: Duration) {
        let memory = self.memory + bytes.len() + EACH_KEPT;
        if memory <= MOST_KEPT {
            self.memory = memory;
            let now = Instant::now();
            self.datagrams.push((bytes.to_vec(), *meta, now.checked_sub(age).unwrap_or(now)));
        }
    }
}

/// The port; dropped, it closes.
pub struct Port {
    shared: Arc<Shared>,
}

struct Shared {
    sockets: Vec<Arc<Socket>>,
    sessions: Table,
    blocks: Arc<Pool>,
    closed: AtomicBool,
}

impl Port {
    /// Opens the port and starts to receive on it.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let sockets: Vec<_> = group::open(address)?.into_iter().map(Arc::new).collect();
        let shared = Shared {
            sockets,
            sessions: Table::default(),
            blocks: Pool::of_this_machine(),
            closed: AtomicBool::new(false),
        };
        let port = Self { shared: Arc::new(shared) };
        for socket in &port.shared.sockets {
            let (shared, socket) = (Arc::clone(&port.shared), Arc::clone(socket));
            std::thread::Builder::new().name("udp-port".into()).spawn(move || shared.run(&socket))?;
        }
        Ok(port)
    }

    /// The one that a channel's packets come to.
    pub(super) fn socket(&self, channel: ChannelNumber) -> Arc<Socket> {
        let sockets = &self.shared.sockets;
        Arc::clone(&sockets[usize::from(channel.0) % sockets.len()])
    }

    /// A name for a session: the one that its client proposes, unless another has it, so that none is taken from each other. `None` where
    /// no random numbers are to be had.
    pub(crate) fn reserve(self: &Arc<Self>, proposed: Option<ConnectionId>) -> Option<Place> {
        let reserve = |name: ConnectionId| match self.shared.sessions().entry(name.0) {
            Entry::Vacant(seat) => {
                seat.insert(Seat::Reserved(Kept::default()));
                Some(name)
            }
            Entry::Occupied(_) => None,
        };
        let name = proposed.and_then(reserve).or_else(|| connection_id().and_then(reserve))?;
        Some(Place { port: Arc::clone(self), name, since: Instant::now() })
    }
}

/// A session's name at the port, reserved as soon as a client asks for the session: one that sends over a long path does not wait for the
/// answer, and measures the path by when its first packets arrive. Dropped, it is another's to have.
pub(crate) struct Place {
    port: Arc<Port>,
    name: ConnectionId,
    since: Instant,
}

impl Place {
    /// The name.
    pub fn name(&self) -> ConnectionId {
        self.name
    }

    /// Since when datagrams are kept: none came earlier.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Hands the session's datagrams to `intake` from now on, first those that were kept.
    pub(super) fn take(&self, intake: &Arc<impl Intake + 'static>) {
        let taken = Arc::downgrade(intake);
        let mut sessions = self.port.shared.sessions();
        let before = sessions.insert(self.name.0, Seat::Taken(taken));
        // The lock is held meanwhile, so that none overtakes them.
        if let Some(Seat::Reserved(kept)) = before {
            for (mut bytes, meta, came) in kept.datagrams {
                intake.take(&mut bytes, &meta, came.elapsed());
            }
        }
    }

    /// The socket that a channel's packets come to.
    pub(super) fn socket(&self, channel: ChannelNumber) -> Arc<Socket> {
        self.port.socket(channel)
    }

    /// What the session may have in memory of blocks.
    pub(super) fn share(&self) -> Share {
        self.port.shared.blocks.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.port.shared.sessions().remove(&self.name.0);
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 8], Seat>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Datagrams came for the session of this name, if there is one.
    fn hand(&self, name: ConnectionId, bytes: &mut [u8], meta: &RecvMeta, age: Duration) {
        let session = match self.sessions().get_mut(&name.0) {
            None => None,
            Some(Seat::Reserved(kept)) => return kept.keep(bytes, meta, age),
            Some(Seat::Taken(session)) => session.upgrade(),
        };
        // The table is another's meanwhile.
        if let Some(session) = session {
            session.take(bytes, meta, age);
        }
    }

    fn run(&self, socket: &Socket) {
        let mut batch = Batch::new();
        while !self.closed.load(Ordering::Relaxed) {
            let received = socket.receive(&mut batch, LOOK, &mut |bytes, meta, age| {
                if let Ok(header) = PacketHeader::decode(bytes) {
                    // One session's fault is not to silence all that share the socket: that one hears nothing more, and ends by itself.
                    let hand = AssertUnwindSafe(|| self.hand(header.connection, bytes, meta, age));
                    if catch_unwind(hand).is_err() {
                        tracing::error!("datagrams of a session could not be taken in: report this");
                    }
                }
            });
            if let Err(error) = received {
                tracing::warn!("the UDP port fails: {error}");
                std::thread::sleep(LOOK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of what came, and how old each was.
    #[derive(Default)]
    struct Came(Mutex<Vec<(u8, Duration)>>);

    impl Intake for Came {
        fn take(&self, bytes: &mut [u8], _: &RecvMeta, age: Duration) {
            self.0.lock().unwrap().push((bytes[0], age));
        }
    }

    fn port() -> Arc<Port> {
        Arc::new(Port::open(([127, 0, 0, 1], 0).into()).unwrap())
    }

    fn handle(port: &Port, name: ConnectionId, bytes: &[u8], age: Duration) {
        port.shared.hand(name, &mut bytes.to_vec(), &RecvMeta::default(), age);
    }

    #[test]
    fn a_name_belongs_to_one_session_at_a_time() {
        let port = port();
        let name = ConnectionId([7; 8]);
        let first = port.reserve(Some(name)).unwrap();
        assert_eq!(first.name(), name);
        let second = port.reserve(Some(name)).unwrap();
        assert_ne!(second.name(), name, "it is taken");
        drop(second);
        first.take(&Arc::new(Came::default()));
        assert_ne!(port.reserve(Some(name)).unwrap().name(), name, "it still is");
        drop(first);
        assert_eq!(port.reserve(Some(name)).unwrap().name(), name, "who is gone has no name");
    }

    /// They are what measures a long path.
    #[test]
    fn what_comes_before_its_session_has_threads_comes_to_it_with_its_age() {
        let port = port();
        let place = port.reserve(None).unwrap();
        let age = Duration::from_millis(3);
        handle(&port, place.name(), &[1; 100], age);
        handle(&port, ConnectionId([8; 8]), &[2; 100], age);
        handle(&port, place.name(), &[3; 100], Duration::ZERO);
        let session = Arc::new(Came::default());
        place.take(&session);
        handle(&port, place.name(), &[4; 100], Duration::ZERO);
        let came = session.0.lock().unwrap();
        assert_eq!(came.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [1, 3, 4]);
        assert!(came[0].1 >= age, "{:?}", came[0]);
    }

    #[test]
    fn what_is_kept_for_a_session_that_does_not_come_is_bounded() {
        let port = port();
        for (len, most) in [(60_000, 2), (20, 600)] {
            let place = port.reserve(None).unwrap();
            for _ in 0..1_000 {
                handle(&port, place.name(), &vec![1; len], Duration::ZERO);
            }
            let session = Arc::new(Came::default());
            place.take(&session);
            let kept = session.0.lock().unwrap().len();
            assert!((1..=most).contains(&kept), "{kept} of {len} bytes");
        }
    }
}
