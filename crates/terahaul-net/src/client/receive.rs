//! Receiving from a depot.
//!
//! | state | on | does |
//! |---|---|---|
//! | opening | `Opened` | tells the destination what to expect |
//! | open | `Batch` | the destination makes room and may decline entries; then `Accepted` |
//! | open | a group of blocks durable | tells the depot, so that a resume does not send them again |
//! | open | `ManifestEnd`, `Statement`, and everything wanted durable | sends `Finish`, done |
//! | any | a lost connection, or a disk that has lost what was received | waits (doubling), connects again, names what it has |

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockRun, ByteCount, Compress, EntryIndex, Pace, Statement, TransferId};
use terahaul_store::Inbound;
use terahaul_wire::{
    Batch, ErrorCode, Failed, MAX_ENTRIES, Message, OpenReceive, Opened, RunList, WireError,
};
use tokio::sync::mpsc;

use super::channels::{Channels, Options};
use super::connect::{Client, Connection, Reader, expect_opened, unexpected};
use super::error::ClientError;
use super::open_session::{Asked, Line, OpenSession};
use super::persistence::{Persistence, first_session};
use super::send::{Progress, read_statement};
use crate::channel::{Placement, SharedPace};
use crate::echo::Read;
use crate::session::{Keeping, OwnSession, Role, SignedWord, Telling, next_told};

const TICK: Duration = Duration::from_millis(100);

/// What is about to be received.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Which transfer.
    pub transfer: TransferId,
    /// Its name.
    pub name: String,
    /// Number of entries.
    pub entries: u32,
    /// Sum of their files' sizes.
    pub bytes: u64,
}

/// Why a destination does not take what is offered. Whoever made the destination knows the type.
pub type DestinationError = Box<dyn Error + Send + Sync>;

/// Where a transfer is received to. Called on threads that may block, one call at a time.
pub trait Destination: Send + Sync + 'static {
    /// The next entries of the manifest, in order. From a depot they are in `inbound`'s layout already; from the far
    /// side of a copy (a client [`placing_accepted`](Client::placing_accepted)) it is for this to append them, those
    /// that it declines as having no size, and to seal behind them where the batch says so. An error ends the transfer:
    /// it comes back as a [`ClientError::Destination`].
    fn handle_entries(&self, batch: Batch) -> Result<Taken, DestinationError>;

    /// Entries that will not arrive, with the reason.
    fn handle_failed(&self, failed: Vec<Failed>);

    /// Where blocks go.
    fn inbound(&self) -> Arc<Inbound>;

    /// A session with a server that copies what a changed file has kept begins: returns what it is told of old files while it lasts,
    /// of entries that were named as held in it.
    fn tell_bases(&self) -> Option<Telling> {
        None
    }

    /// Entries before `end` that wait for that and were not named as held in this session: now they are.
    fn held(&self, _end: EntryIndex) -> Vec<EntryIndex> {
        Vec::new()
    }
}

/// What a destination makes of some entries.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Those that are not wanted.
    pub declined: Vec<EntryIndex>,
    /// Blocks that are here already, whatever session brought them.
    pub durable: Vec<BlockRun>,
}

/// What a finished transfer leaves with its receiver. Everything wanted is durable where the destination put it.
#[derive(Debug)]
pub struct Received {
    /// The depot's signed statement.
    pub statement: Statement,
    /// Its signature.
    pub signature: String,
}

/// A look at a transfer that is being received, for progress displays.
#[derive(Clone, Default)]
pub struct ReceiveWatch(Arc<Watched>);

#[derive(Default)]
struct Watched {
    line: Line,
    begun: Mutex<Option<(Arc<Inbound>, Offer)>>,
    /// All of the manifest has come.
    is_whole: AtomicBool,
    /// Bytes that went over the data channels of ended sessions, and of the one that runs.
    moved: (AtomicU64, AtomicU64),
}

