//! The sessions that a server has open, for data channels to find theirs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use terahaul_core::ChannelId;
use terahaul_wire::{Bind, ErrorCode, WireError};

use super::Session;
use crate::PeerNetwork;
use crate::channel::DataChannel;
use crate::udp::Port;

/// Most sessions at once: each has threads, and blocks in memory.
const MAX_SESSIONS: usize = 1024;
/// Most of them that come from one peer.
const MAX_OF_ONE_PEER: usize = 64;

/// The sessions of a depot, by what their data channels present. Secrets are looked up by their hash, so the time
/// a look-up takes says nothing about a secret.
#[derive(Default)]
pub struct Sessions {
    by_hash: Mutex<HashMap<[u8; 32], Registered>>,
    udp: Option<Arc<Port>>,
}

struct Registered {
    session: Weak<Session>,
    peer: PeerNetwork,
}

/// A session's place among all; dropped, it is free for another.
pub(crate) struct Place {
    sessions: Arc<Sessions>,
    hash: [u8; 32],
}

/// Keeps a session open for data channels; dropped, it closes the session.
pub struct SessionGuard {
    session: Arc<Session>,
    _place: Place,
}

impl Sessions {
    /// With a port for UDP data channels, where there is one.
    pub fn with_udp(port: Option<Port>) -> Self {
        Self { udp: port.map(Arc::new), ..Self::default() }
    }

    pub(crate) fn udp(&self) -> Option<Arc<Port>> {
        self.udp.clone()
    }

    /// Opens `session` of a client at `peer` to data channels that present `secret`, unless there are too many: a client that
    /// waits and tries again finds room once others have ended.
    pub fn register(
        self: &Arc<Self>,
        secret: &[u8; 32],
        session: Arc<Session>,
        peer: IpAddr,
    ) -> Result<SessionGuard, WireError> {
        let place = self.take_place(secret, Arc::downgrade(&session), peer)?;
        Ok(SessionGuard { session, _place: place })
    }

    /// The same for a session that has no data channels: it counts as any other.
    pub(crate) fn register_bare(
        self: &Arc<Self>,
        secret: &[u8; 32],
        peer: IpAddr,
    ) -> Result<Place, WireError> {
        self.take_place(secret, Weak::new(), peer)
    }

    fn take_place(
        self: &Arc<Self>,
        secret: &[u8; 32],
        session: Weak<Session>,
        peer: IpAddr,
    ) -> Result<Place, WireError> {
        let (hash, peer) = (hash_of(secret), PeerNetwork::from(peer));
        let mut table = self.table();
        let same = table.values().filter(|registered| registered.peer == peer).count();
        let too_many = (table.len() >= MAX_SESSIONS)
            .then_some("at this server")
            .or((same >= MAX_OF_ONE_PEER).then_some("from your address"));
        if let Some(where_from) = too_many {
            return Err(WireError::passing(
                ErrorCode::Unavailable,
                format!("too many transfers run at once {where_from}: wait until one has ended"),
            ));
        }
        table.insert(hash, Registered { session, peer });
        drop(table);
        Ok(Place { sessions: Arc::clone(self), hash })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<[u8; 32], Registered>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a bound data channel to its session. `held` is dropped when it ends: what an open connection is counted by.
    pub fn bind(
        &self,
        channel: DataChannel,
        bind: &Bind,
        held: impl Send + 'static,
    ) -> Result<(), WireError> {
        let session =
            self.table().get(&hash_of(&bind.secret)).and_then(|registered| registered.session.upgrade());
        match session {
            Some(session) => Ok(session.adopt(ChannelId(bind.channel), channel, held)?),
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
        self.session.close();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.table().remove(&self.hash);
    }
}

fn hash_of(secret: &[u8; 32]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::tests::receiving;
    use super::*;

    #[test]
    fn one_peer_does_not_take_all_sessions_and_gets_one_again_when_one_ends() {
        let (role, events, _heard) = receiving();
        let session = || Session::new(role.clone(), 1, events.clone());
        let sessions = Arc::new(Sessions::default());
        let address = |network: u16, host| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        let open = |number: usize, peer| {
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&number.to_le_bytes());
            sessions.register(&secret, session(), peer)
        };
        // Whoever has one address of IPv6 has the whole network.
        let greedy = |at: usize| address(1, at as u16);
        let mut guards: Vec<_> = (0..MAX_OF_ONE_PEER).map(|at| open(at, greedy(at)).unwrap()).collect();
        let refused = open(1_000, greedy(1_000)).err().unwrap();
        assert!(refused.retry && refused.message.contains("from your address"), "{refused:?}");
        assert!(open(1_001, address(2, 1)).is_ok());
        guards.pop();
        assert!(open(1_002, greedy(1_002)).is_ok());
    }
}
