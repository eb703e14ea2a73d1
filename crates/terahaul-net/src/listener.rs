//! A port whose connections come for as long as it is there, also where there are no descriptors for some of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

/// Going on at once where there are none would only spin.
const PAUSE: Duration = Duration::from_millis(100);
/// A cause that stays, such as a limit on open files, is told no more often.
const TOLD_EACH: Duration = Duration::from_secs(60);

/// Listens, and tells in the log of what it cannot accept.
pub struct Listener {
    listener: TcpListener,
    told: Option<Instant>,
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self { listener, told: None }
    }
}

impl Listener {
    /// The next connection, and who it is from. May be dropped before it is there: none is lost.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if self.told.is_none_or(|told| told.elapsed() >= TOLD_EACH) {
                        self.told = Some(Instant::now());
                        tracing::warn!("cannot accept a connection: {error}");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}
