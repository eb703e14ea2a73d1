//! Noticing that the other end of a data channel is gone, where nothing is read or written that would say so.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};

/// After so much silence the system asks whether the other end is still there, and as often from then on.
const ASK_AFTER: Duration = Duration::from_secs(20);
/// As often without an answer.
const ASK_TIMES: u32 = 3;

/// Has the system give a connection up that is idle and whose other end does not answer it. Nothing is said of one that has bytes under
/// way: a user timeout would count the time that a slow reader's window is closed (tcp(7)).
pub(crate) fn keep_watch(socket: &TcpStream) -> io::Result<()> {
    let asking = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AFTER).with_retries(ASK_TIMES);
    SockRef::from(socket).set_tcp_keepalive(&asking)
}

/// Whether the other end has closed the connection, or it has failed. A receiver that has not read the end closes none.
pub(crate) fn is_gone(socket: &TcpStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    // A socket that cannot be asked will say so when it is written to.
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::Shutdown;

    use super::super::cut::tests::pair;
    use super::*;

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
