//! Opening a data channel: TCP, the TLS handshake, and the secret that binds it to its session.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use terahaul_store::remedy_of_too_many_files;
use terahaul_wire::{Bind, encode_message};

use super::watched::{STALL, Watched};
use super::{SealedReader, SealedWriter, keep_watch};
use crate::local::connect;
use crate::tls::{Established, Handshake, HandshakeError, Progress};

/// Longest wait for a TCP connection and for each step of the handshake.
const PATIENCE: Duration = Duration::from_secs(15);

/// An open data channel.
pub struct DataChannel {
    socket: TcpStream,
    established: Established,
    ciphertext: Vec<u8>,
    /// Its reader may pause on it alone: a client holds each channel back in turn where it has a limit.
    may_pause_alone: bool,
}

impl DataChannel {
    /// One that a client came with; `ciphertext` are bytes that came after the handshake and were not opened.
    pub(crate) fn accepted(
        socket: TcpStream,
        established: Established,
        ciphertext: Vec<u8>,
    ) -> io::Result<Self> {
        socket.set_write_timeout(Some(STALL))?;
        Ok(Self { socket, established, ciphertext, may_pause_alone: true })
    }

    /// A second handle to the socket, to shut it down from another thread.
    pub fn socket(&self) -> io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// The channel for sending.
    pub fn into_writer(self) -> SealedWriter<TcpStream> {
        SealedWriter::new(self.socket, self.established.sealer)
    }

    /// The same in a session over all of whose channels so many bytes have `moved`.
    pub(crate) fn into_watched_writer(self, moved: &dyn Fn() -> u64) -> SealedWriter<Watched<'_>> {
        let moved = (!self.may_pause_alone).then_some(moved);
        SealedWriter::new(Watched { socket: self.socket, moved }, self.established.sealer)
    }

    /// The channel for receiving.
    pub fn into_reader(self) -> io::Result<SealedReader<TcpStream>> {
        let Established { opener, early, .. } = self.established;
        SealedReader::new(self.socket, opener, &early, &self.ciphertext)
    }
}

/// A data channel that has not said which session it belongs to.
pub struct Unbound(DataChannel);

/// Connects, from `local` if that is given, and shakes hands.
pub fn connect_data(
    address: SocketAddr,
    local: Option<IpAddr>,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> Result<Unbound, HandshakeError> {
    let mut socket = connect(address, local, PATIENCE).map_err(unconnected)?;
    socket.set_nodelay(true).map_err(failed)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    keep_watch(&socket).map_err(failed)?;
    let mut handshake = Handshake::client(config, name)?;
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let progress = handshake.advance(&mut incoming, &mut outgoing)?;
        socket.write_all(&outgoing).map_err(failed)?;
        outgoing.clear();
        if progress == Progress::Done {
            break;
        }
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).map_err(failed)?;
        if count == 0 {
            return Err(HandshakeError::Closed);
        }
        incoming.extend_from_slice(&piece[..count]);
    }
    let established = handshake.finish()?;
    Ok(Unbound(DataChannel { socket, established, ciphertext: incoming, may_pause_alone: false }))
}

impl Unbound {
    /// Binds it, as number `channel`, to the session that `secret` stands for.
    pub fn bind(self, secret: [u8; 32], channel: u32) -> Result<DataChannel, HandshakeError> {
        let DataChannel { mut socket, mut established, ciphertext, may_pause_alone } = self.0;
        let mut bind = SealedWriter::new(&mut socket, established.sealer);
        bind.queue(&encode_message(&Bind { secret, channel })).map_err(failed)?;
        bind.flush().map_err(failed)?;
        established.sealer = bind.into_sealer();
        // A quiet sender (a slow disk, a long walk) is not a dead one; the control channel watches over the session, which ends whoever
        // waits here.
        socket.set_read_timeout(None).map_err(failed)?;
        socket.set_write_timeout(Some(STALL)).map_err(failed)?;
        Ok(DataChannel { socket, established, ciphertext, may_pause_alone })
    }
}

fn unconnected(error: io::Error) -> HandshakeError {
    match remedy_of_too_many_files(&error) {
        Some(_) => HandshakeError::NoSocket(error),
        None => failed(error),
    }
}

fn failed(error: io::Error) -> HandshakeError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            HandshakeError::Closed
        }
        // Of a socket with a timeout.
        ErrorKind::WouldBlock => HandshakeError::Failed(ErrorKind::TimedOut.into()),
        _ => HandshakeError::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use tokio::net::TcpSocket;

    use super::*;
    use crate::tls::{Certificate, ClientTls, Fingerprint, ServerTls};

    /// Shakes hands with who comes first.
    fn serve(listener: &TcpListener, mut handshake: Handshake) -> TcpStream {
        let mut socket = listener.accept().unwrap().0;
        let (mut incoming, mut outgoing, mut piece) = (Vec::new(), Vec::new(), [0; 4096]);
        while handshake.advance(&mut incoming, &mut outgoing).unwrap() != Progress::Done {
            socket.write_all(&outgoing).unwrap();
            outgoing.clear();
            let count = socket.read(&mut piece).unwrap();
            incoming.extend_from_slice(&piece[..count]);
        }
        socket
    }

    fn connected_to(address: SocketAddr) -> Result<Unbound, HandshakeError> {
        let client = ClientTls::new(Some(Fingerprint([0; 32]))).unwrap();
        connect_data(address, None, "127.0.0.1".try_into().unwrap(), client.data)
    }

    /// Whatever failed was said to be the other end's closing of the connection.
    #[test]
    fn what_fails_here_is_not_told_as_the_other_ends() {
        // Bound, so that nobody else listens there meanwhile.
        let nobody = TcpSocket::new_v4().unwrap();
        nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let refused = connected_to(nobody.local_addr().unwrap()).err().unwrap();
        assert!(refused.to_string().contains("refused"), "{refused}");
        let lacking = failed(rustix::io::Errno::NOBUFS.into());
        assert!(lacking.to_string().contains("No buffer space"), "{lacking}");
        assert!(!lacking.to_string().contains("the other end"), "{lacking}");
        let late = failed(ErrorKind::WouldBlock.into());
        assert!(late.to_string().contains("timed out"), "{late}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(matches!(connected_to(address), Err(HandshakeError::Closed)));
        closing.join().unwrap();
    }

    #[test]
    fn a_quiet_sender_is_waited_for_however_long_it_pauses() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::kept_in(folder.path()).unwrap();
        let client = ClientTls::new(Some(certificate.fingerprint())).unwrap();
        let server = ServerTls::new(certificate.chain, certificate.key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || serve(&listener, Handshake::server(server.data).unwrap()));
        let unbound = connect_data(address, None, "127.0.0.1".try_into().unwrap(), client.data).unwrap();
        let socket = unbound.bind([0; 32], 0).unwrap().socket().unwrap();
        assert_eq!((socket.read_timeout().unwrap(), socket.write_timeout().unwrap()), (None, Some(STALL)));
        serving.join().unwrap();
    }
}
