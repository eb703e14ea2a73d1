//! One port for everyone: the first bytes of a connection tell who is speaking.
//!
//! | first bytes | from | becomes |
//! |---|---|---|
//! | TLS ClientHello, ALPN `terahaul/1` | a client's control channel | [`Incoming::Control`] |
//! | TLS ClientHello, ALPN `terahaul-data/1` | a data channel | [`Incoming::Data`] |
//! | TLS ClientHello, anything else | a browser or another HTTP client | [`Incoming::Https`] |
//! | anything else, on loopback | a browser on this machine | [`Incoming::Http`] |
//! | anything else | a mistake | refused, with a hint |

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use terahaul_wire::{ALPN_CONTROL, ALPN_DATA, Bind, Control, DecodeError, decode_message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::channel::{DataChannel, keep_watch};
use crate::rewind::Rewind;
use crate::tls::{Established, Handshake, HandshakeError, Opener, Progress, Record, ServerTls};

/// Longest time from connecting to having said who one is.
pub const GREETING_TIME: Duration = Duration::from_secs(10);
/// Longest ClientHello that is read.
const MAX_HELLO: usize = 64 << 10;

/// A connection, sorted.
pub enum Incoming {
    /// HTTP over TLS.
    Https(Box<TlsStream<Rewind<TcpStream>>>),
    /// HTTP in the clear, on loopback only.
    Http(Rewind<TcpStream>),
    /// A control channel.
    Control(Box<TlsStream<Rewind<TcpStream>>>),
    /// A data channel that has said which session it belongs to.
    Data(Box<DataChannel>, Bind),
}

/// Why a connection was dropped.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// It said nothing, or not enough, in [`GREETING_TIME`].
    #[error("a connection did not say who it is within ten seconds")]
    Slow,
    /// It failed or was closed.
    #[error("a connection failed before it said who it is: {0}")]
    Connection(#[from] std::io::Error),
    /// TLS failed.
    #[error("a TLS handshake failed: {0}")]
    Tls(#[from] HandshakeError),
    /// In the clear, from another machine.
    #[error("a connection in the clear from another machine was refused")]
    Clear,
    /// Not a ClientHello, or an endless one.
    #[error("a connection sent something that is not a TLS greeting")]
    Greeting,
    /// The message that binds a data channel is not one.
    #[error(transparent)]
    Bind(#[from] DecodeError),
}

/// Sorts one connection. Costs a task and a few kilobytes until the peer has said who it is.
pub async fn accept(socket: TcpStream, tls: &ServerTls) -> Result<Incoming, AcceptError> {
    tokio::time::timeout(GREETING_TIME, greet(socket, tls)).await.map_err(|_| AcceptError::Slow)?
}

async fn greet(mut socket: TcpStream, tls: &ServerTls) -> Result<Incoming, AcceptError> {
    socket.set_nodelay(true)?;
    let mut first = Vec::with_capacity(4096);
    read_some(&mut socket, &mut first).await?;
    if first.first() != Some(&22) {
        return clear(socket, first).await;
    }
    let mut acceptor = Acceptor::default();
    let mut shown = 0;
    let alpn = loop {
        // It takes a few kilobytes at a time.
        let read = acceptor.read_tls(&mut Cursor::new(&first[shown..]))?;
        shown += read;
        match acceptor.accept() {
            Ok(Some(hello)) => {
                break hello.client_hello().alpn().and_then(|mut names| names.next().map(<[u8]>::to_vec));
            }
            Ok(None) if read > 0 && shown < first.len() => {}
            Ok(None) if first.len() < MAX_HELLO => read_some(&mut socket, &mut first).await?,
            Ok(None) | Err(_) => return Err(AcceptError::Greeting),
        }
    };
    match alpn.as_deref() {
        Some(ALPN_DATA) => data(socket, Arc::clone(&tls.data), first).await,
        Some(ALPN_CONTROL) => Ok(Incoming::Control(shake(socket, Arc::clone(&tls.control), first).await?)),
        _ => Ok(Incoming::Https(shake(socket, Arc::clone(&tls.http), first).await?)),
    }
}

async fn read_some(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), AcceptError> {
    if socket.read_buf(bytes).await? == 0 {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(())
}

async fn shake(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    first: Vec<u8>,
) -> Result<Box<TlsStream<Rewind<TcpStream>>>, AcceptError> {
    Ok(Box::new(TlsAcceptor::from(config).accept(Rewind::new(first, socket)).await?))
}

async fn clear(mut socket: TcpStream, first: Vec<u8>) -> Result<Incoming, AcceptError> {
    if socket.peer_addr()?.ip().to_canonical().is_loopback()
        && socket.local_addr()?.ip().to_canonical().is_loopback()
    {
        return Ok(Incoming::Http(Rewind::new(first, socket)));
    }
    let body = "This depot speaks HTTPS to other machines: use https:// in the address.\n";
    let head = format!(
        "HTTP/1.1 426 Upgrade Required\r\nConnection: close, Upgrade\r\nUpgrade: TLS/1.3\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    socket.shutdown().await?;
    Err(AcceptError::Clear)
}

/// The handshake of a data channel and its first message, before a thread is spent on it.
async fn data(
    mut socket: TcpStream,
    config: Arc<ServerConfig>,
    first: Vec<u8>,
) -> Result<Incoming, AcceptError> {
    let mut handshake = Handshake::server(config)?;
    let (mut incoming, mut outgoing) = (first, Vec::new());
    loop {
        let progress = handshake.advance(&mut incoming, &mut outgoing)?;
        socket.write_all(&outgoing).await?;
        outgoing.clear();
        if progress == Progress::Done {
            break;
        }
        read_some(&mut socket, &mut incoming).await?;
    }
    let mut established = handshake.finish()?;
    let bind = loop {
        open_records(&mut established, &mut incoming)?;
        if let Some((bind, len)) = decode_bind(&established.early)? {
            established.early.drain(..len);
            break bind;
        }
        read_some(&mut socket, &mut incoming).await?;
    };
    let socket = socket.into_std()?;
    socket.set_nonblocking(false)?;
    keep_watch(&socket)?;
    Ok(Incoming::Data(Box::new(DataChannel::accepted(socket, established, incoming)?), bind))
}

fn decode_bind(bytes: &[u8]) -> Result<Option<(Bind, usize)>, DecodeError> {
    // A binding is some forty bytes; nothing longer is waited for.
    if let Some(prefix) = bytes.first_chunk::<4>() {
        let len = u32::from_le_bytes(*prefix) as usize;
        if len > 256 {
            return Err(DecodeError::TooLong(len));
        }
    }
    decode_message(bytes)
}

fn open_records(established: &mut Established, incoming: &mut Vec<u8>) -> Result<(), AcceptError> {
    let broken = |error| AcceptError::Connection(std::io::Error::from(error));
    while let Some(len) = Opener::record_len(incoming).map_err(broken)? {
        match established.opener.open(&mut incoming[..len]).map_err(broken)? {
            Record::Data(data) => established.early.extend_from_slice(&incoming[5..5 + data]),
            Record::Other => {}
            Record::Closed => return Err(HandshakeError::Closed.into()),
        }
        incoming.drain(..len);
    }
    Ok(())
}

/// Checks at compile time that a binding is a control message.
const _: fn(&[u8]) -> Result<Bind, DecodeError> = Bind::decode_from;
