//! Ending a connection at once.

use std::net::{Shutdown, TcpStream};

/// Ends `socket`'s connection in both directions, and drops what the system still has to send: megabytes that would go on
/// taking the line from the way that carries their blocks again. Whoever waits in it gets an error.
///
/// Where the system does not reset connections that are in use (Linux from 6.1 to 6.8 does not while somebody waits in one), whoever waits
/// in direction `used` is woken; a receiver then cuts again. Shutting down what is written sends what the system has, and an end of file: to
/// the other end that says that this one has read everything, so who only reads shuts down nothing else.
pub(crate) fn cut(socket: &TcpStream, used: Shutdown) {
    // Connecting to no address is how Linux resets one that other threads hold (connect(2), tcp_disconnect).
    if rustix::net::connect_unspec(socket).is_err() {
        wake(socket, used);
    }
}

fn wake(socket: &TcpStream, used: Shutdown) {
    // One that is gone already needs no shutting down.
    let _ = socket.shutdown(used);
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
        cut(&near, Shutdown::Both);
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
        cut(&near, Shutdown::Both);
        // Which one depends on whether it has begun to wait by then.
        assert!(waiter.join().unwrap().is_err());
    }

    /// As where the system resets no connection that somebody waits in.
    #[test]
    fn a_reader_that_is_woken_to_cut_says_no_end_to_who_writes() {
        for waits_before in [true, false] {
            let (near, mut far) = pair();
            let mut waiting = near.try_clone().unwrap();
            let waiter = thread::spawn(move || waiting.read(&mut [0]));
            let (go, may_listen) = std::sync::mpsc::channel::<()>();
            let listener = thread::spawn(move || {
                // Until `go` is dropped.
                let _ = may_listen.recv();
                far.read(&mut [0]).unwrap_err().kind()
            });
            let go = (!waits_before).then_some(go);
            wake(&near, Shutdown::Read);
            assert_eq!(waiter.join().unwrap().unwrap(), 0, "the end of what it reads");
            cut(&near, Shutdown::Read);
            drop(go);
            assert_eq!(listener.join().unwrap(), ErrorKind::ConnectionReset, "waits before: {waits_before}");
        }
    }
}
