//! What the port itself does with clients, over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use terahaul_core::BLOCK_SIZE;
use terahaul_depot::{Bound, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::damage::damage;
use crate::rig::{Rig, content};

/// Far longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Serves the depot on a port of its own, as long as what is returned beside its address is there.
fn serve(rig: &Rig) -> (SocketAddr, watch::Sender<bool>) {
    let bound = Bound::to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = bound.address();
    let (running, stop) = watch::channel(false);
    tokio::spawn(Server::listen(bound, rig.depot.clone(), None).unwrap().run(stop));
    (address, running)
}

/// Asks for a transfer's ZIP file, and returns the answer's status.
async fn begin_download(address: SocketAddr, rig: &Rig, id: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /api/v1/transfers/{id}/zip HTTP/1.1\r\nHost: depot\r\nAuthorization: Bearer {}\r\n\r\n",
        rig.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    (stream, String::from_utf8_lossy(&status[9..]).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_no_more_loses_its_place_to_another() {
    let rig = Rig::with(|config| {
        config.limits.downloads = 1;
        config.limits.stalled = Duration::from_millis(500);
    })
    .await;
    // More than two sockets' buffers hold.
    let id = rig.sent(&[("a", content(1, 16 * BLOCK_SIZE))]).await;
    let (address, _running) = serve(&rig);
    let (stuck, status) = begin_download(address, &rig, &id).await;
    assert_eq!(status, "200");
    let (_, status) = begin_download(address, &rig, &id).await;
    assert_eq!(status, "503", "the only place is taken");
    let deadline = Instant::now() + PATIENCE;
    while begin_download(address, &rig, &id).await.1 != "200" {
        assert!(Instant::now() < deadline, "the place was never given up");
    }
    drop(stuck);
}

/// As many strangers as there are connections could have the depot keep 400 KiB each.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_heads_are_short() {
    let rig = Rig::new().await;
    let (address, _running) = serve(&rig);
    let mut stream = TcpStream::connect(address).await.unwrap();
    // They have no end.
    let head = format!("GET /api/v1/health HTTP/1.1\r\nHost: depot\r\nA: {}", "a".repeat(20 << 10));
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the depot waits for more");
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
}

/// What comes of asking for `what` from byte `from` on, until the connection ends: head and body.
async fn ask_from(address: SocketAddr, rig: &Rig, what: &str, from: usize) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /api/v1/transfers/{what} HTTP/1.1\r\nHost: depot\r\nAuthorization: Bearer {}\r\nRange: bytes={from}-\r\nConnection: close\r\n\r\n",
        rig.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.expect("the connection stays").unwrap();
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let body = answer.split_off(head);
    (String::from_utf8(answer).unwrap(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_of_damaged_bytes_ends_before_them_and_whoever_goes_on_hears_why() {
    let rig = Rig::new().await;
    let bytes = content(1, 3 * BLOCK_SIZE);
    let id = rig.sent(&[("a", bytes.clone())]).await;
    let damaged = 2 * BLOCK_SIZE;
    damage(&rig, damaged + 5);
    let (address, _running) = serve(&rig);
    let file = format!("{id}/files/0");
    let mut came = Vec::new();
    let answer = loop {
        let (head, body) = ask_from(address, &rig, &file, came.len()).await;
        if !head.starts_with("HTTP/1.1 206 ") {
            break head;
        }
        // Of what was handed on last, some is lost with the connection.
        assert!(!body.is_empty(), "at byte {}", came.len());
        came.extend(body);
    };
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(came == bytes[..damaged as usize], "{} bytes", came.len());
    let (head, body) = ask_from(address, &rig, &format!("{id}/zip"), 0).await;
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    assert!((body.len() as u64) < damaged + 100, "{} bytes", body.len());
}
