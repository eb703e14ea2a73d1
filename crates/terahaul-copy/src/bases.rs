//! The receiver's half of sending only what changed: tells the sender what is in the files that will be replaced.
//!
//! | an entry is | on | it becomes |
//! |---|---|---|
//! | ordinary | it replaces a file ([`Bases::offer`]) | waiting: the sender holds its blocks |
//! | waiting | its turn | told: its old file is open, its sums go out |
//! | waiting | the old file cannot be read | ordinary, and the sender is told so |
//! | told | the old file cannot be read on | told, and the sender is told so: blocks that copy from it may be on their way |
//! | waiting, told | all of it is durable, or it has failed | ordinary: the old file is closed |
//! | told | a new session | waiting |
//!
//! An entry's turn comes when those before it leave room: sums are kept in the sender's memory until a file is done.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use terahaul_core::delta::{MAX_CHUNKS, SUM_LEN, Sum, chunk_len};
use terahaul_core::{BLOCK_SIZE, BlockNumber, EntryIndex};
use terahaul_store::Inbound;
use terahaul_tree::{OpenBasis, TreeSink};
use terahaul_wire::Sums;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Old files open at once.
const MOST_OPEN: usize = 64;
/// Sums in a message: few, because the sender begins with those that it has.
const SUMS_AT_ONCE: usize = 1024;
/// Bytes that a thread reads at a time.
const READ_AT_ONCE: usize = 256 << 10;
/// Threads that sum one file, at most, and how much there is to be for each.
const MOST_THREADS: usize = 8;
const LEAST_FOR_A_THREAD: u64 = 32 << 20;

/// What is told of old files.
pub(crate) struct Bases(Arc<Shared>);

struct Shared {
    sink: Arc<TreeSink>,
    inbound: Weak<Inbound>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many sessions there were; 0 where the sender does not want to hear of it.
    session: u64,
    closed: bool,
    entries: BTreeMap<EntryIndex, Offered>,
}

/// An entry that replaces a file.
#[derive(Clone, Copy, Debug)]
struct Offered {
    stage: Stage,
    /// So many of its blocks are durable, from the first on: they are not looked at again.
    durable: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Told { chunks: u32 },
}

