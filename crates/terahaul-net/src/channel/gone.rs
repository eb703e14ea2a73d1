//! Noticing that the other end of a data channel is gone, where nothing is read or written that would say so.
//!
//! One connection of several may come to lead nowhere: a firewall forgets it, or one of the lines that a path is bundled of fails. What
//! was written last is in the system's buffers then, which goes on sending it for a quarter of an hour.

use std::io;
use std::net::TcpStream;
#[cfg(target_os = "linux")]
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};

/// After so much silence the system asks whether the other end is still there, and as often from then on.
const ASK_AFTER: Duration = Duration::from_secs(20);
/// As often without an answer.
const ASK_TIMES: u32 = 3;

/// So long nothing of what is under way may be acknowledged. By then the other end has given the connection up, which hears nothing: a block that
/// it still took for one that arrives would be refused.
const UNANSWERED: Duration = ASK_AFTER.saturating_mul(ASK_TIMES + 1).saturating_add(Duration::from_secs(10));

/// Has the system give a connection up that is idle and whose other end does not answer it. Nothing is said of one that has bytes under
/// way: a user timeout would count the time that a slow reader's window is closed (tcp(7)).
pub(crate) fn keep_watch(socket: &TcpStream) -> io::Result<()> {
    let asking = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AFTER).with_retries(ASK_TIMES);
    SockRef::from(socket).set_tcp_keepalive(&asking)
}

/// Whether the other end has closed the connection, or it has failed, or leads nowhere. A receiver that has not read the end closes none, and
/// one that pauses answers all the same.
pub(crate) fn is_gone(socket: &TcpStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    // A socket that cannot be asked will say so when it is written to.
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) || leads_nowhere(socket)
}

/// Whether what is under way has not been acknowledged for too long.
pub(crate) fn leads_nowhere(socket: &TcpStream) -> bool {
    unanswered(socket).is_some_and(|since| since >= UNANSWERED)
}

/// How long nothing was heard of the other end although something is under way, or its window is closed and asked after; `None` where it is
/// neither, or the system does not say. Who pauses answers what asks after its window (RFC 9293, 3.8.6.1): two such in a row that were not
/// answered tell, where one may be under way.
#[cfg(target_os = "linux")]
fn unanswered(socket: &TcpStream) -> Option<Duration> {
    // Whoever runs programs of another processor's answers anything, at which nix panics.
    static SAYS_NOTHING: AtomicBool = AtomicBool::new(false);
    if SAYS_NOTHING.load(Ordering::Relaxed) {
        return None;
    }
    let ask = AssertUnwindSafe(|| nix::sys::socket::getsockopt(socket, tcp_info::TcpInfo));
    let Ok(answered) = catch_unwind(ask) else {
        SAYS_NOTHING.store(true, Ordering::Relaxed);
        return None;
    };
    let info = answered.ok()?;
    let [_, _, _, probes] = info[0].to_ne_bytes();
    let (unacked, last_ack_recv) = (info[6], info[14]);
    (unacked > 0 || probes > 1).then(|| Duration::from_millis(last_ack_recv.into()))
}

#[cfg(not(target_os = "linux"))]
fn unanswered(_: &TcpStream) -> Option<Duration> {
    None
}

#[cfg(target_os = "linux")]
mod tcp_info {
    use nix::{getsockopt_impl, libc, sockopt_impl};

    /// `struct tcp_info` (linux/tcp.h) up to `tcpi_last_ack_recv`. A kernel answers no more than it is asked for and no more than it has, and
    /// nix takes an answer that is shorter for a mistake: the whole, as the library of C has it, is longer than most kernels'.
    type Beginning = [u32; 15];

    sockopt_impl!(
        /// What the system knows of a connection (tcp(7)).
        TcpInfo,
        GetOnly,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        Beginning
    );
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod tests {
    use std::io::Write;
    use std::net::Shutdown;

    use super::super::cut::tests::pair;
    use super::*;

    /// Whatever comes for it is dropped before it is seen, and nothing says so.
    pub(crate) fn go_deaf(socket: &TcpStream) {
        /// Keeps no byte of a packet (BPF: RET of a constant).
        const DROP: socket2::SockFilter = socket2::SockFilter::new(0x06, 0, 0, 0);
        SockRef::from(socket).attach_filter(&[DROP]).unwrap();
    }

    /// Until nothing more goes, and all that went is acknowledged.
    fn fill(mut socket: &TcpStream) {
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[7; 1 << 16]).is_ok() {}
        while unanswered(socket).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_under_way_to_who_hears_nothing_is_seen_to_be_unanswered() {
        let hears_all = |mut socket: &TcpStream| {
            socket.write_all(b"heard").unwrap();
            while unanswered(socket).is_some() {
                std::thread::yield_now();
            }
        };
        // One that reads, and one that had paused.
        for before in [hears_all as fn(&TcpStream), fill] {
            let (mut near, far) = pair();
            before(&near);
            go_deaf(&far);
            let _ = near.write(b"unheard");
            while unanswered(&near).is_none_or(|since| since < Duration::from_millis(300)) {
                std::thread::yield_now();
            }
            assert!(!is_gone(&near), "it may come back");
        }
    }

    #[test]
    fn a_reader_that_pauses_answers() {
        let (near, _far) = pair();
        // What was written last is answered, and what follows waits for the window to open.
        fill(&near);
        assert!(unanswered(&near).is_none());
    }

    #[test]
    fn a_connection_that_is_watched_is_gone_when_its_other_end_closes_it() {
        let (near, far) = pair();
        keep_watch(&near).unwrap();
        assert!(!is_gone(&near));
        far.shutdown(Shutdown::Both).unwrap();
        // On one machine the end of a connection arrives at once, though not before it is sent.
        while !is_gone(&near) {
            std::thread::yield_now();
        }
    }
}
