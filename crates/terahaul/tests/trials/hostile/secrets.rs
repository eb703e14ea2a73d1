//! Tokens, links and session secrets that are wrong, over, or somebody else's.

use std::io::{ErrorKind, Read, Write};

use terahaul_core::Hash;
use terahaul_net::channel::DataChannel;
use terahaul_wire::{ErrorCode, Message, OpenReceive, OpenSend};

use super::assert_serves;
use super::peer::{Peer, content, send_frame, value};
use crate::rig::{Depot, wait_for_some, wait_until, write_random};

fn open_as(depot: &Depot, credential: &str, open: Message) -> ErrorCode {
    let mut peer = Peer::greet(depot, credential);
    peer.say(&open);
    peer.hear_end().code
}

fn new_transfer() -> Message {
    Message::OpenSend(OpenSend { name: "n".into(), ..OpenSend::default() })
}

#[test]
fn credentials_that_are_wrong_over_or_too_small_are_denied() {
    let depot = Depot::start();
    write_random(&depot.path("x"), 1000, 1);
    let link = depot.send(&["x"]);
    let secret = &link[link.find("thl_").unwrap()..][..47];
    let made = depot.run(&["token", "create", "--label", "l", "--scope", "send", "--json"]).event("done");
    let (id, revoked) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let reader = depot.run(&["token", "create", "--label", "r", "--scope", "receive"]).last_line().to_owned();
    assert_eq!(depot.run(&["token", "revoke", id]).code, 0);
    let almost = format!("{}A", &depot.token[..46]);
    let almost = if almost == depot.token { format!("{}Q", &depot.token[..46]) } else { almost };
    for credential in ["", "tht_", "x", &"t".repeat(4000), &almost, revoked, &reader, secret] {
        let shown = &credential[..credential.len().min(8)];
        assert_eq!(open_as(&depot, credential, new_transfer()), ErrorCode::Denied, "{shown}…");
    }
    // Nobody who is not known yet has a long message read.
    assert_eq!(open_as(&depot, &"t".repeat(100_000), new_transfer()), ErrorCode::Violation);
    // A link's secret opens its own transfer, and no other.
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    // Who may only read does not get that link by pretending to send what is finished.
    let finished = id.parse::<terahaul_core::TransferId>().unwrap().0;
    let pretend = Message::OpenSend(OpenSend { transfer: Some(finished), ..OpenSend::default() });
    assert_eq!(open_as(&depot, &reader, pretend), ErrorCode::Denied);
    let mut other = id.parse::<terahaul_core::TransferId>().unwrap().0;
    other[0] ^= 1;
    let receive = |transfer| Message::OpenReceive(OpenReceive { transfer, ..OpenReceive::default() });
    assert_eq!(open_as(&depot, secret, receive(other)), ErrorCode::NotFound);
    // Somebody else's transfer does not exist.
    let stranger = depot.run(&["token", "create", "--label", "s", "--scope", "send"]).last_line().to_owned();
    other[0] ^= 1;
    for open in [Message::OpenSend(OpenSend { transfer: Some(other), ..OpenSend::default() }), receive(other)]
    {
        let code = open_as(&depot, &stranger, open);
        assert!(matches!(code, ErrorCode::NotFound | ErrorCode::Denied), "{code:?}");
    }
    assert_serves(&depot);
}

#[test]
fn a_data_channel_needs_the_secret_of_a_session_that_lives() {
    let depot = Depot::start();
    let (mut peer, opened) = Peer::open_send(&depot, "bound");
    let layout = peer.declare(&[1000]);
    let bytes = content(1, 1000);
    let truth = value(&layout, 0, &bytes);
    // Refused: another secret, a number that is in use, and more channels than were granted. Which of them comes last nobody knows.
    take_one_that_is_cut(&mut vec![peer.open_channel([0; 32], 1)]);
    let open = |number| peer.open_channel(opened.secret, number);
    let mut channels = vec![open(0), open(0)];
    take_one_that_is_cut(&mut channels);
    channels.extend((1..=opened.max_channels).map(open));
    take_one_that_is_cut(&mut channels);
    // The session is none the worse for it.
    let taken = channels.remove(0);
    drop(channels);
    taken.socket().unwrap().set_nonblocking(false).unwrap();
    send_frame(&mut taken.into_writer(), 0, 1000, &bytes, truth).unwrap();
    peer.finish();
    drop(peer);
    // Over: the secret opens nothing any more.
    let (other, _) = Peer::open_send(&depot, "other");
    wait_until_cut(&mut other.channel(opened.secret, 5));
    assert_serves(&depot);
}

/// Waits until the depot hangs up on one of them.
fn take_one_that_is_cut(channels: &mut Vec<DataChannel>) {
    let at = wait_for_some("one more is refused", || channels.iter().position(is_hung_up));
    drop(channels.remove(at));
}

fn is_hung_up(channel: &DataChannel) -> bool {
    let mut socket = channel.socket().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut some = [0; 64];
    loop {
        match socket.read(&mut some) {
            Ok(1..) => {}
            Ok(0) => return true,
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Waits until the depot hangs up: sooner or later writing fails.
fn wait_until_cut(channel: &mut terahaul_net::channel::SealedWriter<std::net::TcpStream>) {
    // Nothing that a session would take for a violation: the start of a frame, over and over.
    wait_until("a secret that is over is refused", || {
        send_frame(channel, 0, 1000, &[0; 1000], Hash::default()).is_err()
    });
}

#[test]
fn greetings_without_end_cost_nothing() {
    let depot = Depot::start();
    assert_serves(&depot);
    let before = super::peak_memory(&depot);
    let mut kept = Vec::new();
    for number in 0..300 {
        let mut peer = Peer::connect(&depot);
        match number % 3 {
            0 => peer.say(&Message::Hello(super::peer::hello())),
            1 => (0..100).for_each(|_| peer.say(&Message::Hello(super::peer::hello()))),
            _ => peer.say_bytes(&content(number as u8, 2000)),
        }
        kept.push(peer);
    }
    // In the clear, and never ending.
    for _ in 0..20 {
        let mut socket = std::net::TcpStream::connect(&depot.listen).unwrap();
        let _ = socket.write_all(b"GET / HTTP/1.1\r\n");
        for _ in 0..200 {
            let _ = socket.write_all(&[b'x'; 1000]);
        }
    }
    assert_serves(&depot);
    let grown = super::peak_memory(&depot).saturating_sub(before);
    assert!(grown < 96, "300 greetings cost {grown} MiB");
}
