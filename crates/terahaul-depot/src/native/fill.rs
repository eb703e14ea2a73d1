//! A client sends: its manifest is stored, its blocks are received.
//!
//! | state | on | does |
//! |---|---|---|
//! | open | `Batch` | stores it, then `Accepted` |
//! | open | a group became durable | `Durable` |
//! | open | a block was refused | `Refused` |
//! | open | `Finish` | finishing |
//! | finishing | all is durable | publishes, signs, `Statement`, the end |
//! | finishing | anything else | as when open |
//! | open | the token ends, a write fails | `Error`, the end; what is durable stays |

use std::sync::Arc;

use terahaul_core::{BlockRun, EntryIndex, FailureCause, TransferId};
use terahaul_net::control::ControlReader;
use terahaul_net::session::{Role, Session, SessionEvent, Sessions};
use terahaul_store::EntryFailure;
use terahaul_wire::{Batch, Cause, ErrorCode, Failed, Message, OpenSend, Opened, RunList, WireError};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::{MAX_CHANNELS, Messages, RECHECK, SessionError, off_runtime, out_of_turn, say, session_secret};
use crate::DepotError;
use crate::auth::{Caller, Identity};
use crate::db::TransferState;
use crate::depot::Depot;
use crate::transfer::{CreateTransfer, Finished, Live};

/// Failures in one message.
const FAILURES_AT_ONCE: usize = 500;

impl Depot {
    pub(super) async fn fill<R: AsyncRead + Unpin>(
        &self,
        caller: &Caller,
        open: OpenSend,
        reader: &mut ControlReader<R>,
        messages: &Messages,
        sessions: &Arc<Sessions>,
    ) -> Result<(), SessionError> {
        let identity = caller.identity()?;
        let id = match open.transfer {
            Some(id) => TransferId(id),
            None => self.transfer_for(identity, &open).await?,
        };
        let info = self.transfer(caller, id).await?;
        if info.state == TransferState::Complete {
            return self.repeat_statement(caller, id, reader, messages).await;
        }
        let live = self.open_inbound(identity, id).await?;
        let inbound = Arc::clone(live.inbound());
        // What an interrupted session left in memory is made durable first, so that the client does not send it again.
        // A failure shows when more arrives; the list below is right either way.
        let flushing = Arc::clone(&inbound);
        let flushed = off_runtime(move || flushing.flush()).await?;
        flushed.unwrap_or_else(|error| tracing::debug!(transfer = %id, "{error}"));

        // From here on nothing that becomes durable is missed: first the listener, then the list.
        let (now_durable, durable) = mpsc::unbounded_channel();
        let listener = inbound.add_listener(Box::new(move |runs| {
            // The session may be over; the next one starts with the whole list.
            let _ = now_durable.send(runs.to_vec());
        }));
        let (now_lost, lost) = mpsc::unbounded_channel();
        let loss_listener = inbound.add_loss_listener(Box::new(move |_| {
            // As above.
            let _ = now_lost.send(());
        }));
        let (events, session_events) = mpsc::unbounded_channel();
        let session =
            Session::new(Role::Receive { inbound: Arc::clone(&inbound), pace: None }, MAX_CHANNELS, events);
        let secret = session_secret()?;
        let guard = sessions.register(&secret, session);

        let (entries, bytes) = inbound.with(|r| (r.layout().entry_count() as u32, r.layout().byte_count().0));
        let opened = Opened {
            transfer: id.0,
            secret,
            max_channels: MAX_CHANNELS,
            entries,
            name: info.name,
            link: Some(self.link(id)),
            bytes,
        };
        say(messages, Message::Opened(opened)).await?;
        let mut filling =
            Filling { depot: self, caller, live, messages, durable, lost, session_events, finishing: false };
        let result = match filling.send_stored(open.want_manifest).await {
            Ok(()) => filling.converse(reader).await,
            Err(error) => Err(error),
        };
        inbound.remove_listener(listener);
        inbound.remove_listener(loss_listener);
        drop(guard);
        result
    }

    async fn transfer_for(&self, identity: &Identity, open: &OpenSend) -> Result<TransferId, DepotError> {
        let new = CreateTransfer {
            name: open.name.clone(),
            expires_in_days: open.expires_in_days,
            resume_key: open.resume_key.clone(),
        };
        Ok(self.create_transfer(identity, new).await?.info.id)
    }

    /// The client lost the connection after its transfer was finished and before it heard of it.
    async fn repeat_statement<R: AsyncRead + Unpin>(
        &self,
        caller: &Caller,
        id: TransferId,
        reader: &mut ControlReader<R>,
        messages: &Messages,
    ) -> Result<(), SessionError> {
        let outbound = self.open_outbound(caller, id).await?;
        let opened = Opened {
            transfer: id.0,
            secret: session_secret()?,
            max_channels: MAX_CHANNELS,
            entries: outbound.layout().entry_count() as u32,
            name: outbound.name().to_owned(),
            link: Some(self.link(id)),
            bytes: outbound.byte_count().0,
        };
        say(messages, Message::Opened(opened)).await?;
        let all =
            BlockRun { first: terahaul_core::BlockNumber(0), count: outbound.layout().block_count() as u32 };
        for runs in RunList::split((all.count > 0).then_some(all)) {
            say(messages, Message::Durable(runs)).await?;
        }
        say(messages, Message::ManifestEnd).await?;
        loop {
            match reader.next::<Message>().await? {
                Message::Finish => return say(messages, statement(outbound.finished())?).await,
                Message::Ping => say(messages, Message::Pong).await?,
                Message::Pong => {}
                _ => return Err(DepotError::NotOpen.into()),
            }
        }
    }
}

