//! Telling a reader that pauses from a connection that leads nowhere any more.
//!
//! Neither takes anything. But a reader that pauses, because its disk hangs, does so on all of a session's channels, and closes none before
//! it has read the end. Where the others go on, or the other end has closed this one, it is lost, and its blocks should go to another: the
//! system would take a quarter of an hour to say so, or never does where something on the way keeps the connection and reads no more of it.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::gone::is_gone;

/// How long a write may take before it is looked at what others do, and then until it is looked at again: by then
/// [one that leads nowhere](super::gone) has for long enough.
pub(crate) const STALL: Duration = Duration::from_secs(45);

/// Writes to a socket that has a write timeout.
pub(crate) struct Watched<'a> {
    pub socket: TcpStream,
    /// Bytes over all channels of the session so far, if a reader that pauses pauses on all of them.
    pub moved: Option<&'a dyn Fn() -> u64>,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // What others wrote at first went into the system's buffers, as this one's did before.
        let mut at_last_look = None;
        loop {
            let written = self.socket.write_vectored(slices);
            if !matches!(&written, Err(error) if error.kind() == ErrorKind::WouldBlock) {
                return written;
            }
            if is_gone(&self.socket) {
                return Err(io::Error::new(
                    ErrorKind::ConnectionAborted,
                    "the other end has closed it and reads no more, or answers no more",
                ));
            }
            let Some(moved) = self.moved.map(|moved| moved()) else { continue };
            if at_last_look.replace(moved).is_some_and(|before| moved > before) {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "nothing goes through it while other channels go on",
                ));
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::cell::Cell;
    use std::io::Read;
    use std::net::Shutdown;

    use super::super::cut::tests::pair;
    use super::*;

    /// Writes until nothing goes on any more: how often it was looked at what others do, which at each of these looks have moved so much.
    /// At the last look the reader goes on.
    fn looks(moved: &[u64]) -> (usize, io::Result<()>) {
        looks_at(pair(), moved)
    }

    fn looks_at((near, far): (TcpStream, TcpStream), moved: &[u64]) -> (usize, io::Result<()>) {
        near.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        let looks = Cell::new(0);
        let others = || {
            looks.set(looks.get() + 1);
            if looks.get() > moved.len() {
                assert!((&far).read(&mut vec![0; 4 << 20]).unwrap() > 0);
            }
            moved.get(looks.get() - 1).or(moved.last()).copied().unwrap_or_default()
        };
        let written = Watched { socket: near, moved: Some(&others) }.write_all(&vec![7; 16 << 20]);
        (looks.get(), written)
    }

    #[test]
    fn a_channel_that_stands_still_while_others_move_is_lost() {
        // On a busy machine it is looked at first before the system's buffers are full, and what they take then is no standing still.
        let (looks, written) = looks(&(5..60).collect::<Vec<_>>());
        assert!((2..50).contains(&looks), "{looks}");
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_reader_that_pauses_on_all_channels_is_waited_for() {
        let (looks, written) = looks(&[5, 5, 5, 5]);
        assert!(looks > 4, "{looks}");
        assert!(written.is_ok(), "{written:?}");
    }

    /// Something on the way has closed one side for the reader, and reads no more.
    #[test]
    fn a_channel_that_the_other_end_has_closed_is_lost_though_no_other_moves() {
        let (near, far) = pair();
        far.shutdown(Shutdown::Write).unwrap();
        while !is_gone(&near) {
            std::thread::yield_now();
        }
        let (looks, written) = looks_at((near, far), &[5, 5, 5, 5]);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert_eq!(looks, 0);
    }
}