impl Bases {
    pub(crate) fn new(sink: &Arc<TreeSink>, inbound: &Arc<Inbound>) -> Self {
        let shared = Arc::new(Shared {
            sink: Arc::clone(sink),
            inbound: Arc::downgrade(inbound),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let done = Arc::downgrade(&shared);
        inbound.add_listener(Box::new(move |_| {
            if let Some(shared) = done.upgrade() {
                shared.forget_done();
            }
        }));
        Self(shared)
    }

    /// A session begins whose sender wants to hear what is in old files.
    pub(crate) fn start(&self) -> Receiver<Sums> {
        let (sums, heard) = channel(4);
        let session = {
            let mut state = self.0.state();
            state.session += 1;
            state.entries.values_mut().for_each(|offered| offered.stage = Stage::Waiting);
            state.session
        };
        let shared = Arc::clone(&self.0);
        let telling = std::thread::Builder::new().name("sums".into());
        if let Err(error) = telling.spawn(move || shared.tell(session, &sums)) {
            tracing::warn!("files are copied whole, because no thread could be started: {error}");
            self.0.state().session = 0;
        }
        heard
    }

    /// The entry replaces a file, perhaps. Only where a sender listens.
    pub(crate) fn offer(&self, entry: EntryIndex) {
        let mut state = self.0.state();
        if state.session > 0 {
            state.entries.insert(entry, Offered { stage: Stage::Waiting, durable: 0 });
            self.0.changed.notify_all();
        }
    }

    /// Which of these entries the sender is to hold.
    pub(crate) fn held(&self, first: EntryIndex, end: EntryIndex) -> Vec<EntryIndex> {
        self.0.state().entries.range(first..end).map(|(entry, _)| *entry).collect()
    }

    /// The entry will not arrive.
    pub(crate) fn remove(&self, entry: EntryIndex) {
        if self.0.state().entries.remove(&entry).is_some() {
            self.0.sink.close_basis(entry);
            self.0.changed.notify_all();
        }
    }

    /// Nothing more is told.
    pub(crate) fn close(&self) {
        self.0.state().closed = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Bases {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first entry that `ready` takes; `None` when the session is over.
    fn wait_for<T>(&self, session: u64, ready: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.closed || state.session != session {
                return None;
            }
            if let Some(found) = ready(&state) {
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell(&self, session: u64, sums: &Sender<Sums>) {
        while let Some(entry) = self.wait_for(session, State::first_waiting) {
            let told = self.tell_one(session, entry, sums);
            match told {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%entry, "the old file is of no use: {error}");
                    let mut state = self.state();
                    let was_told = |offered: &Offered| matches!(offered.stage, Stage::Told { .. });
                    if !state.entries.get(&entry).is_some_and(was_told) {
                        state.entries.remove(&entry);
                        self.sink.close_basis(entry);
                    }
                    drop(state);
                    let without = Sums { entry: entry.0, ..Sums::default() };
                    if sums.blocking_send(without).is_err() {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// `None` when the session is over.
    fn tell_one(&self, session: u64, entry: EntryIndex, sums: &Sender<Sums>) -> Option<io::Result<()>> {
        let unfit = |what: &str| Some(Err(io::Error::other(what)));
        let Some(basis) = self.sink.open_basis(entry) else { return unfit("it cannot be opened") };
        let Some(chunk) = chunk_len(basis.size()) else { return unfit("it is too short or too long") };
        let chunks = (basis.size() / u64::from(chunk)) as u32;
        self.wait_for(session, |state| state.has_room(chunks).then_some(()))?;
        match self.state().entries.get_mut(&entry) {
            Some(offered) => offered.stage = Stage::Told { chunks },
            // It has failed meanwhile, or is here: a sender that waits all the same is told to wait no longer.
            None => {
                self.sink.close_basis(entry);
                return unfit("it is wanted no more");
            }
        }
        let mut heard = true;
        let summed = sum(&basis, chunk, chunks, &mut |first, some| {
            let size = basis.size();
            heard = sums.blocking_send(Sums { entry: entry.0, size, chunk, first, sums: some }).is_ok();
            heard
        });
        heard.then_some(summed)
    }

    /// Closes the old files of entries that are durable.
    fn forget_done(&self) {
        let Some(inbound) = self.inbound.upgrade() else { return };
        let mut state = self.state();
        let mut done = Vec::new();
        // The receiver's lock within this one, and never this one within the receiver's.
        inbound.with(|receiver| {
            for (entry, offered) in &mut state.entries {
                let Some((first, count)) = receiver.layout().blocks_of_large(*entry) else { continue };
                let is_durable = |block: &u32| receiver.durable().contains(BlockNumber(first.0 + block));
                offered.durable += (offered.durable..count).take_while(is_durable).count() as u32;
                if offered.durable == count {
                    done.push(*entry);
                }
            }
        });
        for entry in &done {
            state.entries.remove(entry);
            self.sink.close_basis(*entry);
        }
        drop(state);
        if !done.is_empty() {
            self.changed.notify_all();
        }
    }
}

impl State {
    fn first_waiting(&self) -> Option<EntryIndex> {
        self.entries.iter().find(|(_, offered)| offered.stage == Stage::Waiting).map(|(entry, _)| *entry)
    }

    fn told(&self) -> impl Iterator<Item = u32> {
        self.entries.values().filter_map(|offered| match offered.stage {
            Stage::Waiting => None,
            Stage::Told { chunks } => Some(chunks),
        })
    }

    fn has_room(&self, chunks: u32) -> bool {
        let told: u64 = self.told().map(u64::from).sum();
        told == 0 || (self.told().count() < MOST_OPEN && told + u64::from(chunks) <= u64::from(MAX_CHUNKS))
    }
}

/// Sums a file's chunks by several threads, and gives the sums in order to `take`, which may end it.
fn sum(
    basis: &OpenBasis,
    chunk: u32,
    chunks: u32,
    take: &mut dyn FnMut(u32, Vec<u8>) -> bool,
) -> io::Result<()> {
    // Each thread sums every n-th part of the file.
    let a_part = (BLOCK_SIZE / u64::from(chunk)) as u32;
    let parts = chunks.div_ceil(a_part);
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = processors.min((basis.size() / LEAST_FOR_A_THREAD) as usize).max(1);
    std::thread::scope(|scope| {
        let summed: Vec<_> = (0..threads)
            .map(|thread| {
                let (summed, results) = sync_channel(2);
                scope.spawn(move || {
                    let mut buffer = vec![0; READ_AT_ONCE.max(chunk as usize)];
                    for part in (thread as u32..parts).step_by(threads) {
                        let first = part * a_part;
                        let sums = sum_part(basis, chunk, first..chunks.min(first + a_part), &mut buffer);
                        if summed.send(sums).is_err() {
                            return;
                        }
                    }
                });
                results
            })
            .collect();
        let (mut first, mut sums) = (0, Vec::new());
        for part in 0..parts as usize {
            let gone = || io::Error::other("a thread that sums it ended");
            sums.append(&mut summed[part % threads].recv().map_err(|_| gone())??);
            let last = part + 1 == parts as usize;
            if last || sums.len() >= SUMS_AT_ONCE * SUM_LEN {
                let count = (sums.len() / SUM_LEN) as u32;
                if !take(first, std::mem::take(&mut sums)) {
                    break;
                }
                first += count;
            }
        }
        Ok(())
    })
}

fn sum_part(
    basis: &OpenBasis,
    chunk: u32,
    chunks: std::ops::Range<u32>,
    buffer: &mut [u8],
) -> io::Result<Vec<u8>> {
    let mut sums = Vec::with_capacity(chunks.len() * SUM_LEN);
    let (mut at, end) =
        (u64::from(chunks.start) * u64::from(chunk), u64::from(chunks.end) * u64::from(chunk));
    while at < end {
        let some = buffer.len().min((end - at) as usize);
        basis.read(at, &mut buffer[..some])?;
        buffer[..some].chunks_exact(chunk as usize).for_each(|chunk| sums.extend(Sum::of(chunk).encode()));
        at += some as u64;
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;
