//! Sending to a depot.
//!
//! [`Sending`] is the caller's handle; a task drives the session behind it: control messages, data channels,
//! reconnecting. What was appended and not yet accepted is kept, so a lost connection costs nothing but time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use terahaul_core::{
    BlockNumber, BlockProof, ByteCount, Entry, EntryIndex, Layout, Statement, TransferId, Way,
};
use terahaul_store::{BlockSource, EntryFailure};
use terahaul_wire::{Batch, OpenSend, WireError};
use tokio::sync::{mpsc, oneshot};

use super::channels::Options;
use super::connect::Client;
use super::error::ClientError;
use super::open_session::Line;
use super::paths::PathProgress;
use super::persistence::first_session;
use super::send_session::{Driver, Opening};
use crate::channel::Outbound;
use crate::session::SignedWord;

/// What to send as.
#[derive(Clone, Debug, Default)]
pub struct SendRequest {
    /// The transfer's name.
    pub name: String,
    /// The same for the same command, so that running it again resumes.
    pub resume_key: Option<String>,
    /// Days until the transfer expires; the depot's default otherwise.
    pub expires_in_days: Option<u32>,
    /// What is known to be sent.
    pub beginning: Beginning,
}

/// What a sender has found by the time it is connected. It travels with the request to open, which spares a new transfer a
/// round trip.
#[derive(Clone, Default)]
pub struct Beginning(Option<Arc<Find>>);

type Find = dyn Fn() -> Option<Batch> + Send + Sync;

impl Beginning {
    /// `find` is asked when the control channel stands, and must not wait; the batch's `first` is 0. What it has found is
    /// declared if [`ReadyToSend::begun`] says so.
    pub fn new(find: impl Fn() -> Option<Batch> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    pub(crate) fn batch(&self) -> Option<Batch> {
        self.0.as_ref().and_then(|find| find())
    }
}

impl fmt::Debug for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Beginning(..)" } else { "Beginning" })
    }
}

/// What was declared with the request to open: so much of the [`Beginning`]'s batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Entries, all of the batch's.
    pub entries: u32,
    /// Whether nothing follows.
    pub seal: bool,
}

/// The manifest of an interrupted run.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Every entry, in order.
    pub entries: Vec<Entry>,
    /// Those that failed.
    pub failed: BTreeSet<EntryIndex>,
}

/// How far a transfer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes declared so far, without blocks of which nothing will arrive.
    pub total: ByteCount,
    /// Of them, durable at the receiver.
    pub done: ByteCount,
    /// Bytes that went over data channels in this run.
    pub sent: ByteCount,
    /// Entries declared so far.
    pub entries: u64,
    /// Data channels open now.
    pub channels: usize,
    /// What they travel by, and why.
    pub way: Way,
    /// What each path carries, where the user named addresses to leave from and UDP was in use.
    pub paths: Vec<PathProgress>,
    /// Bytes in UDP datagrams that arrived, all headers but IP's and UDP's counted.
    pub over_udp: ByteCount,
    /// Whether the depot is connected now.
    pub connected: bool,
}

/// What a finished transfer leaves with its sender.
#[derive(Debug)]
pub struct Sent {
    /// The depot's signed statement.
    pub statement: Statement,
    /// Its signature.
    pub signature: String,
    /// What failed in this run.
    pub failures: Vec<EntryFailure>,
    /// What this run computed from the bytes it read, to check the receipt with.
    pub proofs: (Layout, std::collections::BTreeMap<BlockNumber, BlockProof>),
}

/// How a session that sends ended.
#[derive(Debug)]
pub struct Concluded {
    /// What the server says of the transfer.
    pub word: SignedWord,
    /// What failed in this run, at either end.
    pub failures: Vec<EntryFailure>,
    /// Entries that the receiver did not want.
    pub declined: BTreeSet<EntryIndex>,
}

pub(crate) enum Command {
    Append(Batch),
    Fail(Vec<EntryFailure>),
    /// With a note to be sent last, if there is one.
    Finish(Option<Vec<u8>>, oneshot::Sender<Result<Concluded, ClientError>>),
}