struct Filling<'a> {
    depot: &'a Depot,
    caller: &'a Caller,
    live: Arc<Live>,
    messages: &'a Messages,
    durable: mpsc::UnboundedReceiver<Vec<BlockRun>>,
    lost: mpsc::UnboundedReceiver<()>,
    session_events: mpsc::UnboundedReceiver<SessionEvent>,
    finishing: bool,
}

impl Filling<'_> {
    /// What an interrupted run left: the manifest where the client wants it, failures, durable blocks.
    async fn send_stored(&self, manifest: bool) -> Result<(), SessionError> {
        if manifest {
            let mut batches = self.live.manifest(0)?;
            while let Some(batch) = batches.next().await? {
                let batch = Batch { first: batch.first as u32, entries: batch.entries, seal: batch.seal };
                say(self.messages, Message::Batch(batch)).await?;
            }
        }
        let failed: Vec<_> = self.live.failed().into_iter().collect();
        for some in failed.chunks(FAILURES_AT_ONCE) {
            let cause = Cause::from(FailureCause::Changed);
            let failed = some.iter().map(|entry| Failed { entry: entry.0, cause, detail: String::new() });
            say(self.messages, Message::Failed(failed.collect())).await?;
        }
        for runs in RunList::split(self.live.durable()) {
            say(self.messages, Message::Durable(runs)).await?;
        }
        say(self.messages, Message::ManifestEnd).await
    }

    async fn converse<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut ControlReader<R>,
    ) -> Result<(), SessionError> {
        let mut recheck = tokio::time::interval(RECHECK);
        loop {
            if self.finishing && self.may_finish() {
                let finished = self.live.finish().await?;
                return say(self.messages, statement(&finished)?).await;
            }
            tokio::select! {
                message = reader.next::<Message>() => self.handle_message(message?).await?,
                Some(runs) = self.durable.recv() => {
                    for runs in RunList::split(runs) {
                        say(self.messages, Message::Durable(runs)).await?;
                    }
                }
                // The client counts on blocks that are gone: a new session starts from what is durable.
                Some(()) = self.lost.recv() => {
                    return Err(WireError::passing(
                        ErrorCode::Internal,
                        "the depot's disk failed to keep what it received: it is sent again",
                    ).into());
                }
                Some(event) = self.session_events.recv() => self.handle_event(event).await?,
                _ = recheck.tick() => self.depot.recheck(self.caller).await?,
            }
        }
    }

    async fn handle_event(&self, event: SessionEvent) -> Result<(), SessionError> {
        match event {
            SessionEvent::Refused(block, error) => say(self.messages, Message::Refused(block.0, error)).await,
            SessionEvent::Broken(error) => Err(error.into()),
            SessionEvent::ChannelEnded(channel, problem) => {
                if let Some(problem) = problem {
                    tracing::debug!("data channel {} ended: {problem}", channel.0);
                }
                Ok(())
            }
        }
    }

    /// Blocks may still be on their way when the client has said its last. A manifest that it left open is as it
    /// should be or an error, now.
    fn may_finish(&self) -> bool {
        self.live
            .inbound()
            .with(|receiver| receiver.is_complete() || receiver.layout().open_block().is_some())
    }

    async fn handle_message(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Batch(batch) if batch.has_extras() => {
                let what =
                    "its manifest has owners or attributes, and this depot did not say that it keeps them";
                return Err(WireError::violation(what).into());
            }
            Message::Batch(batch) => {
                let appended =
                    self.live.append_entries(u64::from(batch.first), batch.entries, batch.seal).await?;
                say(self.messages, Message::Accepted(appended.total as u32)).await?;
            }
            Message::Failed(failed) => {
                let failures = failed.into_iter().map(|failed| EntryFailure {
                    entry: EntryIndex(failed.entry),
                    cause: failed.cause.into(),
                    detail: failed.detail.chars().take(500).collect(),
                });
                self.live.fail_entries(failures.collect()).await?;
            }
            Message::Finish => self.finishing = true,
            Message::Ping => say(self.messages, Message::Pong).await?,
            Message::Pong => {}
            _ => return Err(out_of_turn()),
        }
        Ok(())
    }
}

pub(super) fn statement(finished: &Finished) -> Result<Message, SessionError> {
    let json = serde_json::to_vec(&finished.statement)
        .map_err(|error| DepotError::Damaged(format!("a statement cannot be written: {error}")))?;
    Ok(Message::Statement(json, finished.signature.clone()))
}
