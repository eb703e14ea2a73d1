//! The server's end of `terahaul/1`, over whatever it keeps transfers in: a depot, or the far side of a copy.
//!
//! | state | on | next |
//! |---|---|---|
//! | greeting | `Hello`, `Authenticate` | opening, or an error and the end |
//! | opening | `OpenSend` | [`fill`]: the client sends |
//! | opening | `OpenReceive` | [`serve`]: the client receives |
//!
//! A session lives as long as its control channel; its data channels end with it. What was received stays, and is
//! there for the next session.

mod fill;
mod messages;
mod seat;
mod serve;
#[cfg(test)]
mod tests;
mod udp_side;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use terahaul_core::{Compress, Priority};
use terahaul_wire::{
    Batch, DELTA, ErrorCode, FIRST_BATCH, Hello, LATER_UDP, LOST_CHANNELS, MAX_MESSAGE, Message, OpenReceive,
    OpenSend, Opened, UdpAnswer, VERSION, WireError, ZSTD,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::control::{ControlError, ControlReader, ControlWriter, write_loop};
use crate::session::Sessions;
use crate::udp;
pub use fill::{Appended, Fill, Filling};
use messages::Messages;
pub use seat::{Seat, Seated, Unseated};
pub use serve::Serve;
use udp_side::UdpSide;

/// Most data channels a session may have.
const MAX_CHANNELS: u32 = 32;
/// Longest message of whoever is not known yet, in bytes: each capability that it names becomes a string of its own.
const MOST_OF_STRANGERS: usize = 4096;
/// Longest message of whoever says what is wanted with a credential that only then is looked at, in bytes: it has room for the blocks that
/// a receiver [names first](terahaul_wire::FIRST_RUNS).
const MOST_OF_UNPROVEN: usize = 64 << 10;
/// How often a service is asked whether the session may go on.
const RECHECK: Duration = Duration::from_secs(5);
/// How long a client has to take what is said to it last.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Time to say what one wants.
const OPENING_TIME: Duration = Duration::from_secs(15);
/// Highest level of Zstandard that a client may ask for: those above it take much memory.
const MAX_LEVEL: u8 = 19;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection ended; the client may come back.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The service refuses or failed, or the client broke the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl SessionError {
    /// What the client is told, when it can still hear.
    fn wire_error(&self) -> Option<WireError> {
        match self {
            Self::Control(ControlError::Decode(error)) => Some(WireError::violation(error)),
            Self::Control(_) => None,
            Self::Wire(error) => Some(error.clone()),
        }
    }
}

/// What a server lets its clients do.
pub trait Service: Send + Sync {
    /// Who a client is.
    type Caller: Send + Sync;
    /// What a sending client fills.
    type Fill: Fill;
    /// What a receiving client is served.
    type Serve: Serve;

    /// Features of the protocol that this server has and its clients must have.
    fn capabilities(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether this server copies what a changed file has kept, for clients that say that they do.
    fn has_delta(&self) -> bool {
        false
    }

    /// Whether this caller has shown already that it may have something, and not only what will show that once it says what it wants.
    fn is_proven(&self, _caller: &Self::Caller) -> bool {
        true
    }

    /// Who presents `credential`.
    fn caller(
        &self,
        credential: &str,
        peer: IpAddr,
    ) -> impl Future<Output = Result<Self::Caller, WireError>> + Send;

    /// Whether a caller's sessions may go on.
    fn recheck(&self, caller: &Self::Caller) -> impl Future<Output = Result<(), WireError>> + Send;

    /// Opens what a client wants to fill.
    fn open_send(
        &self,
        caller: &Self::Caller,
        open: OpenSend,
    ) -> impl Future<Output = Result<Filling<Self::Fill>, WireError>> + Send;

    /// Opens what a client wants to receive.
    fn open_receive(
        &self,
        caller: &Self::Caller,
        open: &OpenReceive,
    ) -> impl Future<Output = Result<Self::Serve, WireError>> + Send;
}

/// A manifest, batch by batch.
pub trait Manifest: Send {
    /// The next batch; waits until there is one; `None` at the end. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Option<Batch>, WireError>> + Send;
}

/// The secret that binds data channels to a session.
fn session_secret() -> Result<[u8; 32], WireError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|_| WireError::passing(ErrorCode::Internal, "the system gives no random numbers"))?;
    Ok(secret)
}

fn out_of_turn() -> SessionError {
    WireError::violation("a message came out of turn").into()
}

/// Runs `act` where it may block.
async fn off_runtime<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, SessionError> {
    let stopped = |_| WireError::passing(ErrorCode::Unavailable, "the server is stopping").into();
    tokio::task::spawn_blocking(act).await.map_err(stopped)
}

