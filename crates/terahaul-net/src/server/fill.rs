//! A client sends: its manifest is stored, its blocks are received.
//!
//! | state | on | does |
//! |---|---|---|
//! | open, and the manifest is empty | | stores the batch that came with `OpenSend`, as below |
//! | open | `Batch` | stores it, then `Declined` for what is not wanted, `Durable` for what is here, `Accepted` |
//! | open | a group became durable | `Durable` |
//! | open | a block was refused | `Refused` |
//! | open | `OfferUdp` | other UDP channels, `AnswerUdp` |
//! | open | `Finish` | finishing |
//! | finishing | all is durable | publishes, `Statement`, the end |
//! | finishing | anything else | as when open |
//! | open | the service says so, another sender took its place, a write fails | `Error`, the end; what is durable stays |
//! | finished before it began | `Finish` | what it was answered before, the end |
//! | finished before it began | the service says so | `Error`, the end |

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use terahaul_core::{BlockNumber, BlockRun, ChannelId, EntryIndex, FailureCause};
use terahaul_store::{EntryFailure, Inbound};
use terahaul_wire::{Batch, Cause, ErrorCode, Failed, Message, Opened, RunList, WireError};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::{
    Client, MAX_CHANNELS, Manifest, Messages, SessionError, UdpSide, off_runtime, opened, out_of_turn,
    session_secret,
};
use crate::control::ControlReader;
use crate::failures;
use crate::session::{Keeping, Role, Session, SessionEvent, Sessions, SignedWord, Telling, next_told};

/// What a client that asked to send finds.
pub enum Filling<F> {
    /// A transfer that takes entries and bytes.
    Open(F),
    /// One that is finished: its client lost the connection before it heard of it.
    Finished {
        /// What it is.
        opened: Opened,
        /// How many blocks it has, all of them durable.
        blocks: u32,
        /// What was said of it when it was finished.
        word: SignedWord,
    },
}

/// What appending a batch came to.
#[derive(Clone, Debug, Default)]
pub struct Appended {
    /// Where in the manifest the batch ends.
    pub end: EntryIndex,
    /// Those of the batch that are not wanted.
    pub declined: Vec<EntryIndex>,
    /// Those of the batch that cannot be had.
    pub failed: Vec<Failed>,
    /// Blocks that are here without having been sent.
    pub durable: Vec<BlockRun>,
}

/// A transfer that a client fills. All of it may be called again by a later session.
pub trait Fill: Send + Sync {
    /// Reads the manifest that is stored.
    type Manifest: Manifest;
    /// A batch, and what was found out about it beforehand.
    type Looked: Send;

