//! Round trips, from how long TCP takes to connect: one, and little else, because the other end's kernel answers.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connections, each closed at once. Few enough that no server takes them for an attack.
const CONNECTS: usize = 10;
/// Between one and the next.
const APART: Duration = Duration::from_millis(40);
/// Longest wait for the first answer of an address.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody answers.
#[derive(Clone, Debug)]
pub struct Reached {
    /// The first of the addresses that does.
    pub address: SocketAddr,
    /// Seconds that each connection took.
    pub connects: Vec<f64>,
}

/// Connects some times to the first of `addresses` that answers.
pub async fn reach(addresses: &[SocketAddr]) -> io::Result<Reached> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses.iter().copied() {
        match connect(address, PATIENCE).await {
            Ok(first) => return Ok(Reached { address, connects: again(address, first).await }),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn again(address: SocketAddr, first: f64) -> Vec<f64> {
    let mut others = tokio::task::JoinSet::new();
    for number in 1..CONNECTS as u32 {
        others.spawn(async move {
            tokio::time::sleep(APART * number).await;
            connect(address, PATIENCE).await
        });
    }
    let others = others.join_all().await;
    // A server that takes no more for now has told enough by those that it took.
    std::iter::once(first).chain(others.into_iter().filter_map(Result::ok)).collect()
}

async fn connect(address: SocketAddr, patience: Duration) -> io::Result<f64> {
    let begun = Instant::now();
    let connected = tokio::time::timeout(patience, tokio::net::TcpStream::connect(address)).await;
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
}
