//! TCP's data channels: a thread each.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terahaul_core::{ChannelId, Priority};
use terahaul_store::said_of_no_thread;
use terahaul_wire::{ErrorCode, WireError};

use super::{Open, Role, Session, SessionEvent};
use crate::channel::{
    DataChannel, ReceiveError, Sender, cut, is_full, is_gone, leads_nowhere, receive_blocks, send_blocks,
};

/// Why a channel is not taken into a session.
#[derive(Debug)]
pub enum NotAdopted {
    /// What it is, or the session, does not allow it.
    Refused(WireError),
    /// This machine gives no thread or no handle for it.
    Here(io::Error),
}

impl From<NotAdopted> for WireError {
    fn from(error: NotAdopted) -> Self {
        match error {
            NotAdopted::Refused(error) => error,
            NotAdopted::Here(error) => Self::passing(ErrorCode::Unavailable, error.to_string()),
        }
    }
}

impl Session {
    /// Cuts TCP's channels; their threads give back their blocks.
    pub(crate) fn cut_tcp(&self) {
        for open in self.sockets().values() {
            open.is_cut.store(true, Ordering::Relaxed);
            cut(&open.socket, self.used());
        }
        self.wake();
    }

    /// Cuts the channel of a receiver that failed on it: an end in order would say that it has taken everything. A session that is
    /// over says nothing to any of its channels, and its end gives back the blocks of all.
    fn cut_unless_closed(&self, id: ChannelId) {
        if !self.is_closed() {
            self.cut_channel(id);
        }
    }

    /// Ends a channel of which nothing more is to come, and gives up what had begun to arrive on it.
    pub(crate) fn cut_channel(&self, id: ChannelId) {
        if let Some(open) = self.sockets().get(&id) {
            cut(&open.socket, self.used());
        }
    }

    /// The direction in which this end's threads wait.
    fn used(&self) -> Shutdown {
        match self.role {
            // Who has written waits for the other end to have read.
            Role::Send { .. } => Shutdown::Both,
            Role::Receive { .. } => Shutdown::Read,
        }
    }

    /// Runs `channel` on a thread of its own until it ends; `held` is dropped then.
    pub fn adopt(
        self: &Arc<Self>,
        id: ChannelId,
        channel: DataChannel,
        held: impl Send + 'static,
    ) -> Result<(), NotAdopted> {
        let socket = channel.socket().map_err(NotAdopted::Here)?;
        let is_cut = Arc::new(AtomicBool::new(false));
        {
            let mut sockets = self.sockets();
            if sockets.len() >= self.max_channels as usize || sockets.contains_key(&id) {
                return Err(NotAdopted::Refused(WireError::fatal(
                    ErrorCode::LimitExceeded,
                    format!(
                        "a session has at most {} data channels, each with its own number",
                        self.max_channels
                    ),
                )));
            }
            if self.is_closed() {
                let closing = WireError::passing(ErrorCode::Unavailable, "the session is closing");
                return Err(NotAdopted::Refused(closing));
            }
            sockets.insert(id, Open { socket, is_cut: Arc::clone(&is_cut) });
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        let session = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("channel-{}", id.0));
        let started = thread.spawn(move || {
            // Whoever waits for its blocks would do so for ever.
            let running = AssertUnwindSafe(|| session.run(id, channel, &is_cut));
            let problem = catch_unwind(running).unwrap_or_else(|_| session.handle_panicked(id));
            session.sockets().remove(&id);
            drop(held);
            // Without a control channel there is nobody to tell.
            let _ = session.events.send(SessionEvent::ChannelEnded(id, problem));
        });
        started.map(drop).map_err(|error| {
            self.sockets().remove(&id);
            NotAdopted::Here(io::Error::new(error.kind(), said_of_no_thread(&error)))
        })
    }