/// What the driver shares with the handle.
#[derive(Default)]
pub(crate) struct Shared {
    pub line: Line,
    /// Whether the server was asked to finish, in whichever session.
    pub asked_to_finish: AtomicBool,
    /// Why the driver ended, for whoever calls next.
    pub ended: Mutex<Option<ClientError>>,
    /// Hears the server's notes.
    pub notes: Mutex<Option<NoteListener>>,
}

/// Where the driver panics, says so: nobody has interrupted it then. It is dropped ahead of the driver, as whoever waits sees that go.
pub(crate) struct TellingOfPanics(pub Arc<Shared>);

impl Drop for TellingOfPanics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ClientError::Panicked);
        }
    }
}

/// Hears notes, one at a time.
pub type NoteListener = Box<dyn FnMut(Vec<u8>) + Send>;

/// A transfer being sent.
pub struct Sending {
    commands: mpsc::Sender<Command>,
    outbound: Arc<Outbound>,
    shared: Arc<Shared>,
    opening: Opening,
    next_entry: AtomicU32,
    driver: tokio::task::JoinHandle<()>,
}

/// A transfer that is open, and nothing is read yet: what an earlier run declared is sent from the start on, so the source
/// has to know it by then.
#[must_use = "nothing is sent before it is started"]
pub struct ReadyToSend {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    opening: Opening,
    next_entry: u32,
    driver: Driver,
}

impl ReadyToSend {
    /// What of the [`Beginning`] is declared: nothing where an earlier run has declared something. The source has to know
    /// it before [`Self::start`].
    pub fn begun(&self) -> Option<Begun> {
        self.opening.begun
    }

    /// The transfer.
    pub fn transfer(&self) -> TransferId {
        self.opening.transfer
    }

    /// What the depot has of what an earlier run declared.
    pub fn known(&self) -> Arc<Outbound> {
        self.driver.outbound()
    }

    /// Has `listener` hear the server's notes. The first may be there already: they are heard once this is started.
    pub fn hear_notes(&self, listener: NoteListener) {
        *self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Starts to send. Called within a runtime.
    pub fn start(self) -> Sending {
        let Self { commands, shared, opening, next_entry, driver } = self;
        let outbound = driver.outbound();
        let driver = tokio::spawn(driver.run());
        Sending { commands, outbound, shared, opening, next_entry: AtomicU32::new(next_entry), driver }
    }
}

impl Sending {
    /// Connects, and opens a new transfer or the unfinished one of the same `resume_key`.
    pub async fn open(
        client: Client,
        request: SendRequest,
        options: Options,
        source: Arc<dyn BlockSource>,
    ) -> Result<(ReadyToSend, Stored), ClientError> {
        let open = OpenSend {
            transfer: None,
            name: request.name,
            resume_key: request.resume_key,
            expires_in_days: request.expires_in_days,
            want_manifest: true,
            ..OpenSend::default()
        };
        let (commands, shared, (driver, opening, stored)) = first_session(&client, || {
            let (commands, receiver) = mpsc::channel(8);
            let shared = Arc::new(Shared::default());
            let (client, open, source) = (client.clone(), open.clone(), Arc::clone(&source));
            let beginning = request.beginning.clone();
            async move {
                let told = Arc::clone(&shared);
                let opened = Driver::open(client, open, &beginning, options, source, receiver, told).await?;
                Ok((commands, shared, opened))
            }
        })
        .await?;
        let begun = opening.begun.map_or(0, |begun| begun.entries);
        let next_entry = stored.entries.len() as u32 + begun;
        Ok((ReadyToSend { commands, shared, opening, next_entry, driver }, stored))
    }

    /// The transfer.
    pub fn transfer(&self) -> TransferId {
        self.opening.transfer
    }

    /// What recipients open.
    pub fn link(&self) -> Option<&str> {
        self.opening.link.as_deref()
    }

    /// The index of the next appended entry.
    pub fn next_entry(&self) -> EntryIndex {
        EntryIndex(self.next_entry.load(Ordering::Relaxed))
    }

    /// Appends entries, the first of which is the [next](Self::next_entry). Blocks while the depot is far behind: call it from a
    /// plain thread, and only from one. The source must be able to read the entries already.
    pub fn append(&self, batch: Batch) -> Result<(), ClientError> {
        self.commands.blocking_send(self.appending(batch)).map_err(|_| self.ended())
    }

