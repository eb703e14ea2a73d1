//! The depot's port: everyone arrives here.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use terahaul_net::Listener;
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::session::Sessions;
use terahaul_net::tls::{Certificate, CertificateError, Fingerprint, ServerTls, TlsConfigError};
use terahaul_net::udp::{Port, Secret};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;

use crate::api::Connection as Origin;
use crate::depot::Depot;

/// Connections at once. A greeting costs a task and some kilobytes, so this bounds memory, not service.
const MAX_CONNECTIONS: usize = 8192;
/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// Time an HTTP client has for a request's headers, and between two requests.
const HEADER_TIME: std::time::Duration = std::time::Duration::from_secs(60);
/// Longest request line and headers together: they are gathered before it is known who asks. The longest that the API
/// knows are the values of an upload's blocks, 4 KiB.
const MAX_HEAD: usize = 16 << 10;

/// Why the depot cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// The address.
    #[error("cannot listen on {address}: {source}; {remedy}", remedy = remedy(.source))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

fn remedy(refused: &io::Error) -> &'static str {
    match refused.kind() {
        io::ErrorKind::PermissionDenied => {
            "a port below 1024 needs root or CAP_NET_BIND_SERVICE: choose another with --listen"
        }
        io::ErrorKind::AddrNotAvailable => "give an address of this machine with --listen",
        io::ErrorKind::AddrInUse => "choose another with --listen, or stop what uses it",
        _ => "choose another with --listen",
    }
}

/// An address that is taken, where nobody listens yet: one that is refused leaves no depot behind, and whoever waits for the port
/// finds the depot ready.
pub struct Bound {
    tcp: TcpSocket,
    /// The same port number; `None` where that is in use, and then there is TCP.
    udp: Option<Port>,
    address: SocketAddr,
}

impl Bound {
    /// Takes the address; port 0 picks a free one.
    pub fn to(listen: SocketAddr) -> Result<Self, ServeError> {
        Self::by(|| tcp_at(listen), listen.port() == 0)
            .map_err(|source| ServeError::Listen { address: listen, source })
    }

    /// Takes what `bind` gives; another where that has no UDP and `any` number will do.
    fn by(mut bind: impl FnMut() -> io::Result<TcpSocket>, any: bool) -> io::Result<Self> {
        // What the system picks is free for TCP, and may be a number from which some client of UDP sends.
        let mut attempts = if any { 16 } else { 1 };
        loop {
            let tcp = bind()?;
            let address = tcp.local_addr()?;
            attempts -= 1;
            match Port::open(address) {
                Ok(udp) => return Ok(Self { tcp, udp: Some(udp), address }),
                Err(_) if attempts > 0 => {}
                Err(error) => {
                    tracing::warn!("no UDP data channels: {address} cannot be opened for UDP: {error}");
                    return Ok(Self { tcp, udp: None, address });
                }
            }
        }
    }

    /// Which.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn tcp_at(listen: SocketAddr) -> io::Result<TcpSocket> {
    let tcp = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of an earlier run may linger.
    tcp.set_reuseaddr(true)?;
    if listen.ip() == Ipv6Addr::UNSPECIFIED {
        // IPv4 as well, whatever the system's default is.
        rustix::net::sockopt::set_ipv6_v6only(&tcp, false)?;
    }
    tcp.bind(listen)?;
    Ok(tcp)
}

/// A depot that listens, and is not yet served.
pub struct Server {
    listener: TcpListener,
    udp: Option<Port>,
    tls: ServerTls,
    pin: Option<Fingerprint>,
    depot: Depot,
}

impl Server {
    /// Listens, with the owner's own certificate; without it one is made and kept in the data folder.
    pub fn listen(
        Bound { tcp, udp, address }: Bound,
        depot: Depot,
        certificate: Option<Certificate>,
    ) -> Result<Self, ServeError> {
        let certificate = match certificate {
            Some(own) => own,
            None => kept_certificate(&depot)?,
        };
        let pin = certificate.self_signed.then(|| certificate.fingerprint());
        let tls = ServerTls::new(certificate.chain, certificate.key)?;
        let listener = tcp.listen(BACKLOG).map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, udp, tls, pin, depot })
    }

    /// What clients must pin; `None` with a certificate of the owner's own.
    pub fn pin(&self) -> Option<Fingerprint> {
        self.pin
    }

    /// Serves until `stop` changes, or the depot is [displaced](Depot::displaced). Then all connections end at once, and what was received is made durable.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let sessions = Arc::new(Sessions::with_udp(self.udp));
        let router = self.depot.http_router();
        let room = Arc::new(Semaphore::new(connections_for(terahaul_net::raise_descriptor_limit())));
        let mut connections = JoinSet::new();
        let mut listener = Listener::from(self.listener);
        loop {
            let (socket, peer) = tokio::select! {
                _ = stop.changed() => break,
                () = self.depot.inner.data_watch.until_found() => break,
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                tracing::warn!(%peer, "refused: too many connections are open");
                continue;
            };
            let connection = Connection {
                depot: self.depot.clone(),
                tls: self.tls.clone(),
                router: router.clone(),
                sessions: Arc::clone(&sessions),
                peer,
            };
            connections.spawn(connection.run(socket, permit));
        }
        drop(listener);
        connections.abort_all();
        while connections.join_next().await.is_some() {}
        self.depot.close().await;
    }
}