impl ReceiveWatch {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        let begun = self.0.begun.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut progress = Progress {
            sent: ByteCount(self.0.moved.0.load(Ordering::Relaxed) + self.0.moved.1.load(Ordering::Relaxed)),
            ..self.0.line.progress()
        };
        if let Some((inbound, offer)) = begun {
            inbound.with(|receiver| {
                progress.total = receiver.wanted_bytes();
                progress.done = receiver.durable_bytes();
                progress.entries = receiver.layout().entry_count();
            });
            if progress.entries < u64::from(offer.entries) {
                progress.total = progress.total.max(ByteCount(offer.bytes));
            }
        }
        progress
    }

    /// Whether all that is to come is counted: the far side of a copy may still be walking.
    pub fn has_whole_manifest(&self) -> bool {
        self.0.is_whole.load(Ordering::Relaxed)
    }

    fn begin(&self, inbound: Arc<Inbound>, offer: Offer) {
        *self.0.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some((inbound, offer));
    }
}

/// A transfer that a depot offers, before anything is done with it.
pub struct Receiving {
    client: Client,
    offer: Offer,
    channels: Channels,
    pace: SharedPace,
    options: Options,
    connection: (Connection, Opened),
}

impl Receiving {
    /// Connects and asks for `transfer`. Nothing is written here yet: a wrong link leaves nothing behind.
    pub async fn open(client: Client, transfer: TransferId, options: Options) -> Result<Self, ClientError> {
        let (channels, (connection, opened)) = first_session(&client, || async {
            let mut channels = Channels::receiving(options);
            let opened = open(&client, transfer, RunList::default(), &mut channels, options).await?;
            Ok((channels, opened))
        })
        .await?;
        let violation = match client.placement {
            Placement::Declared if opened.entries > MAX_ENTRIES => {
                Some("it offers more entries than a transfer has")
            }
            Placement::Declared if opened.transfer != transfer.0 => {
                Some("it offers another transfer than was asked for")
            }
            Placement::Declared | Placement::Accepted => None,
        };
        if let Some(violation) = violation {
            return Err(ClientError::Violation(WireError::violation(violation)));
        }
        let offer =
            Offer { transfer, name: opened.name.clone(), entries: opened.entries, bytes: opened.bytes };
        let pace = options.limit.map(|rate| Arc::new(Mutex::new(Pace::new(rate))));
        Ok(Self { client, offer, channels, pace, options, connection: (connection, opened) })
    }

    /// What is offered.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Receives from a depot into `destination` until everything wanted is durable there.
    pub async fn receive(
        self,
        destination: Arc<dyn Destination>,
        watch: ReceiveWatch,
    ) -> Result<Received, ClientError> {
        let transfer = self.offer.transfer;
        let SignedWord { said, signature } = self.receive_all(destination, watch).await?;
        Ok(Received { statement: read_statement(&said, transfer)?, signature })
    }

    /// The same, whatever the server's last word is.
    pub async fn receive_all(
        self,
        destination: Arc<dyn Destination>,
        watch: ReceiveWatch,
    ) -> Result<SignedWord, ClientError> {
        let Self { client, offer, channels, pace, options, connection } = self;
        let inbound = destination.inbound();
        watch.begin(Arc::clone(&inbound), offer.clone());
        let transfer = offer.transfer;
        let most = match client.placement {
            Placement::Declared => EntryIndex(offer.entries),
            // The far side of a copy is still walking.
            Placement::Accepted => EntryIndex(u32::MAX),
        };
        let mut driver = Driver {
            client,
            transfer,
            destination,
            inbound,
            pace,
            options,
            channels,
            known: EntryIndex(0),
            most,
            watch,
        };
        driver.run(connection).await
    }
}

