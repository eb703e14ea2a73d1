//! Data channels that shake hands while the control channel still does.
//!
//! A data channel needs the session's secret only once TCP and TLS are set up. On a long path these are two round trips
//! that need not come after the control channel's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connect::Client;
use crate::channel::{Unbound, connect_data};
use crate::local::Reach;
use crate::tls::HandshakeError;

/// A server closes what has not said for ten seconds which session it belongs to.
const FRESH: Duration = Duration::from_secs(5);

/// Data channels on their way to a depot, for a session that is being opened. Those that are not taken close.
pub(crate) struct Ahead {
    since: Instant,
    channels: VecDeque<JoinHandle<Result<Unbound, HandshakeError>>>,
}

impl Ahead {
    /// Starts `count` of them, each on a thread of its own.
    pub fn start(client: &Client, reach: &Reach, count: u32) -> Self {
        let since = Instant::now();
        let Ok(name) = client.endpoint.server_name() else {
            return Self { since, channels: VecDeque::new() };
        };
        let start = |channel| {
            let (address, local) = (reach.there, reach.local(channel as usize));
            let (name, config) = (name.clone(), Arc::clone(&client.tls.data));
            let connect = move || connect_data(address, local, name, config);
            // Without a thread there is one channel fewer ahead of time; the session opens it later.
            std::thread::Builder::new().name("open-channel".into()).spawn(connect).ok()
        };
        Self { since, channels: (0..count).filter_map(start).collect() }
    }

    /// The oldest; waiting for it may block. None where opening took so long that the server may have closed them.
    pub fn take(&mut self) -> Option<JoinHandle<Result<Unbound, HandshakeError>>> {
        if self.since.elapsed() > FRESH {
            self.channels.clear();
        }
        self.channels.pop_front()
    }
}
