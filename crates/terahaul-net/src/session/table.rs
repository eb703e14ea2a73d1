//! The sessions that a server has open, for data channels to find theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use terahaul_core::ChannelId;
use terahaul_wire::{Bind, ErrorCode, WireError};

use super::Session;
use crate::channel::DataChannel;
use crate::udp::Port;

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
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret).as_ref());
    bytes
}