    /// What the client is told first; the session's secret and channels are filled in.
    fn opened(&self) -> Opened;
    /// Where its blocks go.
    fn inbound(&self) -> Arc<Inbound>;
    /// The manifest so far.
    fn manifest(&self) -> Result<Self::Manifest, WireError>;
    /// Looks at a batch while those before it may still be appended: changes nothing.
    fn look(&self, batch: Batch) -> impl Future<Output = Result<Self::Looked, WireError>> + Send;
    /// Appends entries, in their order. A batch may be repeated.
    fn append(&self, batch: Self::Looked) -> impl Future<Output = Result<Appended, WireError>> + Send;
    /// A session with a client that copies what a changed file has kept begins: returns what it is told of old files while it lasts,
    /// of entries that were named as held in it.
    fn tell_bases(&self) -> Option<Telling> {
        None
    }
    /// Entries before `end` that wait for that and were not named as held in this session: now they are.
    fn held(&self, _end: EntryIndex) -> Vec<EntryIndex> {
        Vec::new()
    }
    /// These entries will not arrive.
    fn fail(&self, failures: Vec<EntryFailure>) -> impl Future<Output = Result<(), WireError>> + Send;
    /// Everything was declared and sent: publishes, and says what came of it.
    fn finish(&self) -> impl Future<Output = Result<SignedWord, WireError>> + Send;
    /// The client says something that only the two programs understand.
    fn handle_note(&self, _note: Vec<u8>) -> Result<(), WireError> {
        Err(WireError::violation("it sent a note, which this end did not say that it takes"))
    }
    /// What the client is told where a block could not be kept: unlike that of a copy's far side, this end's disk may be nothing of its
    /// user's.
    fn told_of_disk(&self, error: WireError) -> WireError {
        error
    }
    /// What the client is to be told of what was appended or finished: taken once, or again with a batch that is repeated.
    fn take_notes(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
    /// Why the session has to end, once something else ends it: another sender that took its place, or the transfer's end.
    fn lost(&self) -> impl Future<Output = WireError> + Send {
        std::future::pending()
    }
}

/// What a client asked for when it opened.
pub(super) struct Asked {
    /// The stored manifest.
    pub manifest: bool,
    /// What the manifest begins with, where nothing of it is stored.
    pub first: Option<Batch>,
    /// It names the transfer, and so has declared what is stored. One that had lost the connection before it heard which it is has
    /// declared nothing, and offers all of it anew.
    pub returns: bool,
    pub client: Client,
    pub udp: UdpSide,
}

pub(super) async fn run<F: Fill, R: AsyncRead + Send + Unpin>(
    filling: Filling<F>,
    asked: Asked,
    reader: &mut ControlReader<R>,
    messages: &Messages,
    (sessions, peer): (&Arc<Sessions>, IpAddr),
) -> Result<(), SessionError> {
    match filling {
        Filling::Open(fill) => receive(fill, asked, reader, messages, (sessions, peer)).await,
        Filling::Finished { opened, blocks, word } => {
            let secret = session_secret()?;
            let _place = sessions.register_bare(&secret, peer)?;
            messages.say(super::opened(opened, secret, None)).await?;
            repeat_word(blocks, word, reader, messages).await
        }
    }
}

async fn receive<F: Fill, R: AsyncRead + Send + Unpin>(
    fill: F,
    Asked { manifest, first, returns, client, mut udp }: Asked,
    reader: &mut ControlReader<R>,
    messages: &Messages,
    (sessions, peer): (&Arc<Sessions>, IpAddr),
) -> Result<(), SessionError> {
    let inbound = fill.inbound();
    // What an interrupted session left in memory is made durable first, so that the client does not send it again.
    // A failure shows when more arrives; the list below is right either way.
    let flushing = Arc::clone(&inbound);
    let flushed = off_runtime(move || flushing.flush()).await?;
    flushed.unwrap_or_else(|error| tracing::debug!("{error}"));

    // First this, then the list of what is durable.
    let keeping = Keeping::listen(&inbound);
    let (events, session_events) = mpsc::unbounded_channel();
    let session =
        Session::new(Role::Receive { inbound: Arc::clone(&inbound), pace: None }, MAX_CHANNELS, events);
    session.begin(false);
    let secret = session_secret()?;
    let guard = sessions.register(&secret, session, peer)?;
    let answer = udp.start(guard.session());
    let stored = fill.opened();
    let first = first.filter(|_| stored.entries == 0);
    messages.say(opened(stored, secret, answer)).await?;
    let telling = client.delta.then(|| fill.tell_bases()).flatten();
    let fill = &fill;
    let mut open = Open {
        fill,
        inbound,
        messages,
        keeping,
        telling,
        session: Arc::clone(guard.session()),
        udp,
        session_events,
        finishing: false,
    };
    let converse = async {
        open.begin(manifest, returns, first).await?;
        reader.expect_words();
        let (ahead, heard) = mpsc::channel(AHEAD);
        tokio::select! {
            result = open.converse(heard) => result,
            never = read_ahead(fill, reader, ahead) => match never {},
        }
    };
    let lost = async { messages.end(fill.lost().await).await };
    let said = tokio::select! {
        said = converse => said,
        never = lost => match never {},
    };
    let result = match said {
        // This ends the transfer for whoever else would fill it, and so looks like a loss.
        Ok(()) => open.finish().await,
        Err(error) => Err(error),
    };
    drop(guard);
    result
}

async fn repeat_word<R: AsyncRead + Unpin>(
    blocks: u32,
    word: SignedWord,
    reader: &mut ControlReader<R>,
    messages: &Messages,
) -> Result<(), SessionError> {
    let all = BlockRun { first: BlockNumber(0), count: blocks };
    for runs in RunList::split((all.count > 0).then_some(all)) {
        messages.say(Message::Durable(runs)).await?;
    }
    messages.say(Message::ManifestEnd).await?;
    // It may have waited for the end of another session.
    reader.expect_words();
    loop {
        let message = tokio::select! {
            message = reader.next::<Message>() => message?,
            error = messages.over() => return Err(error),
        };
        match message {
            Message::Finish => return messages.say(word.into()).await,
            Message::Ping => messages.say(Message::Pong).await?,
            Message::Pong => {}
            Message::OfferUdp(_) => messages.say(Message::AnswerUdp(None)).await?,
            // Each session begins with what has failed and ends with a note, whatever was said before; and here it loses each of its channels.
            Message::Failed(_) | Message::Note(_) | Message::CloseChannel(_) => {}
            _ => {
                let closed = "the transfer is finished and takes nothing more: send to a new one";
                return Err(WireError::fatal(ErrorCode::WrongState, closed).into());
            }
        }
    }
}

/// Messages that wait to be acted on, besides the one that is read or looked at meanwhile.
const AHEAD: usize = 2;

/// What the client said.
enum Heard<L> {
    Batch(L),
    Other(Message),
}

/// Reads messages and looks at batches while an earlier one is appended: a manifest of many batches keeps several processors busy.
async fn read_ahead<F: Fill, R: AsyncRead + Unpin>(
    fill: &F,
    reader: &mut ControlReader<R>,
    ahead: mpsc::Sender<Result<Heard<F::Looked>, SessionError>>,
) -> Infallible {
    loop {
        let heard = match reader.next::<Message>().await {
            Ok(Message::Batch(batch)) => fill.look(batch).await.map(Heard::Batch).map_err(SessionError::from),
            Ok(message) => Ok(Heard::Other(message)),
            Err(error) => Err(error.into()),
        };
        let last = heard.is_err();
        if ahead.send(heard).await.is_err() || last {
            // The error ends the session when its turn comes.
            return std::future::pending().await;
        }
    }
}

struct Open<'a, F> {
    fill: &'a F,
    inbound: Arc<Inbound>,
    messages: &'a Messages,
    keeping: Keeping,
    telling: Option<Telling>,
    session: Arc<Session>,
    udp: UdpSide,
    session_events: mpsc::UnboundedReceiver<SessionEvent>,
    finishing: bool,
}

