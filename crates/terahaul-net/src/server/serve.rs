//! A client receives: the manifest goes out, then the blocks that it accepts and lacks.

use std::net::IpAddr;
use std::sync::Arc;

use terahaul_core::{BlockNumber, ChannelId, EntryIndex};
use terahaul_store::BlockSource;
use terahaul_wire::{Batch, ErrorCode, Failed, Message, OpenReceive, Opened, RunList, WireError};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::{
    Client, MAX_CHANNELS, Manifest, Messages, SessionError, UdpSide, off_runtime, opened, out_of_turn,
    priority_of, session_secret, wanted,
};
use crate::channel::{Outbound, OutboundEvent, Placement, shared_compression};
use crate::control::ControlReader;
use crate::echo::Echo;
use crate::failures;
use crate::session::{Role, Session, SessionEvent, Sessions, SignedWord};
use crate::udp::UDP;
use crate::unread::Unread;

/// Entries that the client may be behind with accepting before the manifest waits for it.
const AHEAD: u32 = 50_000;

/// What a client receives.
pub trait Serve: Send + Sync {
    /// Reads its manifest.
    type Manifest: Manifest;

    /// What the client is told first; the session's secret and channels are filled in.
    fn opened(&self) -> Opened;
    /// The first block number that the client cannot have.
    fn block_limit(&self) -> u64;
    /// When entries get their addresses.
    fn placement(&self) -> Placement;
    /// Where blocks come from.
    fn source(&self) -> Arc<dyn BlockSource>;
    /// The manifest from its first entry on.
    fn manifest(&self) -> Result<Self::Manifest, WireError>;
    /// Some of the entries from `from` on that failed before this session, in order, with the causes; none behind the last. There may be
    /// millions, and a client that reads none of them.
    fn failed(&self, from: EntryIndex) -> impl Future<Output = Result<Vec<Failed>, WireError>> + Send;
    /// Entries failed in this session: the client has been told.
    fn handle_failed(&self, failed: &[Failed]);
    /// What is said of it once the manifest has ended.
    fn word(&self) -> Result<SignedWord, WireError>;
    /// Whether what is served is still to be had. Asked every few seconds, and when data channels have ended, as they do when it is not.
    fn recheck(&self) -> impl Future<Output = Result<(), WireError>> + Send;
    /// The client has everything.
    fn handle_finished(&self);
}

/// What a client asked for when it opened.
pub(super) struct Asked {
    pub open: OpenReceive,
    pub client: Client,
    pub udp: UdpSide,
}

pub(super) async fn run<S: Serve, R: AsyncRead + Send + Unpin>(
    serve: S,
    Asked { open, client, mut udp }: Asked,
    reader: &mut ControlReader<R>,
    messages: &Messages,
    (sessions, peer): (&Arc<Sessions>, IpAddr),
) -> Result<(), SessionError> {
    let (events, queue_events) = mpsc::unbounded_channel();
    let queue = Arc::new(Outbound::placing(serve.placement(), events));
    let (events, session_events) = mpsc::unbounded_channel();
    let compression = shared_compression(wanted(&open));
    let (outbound, priority) = (Arc::clone(&queue), priority_of(&open));
    let role = Role::Send { outbound, source: serve.source(), pace: None, compression, priority };
    let secret = session_secret()?;
    let session = Session::new(role, MAX_CHANNELS, events);
    session.begin(client.zstd);
    let guard = sessions.register(&secret, session, peer)?;
    let answer = udp.start(guard.session());
    messages.say(opened(serve.opened(), secret, answer)).await?;
    let mut failed = Vec::new();
    // The client applies them as the entries arrive.
    loop {
        let behind = failed.last().map_or(0, |last: &EntryIndex| last.0.saturating_add(1));
        let some = serve.failed(EntryIndex(behind)).await?;
        if some.is_empty() {
            break;
        }
        failed.extend(some.iter().map(|failed| EntryIndex(failed.entry)));
        for some in some.chunks(failures::AT_ONCE) {
            messages.say(Message::Failed(some.to_vec())).await?;
        }
    }
    let manifest = Some(serve.manifest()?);
    let mut serving = Serving {
        serve: &serve,
        client,
        queue,
        manifest,
        failed,
        declared: EntryIndex(0),
        accepted: EntryIndex(0),
        messages,
        echo: Echo::new(messages.idle_pings()),
        unread: Unread::default(),
        session: Arc::clone(guard.session()),
        udp,
        queue_events,
        session_events,
    };
    reader.expect_words();
    let converse = async {
        serving.handle_durable(&open.have)?;
        serving.converse(reader).await
    };
    let result = tokio::select! {
        result = converse => result,
        never = messages.end_unless(|| serve.recheck()) => match never {},
    };
    drop(guard);
    result
}

