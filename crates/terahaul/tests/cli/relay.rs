//! A relay before a depot's port, for TCP and UDP: what lies between two hosts, and goes wrong when a test says so.
//!
//! Nothing here waits for a moment: what goes wrong does so at a datagram of a certain number.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::rig::wait_until;

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// No datagram gets through any more.
    Filter,
    /// None that the depot sends does, while those to it do.
    FilterBack,
    /// The other way round.
    FilterOut,
    /// None of this channel does.
    FilterChannel(u8),
    /// No datagram of more bytes does, and nobody is told so.
    Narrow(usize),
    /// Nothing at all gets through for so long.
    Dark(Duration),
    /// No datagram does, while connections go on.
    DarkToDatagrams(Duration),
    /// Datagrams come from another port from now on, and those to the old one are lost: a NAT forgot.
    Rebind,
}

#[derive(Default)]
struct Shared {
    depot: Mutex<Option<SocketAddr>>,
    /// Datagrams that came from the client.
    came: AtomicU64,
    bytes: AtomicU64,
    /// One of the depot's has reached the client.
    has_answered: AtomicBool,
    /// Where datagrams came from.
    hosts: Mutex<BTreeSet<IpAddr>>,
    /// Where connections came from.
    tcp_hosts: Mutex<BTreeSet<IpAddr>>,
    /// At which of them what goes wrong, in order.
    faults: Mutex<Vec<(u64, Fault)>>,
    filtered_back: AtomicBool,
    filtered_out: AtomicBool,
    channel: Mutex<Option<u8>>,
    /// Bytes of the longest datagram that gets through, where there is a limit.
    longest: Mutex<Option<usize>>,
    dark_until: Mutex<Option<Instant>>,
    /// The depot's datagrams that reached the client after that.
    passed_since_dark: AtomicU64,
    datagrams_dark_until: Mutex<Option<Instant>>,
    /// How often the address has changed.
    bindings: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
    /// How many TCP connections there have been, and how many of these lead nowhere.
    opened: AtomicU64,
    forgotten: AtomicU64,
    /// How many of them there had been when something went wrong for the first time.
    opened_by_fault: Mutex<Option<u64>>,
    /// How long each new connection says nothing.
    opening: Mutex<Duration>,
}