async fn open(
    client: &Client,
    transfer: TransferId,
    have: RunList,
    channels: &mut Channels,
    options: Options,
) -> Result<(Connection, Opened), ClientError> {
    let level = match options.compress {
        Compress::Level(level) => u8::try_from(level).ok(),
        Compress::Auto | Compress::No => None,
    };
    let priority = Some(options.priority.number());
    let dialled = client.dial(channels, false).await?;
    let open =
        OpenReceive { transfer: transfer.0, have, compress: level, udp: dialled.udp_offer(), priority };
    let mut connection = dialled.greet(client, Message::OpenReceive(open), options).await.answered().await?;
    let opened = expect_opened(&mut connection.reader).await?;
    Ok((connection, opened))
}

struct Driver {
    client: Client,
    transfer: TransferId,
    destination: Arc<dyn Destination>,
    inbound: Arc<Inbound>,
    pace: SharedPace,
    options: Options,
    channels: Channels,
    /// Where the entries end that the destination has been given.
    known: EntryIndex,
    /// Where they end at the most.
    most: EntryIndex,
    watch: ReceiveWatch,
}

/// A session that a depot has opened, and what it is still to be told that is here.
struct Begun {
    connection: Connection,
    opened: Opened,
    /// From before that was looked up: what is lost later is heard of.
    keeping: Keeping,
    have: Vec<RunList>,
}

struct Open {
    session: OpenSession,
    keeping: Keeping,
    telling: Option<Telling>,
    manifest_ended: bool,
    last_word: Option<SignedWord>,
    doubt: Doubt,
}

/// Whether all that the server has said of blocks that have arrived is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// It is.
    None,
    /// A block was refused.
    Open,
    /// What it had said by then is being asked for.
    Asked(Read),
}

impl Driver {
    async fn run(&mut self, first: (Connection, Opened)) -> Result<SignedWord, ClientError> {
        let mut persistence = Persistence::default();
        let mut first = Some(first);
        loop {
            let (error, lasted) = match self.begin(first.take()).await {
                Ok(begun) => {
                    let started = Instant::now();
                    self.watch.0.line.connect(true);
                    let result = self.run_session(begun).await;
                    self.watch.0.line.connect(false);
                    match result {
                        Ok(received) => return Ok(received),
                        Err(error) => (error, Some(started.elapsed())),
                    }
                }
                Err(error) => (error, None),
            };
            let durable = self.inbound.with(|receiver| receiver.durable_bytes());
            persistence.pause_after(error, lasted, durable).await?;
        }
    }

    async fn begin(&mut self, first: Option<(Connection, Opened)>) -> Result<Begun, ClientError> {
        let keeping = Keeping::listen(&self.inbound);
        let have: Vec<_> = self.inbound.with(|receiver| receiver.received().runs().collect());
        let mut have = RunList::split_first(have).into_iter();
        let (connection, opened) = match first {
            Some(opened) => opened,
            None => {
                let some = have.next().unwrap_or_default();
                open(&self.client, self.transfer, some, &mut self.channels, self.options).await?
            }
        };
        // What was told of the destination, and made room for, was told of what was offered first.
        if self.client.placement == Placement::Declared && EntryIndex(opened.entries) != self.most {
            let reason = "the transfer was taken up again while it was received: run the same command again, what has arrived is kept";
            return Err(ClientError::Depot(WireError::fatal(ErrorCode::WrongState, reason)));
        }
        Ok(Begun { connection, opened, keeping, have: have.collect() })
    }

    async fn run_session(&mut self, begun: Begun) -> Result<SignedWord, ClientError> {
        let Begun { connection, opened, keeping, have } = begun;
        let (events, told) = mpsc::unbounded_channel();
        let role = Role::Receive { inbound: Arc::clone(&self.inbound), pace: self.pace.clone() };
        let prepared = (OwnSession::new(role, events), told);
        let delta = connection.delta;
        let (session, mut reader) =
            OpenSession::begin(&self.client, &mut self.channels, connection, &opened, prepared)?;
        let mut open = Open {
            session,
            keeping,
            telling: delta.then(|| self.destination.tell_bases()).flatten(),
            manifest_ended: false,
            last_word: None,
            doubt: Doubt::None,
        };
        let result = self.converse(&mut open, &mut reader, have).await;
        let Open { mut session, keeping, telling, .. } = open;
        session.close_channels(&self.watch.0.line).await;
        self.watch.0.moved.1.store(0, Ordering::Relaxed);
        self.watch.0.moved.0.fetch_add(session.bytes(), Ordering::Relaxed);
        drop((keeping, telling));
        session.end(&self.watch.0.line, result.is_ok()).await;
        result
    }

