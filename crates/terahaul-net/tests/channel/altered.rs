//! What is altered on its way, after all of it was sent.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::rig::Bytes;
use terahaul_core::{ByteCount, ChannelId, Compress, Priority, Receiver};
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::channel::{Outbound, connect_data, shared_compression};
use terahaul_net::session::{Role, Session, SessionEvent};
use terahaul_net::tls::{Certificate, ClientTls, ServerTls};
use terahaul_store::{Inbound, MemoryLedger, Nowhere};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const SIZE: ByteCount = ByteCount(100_000);
const CHANNEL: ChannelId = ChannelId(1);

/// Reads a TLS record; its content is behind five bytes of header.
fn record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record)?;
    let len = u16::from_be_bytes([record[3], record[4]]);
    record.resize(5 + usize::from(len), 0);
    stream.read_exact(&mut record[5..])?;
    Ok(record)
}

/// A line between two ends that flips a bit in the last long record of the one that connects, and delivers all that it sends from
/// there on at once. How the other end ends the connection is passed on.
fn altering(server: TcpStream, client: TcpStream) {
    const LONG: usize = 1_000;
    /// Of an alert: two bytes, their kind and a tag.
    const CLOSE: usize = 5 + 2 + 1 + 16;
    let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (mut server, mut client) = (server, client);
    std::thread::spawn(move || {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        let mut is_over = false;
        while !is_over {
            let record = record(&mut client).unwrap();
            is_over = record.len() == CLOSE;
            match record[0] == 23 && record.len() > LONG || !kept.is_empty() {
                true => kept.push(record),
                false => server.write_all(&record).unwrap(),
            }
        }
        let last = kept.iter_mut().rfind(|record| record.len() > LONG).unwrap();
        last[LONG] ^= 1;
        server.write_all(&kept.concat()).unwrap();
    });
    std::thread::spawn(move || {
        let (mut server, client) = back;
        match io::copy(&mut server, &mut &client) {
            Ok(_) => client.shutdown(Shutdown::Write).unwrap(),
            Err(_) => socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap(),
        }
    });
}

/// Until the channel has ended.
fn ended(events: &mut UnboundedReceiver<SessionEvent>) -> Option<String> {
    while let Some(event) = events.blocking_recv() {
        if let SessionEvent::ChannelEnded(CHANNEL, problem) = event {
            return problem;
        }
    }
    panic!("the session is gone");
}

#[test]
fn what_was_altered_behind_its_sender_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::kept_in(dir.path()).unwrap();
    let client_tls = ClientTls::new(Some(certificate.fingerprint())).unwrap();
    let server_tls = ServerTls::new(certificate.chain, certificate.key).unwrap();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [to_line, to_server] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let [line, server] = listeners;

    let mut receiver = Receiver::default();
    receiver.append(Some(SIZE)).unwrap();
    receiver.seal();
    let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default())).unwrap();
    let (events, mut at_receiver) = unbounded_channel();
    let receiving = Session::new(Role::Receive { inbound: Arc::new(inbound), pace: None }, 4, events);
    let taker = Arc::clone(&receiving);
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (socket, _) = server.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let incoming = runtime.block_on(async {
            accept(tokio::net::TcpStream::from_std(socket).unwrap(), &server_tls).await.unwrap()
        });
        let Incoming::Data(channel, _) = incoming else { panic!("no data channel") };
        taker.adopt(CHANNEL, *channel, ()).unwrap();
    });
    std::thread::spawn(move || altering(TcpStream::connect(to_server).unwrap(), line.accept().unwrap().0));

    let (heard, _failures) = unbounded_channel();
    let outbound = Arc::new(Outbound::new(heard));
    outbound.declare([Some(SIZE)], true).unwrap();
    outbound.handle_accepted(1).unwrap();
    let role = Role::Send {
        outbound: Arc::clone(&outbound),
        source: Arc::new(Bytes(vec![0; SIZE.0 as usize])),
        pace: None,
        compression: shared_compression(Compress::No),
        priority: Priority::Fair,
    };
    let (events, mut at_sender) = unbounded_channel();
    let sending = Session::new(role, 4, events);
    sending.begin(false);
    let name = "127.0.0.1".try_into().unwrap();
    let channel = connect_data(to_line, None, name, Arc::clone(&client_tls.data)).unwrap();
    sending.adopt(CHANNEL, channel.bind([0; 32], CHANNEL.0).unwrap(), ()).unwrap();
    while !outbound.is_sent() {
        std::thread::yield_now();
    }
    outbound.close_channel(CHANNEL);

    serving.join().unwrap();
    assert!(ended(&mut at_receiver).is_some(), "it could not read all of it");
    ended(&mut at_sender);
    assert!(!outbound.is_sent(), "what the receiver could not read was taken for delivered");
}
