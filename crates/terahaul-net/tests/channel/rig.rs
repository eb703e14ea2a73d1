//! Both ends of a data channel, in memory, and what one sends.

use std::io;
use std::sync::Arc;

use terahaul_core::BlockShape;
use terahaul_net::channel::{SealedWriter, Sender, send_blocks};
use terahaul_net::tls::{Certificate, ClientTls, Established, Handshake, Progress, Sealer, ServerTls};
use terahaul_store::{BlockSource, EntryFailure, piece_at};

/// Two ends of a finished handshake, and what the client's last flight still holds for the server.
pub fn established() -> (Established, Established, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::kept_in(dir.path()).unwrap();
    let pin = certificate.fingerprint();
    let server = ServerTls::new(certificate.chain, certificate.key).unwrap();
    let client = ClientTls::new(Some(pin)).unwrap();
    let mut client = Handshake::client(Arc::clone(&client.data), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut server = Handshake::server(Arc::clone(&server.data)).unwrap();
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    let mut done = (false, false);
    while done != (true, true) {
        let mut out = Vec::new();
        done.0 = client.advance(&mut to_client, &mut out).unwrap() == Progress::Done;
        to_server.extend(out);
        let mut out = Vec::new();
        done.1 = server.advance(&mut to_server, &mut out).unwrap() == Progress::Done;
        to_client.extend(out);
    }
    assert!(to_client.is_empty(), "a data channel's server sends no tickets");
    (client.finish().unwrap(), server.finish().unwrap(), to_server)
}

/// Sends what there is to send over one channel, and closes it.
pub fn send_all(sender: &Sender<'_>, sealer: Sealer) -> Vec<u8> {
    let mut wire = Vec::new();
    let (outbound, channel) = (sender.outbound, sender.channel);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !outbound.is_sent() {
                std::thread::yield_now();
            }
            outbound.close_channel(channel);
        });
        send_blocks(SealedWriter::new(&mut wire, sealer), sender).unwrap();
    });
    wire
}

/// One file's bytes.
pub struct Bytes(pub Vec<u8>);

impl BlockSource for Bytes {
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let start = shape.number.address().0 as usize;
        let mut at = 0;
        while at < shape.len {
            let piece = piece_at(buffer, at, shape.len);
            let start = start + at as usize;
            piece.copy_from_slice(&self.0[start..start + piece.len()]);
            at += piece.len() as u32;
            emit(piece)?;
        }
        Ok(Vec::new())
    }
}