    /// The same from a task.
    pub async fn declare(&self, batch: Batch) -> Result<(), ClientError> {
        self.commands.send(self.appending(batch)).await.map_err(|_| self.ended())
    }

    fn appending(&self, batch: Batch) -> Command {
        self.next_entry.store(batch.end().0, Ordering::Relaxed);
        Command::Append(batch)
    }

    /// These entries will not arrive. Call it from a plain thread.
    pub fn fail(&self, failures: Vec<EntryFailure>) -> Result<(), ClientError> {
        self.commands.blocking_send(Command::Fail(failures)).map_err(|_| self.ended())
    }

    /// Whether it has come to an end of which [`Self::finish`] says what it was.
    pub fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Whether the depot keeps all of a declared entry for good.
    pub fn has_durable(&self, entry: EntryIndex) -> bool {
        self.outbound.has_durable(entry)
    }

    /// Whether the server was asked to finish: as soon as it has all, it does so, whether this end is there to hear of it or not.
    pub fn is_asked_to_finish(&self) -> bool {
        self.shared.asked_to_finish.load(Ordering::Relaxed)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let (total, entries) = self.outbound.declared();
        Progress {
            total,
            done: self.outbound.durable(),
            sent: self.outbound.sent(),
            entries,
            ..self.shared.line.progress()
        }
    }

    /// Everything was appended, the last batch sealed: waits until all of it is durable and published by a depot.
    pub async fn finish(&self) -> Result<Sent, ClientError> {
        let Concluded { word: SignedWord { said, signature }, failures, .. } = self.conclude(None).await?;
        let statement = read_statement(&said, self.transfer())?;
        Ok(Sent { statement, signature, failures, proofs: self.outbound.proofs() })
    }

    /// The same, whatever the server's last word is. Before it, the server is sent `note`.
    pub async fn conclude(&self, note: Option<Vec<u8>>) -> Result<Concluded, ClientError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Finish(note, answer)).await.map_err(|_| self.ended())?;
        answer_to(&self.commands, answered).await.unwrap_or_else(|| Err(self.ended()))
    }

    /// Stops sending; what is durable stays at the depot.
    pub fn interrupt(&self) {
        self.outbound.close();
        self.driver.abort();
    }

    fn ended(&self) -> ClientError {
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        ended.unwrap_or(ClientError::Interrupted)
    }
}

/// What the driver answers to a command; `None` if it ends without. One that ends just as it is asked may leave the command where
/// nobody takes it and nobody drops it (tokio, issue 7714), so its end counts, too.
async fn answer_to<T>(commands: &mpsc::Sender<Command>, mut answered: oneshot::Receiver<T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = &mut answered => answer.ok(),
        // What it answered, it answered before it closed.
        () = commands.closed() => answered.try_recv().ok(),
    }
}

/// What a depot states of `transfer`.
pub(crate) fn read_statement(json: &[u8], transfer: TransferId) -> Result<Statement, ClientError> {
    let violation = |what| ClientError::Violation(WireError::violation(what));
    let statement: Statement =
        serde_json::from_slice(json).map_err(|_| violation("its statement cannot be read"))?;
    if statement.transfer != transfer {
        return Err(violation("its statement is of another transfer"));
    }
    Ok(statement)
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_ends_while_it_is_asked_to_finish_is_not_waited_for() {
        let (commands, taken) = mpsc::channel(1);
        let (answer, answered) = oneshot::channel();
        // Sending takes its place first; the driver ends before it fills that.
        let place = commands.reserve().await.unwrap();
        drop(taken);
        place.send(Command::Finish(None, answer));
        let waited = tokio::time::timeout(Duration::from_secs(3600), answer_to(&commands, answered)).await;
        assert!(waited.expect("it does not wait").is_none());
    }

    #[tokio::test]
    async fn an_answer_is_heard_although_the_driver_has_ended_since() {
        let (commands, taken) = mpsc::channel(1);
        let (answer, answered) = oneshot::channel::<u8>();
        answer.send(7).unwrap();
        drop(taken);
        assert_eq!(answer_to(&commands, answered).await, Some(7));
    }
}
