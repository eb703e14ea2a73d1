//! What the kernel knows of this process's TCP connections.
//!
//! Asked for over netlink, as `ss -i` does (sock_diag(7), linux/inet_diag.h, linux/tcp.h). A socket option would tell
//! the same of one connection, but the engine's sockets are its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::probe::samples::Tcp;

/// This process's connections to one port, those that have ended meanwhile included.
pub(super) struct Connections {
    netlink: OwnedFd,
    port: u16,
    /// What was last heard of each, by the kernel's name for it.
    seen: BTreeMap<u64, Tcp>,
}

impl Connections {
    /// Connections to `port`, from now on. Fails where the kernel cannot be asked.
    pub fn to(port: u16) -> io::Result<Self> {
        let netlink =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
        Ok(Self { netlink, port, seen: BTreeMap::new() })
    }

    /// All of them together, now.
    pub fn sum(&mut self) -> io::Result<Tcp> {
        let own = own_sockets()?;
        // What has ended has nothing under way.
        self.seen.values_mut().for_each(|tcp| tcp.outstanding = 0);
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            self.ask(family, &own)?;
        }
        let mut sum = Tcp::default();
        self.seen.values().for_each(|tcp| sum.add(tcp));
        Ok(sum)
    }

    fn ask(&mut self, family: AddressFamily, own: &BTreeSet<u32>) -> io::Result<()> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.netlink, &request(family, self.port), SendFlags::empty(), &kernel)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (_, len) = recv(&self.netlink, &mut buffer[..], RecvFlags::empty())?;
            for message in Messages(buffer.get(..len).unwrap_or_default()) {
                match message {
                    Message::Done => return Ok(()),
                    Message::Error => return Err(io::ErrorKind::Unsupported.into()),
                    Message::Socket { inode, cookie, tcp } if own.contains(&inode) => {
                        self.seen.insert(cookie, tcp);
                    }
                    Message::Socket { .. } => {}
                }
            }
        }
    }
}

/// The inodes of this process's sockets.
fn own_sockets() -> io::Result<BTreeSet<u32>> {
    let inode = |entry: io::Result<fs::DirEntry>| {
        // A descriptor that was closed meanwhile is none of interest.
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(fs::read_dir("/proc/self/fd")?.filter_map(inode).collect())
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: every connection of the family to `port`, with its `tcp_info` and
/// the name of its congestion control.
fn request(family: AddressFamily, port: u16) -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const REQUEST_AND_DUMP: u16 = 0x301;
    const TCP: u8 = 6;
    /// A bit for each attribute that is wanted: INFO is number 2, CONG number 4.
    const EXTENSIONS: u8 = 1 << 1 | 1 << 3;
    /// All but SYN_RECV, TIME_WAIT and LISTEN, which have no counters.
    const STATES: u32 = 0xfff & !(1 << 3 | 1 << 6 | 1 << 10);
    const LEN: u32 = 16 + 56;
    let mut request = Vec::with_capacity(LEN as usize);
    request.extend(LEN.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family.as_raw() as u8, TCP, EXTENSIONS, 0]);
    request.extend(STATES.to_ne_bytes());
    request.extend([0, 0]);
    request.extend(port.to_be_bytes());
    request.resize(LEN as usize, 0);
    request
}

/// What the kernel answers.
enum Message {
    Done,
    Error,
    Socket { inode: u32, cookie: u64, tcp: Tcp },
}

/// The messages of one datagram.
struct Messages<'a>(&'a [u8]);

impl Iterator for Messages<'_> {
    type Item = Message;
    fn next(&mut self) -> Option<Message> {
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        loop {
            let len = number::<4>(self.0, 0)? as usize;
            let message = self.0.get(16..len)?;
            let kind = number::<2>(self.0, 4)? as u16;
            self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
            match kind {
                DONE => return Some(Message::Done),
                ERROR => return Some(Message::Error),
                _ => {
                    if let Some(socket) = read_socket(message) {
                        return Some(socket);
                    }
                }
            }
        }
    }
}

/// `struct inet_diag_msg` and its attributes.
fn read_socket(message: &[u8]) -> Option<Message> {
    const INFO: u64 = 2;
    const CONGESTION_CONTROL: u64 = 4;
    let (cookie, inode) = (number::<8>(message, 44)?, number::<4>(message, 68)? as u32);
    let mut attributes = message.get(72..)?;
    let mut tcp = Tcp::default();
    while let Some(len) = number::<2>(attributes, 0) {
        let value = attributes.get(4..len as usize)?;
        match number::<2>(attributes, 2)? {
            INFO => {
                tcp =
                    Tcp { congestion_control: std::mem::take(&mut tcp.congestion_control), ..counters(value) }
            }
            CONGESTION_CONTROL => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                tcp.congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            _ => {}
        }
        attributes = attributes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Message::Socket { inode, cookie, tcp })
}

/// `struct tcp_info`, which later kernels have made longer: what an old one does not say is 0.
fn counters(info: &[u8]) -> Tcp {
    let short = |at| number::<4>(info, at).unwrap_or(0);
    let long = |at| number::<8>(info, at).unwrap_or(0);
    Tcp {
        // Of whole segments. What was acknowledged in order is exact, and waits behind every lost segment.
        delivered: match short(192) * short(16) {
            0 => long(120),
            delivered => delivered,
        },
        received: long(128),
        outstanding: short(24) + short(144),
        segments_out: short(156),
        resent: short(100),
        segments_in: short(152),
        disordered: short(224),
        busy: long(168),
        window_full: long(176),
        buffer_full: long(184),
        congestion_control: String::new(),
    }
}

/// An unsigned number of `N` bytes, in this machine's order.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; N] = bytes.get(at..at + N)?.try_into().ok()?;
    let mut wide = [0; 8];
    let range = if cfg!(target_endian = "little") { 0..N } else { 8 - N..8 };
    wide.get_mut(range)?.copy_from_slice(&bytes);
    Some(u64::from_ne_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_went_over_own_connections_is_counted_also_after_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut connections = Connections::to(port).unwrap();
        assert_eq!(connections.sum().unwrap(), Tcp::default());
        for _ in 0..2 {
            let mut near = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            far.write_all(&[2; 3000]).unwrap();
            near.read_exact(&mut [0; 3000]).unwrap();
            near.write_all(&[1; 1000]).unwrap();
            far.read_exact(&mut [0; 1000]).unwrap();
            // What loopback has delivered it has acknowledged.
            connections.sum().unwrap();
        }
        let sum = connections.sum().unwrap();
        assert!(sum.delivered >= 2000, "{sum:?}");
        assert_eq!((sum.received, sum.resent), (6000, 0), "{sum:?}");
        assert!(sum.segments_out >= 2 && sum.segments_in >= 2, "{sum:?}");
        let kernels = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        assert_eq!(sum.congestion_control, kernels.trim());
    }

    #[test]
    fn answers_that_are_cut_short_are_read_as_far_as_they_go() {
        let mut answer = Vec::new();
        answer.extend(100u32.to_ne_bytes());
        answer.extend([0; 60]);
        assert_eq!(Messages(&answer).count(), 0);
        assert_eq!(Messages(&[]).count(), 0);
        assert!(read_socket(&[0; 71]).is_none());
        assert_eq!(counters(&[1; 130]).received, 0);
    }
}
