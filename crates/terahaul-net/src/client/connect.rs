//! Connecting to a depot: the control channel, and the greeting.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use terahaul_core::Compress;
use terahaul_wire::{
    COPY, DELTA, ErrorCode, FIRST_BATCH, Hello, LATER_UDP, LOST_CHANNELS, Message, Opened, UdpOffer, VERSION,
    WireError, ZSTD,
};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

use super::ahead::Ahead;
use super::channels::{Channels, Options};
use super::dial::connect_any;
use super::error::ClientError;
use crate::channel::Placement;
use crate::control::{ControlError, ControlReader, ControlWriter};
use crate::endpoint::Endpoint;
use crate::local::{LocalAddressError, LocalAddresses, Reach};
use crate::tls::{ClientTls, HandshakeError};
use crate::udp::Secret;

/// Longest wait for one address to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// How a client reaches a depot, and as whom.
#[derive(Clone)]
pub struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: ClientTls,
    pub(crate) placement: Placement,
    credential: Arc<Zeroizing<String>>,
    patience: Duration,
    local: LocalAddresses,
}

pub(crate) type Reader = ControlReader<ReadHalf<TlsStream<TcpStream>>>;
pub(crate) type Writer = ControlWriter<WriteHalf<TlsStream<TcpStream>>>;

/// An open control channel on which the depot has not been asked for anything yet.
pub(crate) struct Connection {
    pub reader: Reader,
    pub writer: Writer,
    /// The address that it leaves from, where the system says so.
    pub local: Option<SocketAddr>,
    /// Data channels go the same way, or ways.
    pub reach: Reach,
    /// Data channels on their way there.
    pub ahead: Ahead,
    /// What was offered over UDP, and what its keys come from.
    pub udp: Option<(Secret, UdpOffer)>,
    /// Whether the other end takes compressed blocks.
    pub takes_zstd: bool,
    /// Whether both ends copy what a changed file has kept.
    pub delta: bool,
    /// Whether the other end has taken the batch that came with the request to open.
    pub takes_first: bool,
    /// Whether the other end takes offers of UDP while a session runs.
    pub later_udp: bool,
    /// Whether the other end hears which channels are lost.
    pub hears_lost: bool,
}

/// A control channel on which nothing was said.
pub(crate) struct Dialled {
    stream: TlsStream<TcpStream>,
    reach: Reach,
    ahead: Ahead,
    udp: Option<(Secret, UdpOffer)>,
}

/// One on which the answer is awaited.
pub(crate) struct Greeted {
    connection: Connection,
    /// Where it could not all be said: the other end may have refused before it heard the rest.
    said: Result<(), ControlError>,
    needed: &'static [&'static str],
    options: Options,
}

impl Client {
    /// With a token or a link's secret.
    pub fn new(endpoint: Endpoint, credential: String) -> Result<Self, ClientError> {
        let tls = ClientTls::new(endpoint.pin)?;
        let credential = Arc::new(Zeroizing::new(credential));
        Ok(Self {
            endpoint,
            tls,
            placement: Placement::Declared,
            credential,
            patience: PATIENCE,
            local: LocalAddresses::default(),
        })
    }

    /// The same, for the far side of a copy: what the receiver declines gets no address.
    pub fn placing_accepted(self) -> Self {
        Self { placement: Placement::Accepted, ..self }
    }

    /// The same, but an address that does not answer is given up after `patience`.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same, leaving from these addresses of this machine: data channels take them in turn, and the control channel the
    /// first from which the depot answers.
    pub fn leaving_from(self, local: LocalAddresses) -> Self {
        Self { local, ..self }
    }

    /// The depot.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The credential, for the HTTP API.
    pub fn credential(&self) -> &str {
        &self.credential
    }

    pub(crate) fn host(&self) -> String {
        self.endpoint.authority()
    }

