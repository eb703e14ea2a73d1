//! A client receives: the stored manifest goes out, then the blocks that it accepts and lacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use terahaul_core::{BlockNumber, ChannelId, Entry, EntryIndex, TransferId};
use terahaul_net::channel::{Outbound as Queue, OutboundEvent};
use terahaul_net::control::ControlReader;
use terahaul_net::session::{Role, Session, SessionEvent, Sessions};
use terahaul_wire::{Batch, ErrorCode, Failed, Message, OpenReceive, Opened, WireError};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::fill::statement;
use super::{MAX_CHANNELS, Messages, RECHECK, SessionError, off_runtime, out_of_turn, say, session_secret};
use crate::auth::Caller;
use crate::depot::Depot;
use crate::transfer::{ManifestReader, Outbound};

/// Entries that the client may be behind with accepting before the manifest waits for it.
const AHEAD: u64 = 50_000;
/// Failures in one message.
const FAILURES_AT_ONCE: usize = 500;

impl Depot {
    pub(super) async fn serve<R: AsyncRead + Unpin>(
        &self,
        caller: &Caller,
        open: OpenReceive,
        reader: &mut ControlReader<R>,
        messages: &Messages,
        sessions: &Arc<Sessions>,
    ) -> Result<(), SessionError> {
        let id = TransferId(open.transfer);
        let outbound = self.open_outbound(caller, id).await?;
        let (events, queue_events) = mpsc::unbounded_channel();
        let queue = Arc::new(Queue::new(events));
        let (events, session_events) = mpsc::unbounded_channel();
        let source = Arc::new(outbound.source());
        let role = Role::Send { outbound: Arc::clone(&queue), source, pace: None };
        let secret = session_secret()?;
        let guard = sessions.register(&secret, Session::new(role, MAX_CHANNELS, events));

        let opened = Opened {
            transfer: id.0,
            secret,
            max_channels: MAX_CHANNELS,
            entries: outbound.layout().entry_count() as u32,
            name: outbound.name().to_owned(),
            link: None,
            bytes: outbound.byte_count().0,
        };
        say(messages, Message::Opened(opened)).await?;
        let blocks = outbound.layout().block_count();
        queue.handle_durable(&open.have.runs(blocks)?);
        self.say_failures(caller, &outbound, messages).await?;
        let manifest = Some(outbound.manifest(0)?);
        let failed = outbound.failed().clone();
        let mut serving = Serving {
            depot: self,
            caller,
            outbound,
            queue,
            manifest,
            failed,
            declared: 0,
            accepted: 0,
            blocks,
            messages,
            queue_events,
            session_events,
        };
        let result = serving.converse(reader).await;
        drop(guard);
        result
    }

    async fn say_failures(
        &self,
        caller: &Caller,
        outbound: &Outbound,
        messages: &Messages,
    ) -> Result<(), SessionError> {
        if outbound.failed().is_empty() {
            return Ok(());
        }
        // The client applies them as the entries arrive.
        let failures = self.failures(caller, outbound.id()).await?;
        for some in failures.chunks(FAILURES_AT_ONCE) {
            let failed = some.iter().map(|failure| Failed {
                entry: failure.entry.0,
                cause: failure.cause.into(),
                detail: failure.detail.clone(),
            });
            say(messages, Message::Failed(failed.collect())).await?;
        }
        Ok(())
    }
}

struct Serving<'a> {
    depot: &'a Depot,
    caller: &'a Caller,
    outbound: Outbound,
    queue: Arc<Queue>,
    /// `None` once all of it is sent.
    manifest: Option<ManifestReader>,
    failed: BTreeSet<EntryIndex>,
    declared: u64,
    accepted: u64,
    blocks: u64,
    messages: &'a Messages,
    queue_events: mpsc::UnboundedReceiver<OutboundEvent>,
    session_events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl Serving<'_> {
    async fn converse<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut ControlReader<R>,
    ) -> Result<(), SessionError> {
        let mut recheck = tokio::time::interval(RECHECK);
        loop {
            let may_declare = self.manifest.is_some() && self.declared < self.accepted + AHEAD;
            tokio::select! {
                message = reader.next::<Message>() => {
                    if self.handle_message(message?).await? {
                        return Ok(());
                    }
                }
                permit = self.messages.reserve(), if may_declare => {
                    drop(permit);
                    self.send_batch().await?;
                }
                Some(OutboundEvent::Failed(failures)) = self.queue_events.recv() => {
                    for failure in &failures {
                        tracing::error!(transfer = %self.outbound.id(), entry = failure.entry.0, "{}", failure.detail);
                    }
                    let failed = failures.into_iter().map(|failure| Failed {
                        entry: failure.entry.0,
                        cause: failure.cause.into(),
                        detail: failure.detail,
                    });
                    say(self.messages, Message::Failed(failed.collect())).await?;
                }
                Some(event) = self.session_events.recv() => match event {
                    SessionEvent::Broken(error) => return Err(error.into()),
                    SessionEvent::ChannelEnded(_, problem) => {
                        if let Some(problem) = problem {
                            tracing::debug!("a data channel ended: {problem}");
                        }
                    }
                    SessionEvent::Refused(..) => {}
                },
                _ = recheck.tick() => {
                    self.depot.recheck(self.caller).await?;
                    if self.outbound.is_closed() {
                        return Err(WireError::fatal(
                            ErrorCode::NotFound,
                            "the transfer was removed or reopened while it was received: ask its sender",
                        ).into());
                    }
                }
            }
        }
    }

    async fn send_batch(&mut self) -> Result<(), SessionError> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        let Some(batch) = manifest.next().await? else {
            self.manifest = None;
            say(self.messages, Message::ManifestEnd).await?;
            return say(self.messages, statement(self.outbound.finished())?).await;
        };
        self.queue
            .declare(batch.entries.iter().map(Entry::file_size), batch.seal)
            .map_err(|error| crate::DepotError::Damaged(error.to_string()))?;
        self.declared = batch.first + batch.entries.len() as u64;
        let in_batch = EntryIndex(batch.first as u32)..EntryIndex(self.declared as u32);
        self.queue.handle_failed(self.failed.range(in_batch).copied());
        say(
            self.messages,
            Message::Batch(Batch { first: batch.first as u32, entries: batch.entries, seal: batch.seal }),
        )
        .await
    }

    /// `true` when the client has everything.
    async fn handle_message(&mut self, message: Message) -> Result<bool, SessionError> {
        match message {
            Message::Accepted(entries) if u64::from(entries) <= self.declared => {
                self.accepted = u64::from(entries);
                self.queue.handle_accepted(self.accepted);
            }
            Message::Declined(entries) => {
                if entries.iter().any(|entry| u64::from(*entry) >= self.declared) {
                    return Err(WireError::violation("it declined entries that were not offered").into());
                }
                let queue = Arc::clone(&self.queue);
                off_runtime(move || queue.handle_declined(entries.into_iter().map(EntryIndex))).await?;
            }
            Message::Durable(runs) => self.queue.handle_durable(&runs.runs(self.blocks)?),
            Message::Refused(block, error) => {
                if !self.queue.handle_refused(BlockNumber(block)) {
                    return Err(error.into());
                }
            }
            Message::CloseChannel(channel) => self.queue.close_channel(ChannelId(channel)),
            Message::Finish => {
                tracing::info!(transfer = %self.outbound.id(), "received whole");
                return Ok(true);
            }
            Message::Ping => say(self.messages, Message::Pong).await?,
            Message::Pong => {}
            _ => return Err(out_of_turn()),
        }
        Ok(false)
    }
}
