//! Native sessions: the depot's end of `terahaul/1`.
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
mod serve;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use terahaul_net::control::{ControlError, ControlReader, ControlWriter, PING_AFTER, write_loop};
use terahaul_net::session::Sessions;
use terahaul_wire::{ErrorCode, Hello, Message, VERSION, WireError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::auth::Caller;
use crate::depot::Depot;
use crate::keys::random;
use crate::{DepotError, blocking};

/// Most data channels a session may have here.
const MAX_CHANNELS: u32 = 32;
/// How often a session's token is looked at again.
const RECHECK: Duration = Duration::from_secs(5);
/// Time to say what one wants.
const OPENING_TIME: Duration = Duration::from_secs(15);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    /// The connection ended; the client may come back.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The depot refuses or failed.
    #[error(transparent)]
    Depot(#[from] DepotError),
    /// The client broke the protocol, or a data channel failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl SessionError {
    /// What the client is told, when it can still hear.
    fn wire_error(&self) -> Option<WireError> {
        match self {
            Self::Control(ControlError::Decode(error)) => Some(WireError::violation(error)),
            Self::Control(_) => None,
            Self::Depot(error) => Some(error.into()),
            Self::Wire(error) => Some(error.clone()),
        }
    }
}

impl From<terahaul_store::InboundError> for SessionError {
    fn from(error: terahaul_store::InboundError) -> Self {
        Self::Depot(error.into())
    }
}

type Messages = mpsc::Sender<Message>;

/// A message for the client; fails when the connection is gone.
async fn say(messages: &Messages, message: Message) -> Result<(), SessionError> {
    messages.send(message).await.map_err(|_| ControlError::Closed.into())
}

fn out_of_turn() -> SessionError {
    WireError::violation("a message came out of turn").into()
}

impl Depot {
    /// Runs one control channel until it ends.
    pub(crate) async fn run_control<S>(&self, stream: S, peer: IpAddr, sessions: Arc<Sessions>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        let mut reader = ControlReader::new(read);
        let (messages, outgoing) = mpsc::channel(64);
        let writing = tokio::spawn(write_loop(ControlWriter::new(write), outgoing));
        let result = self.session(&mut reader, &messages, peer, &sessions).await;
        if let Err(error) = &result {
            tracing::info!(%peer, "a session ended: {error}");
            if let Some(error) = error.wire_error() {
                // The client may be gone already.
                let _ = messages.send(Message::Error(error)).await;
            }
        }
        drop(messages);
        // The last words are written, or the connection is gone; either way the session is over.
        let _ = tokio::time::timeout(PING_AFTER, writing).await;
    }

    async fn session<R: AsyncRead + Unpin>(
        &self,
        reader: &mut ControlReader<R>,
        messages: &Messages,
        peer: IpAddr,
        sessions: &Arc<Sessions>,
    ) -> Result<(), SessionError> {
        let opening = tokio::time::timeout(OPENING_TIME, self.greet(reader, messages, peer));
        let (caller, open) = opening.await.map_err(|_| ControlError::Silent)??;
        match open {
            Message::OpenSend(open) => self.fill(&caller, open, reader, messages, sessions).await,
            Message::OpenReceive(open) => self.serve(&caller, open, reader, messages, sessions).await,
            _ => Err(out_of_turn()),
        }
    }

    async fn greet<R: AsyncRead + Unpin>(
        &self,
        reader: &mut ControlReader<R>,
        messages: &Messages,
        peer: IpAddr,
    ) -> Result<(Caller, Message), SessionError> {
        match reader.next().await? {
            Message::Hello(hello) if hello.versions.contains(&VERSION) => {}
            Message::Hello(_) => {
                return Err(WireError::fatal(
                    ErrorCode::Version,
                    "the depot speaks version 1 of the protocol only: upgrade the older of the two programs",
                )
                .into());
            }
            _ => return Err(out_of_turn()),
        }
        let agent = concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned();
        say(messages, Message::Hello(Hello { versions: vec![VERSION], capabilities: Vec::new(), agent }))
            .await?;
        let Message::Authenticate(credential) = reader.next().await? else { return Err(out_of_turn()) };
        let caller = match self.caller(&credential).await {
            Ok(caller) => caller,
            Err(error) => {
                let now = self.inner.config.clock.now();
                return Err(if self.inner.throttle.handle_failure(peer, now) {
                    error.into()
                } else {
                    DepotError::TooManyAttempts.into()
                });
            }
        };
        Ok((caller, reader.next().await?))
    }

    /// Long sessions end when their token does.
    async fn recheck(&self, caller: &Caller) -> Result<(), DepotError> {
        match caller {
            Caller::Token(identity) => self.still_valid(identity).await,
            Caller::Link(_) => Ok(()),
        }
    }
}

fn session_secret() -> Result<[u8; 32], DepotError> {
    random()
}

/// Runs `act` where it may block.
async fn off_runtime<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, SessionError> {
    Ok(blocking::run(act).await?)
}
