//! UDP's data channels: together on the threads of one [`Running`].

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::{LAST_BLOCKS, Role, Session, SessionEvent};
use crate::udp::{Cargoes, Line, Running, Terms, Told};

impl Session {
    /// Bytes that arrived over UDP on each path, by this session's datagrams; nothing without UDP.
    pub(crate) fn udp_path_bytes(&self) -> Vec<u64> {
        self.udp().as_ref().map(|running| running.path_bytes()).unwrap_or_default()
    }

    /// Ends the UDP channels; their blocks go back.
    pub(crate) fn end_udp(&self) {
        if let Some(running) = &*self.udp() {
            running.end();
        }
    }

    /// Ends the UDP channels and waits until their threads are at their ends. `false` where a disk holds them up.
    pub(crate) fn end_udp_and_wait(&self) -> bool {
        self.end_udp();
        let gone = self.udp_gone.wait_timeout_while(self.udp(), LAST_BLOCKS, |running| running.is_some());
        gone.unwrap_or_else(PoisonError::into_inner).0.is_none()
    }

    /// Whether UDP channels run.
    pub(crate) fn has_udp(&self) -> bool {
        self.udp().as_ref().is_some_and(|running| !running.has_ended())
    }

    /// Runs UDP channels on threads of their own until they end, in place of those that there may be.
    pub(crate) fn adopt_udp(self: &Arc<Self>, terms: Terms, line: Line) -> io::Result<()> {
        self.end_udp();
        let carried = Arc::clone(&self.udp_carried);
        let running = Arc::new(match &self.role {
            Role::Send { outbound, .. } => {
                let outbound = Arc::clone(outbound);
                let on_content = move |bytes| {
                    carried.fetch_add(bytes, Ordering::Relaxed);
                    outbound.handle_bytes(bytes);
                };
                Running::sending(terms, line, Box::new(on_content))?
            }
            Role::Receive { inbound, .. } => {
                let all = Arc::clone(&self.bytes);
                let on_content = move |bytes| {
                    carried.fetch_add(bytes, Ordering::Relaxed);
                    all.fetch_add(bytes, Ordering::Relaxed);
                };
                Running::receiving(terms, line, Arc::clone(inbound), Box::new(on_content))?
            }
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
            self.udp_gone.notify_all();
        }
        last
    }

    fn run_udp(&self, running: &Running) -> Option<String> {
        match &self.role {
            Role::Send { outbound, source, pace, .. } => {
                let granted = AtomicU64::new(0);
                let handed = |bytes, copied| {
                    self.udp_carried.fetch_add(copied, Ordering::Relaxed);
                    // The limit is of all channels. What these do not send any more goes nowhere.
                    if self.wait_to_send(pace, bytes, || running.has_ended()).is_ok() {
                        granted.fetch_add(bytes, Ordering::Relaxed);
                    }
                };
                let channel = outbound.number_udp();
                // Channels that end before the session is open may have a successor, whose blocks are not theirs to give back.
                let claims = AtomicBool::new(false);
                let begin = || {
                    let compression = self.wait_until_open()?;
                    let going_on = !running.has_ended();
                    claims.store(going_on, Ordering::Relaxed);
                    going_on.then_some(compression)
                };
                let ended = || {
                    self.wake();
                    if claims.load(Ordering::Relaxed) {
                        outbound.close_channel(channel);
                    }
                };
                let source = &**source;
                let cargoes =
                    Cargoes { outbound, source, channel, begin: &begin, ended: &ended, handed: &handed };
                let problem = running.send(&cargoes);
                let left = granted.load(Ordering::Relaxed).saturating_sub(running.content_sent());
                self.give_back(pace, left);
                if claims.load(Ordering::Relaxed) {
                    outbound.handle_channel_lost(channel);
                }
                problem
            }
            Role::Receive { inbound, pace } => running.receive(
                inbound,
                &Told {
                    refused: &|block, error| self.refuse(block, error),
                    done: &|bytes, copied| {
                        self.udp_carried.fetch_add(copied, Ordering::Relaxed);
                        // A session that closes meanwhile has ended its UDP, too.
                        let _ = self.wait_for_more(pace, bytes, || false);
                    },
                    broken: &|error| {
                        let _ = self.events.send(SessionEvent::Broken(error));
                    },
                },
            ),
        }
    }
}
