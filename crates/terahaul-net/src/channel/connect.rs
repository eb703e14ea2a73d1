//! Opening a data channel: TCP, the TLS handshake, and the secret that binds it to its session.

use std::io::{self, Read, Write};
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
    socket.set_nodelay(true).map_err(closed)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(closed)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(closed)?;
    keep_watch(&socket).map_err(closed)?;
    let mut handshake = Handshake::client(config, name)?;
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let progress = handshake.advance(&mut incoming, &mut outgoing)?;
        socket.write_all(&outgoing).map_err(closed)?;
        outgoing.clear();
        if progress == Progress::Done {
            break;
        }
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).map_err(closed)?;
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
        bind.queue(&encode_message(&Bind { secret, channel })).map_err(closed)?;
        bind.flush().map_err(closed)?;
        established.sealer = bind.into_sealer();
        // A quiet sender (a slow disk, a long walk) is not a dead one; the control channel watches over the session, which ends whoever
        // waits here.
        socket.set_read_timeout(None).map_err(closed)?;
        socket.set_write_timeout(Some(STALL)).map_err(closed)?;
        Ok(DataChannel { socket, established, ciphertext, may_pause_alone })
    }
}

fn unconnected(error: io::Error) -> HandshakeError {
    match remedy_of_too_many_files(&error) {
        Some(_) => HandshakeError::NoSocket(error),
        None => closed(error),
    }
}

fn closed(_: io::Error) -> HandshakeError {
    HandshakeError::Closed
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::tls::{Certificate, ClientTls, ServerTls};

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