    /// Once: the other end answers on the control channel, and where nothing large gets through, the next channel does no better.
    fn tell_that_nothing_arrives(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "what was sent over a TCP channel was not acknowledged for a minute and a half, though the other end answers, and is sent over another: if nothing gets on, the path drops large packets, as a VPN does whose MTU is too small: use --transport udp, which finds what passes, or set net.ipv4.tcp_mtu_probing=1 at both ends"
            );
        }
    }

    /// A channel's thread has panicked. Returns what is to be said of that.
    fn handle_panicked(&self, id: ChannelId) -> Option<String> {
        match &self.role {
            Role::Send { outbound, .. } => outbound.handle_channel_lost(id),
            Role::Receive { .. } => self.cut_unless_closed(id),
        }
        Some("its thread has failed".to_owned())
    }

    fn run(&self, id: ChannelId, channel: DataChannel, is_cut: &AtomicBool) -> Option<String> {
        let is_cut = || is_cut.load(Ordering::Relaxed);
        match &self.role {
            Role::Send { outbound, source, pace, priority, .. } => {
                let compression = self.wait_until_open()?;
                let socket = channel.socket();
                if *priority == Priority::Background && !socket.as_ref().is_ok_and(yields) {
                    self.stubborn.store(true, Ordering::Relaxed);
                }
                let line_full = || socket.as_ref().is_ok_and(is_full);
                let is_gone = || socket.as_ref().is_ok_and(is_gone);
                let hold = |bytes| self.wait_to_send(pace, bytes, is_cut);
                let sender = Sender {
                    outbound,
                    source: &**source,
                    channel: id,
                    hold: &hold,
                    compression: &compression,
                    line_full: &line_full,
                    is_gone: &is_gone,
                };
                let moved = || outbound.sent().0;
                let sent = send_blocks(channel.into_watched_writer(&moved), &sender);
                let read_to_its_end = || socket.as_ref().is_ok_and(was_read_to_its_end);
                let delivered = sent.is_ok() && read_to_its_end() && !is_cut();
                let is_lost = !delivered && !self.is_closed();
                // At the session's own end what was sent may arrive.
                if is_lost && let Ok(socket) = &socket {
                    if leads_nowhere(socket) {
                        self.tell_that_nothing_arrives();
                    }
                    // The receiver keeps what had begun to arrive until it hears of the end, and an end of file comes behind what waits
                    // to be sent: for ever, where nothing large passes any more.
                    cut(socket, Shutdown::Both);
                }
                if !delivered {
                    outbound.handle_channel_lost(id);
                }
                let before_its_end =
                    || is_lost.then(|| "it was cut before it was read to its end".to_owned());
                sent.err().map(|error| error.to_string()).or_else(before_its_end)
            }
            Role::Receive { inbound, pace } => {
                let on_refused = |block, error| self.refuse(block, error);
                let on_bytes = |bytes| {
                    self.bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.wait_for_more(pace, bytes, is_cut)
                };
                let received = channel
                    .into_reader()
                    .map_err(ReceiveError::from)
                    .and_then(|reader| receive_blocks(reader, inbound, &on_refused, &on_bytes));
                let error = received.err()?;
                self.cut_unless_closed(id);
                if let Some(wire_error) = error.wire_error() {
                    let _ = self.events.send(SessionEvent::Broken(wire_error));
                }
                Some(error.to_string())
            }
        }
    }
}

/// Has a connection take only what others leave (TCP-LP: Kuzmanovic and Knightly, 2006). Most systems have that as a module,
/// and may keep it from users.
fn yields(socket: &TcpStream) -> bool {
    rustix::net::sockopt::set_tcp_congestion(socket, "lp").is_ok()
}

/// Whether the other end has read everything and closed in order. Closing first could destroy what it has not read
/// yet, and blocks it has read need not be sent again. It is waited for however slow it is, as long as it answers: the session's end and a
/// cut wake whoever waits here. An end of file that this end's own `close` caused says the same
/// and does no harm: the session is over, which gives back the blocks of every channel.
fn was_read_to_its_end(mut socket: &TcpStream) -> bool {
    /// A server's TLS says a little after its handshake that nobody has read.
    const MOST: usize = 64 << 10;
    /// How often it is looked whether it answers.
    const LOOK: Duration = Duration::from_secs(1);
    let (mut buffer, mut heard) = ([0; 4096], 0);
    if socket.set_read_timeout(Some(LOOK)).is_err() {
        return false;
    }
    while heard < MOST {
        match socket.read(&mut buffer) {
            Ok(0) => return true,
            Ok(more) => heard += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !leads_nowhere(socket) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;
    use std::thread;
    use std::time::{Duration, Instant};

    use terahaul_core::{Pace, Rate};

    use super::*;
    use crate::channel::tests::pair;
    use crate::session::tests::receiving;

    #[test]
    fn a_slow_reader_is_waited_for_until_it_has_read_to_the_end() {
        let (near, far) = pair();
        drop(far);
        assert!(was_read_to_its_end(&near));
    }

    /// What has its turn takes a minute, and so does each that waits behind it.
    #[test]
    fn channels_that_end_before_their_turn_leave_it_to_the_way_that_carries_their_blocks_again() {
        const BYTES: u64 = 60 << 20;
        for end in [Session::cut_tcp, Session::close] {
            let (role, events, _heard) = receiving();
            let session = Session::new(role, 1, events);
            let shared = Arc::new(Mutex::new(Pace::new(Rate::per_second(1 << 20).unwrap())));
            let pace = Some(Arc::clone(&shared));
            let is_cut = Arc::new(AtomicBool::new(false));
            let (socket, _far) = pair();
            session.sockets().insert(ChannelId(0), Open { socket, is_cut: Arc::clone(&is_cut) });
            let is_over = || is_cut.load(Ordering::Relaxed);
            session.wait_to_send(&pace, BYTES, is_over).unwrap();
            let mut behind = None;
            thread::scope(|scope| {
                let waiter = scope.spawn(|| session.wait_to_send(&pace, BYTES, is_over));
                behind = Some(shared.lock().unwrap().handle_wish(1));
                end(&session);
                assert!(waiter.join().unwrap().is_err());
            });
            let next = shared.lock().unwrap().poll_turn(Instant::now(), behind.unwrap()).unwrap();
            assert!(next <= Duration::from_secs(60), "{next:?}");
        }
    }

    /// Nothing else ends what waits for a reader that takes its time.
    #[test]
    fn who_writes_to_a_reader_that_pauses_ends_with_the_session() {
        let (near, _far) = pair();
        let mut waiting = near.try_clone().unwrap();
        let waiter = thread::spawn(move || while waiting.write(&[7; 1 << 16]).is_ok() {});
        while !is_full(&near) {
            thread::yield_now();
        }
        near.shutdown(Shutdown::Both).unwrap();
        waiter.join().unwrap();
    }
}