/// The depot's own certificate. Where it is gone, clients and links that pin it refuse the depot.
fn kept_certificate(depot: &Depot) -> Result<Certificate, CertificateError> {
    let keys = depot.config().data.join("keys");
    let is_kept = keys.join("tls-cert.pem").exists();
    let certificate = Certificate::kept_in(&keys)?;
    if depot.inner.was_known && !is_kept {
        tracing::warn!(
            "{}/tls-cert.pem was missing and is made anew: clients and links that know one of before refuse the depot; to have it back, stop the depot, put keys/ back from a backup and start it again",
            keys.display()
        );
    }
    Ok(certificate)
}

/// Connections that fit beside the files of transfers in progress.
fn connections_for(descriptors: Option<u64>) -> usize {
    let beside = descriptors.unwrap_or(u64::MAX).saturating_sub(256) / 2;
    usize::try_from(beside).unwrap_or(MAX_CONNECTIONS).clamp(64, MAX_CONNECTIONS)
}

struct Connection {
    depot: Depot,
    tls: ServerTls,
    router: Router,
    sessions: Arc<Sessions>,
    peer: SocketAddr,
}

impl Connection {
    /// A data channel keeps its `permit` on the thread that it goes on.
    async fn run(self, socket: TcpStream, permit: OwnedSemaphorePermit) {
        match accept(socket, &self.tls).await {
            Ok(Incoming::Https(stream)) => self.http(*stream, true).await,
            Ok(Incoming::Http(stream)) => self.http(stream, false).await,
            Ok(Incoming::Control(stream)) => {
                let (peer, secret) = (self.peer.ip(), Secret::of_server(stream.get_ref().1));
                terahaul_net::server::run_control(&self.depot, *stream, peer, &self.sessions, secret).await;
            }
            Ok(Incoming::Data(channel, bind)) => {
                if let Err(error) = self.sessions.bind(*channel, &bind, permit) {
                    tracing::debug!(peer = %self.peer, "a data channel was refused: {error}");
                }
            }
            Err(error) => tracing::debug!(peer = %self.peer, "{error}"),
        }
    }

    async fn http<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S, secure: bool) {
        let origin = Origin { peer: self.peer.ip().to_canonical(), tls: secure };
        let router = self.router.layer(axum::Extension(origin));
        // No answer is asked for its next piece while the last one waits to be read, so only the socket sees that nobody reads.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.depot.config().limits.stalled));
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            // And not the whole buffer's, which bodies are read into, too.
            .max_header_size(MAX_HEAD)
            .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router))
            .with_upgrades();
        if let Err(error) = served.await {
            tracing::debug!(peer = %self.peer, "an HTTP connection ended: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use tracing::Level;

    use super::*;
    use crate::DepotConfig;
    use crate::logged::Logged;

    /// Nothing was said of it, and every client and link refused the depot.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_certificate_that_a_depot_had_and_is_gone_is_named() {
        let (logged, folder) = (Logged::here(), tempfile::tempdir().unwrap());
        let open = async || Depot::open(DepotConfig::new(folder.path())).await.unwrap();
        for (gone, said) in [(false, 0), (false, 0), (true, 1)] {
            if gone {
                for name in ["tls-cert.pem", "tls-key.pem"] {
                    std::fs::remove_file(folder.path().join("keys").join(name)).unwrap();
                }
            }
            let depot = open().await;
            kept_certificate(&depot).unwrap();
            depot.close().await;
            assert_eq!(logged.at(Level::WARN).len(), said);
        }
    }

    /// A number that is free for TCP, and whose UDP something else has.
    fn half_taken() -> (TcpSocket, UdpSocket) {
        let mut numbers = std::iter::repeat_with(|| tcp_at(([127, 0, 0, 1], 0).into()).unwrap());
        let with_udp = |tcp: TcpSocket| UdpSocket::bind(tcp.local_addr().unwrap()).ok().map(|udp| (tcp, udp));
        numbers.find_map(with_udp).unwrap()
    }

    #[test]
    fn an_address_that_cannot_be_had_is_refused_with_what_helps() {
        for (kind, remedy) in [
            (io::ErrorKind::AddrInUse, "or stop what uses it"),
            (io::ErrorKind::AddrNotAvailable, "give an address of this machine"),
            (io::ErrorKind::PermissionDenied, "a port below 1024 needs root"),
        ] {
            let address = ([192, 0, 2, 1], 80).into();
            let said = ServeError::Listen { address, source: kind.into() }.to_string();
            assert!(said.contains(remedy) && said.contains("--listen"), "{said}");
        }
        let foreign = Bound::to(([192, 0, 2, 1], 0).into()).map(drop).unwrap_err().to_string();
        assert!(foreign.contains("give an address of this machine"), "{foreign}");
    }

    #[test]
    fn where_any_number_will_do_one_is_taken_that_is_free_for_udp_too() {
        let (tcp, taken) = half_taken();
        let mut numbers = vec![tcp];
        let any = || numbers.pop().map_or_else(|| tcp_at(([127, 0, 0, 1], 0).into()), Ok);
        let bound = Bound::by(any, true).unwrap();
        assert!(bound.udp.is_some());
        assert_ne!(bound.address(), taken.local_addr().unwrap());
    }

    #[test]
    fn a_number_that_was_asked_for_serves_without_udp_where_that_is_in_use() {
        let (tcp, taken) = half_taken();
        let mut one = Some(tcp);
        let bound = Bound::by(|| Ok(one.take().unwrap()), false).unwrap();
        assert!(bound.udp.is_none());
        assert_eq!(bound.address(), taken.local_addr().unwrap());
    }
}