    /// Connects. `early` says that datagrams will go before the answer has come, where the path is long.
    pub(crate) async fn dial(&self, channels: &mut Channels, early: bool) -> Result<Dialled, ClientError> {
        let (socket, reach, round_trip) = self.reach().await?;
        channels.handle_round_trip(round_trip);
        let offer = channels.udp_offer(round_trip, &reach, early);
        let ahead = Ahead::start(self, &reach, channels.ahead());
        socket.set_nodelay(true).map_err(|error| self.unreachable(&error))?;
        let stream = self.shake_hands(socket).await?;
        let udp = offer.and_then(|offer| Some((Secret::of_client(stream.get_ref().1)?, offer)));
        Ok(Dialled { stream, reach, ahead, udp })
    }

    /// Whether the other end answers on a connection of its own. Nothing is said on it.
    pub(crate) async fn answers(&self) -> bool {
        let Ok((socket, ..)) = self.reach().await else { return false };
        let Ok(mut stream) = self.shake_hands(socket).await else { return false };
        // It has answered, however this one closes.
        let _ = stream.shutdown().await;
        true
    }

    async fn shake_hands(&self, socket: TcpStream) -> Result<TlsStream<TcpStream>, ClientError> {
        let connector = TlsConnector::from(Arc::clone(&self.tls.control));
        let shaken =
            tokio::time::timeout(self.patience, connector.connect(self.endpoint.server_name()?, socket));
        let stream = shaken
            .await
            .map_err(|_| self.unreachable(&io::ErrorKind::TimedOut.into()))?
            .map_err(|error| self.tls_error(error))?;
        // Many a proxy speaks TLS with whoever comes, and takes for HTTP what follows. Nothing of ours is for it to read.
        match stream.get_ref().1.alpn_protocol() {
            Some(_) => Ok(stream),
            None => Err(ClientError::NotNative { host: self.host() }),
        }
    }

    /// Connects, and says how long a round trip took.
    async fn reach(&self) -> Result<(TcpStream, Reach, Duration), ClientError> {
        let endpoint = self.endpoint.clone();
        let addresses = tokio::task::spawn_blocking(move || endpoint.resolve()).await??;
        let mut routes = Vec::new();
        let mut unfit: Option<LocalAddressError> = None;
        for address in addresses {
            match self.local.towards(address) {
                Ok(reach) => {
                    let locals = (0..reach.from.len().max(1)).map(|at| reach.local(at));
                    routes.extend(locals.map(|local| (reach.clone(), local)));
                }
                // One that is gone may come back; one of another kind never fits.
                Err(_) if matches!(unfit, Some(LocalAddressError::NotHere(_))) => {}
                Err(error) => unfit = Some(error),
            }
        }
        // An address of the other kind says something only where there is none that could be tried.
        if let (true, Some(unfit)) = (routes.is_empty(), unfit) {
            return Err(unfit.into());
        }
        let connected = connect_any(routes, self.patience, |(reach, local)| connect(reach.there, *local));
        let connected = connected.await.map_err(|error| self.unreachable(&error))?;
        Ok((connected.socket, connected.route.0, connected.took))
    }

    fn unreachable(&self, error: &io::Error) -> ClientError {
        ClientError::from_limit(error)
            .unwrap_or_else(|| ClientError::Unreachable { host: self.host(), detail: error.to_string() })
    }

    /// tokio-rustls hands TLS errors over inside I/O errors.
    fn tls_error(&self, error: io::Error) -> ClientError {
        let detail = error.to_string();
        match error.into_inner().and_then(|inner| inner.downcast::<rustls::Error>().ok()) {
            Some(tls) => ClientError::from_handshake(self.host(), &HandshakeError::Tls(*tls)),
            None => ClientError::Unreachable { host: self.host(), detail },
        }
    }
}

impl Dialled {
    /// What the request to open offers over UDP.
    pub fn udp_offer(&self) -> Option<UdpOffer> {
        self.udp.as_ref().map(|(_, offer)| offer.clone())
    }

