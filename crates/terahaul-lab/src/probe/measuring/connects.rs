//! Round trips, from how long TCP takes to connect: one, and little else, because the other end's kernel answers.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use terahaul_net::client::{Connected, connect_any};

/// Connections, each closed at once. Few enough that no server takes them for an attack.
const CONNECTS: usize = 10;
/// Between one and the next.
const APART: Duration = Duration::from_millis(40);
/// Longest wait for the first answer of an address.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody answers.
#[derive(Clone, Debug)]
pub struct Reached {
    /// The one of the addresses that was the first to.
    pub address: SocketAddr,
    /// Seconds that each connection took.
    pub connects: Vec<f64>,
}

/// Connects some times to the one of `addresses` that a transfer would be sent to.
pub async fn reach(addresses: &[SocketAddr]) -> io::Result<Reached> {
    let first = |address: &SocketAddr| tokio::net::TcpStream::connect(*address);
    let Connected { route, took, .. } = connect_any(addresses.to_vec(), PATIENCE, first).await?;
    Ok(Reached { address: route, connects: again(route, took.as_secs_f64()).await })
}

async fn again(address: SocketAddr, first: f64) -> Vec<f64> {
    let mut others = tokio::task::JoinSet::new();
    for number in 1..CONNECTS as u32 {
        others.spawn(async move {
            tokio::time::sleep(APART * number).await;
            connect(address).await
        });
    }
    let others = others.join_all().await;
    // A server that takes no more for now has told enough by those that it took.
    std::iter::once(first).chain(others.into_iter().filter_map(Result::ok)).collect()
}

async fn connect(address: SocketAddr) -> io::Result<f64> {
    let begun = Instant::now();
    let connected = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(address)).await;
    let _socket = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(begun.elapsed().as_secs_f64())
}

/// The same once, on a thread that may block.
pub(super) fn connect_once(address: SocketAddr) -> Option<f64> {
    let begun = Instant::now();
    TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    Some(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    use tokio::net::TcpSocket;

    #[tokio::test]
    async fn the_first_address_that_answers_is_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let reached = reach(&[closed, open]).await.unwrap();
        assert_eq!((reached.address, reached.connects.len()), (open, CONNECTS));
        assert!(reached.connects.iter().all(|seconds| *seconds > 0.0 && *seconds < 5.0), "{reached:?}");
        let refused = reach(&[closed]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(reach(&[]).await.is_err());
    }

    /// It cost five seconds, which a transfer to the same depot does not wait.
    #[tokio::test]
    async fn an_address_that_is_dead_does_not_hold_up_the_next() {
        // While its queue is full, Linux drops what comes to a listener.
        let dead = TcpSocket::new_v4().unwrap();
        dead.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let dead = dead.listen(0).unwrap();
        let address = dead.local_addr().unwrap();
        let _queued = TcpStream::connect(address).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let begun = Instant::now();
        assert_eq!(reach(&[address, open]).await.unwrap().address, open);
        assert!(begun.elapsed() < PATIENCE);
    }
}