    async fn converse(
        &mut self,
        open: &mut Open,
        reader: &mut Reader,
        have: Vec<RunList>,
    ) -> Result<SignedWord, ClientError> {
        for runs in have {
            open.session.say(Message::Durable(runs)).await?;
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if let Some(received) = self.finish_if_done(open).await? {
                return Ok(received);
            }
            self.adapt_channels(open).await?;
            tokio::select! {
                message = reader.next::<Message>() => self.handle_message(open, message?).await?,
                Some(runs) = open.keeping.durable.recv() => {
                    self.channels.handle_progress();
                    for runs in RunList::split(runs) {
                        open.session.say(Message::Durable(runs)).await?;
                    }
                }
                Some(told) = next_told(&mut open.telling, &open.session.messages) => open.session.say(told).await?,
                // The sender counts on blocks that are gone: a new session starts from what is here.
                Some(error) = open.keeping.lost.recv() => return Err(broken(error)),
                event = open.session.events.next() => {
                    match open.session.handle_event(&self.client, &mut self.channels, event)? {
                        Some(Asked::Refused(block, error)) => {
                            open.doubt = Doubt::Open;
                            open.session.say(Message::Refused(block.0, error)).await?;
                        }
                        Some(Asked::Broken(error)) => return Err(broken(error)),
                        // Only who sends says that.
                        Some(Asked::Lost(_)) | None => {}
                    }
                }
                _ = tick.tick() => {}
            }
        }
    }

    /// Everything has arrived: makes the rest durable at once, tells the depot, ends.
    async fn finish_if_done(&self, open: &mut Open) -> Result<Option<SignedWord>, ClientError> {
        if !open.manifest_ended || open.last_word.is_none() || !self.inbound.with(|r| r.has_arrived()) {
            return Ok(None);
        }
        // A block that was refused may have come again as its files have failed, and that be on its way on another connection: it was said before.
        match open.doubt {
            Doubt::None => {}
            Doubt::Asked(read) if open.session.echo.is(read) => {}
            Doubt::Asked(_) => return Ok(None),
            Doubt::Open => {
                open.doubt = Doubt::Asked(open.session.ask_if_read().await?);
                return Ok(None);
            }
        }
        let inbound = Arc::clone(&self.inbound);
        blocking(move || inbound.flush()).await?.map_err(|error| match error {
            full if full.is_full() => ClientError::NoRoom(full.to_string()),
            // What is lost is missing again, and the rest is recorded when it is tried again.
            passing if passing.is_passing() => ClientError::Lost(passing.to_string()),
            other => ClientError::Local(other.to_string()),
        })?;
        open.session.say(Message::Finish).await?;
        Ok(open.last_word.take())
    }

    async fn adapt_channels(&mut self, open: &mut Open) -> Result<(), ClientError> {
        self.watch.0.moved.1.store(open.session.bytes(), Ordering::Relaxed);
        let line = &self.watch.0.line;
        open.session.follow_ways(&self.client, &mut self.channels, line).await?;
        while let Some(channel) = open.session.poll_close(&self.client, &mut self.channels) {
            open.session.say(Message::CloseChannel(channel.0)).await?;
        }
        Ok(())
    }