/// Runs until the test's process ends.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Before the depot whose address for clients is `url`. Returns the address with the relay in its place, too.
    pub fn to(url: &str) -> (Self, String) {
        let host = url.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap();
        let shared = Arc::new(Shared::default());
        *shared.depot.lock().unwrap() = Some(host.parse().unwrap());
        let (listener, socket) = one_number();
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                accepting.connect(socket);
            }
        });
        let relaying = Arc::clone(&shared);
        std::thread::spawn(move || relaying.run_udp(&Arc::new(socket)));
        let url = url.replace(host, &address.to_string());
        (Self { address, shared }, url)
    }

    /// Has this happen when so many datagrams have come from the client. Where that is any, it is not before the depot has answered: until
    /// then, UDP is taken to be blocked from the start.
    pub fn set(&self, at: u64, fault: Fault) {
        self.shared.faults.lock().unwrap().push((at, fault));
    }

    /// Each connection from now on takes so long to open.
    pub fn open_slowly(&self, long: Duration) {
        *self.shared.opening.lock().unwrap() = long;
    }

    /// Whether all that was to go wrong has.
    pub fn has_happened(&self) -> bool {
        self.shared.faults.lock().unwrap().is_empty()
    }

    /// TCP connections that were opened after something had gone wrong for the first time. Where it was not, there are none.
    pub fn opened_since_fault(&self) -> u64 {
        let before = *self.shared.opened_by_fault.lock().unwrap();
        before.map_or(0, |before| self.shared.opened.load(Ordering::SeqCst) - before)
    }

    /// Datagrams of the depot's that reached the client after nothing at all had got through for a while.
    pub fn passed_since_dark(&self) -> u64 {
        self.shared.passed_since_dark.load(Ordering::SeqCst)
    }

    /// Bytes in datagrams that came from the client.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::SeqCst)
    }

    /// The addresses that datagrams came from.
    pub fn hosts(&self) -> Vec<IpAddr> {
        self.shared.hosts.lock().unwrap().iter().copied().collect()
    }

    /// The addresses that TCP connections came from.
    pub fn tcp_hosts(&self) -> Vec<IpAddr> {
        self.shared.tcp_hosts.lock().unwrap().iter().copied().collect()
    }

    /// Every TCP connection that there is breaks; new ones get through.
    pub fn cut(&self) {
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// No datagram is filtered any more.
    pub fn unfilter(&self) {
        self.shared.filtered_out.store(false, Ordering::SeqCst);
        self.shared.filtered_back.store(false, Ordering::SeqCst);
    }

    /// Nothing that belongs to the connections and datagrams so far gets through any more, nor is anybody told: a NAT forgot all, or the
    /// client has another address. What is new gets through.
    pub fn forget(&self) {
        self.shared.bindings.fetch_add(1, Ordering::SeqCst);
        self.shared.forgotten.store(self.shared.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Waits until so many datagrams have come from the client.
    pub fn wait_for(&self, datagrams: u64) {
        let what = format!("{datagrams} datagrams have come to {}", self.address);
        wait_until(&what, || self.shared.came.load(Ordering::SeqCst) >= datagrams);
    }
}

/// A port whose number is free for both.
fn one_number() -> (TcpListener, UdpSocket) {
    let pair = (0..100).find_map(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind(listener.local_addr().unwrap()).ok()?;
        Some((listener, socket))
    });
    pair.unwrap()
}

fn is_before(until: &Mutex<Option<Instant>>) -> bool {
    until.lock().unwrap().is_some_and(|until| Instant::now() < until)
}

impl Shared {
    fn is_dark(&self) -> bool {
        is_before(&self.dark_until)
    }

    fn passes(&self, datagram: &[u8]) -> bool {
        let channel = *self.channel.lock().unwrap();
        !self.is_dark()
            && !is_before(&self.datagrams_dark_until)
            && (channel.is_none() || datagram.get(1).copied() != channel)
            && self.longest.lock().unwrap().is_none_or(|longest| datagram.len() <= longest)
    }

    fn count(&self) {
        let came = self.came.fetch_add(1, Ordering::SeqCst) + 1;
        let mut faults = self.faults.lock().unwrap();
        let has_answered = self.has_answered.load(Ordering::SeqCst);
        faults.retain(|(at, fault)| {
            let happens = came >= *at && (*at == 0 || has_answered);
            if happens {
                let opened = self.opened.load(Ordering::SeqCst);
                self.opened_by_fault.lock().unwrap().get_or_insert(opened);
                match *fault {
                    Fault::Filter => {
                        self.filtered_out.store(true, Ordering::SeqCst);
                        self.filtered_back.store(true, Ordering::SeqCst);
                    }
                    Fault::FilterBack => self.filtered_back.store(true, Ordering::SeqCst),
                    Fault::FilterOut => self.filtered_out.store(true, Ordering::SeqCst),
                    Fault::FilterChannel(channel) => *self.channel.lock().unwrap() = Some(channel),
                    Fault::Narrow(longest) => *self.longest.lock().unwrap() = Some(longest),
                    Fault::Dark(long) => *self.dark_until.lock().unwrap() = Some(Instant::now() + long),
                    Fault::DarkToDatagrams(long) => {
                        *self.datagrams_dark_until.lock().unwrap() = Some(Instant::now() + long);
                    }
                    Fault::Rebind => {
                        self.bindings.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            !happens
        });
    }

    fn run_udp(self: &Arc<Self>, socket: &Arc<UdpSocket>) {
        let mut upstream: HashMap<(SocketAddr, u64), UdpSocket> = HashMap::new();
        let mut buffer = vec![0; 65_536];
        loop {
            // The other end's port may be closed just now.
            let Ok((len, client)) = socket.recv_from(&mut buffer) else { continue };
            self.bytes.fetch_add(len as u64, Ordering::SeqCst);
            self.hosts.lock().unwrap().insert(client.ip());
            self.count();
            if self.filtered_out.load(Ordering::SeqCst) || !self.passes(&buffer[..len]) {
                continue;
            }
            let binding = self.bindings.load(Ordering::SeqCst);
            let out = upstream.entry((client, binding)).or_insert_with(|| self.bind(socket, client, binding));
            // As above.
            let _ = out.send(&buffer[..len]);
        }
    }

    /// A socket towards the depot, whose answers go to `client` while the binding lasts.
    fn bind(self: &Arc<Self>, down: &Arc<UdpSocket>, client: SocketAddr, binding: u64) -> UdpSocket {
        let up = UdpSocket::bind("127.0.0.1:0").unwrap();
        up.connect(self.depot.lock().unwrap().unwrap()).unwrap();
        let (from, down, shared) = (up.try_clone().unwrap(), Arc::clone(down), Arc::clone(self));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while shared.bindings.load(Ordering::SeqCst) == binding {
                let Ok(len) = from.recv(&mut buffer) else { continue };
                let bound = shared.bindings.load(Ordering::SeqCst) == binding;
                let filtered = shared.filtered_back.load(Ordering::SeqCst);
                if bound && !filtered && shared.passes(&buffer[..len]) {
                    let reaches = down.send_to(&buffer[..len], client).is_ok();
                    shared.has_answered.fetch_or(reaches, Ordering::SeqCst);
                    let was_dark = shared.dark_until.lock().unwrap().is_some();
                    shared.passed_since_dark.fetch_add(u64::from(reaches && was_dark), Ordering::SeqCst);
                }
            }
        });
        up
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        let address = self.depot.lock().unwrap().unwrap();
        self.tcp_hosts.lock().unwrap().insert(client.peer_addr().unwrap().ip());
        let Ok(depot) = TcpStream::connect(address) else { return };
        client.set_nodelay(true).unwrap();
        depot.set_nodelay(true).unwrap();
        let both = [client.try_clone().unwrap(), depot.try_clone().unwrap()];
        self.connections.lock().unwrap().extend(both);
        let back = (depot.try_clone().unwrap(), client.try_clone().unwrap());
        let opening = *self.opening.lock().unwrap();
        let number = self.opened.fetch_add(1, Ordering::SeqCst);
        for (mut from, mut to) in [(client, depot), back] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                std::thread::sleep(opening);
                let mut buffer = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from.read(&mut buffer) {
                    while shared.is_dark() {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    if number < shared.forgotten.load(Ordering::SeqCst) {
                        // Neither end hears that this one is closed to it.
                        std::thread::park();
                    }
                    if to.write_all(&buffer[..read]).is_err() {
                        // Who sends would wait for ever until somebody takes it.
                        while let Ok(1..) = from.read(&mut buffer) {}
                        break;
                    }
                }
                // They may be closed already.
                let _ = from.shutdown(Shutdown::Read);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
}
