//! Ending a connection at once.

use std::net::{Shutdown, TcpStream};

/// Ends `socket`'s connection in both directions, and drops what the system still has to send: megabytes that would go on
/// taking the line from the way that carries their blocks again. Whoever waits in it gets an error.
///
/// Where the system does not reset connections that are in use (Linux from 6.1 to 6.8 does not while somebody waits in one), what
/// it has goes out, and whoever waits gets an end of file.
pub(crate) fn cut(socket: &TcpStream) {
    // Connecting to no address is how Linux resets one that other threads hold (connect(2), tcp_disconnect).
    if rustix::net::connect_unspec(socket).is_err() {
        // One that is gone already needs no shutting down.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    pub fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn what_waits_to_be_sent_is_not_sent() {
        let (near, mut far) = pair();
        near.set_nonblocking(true).unwrap();
        let mut queued = 0;
        while let Ok(more) = (&near).write(&[7; 1 << 16]) {
            queued += more;
        }
        cut(&near);
        let mut arrived = Vec::new();
        let error = far.read_to_end(&mut arrived).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(arrived.len() < queued, "{} of {queued} bytes", arrived.len());
    }

    #[test]
    fn who_waits_for_the_other_end_gets_an_error() {
        let (near, _far) = pair();
        let mut waiting = near.try_clone().unwrap();
        let waiter = thread::spawn(move || waiting.read(&mut [0]));
        cut(&near);
        // Which one depends on whether it has begun to wait by then.
        assert!(waiter.join().unwrap().is_err());
    }
}