    async fn handle_message(&mut self, open: &mut Open, message: Message) -> Result<(), ClientError> {
        match message {
            Message::Batch(batch) => self.handle_batch(open, batch).await,
            Message::Advice(advice) if let Some(telling) = &open.telling => {
                (telling.advise)(advice);
                Ok(())
            }
            Message::Failed(failed) => {
                let offered = self.inbound.with(|receiver| receiver.layout().entry_count());
                let is_beyond = |failed: &Failed| u64::from(failed.entry) >= offered;
                if self.client.placement == Placement::Accepted && failed.iter().any(is_beyond) {
                    let violation = "it says that something has failed which it has not offered";
                    return Err(ClientError::Violation(WireError::violation(violation)));
                }
                let destination = Arc::clone(&self.destination);
                let entries = failed.iter().map(|failed| EntryIndex(failed.entry));
                self.inbound.with(|receiver| receiver.handle_failed(entries));
                blocking(move || destination.handle_failed(failed)).await
            }
            Message::ManifestEnd => {
                open.manifest_ended = true;
                self.watch.0.is_whole.store(true, Ordering::Relaxed);
                Ok(())
            }
            Message::Statement(said, signature) => {
                open.last_word = Some(SignedWord { said, signature });
                Ok(())
            }
            Message::AnswerUdp(answer) => open.session.handle_udp_answer(&self.channels, answer),
            Message::Ping => open.session.say(Message::Pong).await,
            Message::Pong => {
                open.session.echo.handle_pong();
                Ok(())
            }
            other => Err(unexpected(other)),
        }
    }

    async fn handle_batch(&mut self, open: &Open, mut batch: Batch) -> Result<(), ClientError> {
        let (first, end) = (batch.first, batch.end());
        if first > self.known {
            return Err(ClientError::Violation(WireError::violation("its manifest has a gap")));
        }
        if end > self.most {
            let violation = "its manifest has more entries than it offered";
            return Err(ClientError::Violation(WireError::violation(violation)));
        }
        if end > self.known {
            // What an earlier session brought may end anywhere in it: the far side of a copy goes on walking meanwhile.
            batch.entries.drain(..(self.known.0 - first.0) as usize);
            batch.first = self.known;
            if self.client.placement == Placement::Declared {
                self.place(&batch)?;
            }
            self.known = end;
            let destination = Arc::clone(&self.destination);
            let taken = blocking(move || destination.handle_entries(batch))
                .await?
                .map_err(ClientError::Destination)?;
            self.inbound.with(|receiver| receiver.handle_declined(taken.declined));
            for runs in RunList::split(taken.durable) {
                open.session.say(Message::Durable(runs)).await?;
            }
        } else if batch.seal && end == self.known {
            // An earlier one is said again: the block that is open now was opened behind it.
            self.inbound.with(|receiver| receiver.seal());
        }
        let declined: Vec<u32> = self
            .inbound
            .with(|receiver| receiver.declined().range(first..end).map(|entry| entry.0).collect());
        if !declined.is_empty() {
            open.session.say(Message::Declined(declined)).await?;
        }
        if open.telling.is_some() {
            // Of later ones, which a session before this one brought, the server does not know yet.
            let held = self.destination.held(end);
            if !held.is_empty() {
                open.session.say(Message::Held(held.into_iter().map(|entry| entry.0).collect())).await?;
            }
        }
        open.session.say(Message::Accepted(end.0)).await
    }

    fn place(&self, batch: &Batch) -> Result<(), ClientError> {
        self.inbound.with(|receiver| receiver.append_batch(batch.sizes(), batch.seal))?;
        Ok(())
    }
}

/// What ended a session from this end.
fn broken(error: WireError) -> ClientError {
    match error.code {
        ErrorCode::DiskFull => ClientError::NoRoom(error.message),
        // The next session starts from what is here.
        ErrorCode::Internal if error.retry => ClientError::Lost(error.message),
        ErrorCode::Internal => ClientError::Local(error.message),
        ErrorCode::Violation => ClientError::Violation(error),
        _ => ClientError::Depot(error),
    }
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, ClientError> {
    Ok(tokio::task::spawn_blocking(act).await?)
}
