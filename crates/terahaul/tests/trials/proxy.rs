//! A relay between a client and its depot that counts bytes, and springs a trap at an exact one.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::rig::wait_until;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToDepot,
    ToClient,
}

type Action = Box<dyn FnOnce() + Send>;

/// `None` → `Set` by a test; → `Springing` at its byte; → `Sprung` when its action has run.
#[derive(Default)]
enum Trap {
    #[default]
    None,
    Set {
        way: Way,
        at: u64,
        action: Action,
    },
    Springing,
    Sprung,
}

#[derive(Default)]
struct Shared {
    upstream: Mutex<Option<SocketAddr>>,
    to_depot: AtomicU64,
    to_client: AtomicU64,
    trap: Mutex<Trap>,
    sprung: Condvar,
    open: AtomicBool,
    pairs: Mutex<Vec<(TcpStream, TcpStream)>>,
    relays: AtomicUsize,
}

/// Runs until the test's process ends.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        *shared.upstream.lock().unwrap() = Some(upstream);
        shared.open.store(true, Ordering::SeqCst);
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                accepting.relay(socket);
            }
        });
        Self { address, shared }
    }

    /// Bytes that went this way so far.
    pub fn bytes(&self, way: Way) -> u64 {
        self.shared.counter(way).load(Ordering::SeqCst)
    }

    /// Runs `action` when byte number `at` arrives here, before it is passed on.
    pub fn set_trap(&self, way: Way, at: u64, action: impl FnOnce() + Send + 'static) {
        *self.shared.trap.lock().unwrap() = Trap::Set { way, at, action: Box::new(action) };
    }

    /// Whether the trap's action has run.
    pub fn has_sprung(&self) -> bool {
        matches!(*self.shared.trap.lock().unwrap(), Trap::Sprung)
    }

    /// No trap from here on; whether there was one that sprang. An action that is under way is waited for: it may have
    /// killed one of two already.
    pub fn remove_trap(&self) -> bool {
        let trap = self.shared.trap.lock().unwrap();
        let mut trap = self.shared.sprung.wait_while(trap, |trap| matches!(trap, Trap::Springing)).unwrap();
        matches!(std::mem::take(&mut *trap), Trap::Sprung)
    }

    /// Cuts every connection, takes no new ones, and returns when nothing moves any more.
    pub fn close(&self) {
        self.shared.open.store(false, Ordering::SeqCst);
        wait_until("connections end", || {
            for (a, b) in self.shared.pairs.lock().unwrap().drain(..) {
                // They may be closed already.
                let _ = a.shutdown(Shutdown::Both);
                let _ = b.shutdown(Shutdown::Both);
            }
            self.shared.relays.load(Ordering::SeqCst) == 0
        });
    }

    /// Takes connections again.
    pub fn open(&self) {
        self.shared.open.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn counter(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::ToDepot => &self.to_depot,
            Way::ToClient => &self.to_client,
        }
    }

    fn relay(self: &Arc<Self>, client: TcpStream) {
        // Counted first: `close` must not miss a connection that is being made.
        self.relays.fetch_add(2, Ordering::SeqCst);
        let depot = self.upstream.lock().unwrap().and_then(|address| TcpStream::connect(address).ok());
        let (Some(depot), true) = (depot, self.open.load(Ordering::SeqCst)) else {
            self.relays.fetch_sub(2, Ordering::SeqCst);
            return;
        };
        client.set_nodelay(true).unwrap();
        depot.set_nodelay(true).unwrap();
        let halves = (client.try_clone().unwrap(), depot.try_clone().unwrap());
        self.pairs.lock().unwrap().push((client.try_clone().unwrap(), depot.try_clone().unwrap()));
        for (way, from, to) in [(Way::ToDepot, client, halves.1), (Way::ToClient, depot, halves.0)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                shared.pass(way, &from, &to);
                let _ = from.shutdown(Shutdown::Read);
                let _ = to.shutdown(Shutdown::Write);
                shared.relays.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    fn pass(&self, way: Way, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let before = self.counter(way).fetch_add(read as u64, Ordering::SeqCst);
            let mut passed = 0;
            if let Some((at, action)) = self.due(way, before + read as u64) {
                passed = at.saturating_sub(before).min(read as u64) as usize;
                if to.write_all(&buffer[..passed]).is_err() {
                    passed = read;
                }
                action();
                *self.trap.lock().unwrap() = Trap::Sprung;
                self.sprung.notify_all();
            }
            if to.write_all(&buffer[passed..read]).is_err() {
                return;
            }
        }
    }

    fn due(&self, way: Way, bytes: u64) -> Option<(u64, Action)> {
        let mut trap = self.trap.lock().unwrap();
        match std::mem::take(&mut *trap) {
            Trap::Set { way: of, at, action } if of == way && bytes >= at => {
                *trap = Trap::Springing;
                Some((at, action))
            }
            other => {
                *trap = other;
                None
            }
        }
    }
}