struct Serving<'a, S: Serve> {
    serve: &'a S,
    client: Client,
    queue: Arc<Outbound>,
    /// `None` once all of it is sent.
    manifest: Option<S::Manifest>,
    /// Entries that failed before this session, in order.
    failed: Vec<EntryIndex>,
    /// Where what the client was offered ends, and what of it the client has accepted.
    declared: EntryIndex,
    accepted: EntryIndex,
    messages: &'a Messages,
    echo: Echo,
    unread: Unread,
    session: Arc<Session>,
    udp: UdpSide,
    queue_events: mpsc::UnboundedReceiver<OutboundEvent>,
    session_events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl<S: Serve> Serving<'_, S> {
    async fn converse<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut ControlReader<R>,
    ) -> Result<(), SessionError> {
        loop {
            let may_declare = self.declared.0 < self.accepted.0.saturating_add(AHEAD);
            let next_batch = async {
                // Messages are read while there is no room for more: the client may be waiting for that.
                let room = self.messages.queue().reserve().await;
                drop(room);
                match &mut self.manifest {
                    Some(manifest) if may_declare => manifest.next().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                message = reader.next::<Message>() => {
                    if self.handle_message(message?).await? {
                        return Ok(());
                    }
                }
                batch = next_batch => self.send_batch(batch?).await?,
                Some(event) = self.queue_events.recv() => self.handle_outbound(event).await?,
                Some(event) = self.session_events.recv() => match event {
                    SessionEvent::Broken(error) => return Err(error.into()),
                    SessionEvent::ChannelEnded(_, Some(problem)) => {
                        tracing::debug!("a data channel ended: {problem}");
                        self.serve.recheck().await?;
                    }
                    SessionEvent::UdpEnded(Some(problem)) => {
                        tracing::debug!("the UDP data channels ended: {problem}");
                        self.serve.recheck().await?;
                    }
                    SessionEvent::ChannelEnded(_, None) | SessionEvent::UdpEnded(None) => {}
                    SessionEvent::Refused(..) => {}
                },
                error = self.messages.over() => return Err(error),
            }
        }
    }

    async fn handle_outbound(&mut self, event: OutboundEvent) -> Result<(), SessionError> {
        let failures = match event {
            OutboundEvent::Failed(failures) => failures,
            OutboundEvent::Unread(block, untold) => {
                self.unread.add(block, untold, None);
                return self.ask_if_read().await;
            }
            OutboundEvent::Advice(advice) => return self.messages.say(Message::Advice(advice)).await,
        };
        for message in failures::messages(&failures) {
            if let Message::Failed(failed) = &message {
                self.serve.handle_failed(failed);
            }
            self.messages.say(message).await?;
        }
        Ok(())
    }

    async fn send_batch(&mut self, batch: Option<Batch>) -> Result<(), SessionError> {
        let Some(batch) = batch else {
            self.manifest = None;
            self.messages.say(Message::ManifestEnd).await?;
            return self.messages.say(self.serve.word()?.into()).await;
        };
        self.queue
            .declare(batch.sizes(), batch.seal)
            .map_err(|error| WireError::fatal(ErrorCode::Internal, error.to_string()))?;
        self.declared = batch.end();
        let known = |end: EntryIndex| self.failed.partition_point(|entry| *entry < end);
        self.queue.handle_failed(self.failed[known(batch.first)..known(self.declared)].iter().copied());
        self.messages.say(Message::Batch(batch)).await
    }

    fn handle_durable(&self, runs: &RunList) -> Result<(), SessionError> {
        self.queue.handle_durable(&runs.runs(self.serve.block_limit())?);
        Ok(())
    }

    /// `true` when the client has everything.
    async fn handle_message(&mut self, message: Message) -> Result<bool, SessionError> {
        match message {
            Message::Accepted(entries) if entries <= self.declared.0 => {
                self.accepted = EntryIndex(entries);
                self.queue
                    .handle_accepted(u64::from(entries))
                    .map_err(|error| WireError::fatal(ErrorCode::Internal, error.to_string()))?;
            }
            Message::Declined(entries) => {
                if entries.iter().any(|entry| *entry >= self.declared.0) {
                    return Err(WireError::violation("it declined entries that were not offered").into());
                }
                let queue = Arc::clone(&self.queue);
                off_runtime(move || queue.handle_declined(entries.into_iter().map(EntryIndex))).await?;
            }
            Message::Durable(runs) => self.handle_durable(&runs)?,
            Message::Held(entries)
                if self.client.delta && entries.iter().all(|entry| *entry < self.declared.0) =>
            {
                self.queue.handle_held(entries.into_iter().map(EntryIndex));
            }
            Message::Guessed(guessed) if self.client.delta => self.queue.handle_guessed(guessed)?,
            Message::Sums(sums) if self.client.delta => {
                let queue = Arc::clone(&self.queue);
                off_runtime(move || queue.handle_sums(&sums)).await??;
            }
            Message::Refused(block, error) => {
                let block = BlockNumber(block);
                // Ahead of what is said next: of what fails from now on it may be said behind the question.
                let untold = self.queue.untold(block);
                // It may be one that is not to be kept before the client has heard what in it has failed.
                while let Ok(event) = self.queue_events.try_recv() {
                    self.handle_outbound(event).await?;
                }
                if untold.is_empty() {
                    self.queue.handle_refusal(block, error)?;
                } else {
                    self.unread.add(block, untold, Some(&error));
                    self.ask_if_read().await?;
                }
            }
            Message::CloseChannel(channel) if channel == UDP.0 => self.session.end_udp(),
            Message::CloseChannel(channel) => self.queue.close_channel(ChannelId(channel)),
            Message::OfferUdp(offer) => {
                self.messages.say(self.udp.answer(offer, &self.session).await?).await?;
            }
            Message::Finish => {
                self.serve.handle_finished();
                return Ok(true);
            }
            Message::Ping => self.messages.say(Message::Pong).await?,
            Message::Pong => {
                self.echo.handle_pong();
                for (block, told, refusal) in self.unread.handle_pong(&self.echo) {
                    self.queue.handle_told(block, told, refusal)?;
                }
                self.ask_if_read().await?;
            }
            _ => return Err(out_of_turn()),
        }
        Ok(false)
    }

    /// Asks for what of the failures the client has read, where blocks wait for that.
    async fn ask_if_read(&mut self) -> Result<(), SessionError> {
        for _ in 0..self.unread.poll_ask(&mut self.echo) {
            self.messages.say(Message::Ping).await?;
        }
        Ok(())
    }
}
