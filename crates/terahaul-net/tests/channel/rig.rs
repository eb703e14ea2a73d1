//! Both ends of a data channel, in memory.

use std::sync::Arc;

use terahaul_net::channel::{SealedWriter, Sender, send_blocks};
use terahaul_net::tls::{Certificate, ClientTls, Established, Handshake, Progress, Sealer, ServerTls};

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
