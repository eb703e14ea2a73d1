//! The server's UDP port: a few sockets for all sessions, told apart by the names that the server gave them. Each socket has a thread,
//! and a channel's packets always come to the same one ([`group`]).
//!
//! A datagram that names no session, or was not sealed by its other end, is answered by nothing and costs one look-up.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use terahaul_wire::packet::{ChannelNumber, ConnectionId, PacketHeader};

use super::exchange::Intake;
use super::group;
use super::pool::{Pool, Share};
use super::socket::{Batch, Socket};

const LOOK: Duration = Duration::from_millis(200);

type Table = Mutex<HashMap<[u8; 8], Weak<dyn Intake>>>;

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

    /// What a session may have in memory of blocks.
    pub(super) fn share(&self) -> Share {
        self.shared.blocks.take()
    }

    /// Whether a session has this name.
    pub(super) fn has(&self, id: ConnectionId) -> bool {
        self.shared.sessions().get(&id.0).is_some_and(|intake| intake.strong_count() > 0)
    }

    /// Hands this session's datagrams to `intake` from now on. `false` if another has its name: clients propose names, and must
    /// not take one from each other.
    pub(super) fn register(&self, id: ConnectionId, intake: Weak<dyn Intake>) -> bool {
        let mut sessions = self.shared.sessions();
        let free = sessions.get(&id.0).is_none_or(|taken| taken.strong_count() == 0);
        if free {
            sessions.insert(id.0, intake);
        }
        free
    }

    pub(super) fn remove(&self, id: ConnectionId) {
        self.shared.sessions().remove(&id.0);
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 8], Weak<dyn Intake>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, socket: &Socket) {
        let mut batch = Batch::new();
        while !self.closed.load(Ordering::Relaxed) {
            let received = socket.receive(&mut batch, LOOK, &mut |bytes, meta, age| {
                let Ok(header) = PacketHeader::decode(bytes) else { return };
                let session = self.sessions().get(&header.connection.0).and_then(Weak::upgrade);
                if let Some(session) = session {
                    session.take(bytes, meta, age);
                }
            });
            if let Err(error) = received {
                tracing::warn!("the UDP port fails: {error}");
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Takes no datagram in.
#[cfg(test)]
pub(super) struct Nobody;

#[cfg(test)]
impl Intake for Nobody {
    fn take(&self, _: &mut [u8], _: &quinn_udp::RecvMeta, _: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_session_at_a_time() {
        let port = Port::open(([127, 0, 0, 1], 0).into()).unwrap();
        let (name, first, second) = (ConnectionId([7; 8]), Arc::new(Nobody), Arc::new(Nobody));
        let weak = |intake: &Arc<Nobody>| -> Weak<dyn Intake> { Arc::downgrade(intake) as _ };
        assert!(!port.has(name) && port.register(name, weak(&first)));
        assert!(port.has(name) && !port.register(name, weak(&second)), "it is taken");
        drop(first);
        assert!(!port.has(name) && port.register(name, weak(&second)), "who is gone has no name");
        port.remove(name);
        assert!(!port.has(name));
    }
}
