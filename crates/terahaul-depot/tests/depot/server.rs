//! What the port itself does with clients, over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use terahaul_core::BLOCK_SIZE;
use terahaul_depot::{Bound, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::rig::{Rig, content};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let bound = Bound::to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = bound.address();
    let (_running, stop) = watch::channel(false);
    tokio::spawn(Server::listen(bound, rig.depot.clone(), None).unwrap().run(stop));

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
