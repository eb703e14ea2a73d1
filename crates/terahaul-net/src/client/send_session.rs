//! The driver behind [`super::send::Sending`].
//!
//! | state | on | does |
//! |---|---|---|
//! | opening | `Opened … ManifestEnd` | takes over the stored manifest and what is durable |
//! | open | a command | declares entries, sends batches |
//! | open | `Accepted`, `Declined`, `Durable`, `Refused` | moves the block queue |
//! | open | everything sent and `Finish` asked for | sends `Finish`, which the depot answers when all is durable |
//! | finishing | `Statement` | answers, done |
//! | any | a lost connection | waits (doubling), connects again, opens the same transfer |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockNumber, BlockRun, BlockSet, EntryIndex, Pace, Priority, TransferId};
use terahaul_store::{BlockSource, EntryFailure};
use terahaul_wire::{Batch, ErrorCode, MAX_ENTRIES, Message, OpenSend, Opened, WireError};
use tokio::sync::{mpsc, oneshot};

use super::channels::{Channels, Options};
use super::connect::{Client, Connection, Reader, expect_opened, unexpected};
use super::error::ClientError;
use super::open_session::{Asked, OpenSession, Prepared};
use super::persistence::Persistence;
use super::send::{Beginning, Begun, Command, Concluded, Shared, Stored, TellingOfPanics};
use crate::channel::{
    Answer, Outbound, OutboundEvent, Placement, SharedCompression, SharedPace, shared_compression,
};
use crate::failures;
use crate::session::{OwnSession, Role, SignedWord};
use crate::unread::Unread;

/// How often the number of channels is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Batches that the receiver has not accepted, at most: a few ahead of it are enough, and the walk waits beyond that.
pub const MOST_UNACCEPTED: usize = 32;

/// What opening told.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub transfer: TransferId,
    pub link: Option<String>,
    pub begun: Option<Begun>,
}

pub(crate) struct Driver {
    client: Client,
    supply: Supply,
    outbound: Arc<Outbound>,
    outbound_events: mpsc::UnboundedReceiver<OutboundEvent>,
    options: Options,
    channels: Channels,
    commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
    transfer: TransferId,
    /// Batches that the depot has not accepted, oldest first.
    unaccepted: VecDeque<Batch>,
    /// How many of them the session that begins has said already.
    said: usize,
    entries: u32,
    /// Entries of which an earlier run had said that they would not arrive: they were declared once more since.
    failed_before: BTreeSet<EntryIndex>,
    /// Entries that will not arrive, whichever end has found that out first.
    failures: BTreeMap<EntryIndex, EntryFailure>,
    finish: Option<oneshot::Sender<Result<Concluded, ClientError>>>,
    /// What the server is told before the end.
    last_note: Option<Vec<u8>>,
    connection: Option<(Connection, Opened)>,
    /// The session of that connection, which may be measuring the path already.
    prepared: Option<Prepared>,
}

/// What all sessions of a transfer send from.
struct Supply {
    source: Arc<dyn BlockSource>,
    outbound: Arc<Outbound>,
    pace: SharedPace,
    compression: SharedCompression,
    priority: Priority,
}

impl Supply {
    fn session(&self) -> Prepared {
        let (events, session_events) = mpsc::unbounded_channel();
        let role = Role::Send {
            outbound: Arc::clone(&self.outbound),
            source: Arc::clone(&self.source),
            pace: self.pace.clone(),
            compression: self.compression.clone(),
            priority: self.priority,
        };
        (OwnSession::new(role, events), session_events)
    }
}

/// An open session, as the driver's loop sees it.
struct Open {
    session: OpenSession,
    finishing: bool,
    unread: Unread,
}

impl Open {
    /// Asks for what of the failures the receiver has read, where blocks wait for that.
    async fn ask_if_read(&mut self) -> Result<(), ClientError> {
        for _ in 0..self.unread.poll_ask(&mut self.session.echo) {
            self.session.say(Message::Ping).await?;
        }
        Ok(())
    }
}

/// What is said again at the beginning of a session: of these batches each, and before it what has failed of the entries before it, whose
/// paths it may have again. A depot may have forgotten what it was told in the session before.
fn repeated<'a>(
    batches: impl Iterator<Item = &'a Batch>,
    failed: &'a [EntryFailure],
) -> impl Iterator<Item = Message> {
    let mut said = 0;
    batches.map(Some).chain([None]).flat_map(move |batch| {
        let known = |first| failed.partition_point(|failure| failure.entry < first);
        let end = batch.map_or(failed.len(), |batch| known(batch.first));
        let before = &failed[said..end];
        said = end;
        failures::messages(before).chain(batch.cloned().map(Message::Batch))
    })
}