/// Runs one control channel until it ends.
///
/// With the control channel's `secret`, and a port in `sessions`, it may have UDP data channels.
pub async fn run_control<V, S>(
    service: &V,
    stream: S,
    peer: IpAddr,
    sessions: &Arc<Sessions>,
    secret: Option<udp::Secret>,
) where
    V: Service,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let mut reader = ControlReader::new(read);
    let (messages, outgoing) = Messages::new();
    let mut writing = tokio::spawn(write_loop(ControlWriter::new(write), outgoing, messages.idle_pings()));
    let result = session(service, &mut reader, &messages, peer, sessions, secret).await;
    let refused = result.err().and_then(|error| {
        tracing::info!(%peer, "a session ended: {error}");
        error.wire_error()
    });
    let is_refused = refused.is_some();
    let last_words = async {
        messages.close(refused.map(Message::Error)).await;
        let _ = (&mut writing).await;
    };
    // They are written, or the client is gone, or it does not read; either way the session is over.
    if tokio::time::timeout(LAST_WORDS, last_words).await.is_err() {
        writing.abort();
    }
    if is_refused {
        reader.discard_rest().await;
    }
}

async fn session<V: Service, R: AsyncRead + Send + Unpin>(
    service: &V,
    reader: &mut ControlReader<R>,
    messages: &Messages,
    peer: IpAddr,
    sessions: &Arc<Sessions>,
    secret: Option<udp::Secret>,
) -> Result<(), SessionError> {
    let udp = |offer, priority| UdpSide::new((secret, sessions.udp()), peer, priority, offer);
    let opening = tokio::time::timeout(OPENING_TIME, greet(service, reader, messages, peer));
    let (caller, open, client) = opening.await.map_err(|_| ControlError::Silent)??;
    let run = async {
        match open {
            Message::OpenSend(mut open) => {
                let udp = udp(open.udp.clone(), Priority::Fair);
                let (manifest, first) = (open.want_manifest, open.first.take());
                let asked = fill::Asked { manifest, first, returns: open.transfer.is_some(), client, udp };
                let filling = service.open_send(&caller, open).await?;
                fill::run(filling, asked, reader, messages, (sessions, peer)).await
            }
            Message::OpenReceive(open) => {
                let udp = udp(open.udp.clone(), priority_of(&open));
                let serve = service.open_receive(&caller, &open).await?;
                reader.limit(MAX_MESSAGE);
                let asked = serve::Asked { open, client, udp };
                serve::run(serve, asked, reader, messages, (sessions, peer)).await
            }
            _ => Err(out_of_turn()),
        }
    };
    tokio::select! {
        result = run => result,
        never = messages.end_unless(|| service.recheck(&caller)) => match never {},
    }
}

/// What a client can do beyond what it must.
#[derive(Clone, Copy)]
struct Client {
    /// It takes compressed blocks.
    zstd: bool,
    /// Both ends copy what a changed file has kept.
    delta: bool,
}

async fn greet<V: Service, R: AsyncRead + Send + Unpin>(
    service: &V,
    reader: &mut ControlReader<R>,
    messages: &Messages,
    peer: IpAddr,
) -> Result<(V::Caller, Message, Client), SessionError> {
    reader.limit(MOST_OF_STRANGERS);
    let hello = match reader.next_word().await? {
        Message::Hello(hello) if fits(&hello, service.capabilities()) => hello,
        Message::Hello(_) => {
            return Err(WireError::fatal(
                ErrorCode::Version,
                "the server speaks version 1 of the protocol only: upgrade the older of the two programs",
            )
            .into());
        }
        _ => return Err(out_of_turn()),
    };
    let agent = concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned();
    let delta = service.has_delta();
    let client = Client { zstd: hello.can(ZSTD), delta: delta && hello.can(DELTA) };
    let has = service
        .capabilities()
        .iter()
        .chain([&ZSTD, &FIRST_BATCH, &LATER_UDP, &LOST_CHANNELS])
        .chain(delta.then_some(&DELTA));
    let capabilities = has.map(ToString::to_string).collect();
    let hello = Hello { versions: vec![VERSION], capabilities, agent };
    messages.say(Message::Hello(hello)).await?;
    let Message::Authenticate(credential) = reader.next_word().await? else { return Err(out_of_turn()) };
    let caller = service.caller(&credential, peer).await?;
    reader.limit(if service.is_proven(&caller) { MAX_MESSAGE } else { MOST_OF_UNPROVEN });
    Ok((caller, reader.next_word().await?, client))
}

fn fits(hello: &Hello, capabilities: &[&str]) -> bool {
    hello.versions.contains(&VERSION) && capabilities.iter().all(|capability| hello.can(capability))
}

/// How a receiving client wants to be served.
fn wanted(open: &OpenReceive) -> Compress {
    open.compress.map_or(Compress::Auto, |level| Compress::Level(i32::from(level.clamp(1, MAX_LEVEL))))
}

/// How a receiving client would have the path shared.
fn priority_of(open: &OpenReceive) -> Priority {
    Priority::numbered(open.priority.unwrap_or_default())
}

/// The first message of a session on the server's side.
fn opened(opened: Opened, secret: [u8; 32], udp: Option<UdpAnswer>) -> Message {
    Message::Opened(Opened { secret, max_channels: MAX_CHANNELS, udp, ..opened })
}
