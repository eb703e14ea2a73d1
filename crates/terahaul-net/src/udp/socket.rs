//! One UDP socket: whole batches in one system call, as far as the system has that.
//!
//! `quinn-udp` finds out what there is (segmentation offload on the way out, coalescing on the way in, `recvmmsg`) and does
//! without what there is not. It takes any send that the system calls invalid for a sign that segmentation is not there, and so would do
//! without it, for all sessions of a port, because of one client that gave an address which nothing can be sent to: see
//! [`Socket::send`].

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::received;

/// What a socket is asked to hold: 10 ms at 3 Gbit/s. Systems give less where they are set to.
const SYSTEM_BUFFER: usize = 4 << 20;
/// Batches that are taken in at once.
const MOST_BATCHES: usize = 64;
/// Longest wait for the system to take a burst.
const SEND_PATIENCE: Duration = Duration::from_millis(20);
/// No thread is kept waiting longer.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The largest datagram worth making: jumbo frames. Larger ones, which loopback would take, only fill buffers.
const MOST_DATAGRAM: u32 = 9_000 - 48;

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: RwLock<UdpSocketState>,
    /// It is a port that others come to, by whichever of this machine's addresses: they are answered from the same one. Who goes to
    /// others leaves by whichever the system chooses, also when an address is gone.
    answers: bool,
}

/// How long ago the system took in a datagram, by its stamp; nothing where it has none, or its clock was set since. `most` is the longest
/// that it can be: the stamp is of a clock that steps, and a datagram that is taken for older than it is makes the path seem shorter, for
/// as long as the shortest round trip is remembered.
fn age(meta: &RecvMeta, most: Duration) -> Duration {
    let age = meta.timestamp.and_then(|stamp| {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        since_epoch.checked_sub(stamp).filter(|age| *age < LONGEST_WAIT)
    });
    age.unwrap_or_default().min(most)
}

/// Room for what comes in one call, of one socket.
pub(super) struct Batch {
    buffers: Vec<Vec<u8>>,
    metas: Vec<RecvMeta>,
    /// Nothing waited in the socket then.
    empty_at: Option<Instant>,
}

impl Batch {
    pub fn new() -> Self {
        Self {
            buffers: vec![vec![0; 64 << 10]; BATCH_SIZE],
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            empty_at: None,
        }
    }

    /// How long what the socket hands over at `now` may have waited in it.
    fn longest_wait(&self, now: Instant) -> Duration {
        self.empty_at.map_or(LONGEST_WAIT, |at| now.saturating_duration_since(at))
    }
}

