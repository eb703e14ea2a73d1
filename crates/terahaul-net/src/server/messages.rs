//! What a session says to its client, and that it has to end.
//!
//! Whoever speaks waits while the client does not read. That must not keep the session alive: a token that was revoked
//! ends it, and another sender that takes its place, however long what was said is still on its way.
//!
//! | a session | on | then |
//! |---|---|---|
//! | goes on | `say` | waits for room |
//! | goes on | `end`, `end_unless` with an answer that says no | is over: who waits in `say` or `over` hears why |
//! | is over | `say`, `over` | the same error again |
//! | either | `close` | the last words, once there is room |

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use terahaul_wire::{Message, WireError};
use tokio::sync::{mpsc, watch};

use super::{RECHECK, SessionError};
use crate::control::ControlError;

/// Messages that wait to be written.
const WAITING: usize = 64;

/// Where a session's messages go.
pub(super) struct Messages {
    queue: mpsc::Sender<Message>,
    idle_pings: Arc<AtomicU64>,
    over: watch::Sender<Option<WireError>>,
}

impl Messages {
    /// With what is to be written.
    pub fn new() -> (Self, mpsc::Receiver<Message>) {
        let (queue, outgoing) = mpsc::channel(WAITING);
        (Self { queue, idle_pings: Arc::default(), over: watch::Sender::new(None) }, outgoing)
    }

    /// Pings that whoever writes sends because nothing is said: to be counted there.
    pub fn idle_pings(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.idle_pings)
    }

    /// A message for the client.
    ///
    /// # Errors
    /// The connection is gone, or the session is over.
    pub async fn say(&self, message: Message) -> Result<(), SessionError> {
        tokio::select! {
            biased;
            error = self.over() => Err(error),
            said = self.queue.send(message) => said.map_err(|_| ControlError::Closed.into()),
        }
    }

    /// The queue itself, for whoever waits for room in it and hears by other means that the session is over.
    pub fn queue(&self) -> &mpsc::Sender<Message> {
        &self.queue
    }

    /// Why the session is over, once it is.
    pub async fn over(&self) -> SessionError {
        match self.over.subscribe().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(error)) => error.clone().into(),
            _ => ControlError::Closed.into(),
        }
    }

    /// The session is over; the first reason stays.
    pub async fn end(&self, error: WireError) -> Infallible {
        self.over.send_if_modified(|over| {
            let is_first = over.is_none();
            over.get_or_insert(error);
            is_first
        });
        std::future::pending().await
    }

    /// The session goes on as long as `recheck`, asked at once and every five seconds, does not refuse it.
    pub async fn end_unless<F: Future<Output = Result<(), WireError>>>(
        &self,
        mut recheck: impl FnMut() -> F,
    ) -> Infallible {
        let mut ticks = tokio::time::interval(RECHECK);
        loop {
            ticks.tick().await;
            if let Err(error) = recheck().await {
                return self.end(error).await;
            }
        }
    }

    /// Nothing more comes, after these words.
    pub async fn close(self, last: Option<Message>) {
        if let Some(last) = last {
            // The client may be gone already.
            let _ = self.queue.send(last).await;
        }
    }
}