impl<F: Fill> Open<'_, F> {
    async fn begin(
        &mut self,
        manifest: bool,
        returns: bool,
        first: Option<Batch>,
    ) -> Result<(), SessionError> {
        self.send_stored(manifest).await?;
        if returns {
            self.say_held(EntryIndex(u32::MAX)).await?;
        }
        match first {
            Some(batch) => {
                let looked = self.fill.look(batch).await?;
                self.append(looked).await
            }
            None => Ok(()),
        }
    }

    /// What an interrupted run left: the manifest where the client wants it, failures, durable blocks.
    async fn send_stored(&self, manifest: bool) -> Result<(), SessionError> {
        if manifest {
            let mut batches = self.fill.manifest()?;
            while let Some(batch) = batches.next().await? {
                self.messages.say(Message::Batch(batch)).await?;
            }
        }
        let failed: Vec<_> = self.inbound.with(|receiver| receiver.failed().iter().copied().collect());
        for some in failed.chunks(failures::AT_ONCE) {
            let cause = Cause::from(FailureCause::Changed);
            let failed = some.iter().map(|entry| Failed { entry: entry.0, cause, detail: String::new() });
            self.messages.say(Message::Failed(failed.collect())).await?;
        }
        let durable: Vec<_> = self.inbound.with(|receiver| receiver.durable().runs().collect());
        self.say_durable(durable).await?;
        self.messages.say(Message::ManifestEnd).await
    }

    async fn say_durable(&self, runs: Vec<BlockRun>) -> Result<(), SessionError> {
        for runs in RunList::split(runs) {
            self.messages.say(Message::Durable(runs)).await?;
        }
        Ok(())
    }

    async fn say_held(&self, end: EntryIndex) -> Result<(), SessionError> {
        const AT_ONCE: usize = 1000;
        if self.telling.is_none() {
            return Ok(());
        }
        for some in self.fill.held(end).chunks(AT_ONCE) {
            self.messages.say(Message::Held(some.iter().map(|entry| entry.0).collect())).await?;
        }
        Ok(())
    }

    async fn say_notes(&self) -> Result<(), SessionError> {
        for note in self.fill.take_notes() {
            self.messages.say(Message::Note(note)).await?;
        }
        Ok(())
    }

    async fn converse(
        &mut self,
        mut heard: mpsc::Receiver<Result<Heard<F::Looked>, SessionError>>,
    ) -> Result<(), SessionError> {
        loop {
            if self.finishing && self.may_finish() {
                return Ok(());
            }
            tokio::select! {
                Some(heard) = heard.recv() => match heard? {
                    Heard::Batch(looked) => self.append(looked).await?,
                    Heard::Other(message) => self.handle_message(message).await?,
                },
                Some(runs) = self.keeping.durable.recv() => self.say_durable(runs).await?,
                Some(told) = next_told(&mut self.telling, self.messages.queue()) => self.messages.say(told).await?,
                // The client counts on blocks that are gone: a new session starts from what is durable.
                Some(error) = self.keeping.lost.recv() => return Err(self.fill.told_of_disk(error).into()),
                Some(event) = self.session_events.recv() => self.handle_event(event).await?,
                error = self.messages.over() => return Err(error),
            }
        }
    }

    async fn finish(&self) -> Result<(), SessionError> {
        let word = self.fill.finish().await?;
        self.say_notes().await?;
        self.messages.say(word.into()).await
    }

    async fn handle_event(&self, event: SessionEvent) -> Result<(), SessionError> {
        match event {
            SessionEvent::Refused(block, error) => self.messages.say(Message::Refused(block.0, error)).await,
            SessionEvent::Broken(error)
                if matches!(error.code, ErrorCode::DiskFull | ErrorCode::Internal) =>
            {
                Err(self.fill.told_of_disk(error).into())
            }
            SessionEvent::Broken(error) => Err(error.into()),
            SessionEvent::ChannelEnded(channel, problem) => {
                if let Some(problem) = problem {
                    tracing::debug!("data channel {} ended: {problem}", channel.0);
                }
                Ok(())
            }
            SessionEvent::UdpEnded(problem) => {
                if let Some(problem) = problem {
                    tracing::debug!("the UDP data channels ended: {problem}");
                }
                Ok(())
            }
        }
    }

    /// Blocks may still be on their way when the client has said its last. A manifest that it left open is as it
    /// should be or an error, now.
    fn may_finish(&self) -> bool {
        self.inbound.with(|receiver| receiver.is_complete() || receiver.layout().open_block().is_some())
    }

    async fn append(&self, looked: F::Looked) -> Result<(), SessionError> {
        let Appended { end, declined, failed, durable } = self.fill.append(looked).await?;
        if !failed.is_empty() {
            self.messages.say(Message::Failed(failed)).await?;
        }
        if !declined.is_empty() {
            let declined = declined.into_iter().map(|entry| entry.0);
            self.messages.say(Message::Declined(declined.collect())).await?;
        }
        self.say_durable(durable).await?;
        self.say_notes().await?;
        self.say_held(end).await?;
        self.messages.say(Message::Accepted(end.0)).await
    }

    async fn handle_message(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Note(note) => self.fill.handle_note(note)?,
            Message::Failed(failed) => {
                self.fill.fail(failed.into_iter().map(failures::from_failed).collect()).await?;
            }
            Message::Advice(advice) if let Some(telling) = &self.telling => (telling.advise)(advice),
            Message::CloseChannel(channel) => self.session.cut_channel(ChannelId(channel)),
            Message::Finish => self.finishing = true,
            Message::OfferUdp(offer) => {
                self.messages.say(self.udp.answer(offer, &self.session).await?).await?;
            }
            Message::Ping => self.messages.say(Message::Pong).await?,
            Message::Pong => {}
            _ => return Err(out_of_turn()),
        }
        Ok(())
    }
}