    /// Says who it is and what it wants, in one flight, so that opening costs one round trip after TLS.
    pub async fn greet(self, client: &Client, open: Message, options: Options) -> Greeted {
        let Self { stream, reach, ahead, udp } = self;
        let local = stream.get_ref().0.local_addr().ok();
        let (read, write) = tokio::io::split(stream);
        let (reader, mut writer) = (ControlReader::new(read), ControlWriter::new(write));
        let needed: &[&str] = match client.placement {
            Placement::Declared => &[],
            Placement::Accepted => COPY,
        };
        let zstd = (options.compress != Compress::No).then_some(&ZSTD);
        let delta = options.delta.then_some(&DELTA);
        writer.queue(&Message::Hello(Hello {
            versions: vec![VERSION],
            capabilities: needed.iter().chain(zstd).chain(delta).map(ToString::to_string).collect(),
            agent: concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned(),
        }));
        writer.queue(&Message::Authenticate(client.credential.to_string()));
        let said = writer.send(&open).await;
        let connection = Connection {
            reader,
            writer,
            local,
            reach,
            ahead,
            takes_zstd: false,
            delta: false,
            takes_first: false,
            later_udp: false,
            hears_lost: false,
            udp,
        };
        Greeted { connection, said, needed, options }
    }
}

impl Greeted {
    /// The same connection, whose answer has not come.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits for the other end to say what it can do.
    pub async fn answered(self) -> Result<Connection, ClientError> {
        let Self { mut connection, said, needed, options } = self;
        let answer = connection.reader.next_word().await;
        match answer.or_else(|error| said.and(Err(error)))? {
            Message::Hello(hello)
                if hello.versions == [VERSION] && needed.iter().all(|needed| hello.can(needed)) =>
            {
                connection.takes_zstd = hello.can(ZSTD);
                connection.delta = options.delta && hello.can(DELTA);
                connection.takes_first = hello.can(FIRST_BATCH);
                connection.later_udp = hello.can(LATER_UDP);
                connection.hears_lost = hello.can(LOST_CHANNELS);
                Ok(connection)
            }
            Message::Hello(_) => Err(ClientError::Depot(WireError::fatal(
                ErrorCode::Version,
                "the other end speaks another version of the protocol: upgrade the older of the two programs",
            ))),
            other => Err(unexpected(other)),
        }
    }
}

async fn connect(there: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(local) = local else { return TcpStream::connect(there).await };
    let socket = if local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind((local, 0).into())?;
    socket.connect(there).await
}

/// The depot ended the session, or said something out of turn.
pub(crate) fn unexpected(message: Message) -> ClientError {
    match message {
        Message::Error(error) => ClientError::Depot(error),
        _ => ClientError::Violation(WireError::violation("a message came out of turn")),
    }
}

/// The answer to a request to open. Before it the other end may have much to do, and says meanwhile that it lives.
pub(crate) async fn expect_opened<R: tokio::io::AsyncRead + Unpin>(
    reader: &mut ControlReader<R>,
) -> Result<Opened, ClientError> {
    match reader.next_word().await? {
        Message::Opened(opened) => Ok(opened),
        other => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use terahaul_wire::Control;

    use super::*;

    /// A depot that makes durable what an interrupted session left, or publishes, pings until it is done.
    #[tokio::test]
    async fn an_end_that_pings_before_it_opens_is_waited_for() {
        let opened = Opened { name: "run 42".into(), ..Opened::default() };
        let mut said = Vec::new();
        for message in [Message::Ping, Message::Ping, Message::Opened(opened.clone()), Message::Ping] {
            message.encode_to(&mut said);
        }
        let mut reader = ControlReader::new(said.as_slice());
        assert_eq!(expect_opened(&mut reader).await.unwrap(), opened);
        assert!(matches!(expect_opened(&mut reader).await, Err(ClientError::Control(_))));
    }
}
