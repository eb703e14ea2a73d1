//! One UDP socket: whole batches in one system call, as far as the system has that.
//!
//! `quinn-udp` finds out what there is (segmentation offload on the way out, coalescing on the way in, `recvmmsg`) and does
//! without what there is not.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
    state: UdpSocketState,
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
        Ok(Self { answers: true, ..Self::around(UdpSocket::bind(address)?)? })
    }

    /// The same, where others of this program may be bound, too.
    pub fn bind_shared(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None)?;
        #[cfg(unix)]
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(Self { answers: true, ..Self::around(socket.into())? })
    }

    fn around(socket: UdpSocket) -> io::Result<Self> {
        // Root may have more than the system's limit; whatever comes of it is used.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SYSTEM_BUFFER).is_err() {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SYSTEM_BUFFER);
        }
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SYSTEM_BUFFER);
        let state = UdpSocketState::new((&socket).into())?;
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
            let mut slices: Vec<IoSliceMut<'_>> =
                batch.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let came = match self.state.recv((&self.socket).into(), &mut slices, &mut batch.metas) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let most = batch.longest_wait(Instant::now());
            for (buffer, meta) in batch.buffers.iter_mut().zip(&batch.metas).take(came) {
                take(&mut buffer[..meta.len], meta, age(meta, most));
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
        let at_once = self.state.max_gso_segments().max(1) * segment.max(1);
        for part in bytes.chunks(at_once) {
            let transmit = Transmit {
                destination: to,
                ecn: ecn.then_some(EcnCodepoint::Ect0),
                contents: part,
                segment_size: (part.len() > segment).then_some(segment),
                src_ip: from.filter(|_| self.answers),
            };
            let full = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if self.state.try_send((&self.socket).into(), &transmit).is_err_and(full)
                && self.wait(PollFlags::OUT, SEND_PATIENCE).is_ok()
            {
                let _ = self.state.try_send((&self.socket).into(), &transmit);
            }
        }
    }
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
}