impl Driver {
    pub async fn open(
        client: Client,
        open: OpenSend,
        beginning: &Beginning,
        options: Options,
        source: Arc<dyn BlockSource>,
        commands: mpsc::Receiver<Command>,
        shared: Arc<Shared>,
    ) -> Result<(Self, Opening, Stored), ClientError> {
        let mut channels = Channels::new(options);
        let (events, outbound_events) = mpsc::unbounded_channel();
        let outbound = Arc::new(Outbound::placing(client.placement, events));
        let supply = Supply {
            source,
            outbound: Arc::clone(&outbound),
            pace: options.limit.map(|rate| Arc::new(Mutex::new(Pace::new(rate)))),
            compression: shared_compression(options.compress),
            priority: options.priority,
        };
        let dialled = client.dial(&mut channels, true).await?;
        let first = beginning.batch();
        let open = OpenSend { udp: dialled.udp_offer(), first: first.clone(), ..open };
        let greeted = dialled.greet(&client, Message::OpenSend(open), options).await;
        let prepared = supply.session();
        let Connection { udp, reach, .. } = greeted.connection();
        channels.start_ahead(udp.as_ref(), &prepared.0, reach);
        let mut connection = greeted.answered().await?;
        let opened = expect_opened(&mut connection.reader).await?;
        let stored = read_stored(&mut connection.reader, &outbound, 0, None).await?;
        let transfer = TransferId(opened.transfer);
        let first = first.filter(|_| opened.entries == 0 && stored.entries.is_empty());
        let begun =
            first.as_ref().map(|batch| Begun { entries: batch.entries.len() as u32, seal: batch.seal });
        let opening = Opening { transfer, link: opened.link.clone(), begun };
        let mut driver = Self {
            client,
            supply,
            outbound,
            outbound_events,
            options,
            channels,
            commands,
            shared,
            transfer,
            unaccepted: VecDeque::new(),
            said: usize::from(first.is_some() && connection.takes_first),
            entries: stored.entries.len() as u32,
            failed_before: stored.failed.clone(),
            failures: BTreeMap::new(),
            finish: None,
            last_note: None,
            connection: Some((connection, opened)),
            prepared: Some(prepared),
        };
        if let Some(batch) = first {
            driver.declare(batch)?;
        }
        Ok((driver, opening, stored))
    }

    pub fn outbound(&self) -> Arc<Outbound> {
        Arc::clone(&self.outbound)
    }

