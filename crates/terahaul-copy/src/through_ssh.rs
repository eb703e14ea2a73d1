//! Carrying connections through ssh, where the far side's port cannot be reached.
//!
//! Behind the greeting both directions of ssh's stdin and stdout are one yamux connection. The near side listens on
//! loopback; whatever connects there is a stream, which the far side carries to a port of its own on loopback. TLS runs inside, pinned
//! as ever, so neither end need trust the relay or whoever else finds the port on loopback.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use terahaul_net::Listener;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use yamux::{Config, Connection, ConnectionError, FrameDecodeError, Mode, Stream};

/// Bytes that are moved between a socket and the relay at a time.
const PIECE: usize = 128 << 10;
/// Connections through the relay at once.
const MOST_STREAMS: usize = 128;
/// Connections that are carried at once: fewer, so that no stream is asked for that the relay would end over.
const MOST_CARRIED: usize = 100;

fn settings() -> Config {
    let mut config = Config::default();
    config.set_max_num_streams(MOST_STREAMS);
    config.set_split_send_size(PIECE);
    config
}

/// A stream that is to be opened.
type Asked = oneshot::Sender<Stream>;
/// A stream of the relay for what the two sides say to each other themselves.
pub(crate) type Aside = Compat<Stream>;

/// That stream, once it is there; none where it never will be.
pub(crate) async fn aside(opened: oneshot::Receiver<Stream>) -> Option<Aside> {
    Some(opened.await.ok()?.compat())
}

/// How often a relay is looked after while nothing moves, so that it pings the far side. Where the data takes its own way nothing else goes
/// through ssh, and what translates addresses forgets a connection that is silent for some minutes.
const LOOK: Duration = Duration::from_secs(20);

/// Drives a relay until its stream ends: opens what is asked for, hands over what the other end opens, pings it now and then.
async fn drive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    mode: Mode,
    mut opens: mpsc::Receiver<Asked>,
    mut on_stream: impl FnMut(Stream),
) -> io::Result<()> {
    let mut connection = Connection::new(stream.compat(), settings(), mode);
    let mut asked: VecDeque<Asked> = VecDeque::new();
    // The near side alone: one whose machine sleeps is waited for, and what it does not acknowledge would end its ssh.
    let mut looks = matches!(mode, Mode::Client).then(|| tokio::time::interval(LOOK));
    std::future::poll_fn(|context| {
        // The connection thinks of pings when it is polled, and wakes nobody for one.
        while looks.as_mut().is_some_and(|looks| looks.poll_tick(context).is_ready()) {}
        while let Poll::Ready(Some(more)) = opens.poll_recv(context) {
            asked.push_back(more);
        }
        while !asked.is_empty() {
            match connection.poll_new_outbound(context) {
                Poll::Ready(Ok(stream)) => {
                    // Who asked may have given up.
                    let _ = asked.pop_front().map(|answer| answer.send(stream));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(error))),
                Poll::Pending => break,
            }
        }
        loop {
            match connection.poll_next_inbound(context) {
                Poll::Ready(Some(Ok(stream))) => on_stream(stream),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(error))),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// What the stream has said of its end stays as it is; otherwise what came on it was no relay's.
fn broken(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) | ConnectionError::Decode(FrameDecodeError::Io(error)) => error,
        error => io::Error::other(error),
    }
}

async fn carry(stream: Stream, mut socket: TcpStream) {
    let mut stream = stream.compat();
    // How a connection ends is for those at its two ends to say.
    let _ = copy_bidirectional_with_sizes(&mut stream, &mut socket, PIECE, PIECE).await;
}

/// The far side's end: each stream is a connection to `port`, but for `aside`, which is opened here. Returns when stdin ends.
pub(crate) async fn far_end<R, W>(
    stdin: R,
    stdout: W,
    port: SocketAddr,
    aside: Option<Asked>,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (open, opens) = mpsc::channel(1);
    // There is room for one.
    aside.into_iter().for_each(|aside| drop(open.try_send(aside)));
    drive(tokio::io::join(stdin, stdout), Mode::Server, opens, |stream| {
        tokio::spawn(async move {
            match TcpStream::connect(port).await {
                Ok(socket) => carry(stream, socket).await,
                Err(error) => tracing::debug!("the relay cannot reach its own port: {error}"),
            }
        });
    })
    .await
}

/// The near side's end of a relay.
pub(crate) struct NearEnd {
    opens: mpsc::Sender<Asked>,
}

impl NearEnd {
    /// Takes over ssh's stdout and stdin. The future drives the relay, and returns when ssh ends. The one stream that the far side
    /// opens is for `aside`.
    pub(crate) fn new<R, W>(
        stdout: R,
        stdin: W,
        aside: Asked,
    ) -> (Self, impl Future<Output = io::Result<()>> + Send)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (opens, asked) = mpsc::channel(MOST_STREAMS);
        let mut aside = Some(aside);
        let driving = drive(tokio::io::join(stdout, stdin), Mode::Client, asked, move |stream| {
            // Another one is closed by being dropped.
            if let Some(aside) = aside.take() {
                let _ = aside.send(stream);
            }
        });
        (Self { opens }, driving)
    }

    /// Returns once nothing is carried any more.
    pub(crate) async fn ended(&self) {
        self.opens.closed().await;
    }

    /// An address on loopback whose connections are carried to the far side's port.
    pub(crate) async fn listen(&self) -> io::Result<SocketAddr> {
        let listener = listen_on_loopback().await?;
        let address = listener.local_addr()?;
        let mut listener = Listener::from(listener);
        let opens = self.opens.clone();
        let room = Arc::new(Semaphore::new(MOST_CARRIED));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await;
                // Anybody on this machine may connect; whoever comes on top of these is not carried, and the others are.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let (answer, stream) = oneshot::channel();
                if opens.send(answer).await.is_err() {
                    return;
                }
                tokio::spawn(async move {
                    if let Ok(stream) = stream.await {
                        carry(stream, socket).await;
                    }
                    drop(permit);
                });
            }
        });
        Ok(address)
    }
}

/// On any port that only this machine reaches: of IPv6 where loopback has no address of IPv4.
pub(crate) async fn listen_on_loopback() -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await {
        Ok(listener) => Ok(listener),
        Err(error) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.map_err(|_| error),
    }
}