impl Socket {
    /// Bound to `address`, for others to come to.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bound(address, |_| Ok(()))
    }

    /// The same, where others of this program may be bound, too.
    pub fn bind_shared(address: SocketAddr) -> io::Result<Self> {
        Self::bound(address, |socket| if cfg!(unix) { socket.set_reuse_port(true) } else { Ok(()) })
    }

    fn bound(
        address: SocketAddr,
        prepare: impl FnOnce(&socket2::Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None)?;
        if address.ip() == Ipv6Addr::UNSPECIFIED {
            // IPv4 as well, whatever the system's default is.
            socket.set_only_v6(false)?;
        }
        prepare(&socket)?;
        socket.bind(&address.into())?;
        Ok(Self { answers: true, ..Self::around(socket.into())? })
    }

    fn around(socket: UdpSocket) -> io::Result<Self> {
        // Root may have more than the system's limit; whatever comes of it is used.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SYSTEM_BUFFER).is_err() {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SYSTEM_BUFFER);
        }
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SYSTEM_BUFFER);
        let state = RwLock::new(UdpSocketState::new((&socket).into())?);
        Ok(Self { socket, state, answers: false })
    }

    /// Bound to any port, and to `local` if that is given, to reach `remote`.
    pub fn towards(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<Self> {
        Self::around(UdpSocket::bind(SocketAddr::new(local.unwrap_or(any_address(remote)), 0))?)
    }

    /// The address and port that it is bound to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The system's.
    pub fn inner(&self) -> &UdpSocket {
        &self.socket
    }

    /// The address that it is bound to; none where that is any.
    pub fn local(&self) -> Option<IpAddr> {
        self.address().ok().map(|address| address.ip()).filter(|local| !local.is_unspecified())
    }

    /// What the system has for it.
    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, flags: PollFlags, longest: Duration) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.socket, flags)];
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        match poll(&mut polled, Some(&longest)) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error == rustix::io::Errno::INTR => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for datagrams and hands each group of them that came from one address to `take`, with how long ago the system took it in.
    pub fn receive(
        &self,
        batch: &mut Batch,
        longest: Duration,
        take: &mut dyn FnMut(&mut [u8], &RecvMeta, Duration),
    ) -> io::Result<()> {
        let looked = Instant::now();
        if !self.wait(PollFlags::IN, longest)? {
            batch.empty_at = Some(looked);
            return Ok(());
        }
        // Not for ever, however much comes: whoever receives looks now and then whether it is still wanted.
        for _ in 0..MOST_BATCHES {
            let looked = Instant::now();
            let Batch { buffers, metas, .. } = batch;
            let came = match received::receive(&self.socket, &self.state(), buffers, metas) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let handed_over = Instant::now();
            let most = batch.longest_wait(handed_over);
            for (buffer, meta) in batch.buffers.iter_mut().zip(&batch.metas).take(came) {
                // It has waited for those before it to be taken in, too.
                take(&mut buffer[..meta.len], meta, age(meta, most + handed_over.elapsed()));
            }
            if came < BATCH_SIZE {
                // What comes next comes later than this look began.
                batch.empty_at = Some(looked);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends datagrams of `segment` bytes each that lie one behind the other, which routers may mark if `ecn`; `from` is where the other
    /// end sends to. What the system does not take is lost, as on any line.
    pub fn send(&self, bytes: &[u8], segment: usize, to: SocketAddr, from: Option<IpAddr>, ecn: bool) {
        let at_once = self.state().max_gso_segments().max(1) * segment.max(1);
        for part in bytes.chunks(at_once) {
            let transmit = Transmit {
                destination: to,
                ecn: ecn.then_some(EcnCodepoint::Ect0),
                contents: part,
                segment_size: (part.len() > segment).then_some(segment),
                src_ip: from.filter(|_| self.answers),
            };
            if self.send_part(&transmit) == Taken::Spoilt {
                self.send_apart(&transmit);
            }
        }
    }

    /// In one call, if the system takes it now or soon.
    fn send_part(&self, transmit: &Transmit<'_>) -> Taken {
        let try_send = || {
            let state = self.state();
            let segmented = state.max_gso_segments() > 1;
            let sent = state.try_send((&self.socket).into(), transmit);
            sent.map_err(|error| (error.kind(), segmented && state.max_gso_segments() <= 1))
        };
        let mut sent = try_send();
        if matches!(sent, Err((io::ErrorKind::WouldBlock, _)))
            && self.wait(PollFlags::OUT, SEND_PATIENCE).is_ok()
        {
            sent = try_send();
        }
        if matches!(sent, Err((_, true))) { Taken::Spoilt } else { Taken::Done }
    }

    /// One by one, as the system seems to have no segmentation: some drivers do not. Where not even one is taken, that says nothing of
    /// segmentation: the port it goes to is none, or the address it is to leave from is gone.
    fn send_apart(&self, transmit: &Transmit<'_>) {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        for contents in transmit.contents.chunks(segment.max(1)) {
            let one = Transmit { contents, segment_size: None, ..transmit.clone() };
            if self.state().try_send((&self.socket).into(), &one).is_err() {
                return self.look_again();
            }
        }
    }

    /// Finds out anew what the system has.
    fn look_again(&self) {
        if let Ok(state) = UdpSocketState::new((&self.socket).into()) {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It is on its way, or lost.
    Done,
    /// It is not, and segmentation is taken for missing since.
    Spoilt,
}

fn any_address(like: SocketAddr) -> IpAddr {
    match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The largest datagram that this machine's interface towards `remote` carries, for packets from `local` if that is given,
/// without IP's and UDP's headers.
pub(super) fn largest_datagram(remote: SocketAddr, local: Option<IpAddr>) -> u32 {
    const ETHERNET: u32 = 1_500;
    let mtu = || -> io::Result<u32> {
        let socket = UdpSocket::bind(SocketAddr::new(local.unwrap_or(any_address(remote)), 0))?;
        socket.connect(remote)?;
        Ok(match remote {
            SocketAddr::V4(_) => rustix::net::sockopt::ip_mtu(&socket)?,
            SocketAddr::V6(_) => rustix::net::sockopt::ipv6_mtu(&socket)?,
        })
    };
    let headers = if remote.ip().to_canonical().is_ipv4() { 28 } else { 48 };
    mtu().unwrap_or(ETHERNET).saturating_sub(headers).min(MOST_DATAGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(stamp: Option<Duration>, most: Duration) -> Duration {
        let mut meta = RecvMeta::default();
        meta.timestamp = stamp;
        age(&meta, most)
    }

    fn since_epoch() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_datagram_is_as_old_as_its_stamp_unless_a_clock_was_set() {
        let now = since_epoch();
        let lately = Duration::from_millis(300);
        assert!(stamped(Some(now - lately), LONGEST_WAIT) >= lately);
        for set in [None, Some(Duration::ZERO), Some(now + Duration::from_secs(3600))] {
            assert_eq!(stamped(set, LONGEST_WAIT), Duration::ZERO);
        }
    }

    /// The clock was set forward by less than a thread may be kept waiting.
    #[test]
    fn a_datagram_is_no_older_than_the_last_look_that_found_nothing() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.longest_wait(Instant::now()), LONGEST_WAIT, "nobody has looked");
        socket.receive(&mut batch, Duration::ZERO, &mut |_, _, _| ()).unwrap();
        let looked = batch.empty_at.unwrap();
        let since = Duration::from_millis(20);
        let most = batch.longest_wait(looked + since);
        assert_eq!(most, since);
        assert_eq!(stamped(Some(since_epoch() - since * 5), most), most);
        // The look that takes in all that there is finds nothing more.
        socket.send(b"datagram", 8, socket.address().unwrap(), None, false);
        socket.receive(&mut batch, Duration::from_secs(10), &mut |_, _, _| ()).unwrap();
        assert!(batch.empty_at.unwrap() > looked);
    }

    /// Otherwise the work that others make would pass for a queue on the path.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_datagram_that_waits_for_others_of_its_batch_is_as_old_as_it_is() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let to = socket.address().unwrap();
        let mut batch = Batch::new();
        socket.receive(&mut batch, Duration::ZERO, &mut |_, _, _| ()).unwrap();
        // From two addresses: they are not put together.
        for _ in 0..2 {
            Socket::towards(to, None).unwrap().send(b"datagram", 8, to, None, false);
        }
        let work = Duration::from_millis(50);
        let mut ages = Vec::new();
        let mut take = |_: &mut [u8], _: &RecvMeta, age| {
            ages.push(age);
            std::thread::sleep(work);
        };
        socket.receive(&mut batch, Duration::from_secs(10), &mut take).unwrap();
        assert!(ages.len() == 2 && ages[1] >= work, "{ages:?}");
    }

    #[test]
    fn the_system_stamps_what_it_takes_in() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let to = socket.socket.local_addr().unwrap();
        socket.send(b"datagram", 8, to, None, false);
        let mut stamp = None;
        socket
            .receive(&mut Batch::new(), Duration::from_secs(10), &mut |_, meta, _| stamp = meta.timestamp)
            .unwrap();
        assert_eq!(stamp.is_some(), cfg!(target_os = "linux"));
    }

    #[test]
    fn only_what_may_be_marked_says_so() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let to = socket.address().unwrap();
        let mut batch = Batch::new();
        for (ecn, expected) in [(true, Some(EcnCodepoint::Ect0)), (false, None)] {
            socket.send(b"datagram", 8, to, None, ecn);
            let mut came = None;
            socket
                .receive(&mut batch, Duration::from_secs(10), &mut |_, meta, _| came = Some(meta.ecn))
                .unwrap();
            assert_eq!(came, Some(expected));
        }
    }

    #[test]
    fn who_goes_to_others_does_so_also_when_the_address_that_they_answered_is_gone() {
        let there = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let to = there.address().unwrap();
        // For documentation: no machine has it.
        let gone = IpAddr::from([192, 0, 2, 1]);
        Socket::towards(to, None).unwrap().send(b"datagram", 8, to, Some(gone), false);
        let mut came = 0;
        there
            .receive(&mut Batch::new(), Duration::from_secs(10), &mut |bytes, _, _| came = bytes.len())
            .unwrap();
        assert_eq!(came, 8);
    }

    /// A client may send from port 0, and an address that a client has come to may be gone.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_address_that_nothing_can_be_sent_to_takes_segmentation_from_nobody() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let to = socket.address().unwrap();
        let segments = socket.state().max_gso_segments();
        assert!(segments > 1, "Linux has it");
        let gone = IpAddr::from([192, 0, 2, 1]);
        for len in [1_200, 12_000] {
            socket.send(&vec![7; len], 1_200, ([127, 0, 0, 1], 0).into(), None, true);
            assert_eq!(socket.state().max_gso_segments(), segments, "to port 0");
            socket.send(&vec![7; len], 1_200, to, Some(gone), true);
            assert_eq!(socket.state().max_gso_segments(), segments, "from an address that is gone");
        }
        socket.send(&[7; 1_200], 1_200, to, None, true);
        let mut ecn = None;
        socket.receive(&mut Batch::new(), Duration::from_secs(10), &mut |_, meta, _| ecn = meta.ecn).unwrap();
        assert_eq!(ecn, Some(EcnCodepoint::Ect0), "nor that packets may be marked");
    }

    /// Over IPv4, over IPv6, and over IPv4 to a socket for both.
    #[test]
    fn what_the_system_has_put_together_is_told_of_in_all() {
        let bind = |address: &str| Socket::bind(address.parse().unwrap());
        for (from, to, of) in [
            ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "[::1]:0", "::1"),
            ("127.0.0.1:0", "[::]:0", "127.0.0.1"),
        ] {
            // Where there is no IPv6, nothing is to be tested of it.
            let (Ok(sender), Ok(socket)) = (bind(from), bind(to)) else { continue };
            let (from, of): (_, IpAddr) = (sender.address().unwrap(), of.parse().unwrap());
            let to = SocketAddr::new(of, socket.address().unwrap().port());
            sender.send(&[7; 11_700], 1_200, to, None, true);
            let (mut came, mut batch) = (0, Batch::new());
            while came < 11_700 {
                let mut take = |bytes: &mut [u8], meta: &RecvMeta, _| {
                    came += bytes.len();
                    assert_eq!(bytes, vec![7; bytes.len()]);
                    assert!(meta.stride == 1_200 || bytes.len() < 1_200, "{meta:?}");
                    assert_eq!(meta.ecn, Some(EcnCodepoint::Ect0), "{meta:?}");
                    assert_eq!(meta.timestamp.is_some(), cfg!(target_os = "linux"), "{meta:?}");
                    let (ip, port) = (meta.addr.ip().to_canonical(), meta.addr.port());
                    assert_eq!(SocketAddr::new(ip, port), from);
                    assert_eq!(meta.dst_ip.map(|ip| ip.to_canonical()), Some(of), "{meta:?}");
                };
                socket.receive(&mut batch, Duration::from_secs(10), &mut take).unwrap();
            }
        }
    }
}