    pub async fn run(mut self) {
        let _telling = TellingOfPanics(Arc::clone(&self.shared));
        let result = self.run_sessions().await;
        self.shared.line.connect(false);
        self.outbound.close();
        match (self.finish.take(), result) {
            (Some(answer), result) => {
                // The caller may have stopped waiting.
                let _ = answer.send(result);
            }
            (None, Err(error)) => {
                *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            (None, Ok(_)) => {}
        }
    }

    /// Sessions, one after the other, until one ends well or for good.
    async fn run_sessions(&mut self) -> Result<Concluded, ClientError> {
        let mut persistence = Persistence::default();
        loop {
            let is_first = self.connection.is_some();
            let opened = match self.connection.take() {
                Some(opened) => Ok(opened),
                None => self.reopen().await,
            };
            let (error, lasted) = match opened {
                Ok((connection, opened)) => {
                    self.shared.line.connect(true);
                    let started = Instant::now();
                    let result = self.run_session(connection, opened).await;
                    self.shared.line.connect(false);
                    match result {
                        Ok(sent) => return Ok(sent),
                        Err(error) if self.is_of_another_run(&error, is_first) => {
                            return Err(ClientError::TakenOver);
                        }
                        Err(error) => (error, Some(started.elapsed())),
                    }
                }
                Err(error) => (error, None),
            };
            if error.is_loss(lasted) {
                // It has not all that it was to finish with.
                self.shared.asked_to_finish.store(false, Ordering::Relaxed);
            }
            persistence.pause_after(error, lasted, self.outbound.durable()).await?;
        }
    }

    /// Whether a session ended so because another run has gone on with the transfer meanwhile, or finished it. A copy has no other.
    fn is_of_another_run(&self, error: &ClientError, is_first: bool) -> bool {
        let ClientError::Depot(error) = error else { return false };
        match error.code {
            _ if self.client.placement == Placement::Accepted => false,
            // What this run said before fitted.
            ErrorCode::ManifestConflict => !is_first,
            ErrorCode::WrongState => !error.retry,
            _ => false,
        }
    }

    async fn reopen(&mut self) -> Result<(Connection, Opened), ClientError> {
        let dialled = self.client.dial(&mut self.channels, false).await?;
        let (transfer, udp) = (Some(self.transfer.0), dialled.udp_offer());
        let known = Some(self.entries);
        let open = Message::OpenSend(OpenSend { transfer, udp, known, ..OpenSend::default() });
        let mut connection = dialled.greet(&self.client, open, self.options).await.answered().await?;
        let opened = expect_opened(&mut connection.reader).await.map_err(|error| match error {
            ClientError::Depot(WireError { code: ErrorCode::NotFound, .. }) => ClientError::Removed,
            error => error,
        })?;
        if opened.entries > self.entries {
            return Err(ClientError::TakenOver);
        }
        if opened.sealed == Some(true) && self.outbound.was_open_after(opened.entries) {
            // Somebody has asked for it to be finished meanwhile. What this run has packed behind that has other places there.
            if opened.entries < self.entries || !self.unaccepted.is_empty() {
                return Err(ClientError::TakenOver);
            }
            self.outbound.declare([], true)?;
            self.outbound.handle_accepted(opened.entries.into())?;
        }
        let mut told = Told::default();
        read_stored(&mut connection.reader, &self.outbound, self.entries, Some(&mut told)).await?;
        if self.outbound.has_more_durable_than(&told.durable) {
            return Err(ClientError::Forgotten { host: self.client.host() });
        }
        // Another run may have gone on meanwhile, and not have had them.
        told.failures.retain(|entry, _| !self.failed_before.contains(entry));
        self.keep_failures(told.failures.into_values());
        if self.shared.asked_to_finish.load(Ordering::Relaxed)
            && self.outbound.durable() == self.outbound.declared().0
        {
            // Nothing is left to send. A depot that has finished it meanwhile opens no way for it.
            connection.udp = None;
        }
        self.outbound.reopen();
        // What the session before had said with its request went with it, also where it ended before it began.
        self.said = 0;
        // What is left of the session before: failures are told at the beginning of each, advice is void.
        while let Ok(event) = self.outbound_events.try_recv() {
            if let OutboundEvent::Failed(failures) = event {
                self.keep_failures(failures);
            }
        }
        // What was accepted while nobody listened is not known: those batches are repeated.
        Ok((connection, opened))
    }

    fn handle_accepted(&mut self, entries: u32) -> Result<(), ClientError> {
        let mut answer = Answer::to(entries.into());
        while let Some(batch) = self.unaccepted.front()
            && answer.covers(batch.end().0.into())
        {
            self.unaccepted.pop_front();
        }
        Ok(self.outbound.handle_accepted(u64::from(entries))?)
    }

    async fn run_session(
        &mut self,
        connection: Connection,
        opened: Opened,
    ) -> Result<Concluded, ClientError> {
        let prepared = self.prepared.take().unwrap_or_else(|| self.supply.session());
        let (session, mut reader) =
            OpenSession::begin(&self.client, &mut self.channels, connection, &opened, prepared)?;
        let mut open = Open { session, finishing: false, unread: Unread::default() };
        let result = self.converse(&mut open, &mut reader).await;
        open.session.end(&self.shared.line, result.is_ok()).await;
        result
    }

    async fn converse(&mut self, open: &mut Open, reader: &mut Reader) -> Result<Concluded, ClientError> {
        let said = std::mem::take(&mut self.said);
        let failed: Vec<_> = self.failures.values().cloned().collect();
        for message in repeated(self.unaccepted.iter().skip(said), &failed) {
            open.session.say(message).await?;
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.finish_if_done(open).await?;
            tokio::select! {
                message = reader.next::<Message>() => {
                    if let Some(sent) = self.handle_message(open, message?).await? {
                        return Ok(sent);
                    }
                }
                Some(command) = self.commands.recv(), if self.unaccepted.len() < MOST_UNACCEPTED => {
                    self.handle_command(open, command).await?;
                }
                Some(event) = self.outbound_events.recv() => self.handle_outbound(open, event).await?,
                event = open.session.events.next() => {
                    match open.session.handle_event(&self.client, &mut self.channels, event)? {
                        Some(Asked::Broken(error)) => return Err(ClientError::Depot(error)),
                        Some(Asked::Lost(channel)) => {
                            open.session.say(Message::CloseChannel(channel.0)).await?;
                        }
                        // Only who receives refuses blocks.
                        Some(Asked::Refused(..)) | None => {}
                    }
                }
                _ = tick.tick() => {}
            }
            self.adapt_channels(open).await?;
        }
    }

    async fn adapt_channels(&mut self, open: &mut Open) -> Result<(), ClientError> {
        open.session.follow_ways(&self.client, &mut self.channels, &self.shared.line).await?;
        while let Some(channel) = open.session.poll_close(&self.client, &mut self.channels) {
            self.outbound.close_channel(channel);
        }
        Ok(())
    }

    async fn handle_command(&mut self, open: &Open, command: Command) -> Result<(), ClientError> {
        match command {
            Command::Append(batch) => {
                let batch = self.declare(batch)?;
                open.session.say(Message::Batch(batch)).await
            }
            Command::Fail(failures) => {
                self.outbound.handle_failed(failures.iter().map(|failure| failure.entry));
                self.report_failures(open, failures).await
            }
            Command::Finish(note, answer) => {
                self.last_note = note;
                self.finish = Some(answer);
                Ok(())
            }
        }
    }

    /// Entries are to be sent behind those before them.
    fn declare(&mut self, batch: Batch) -> Result<Batch, ClientError> {
        debug_assert_eq!(batch.first, EntryIndex(self.entries));
        self.outbound.declare(batch.sizes(), batch.seal)?;
        self.entries = batch.end().0;
        self.unaccepted.push_back(batch.clone());
        Ok(batch)
    }

    /// Kept first: where the session ends before all is said, the next one begins with it.
    async fn report_failures(&mut self, open: &Open, failures: Vec<EntryFailure>) -> Result<(), ClientError> {
        let messages: Vec<_> = failures::messages(&failures).collect();
        self.keep_failures(failures);
        for message in messages {
            open.session.say(message).await?;
        }
        Ok(())
    }

    /// What is said of an entry first is kept.
    fn keep_failures(&mut self, failures: impl IntoIterator<Item = EntryFailure>) {
        for failure in failures {
            self.failures.entry(failure.entry).or_insert(failure);
        }
    }

    async fn finish_if_done(&mut self, open: &mut Open) -> Result<(), ClientError> {
        let done = self.finish.is_some()
            && !open.finishing
            && self.unaccepted.is_empty()
            && self.outbound.is_sent()
            && open.unread.is_empty()
            // Asked last: the last block that is sent may have told of failures, which go ahead of the end.
            && self.outbound_events.is_empty();
        if done {
            open.finishing = true;
            if let Some(note) = &self.last_note {
                open.session.say(Message::Note(note.clone())).await?;
            }
            self.shared.asked_to_finish.store(true, Ordering::Relaxed);
            open.session.say(Message::Finish).await?;
        }
        Ok(())
    }

    async fn handle_message(
        &mut self,
        open: &mut Open,
        message: Message,
    ) -> Result<Option<Concluded>, ClientError> {
        match message {
            Message::Accepted(entries) if entries <= self.entries => self.handle_accepted(entries)?,
            Message::Declined(entries) if entries.iter().all(|entry| *entry < self.entries) => {
                self.outbound.handle_declined(entries.into_iter().map(EntryIndex));
            }
            Message::Held(entries)
                if self.options.delta && entries.iter().all(|entry| *entry < self.entries) =>
            {
                self.outbound.handle_held(entries.into_iter().map(EntryIndex));
            }
            Message::Guessed(guessed) if self.options.delta => {
                self.outbound.handle_guessed(guessed).map_err(ClientError::Violation)?;
            }
            Message::Sums(sums) if self.options.delta => {
                self.outbound.handle_sums(&sums).map_err(ClientError::Violation)?;
            }
            Message::Durable(runs) => {
                let known = runs.runs(self.outbound.block_limit());
                let runs = known.map_err(|outside| match self.client.placement {
                    // Another run has told of more.
                    Placement::Declared => ClientError::TakenOver,
                    Placement::Accepted => ClientError::Violation(outside),
                })?;
                self.outbound.handle_durable(&runs);
                self.channels.handle_progress();
            }
            Message::Refused(block, error) => {
                let block = BlockNumber(block);
                // Ahead of what is said next: of what fails from now on it may be said behind the question.
                let untold = self.outbound.untold(block);
                // It may be one that is not to be kept before the receiver has heard what in it has failed.
                while let Ok(event) = self.outbound_events.try_recv() {
                    self.handle_outbound(open, event).await?;
                }
                // Whatever was promised before, this block is wanted once more.
                open.finishing = false;
                if !error.retry && error.code != ErrorCode::Conflict {
                    return Err(ClientError::Depot(error));
                }
                if untold.is_empty() {
                    self.outbound.handle_refusal(block, error).map_err(ClientError::Depot)?;
                } else {
                    open.unread.add(block, untold, Some(&error));
                    open.ask_if_read().await?;
                }
            }
            Message::Failed(failed) if failed.iter().all(|failed| failed.entry < self.entries) => {
                let failures: Vec<_> = failed.into_iter().map(failures::from_failed).collect();
                self.outbound.handle_failed(failures.iter().map(|failure| failure.entry));
                self.keep_failures(failures);
            }
            Message::Accepted(_) | Message::Declined(_) | Message::Held(_) | Message::Failed(_) => {
                let what = "it answered for entries that it was not offered, or that nobody asked about";
                return Err(ClientError::Violation(WireError::violation(what)));
            }
            Message::Statement(said, signature) => {
                let failures = std::mem::take(&mut self.failures).into_values().collect();
                let declined = self.outbound.declined();
                return Ok(Some(Concluded { word: SignedWord { said, signature }, failures, declined }));
            }
            Message::AnswerUdp(answer) => open.session.handle_udp_answer(&self.channels, answer)?,
            Message::Ping => open.session.say(Message::Pong).await?,
            Message::Note(note) => {
                let mut listener = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(listener) = &mut *listener {
                    listener(note);
                }
            }
            Message::Pong => {
                open.session.echo.handle_pong();
                for (block, told, refusal) in open.unread.handle_pong(&open.session.echo) {
                    self.outbound.handle_told(block, told, refusal).map_err(ClientError::Depot)?;
                }
                open.ask_if_read().await?;
            }
            other => return Err(unexpected(other)),
        }
        Ok(None)
    }

    async fn handle_outbound(&mut self, open: &mut Open, event: OutboundEvent) -> Result<(), ClientError> {
        match event {
            OutboundEvent::Unread(block, untold) => {
                open.unread.add(block, untold, None);
                open.ask_if_read().await
            }
            OutboundEvent::Failed(failures) => self.report_failures(open, failures).await,
            OutboundEvent::Advice(advice) => open.session.say(Message::Advice(advice)).await,
        }
    }
}

/// What is told of a transfer that is gone on with by the run that began it.
#[derive(Default)]
struct Told {
    /// Of what is declared here.
    durable: BlockSet,
    failures: BTreeMap<EntryIndex, EntryFailure>,
}

/// Reads the stored manifest (where it was asked for), the failures and what is durable, up to `ManifestEnd`, of a
/// transfer of which `known` entries are declared here already.
async fn read_stored(
    reader: &mut Reader,
    outbound: &Outbound,
    known: u32,
    mut told: Option<&mut Told>,
) -> Result<Stored, ClientError> {
    let mut stored = Stored::default();
    let mut batches = 0;
    loop {
        match reader.next::<Message>().await? {
            Message::Batch(batch)
                if told.is_none()
                    && batch.first.0 as usize == stored.entries.len()
                    && stored.entries.len() + batch.entries.len() <= MAX_ENTRIES as usize =>
            {
                outbound.declare(batch.sizes(), batch.seal)?;
                stored.entries.extend(batch.entries);
                batches += 1;
            }
            Message::Failed(failed)
                if failed.iter().all(|failed| failed.entry < known.max(stored.entries.len() as u32)) =>
            {
                let indices = failed.iter().map(|failed| EntryIndex(failed.entry));
                outbound.handle_failed(indices.clone());
                stored.failed.extend(indices);
                if let Some(told) = &mut told {
                    let failed = failed.into_iter().map(failures::from_failed);
                    told.failures.extend(failed.map(|failure| (failure.entry, failure)));
                }
            }
            Message::Durable(runs) => {
                let runs = runs.runs(outbound.block_limit()).map_err(ClientError::Violation)?;
                outbound.handle_durable(&runs);
                if let Some(told) = &mut told {
                    // What is not declared here is not asked about, and may be as much as the other end likes to say.
                    let declared = outbound.block_count();
                    let blocks = runs.iter().filter_map(|run| run.below(declared)).flat_map(BlockRun::blocks);
                    blocks.for_each(|block| {
                        told.durable.insert(block);
                    });
                }
            }
            Message::ManifestEnd => break,
            Message::Ping | Message::Pong => {}
            other => return Err(unexpected(other)),
        }
    }
    for _ in 0..batches {
        outbound.handle_accepted(stored.entries.len() as u64)?;
    }
    Ok(stored)
}

#[cfg(test)]
mod tests;
