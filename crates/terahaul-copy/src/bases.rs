//! The receiver's half of sending only what changed: tells the sender what is in the files that will be replaced.
//!
//! | an entry is | on | it becomes |
//! |---|---|---|
//! | ordinary | it replaces a file ([`Bases::offer`]) | waiting: the sender holds its blocks |
//! | waiting | its turn, once it was named as held in this session | being told: its old file is open. First its blocks are filled from there, on the guess that they are the same, and what they are goes out; after advice to do so, sums of all of the old file |
//! | waiting, being told | the old file cannot be read | told, and the sender is told so. Blocks that copy from it may be on their way |
//! | being told | that was all | told |
//! | being told, told | advice, the first [`MAX_ADVICE`] pieces in a session | waiting, for what was advised |
//! | any of these | all of it is durable, or it has failed | ordinary: the old file is closed |
//! | any of these | a new session | waiting |
//!
//! An entry's turn comes when those before it leave room: sums are kept in the sender's memory until a file is done.

mod guessing;
mod sums;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use guessing::Guesses;
use terahaul_core::delta::{MAX_CHUNKS, SUM_LEN, chunk_len};
use terahaul_core::{BlockNumber, EntryIndex};
use terahaul_net::session::Telling;
use terahaul_store::Inbound;
use terahaul_tree::{OpenBasis, TreeSink};
use terahaul_wire::{Advice, MAX_ADVICE, Message, Sums};
use tokio::sync::mpsc::{Sender, channel};

/// Old files open at once.
const MOST_OPEN: usize = 64;
/// Bytes that a thread reads at a time.
const READ_AT_ONCE: usize = 256 << 10;
/// Threads that read one file, at most, and how much there is to be for each.
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
    /// How many sessions there were.
    session: u64,
    /// In this one the sender wants to hear of it, and somebody tells it.
    telling: bool,
    closed: bool,
    entries: BTreeMap<EntryIndex, Offered>,
}

/// An entry that replaces a file.
#[derive(Clone, Copy, Debug)]
struct Offered {
    /// The sender was told in this session that it is held, or is before anything else. Once: it would wait a second time for what
    /// is told only once.
    named: bool,
    stage: Stage,
    course: Course,
    /// Pieces of advice in this session.
    heard: u32,
    /// A guess of that course was right.
    agreed: bool,
    /// Chunks whose sums were told, and those that the sender makes room for.
    summed: u32,
    chunks: u32,
    /// So many of its blocks are durable, from the first on: they are not looked at again.
    durable: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Telling,
    Told,
}

/// What is told of an old file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// What blocks are, from this one on, that begins there in the old file.
    Guesses {
        block: u32,
        from: u64,
    },
    Sums,
}

impl Offered {
    fn anew(durable: u32) -> Self {
        let course = Course::Guesses { block: 0, from: 0 };
        Self {
            named: false,
            stage: Stage::Waiting,
            course,
            heard: 0,
            agreed: false,
            summed: 0,
            chunks: 0,
            durable,
        }
    }
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
        let judged = Arc::downgrade(&shared);
        inbound.set_guess_listener(Box::new(move |block, right| {
            if let Some(shared) = judged.upgrade() {
                shared.handle_judged(block, right);
            }
        }));
        Self(shared)
    }

    /// A session begins whose sender wants to hear what is in old files.
    pub(crate) fn start(&self) -> Telling {
        let (told, messages) = channel(4);
        let session = {
            let mut state = self.0.state();
            state.session += 1;
            state.telling = true;
            state.entries.values_mut().for_each(|offered| *offered = Offered::anew(offered.durable));
            state.session
        };
        // Whoever tells for an earlier session ends, and nobody judges what was guessed there.
        self.0.forget_guesses(BlockNumber(0)..BlockNumber(u32::MAX));
        let shared = Arc::clone(&self.0);
        let telling = std::thread::Builder::new().name("bases".into());
        if let Err(error) = telling.spawn(move || shared.tell(session, &told)) {
            tracing::warn!("files are copied whole, because no thread could be started: {error}");
            self.0.state().telling = false;
        }
        let shared = Arc::downgrade(&self.0);
        let advise = move |advice| {
            if let Some(shared) = shared.upgrade() {
                shared.handle_advice(session, &advice);
            }
        };
        Telling { messages, advise: Box::new(advise) }
    }

    /// The entry replaces a file, perhaps. Only where a sender listens.
    pub(crate) fn offer(&self, entry: EntryIndex) {
        let mut state = self.0.state();
        if state.telling {
            state.entries.insert(entry, Offered::anew(0));
        }
    }

    /// Which entries before `end` the sender is to hold and was not told of in this session. It is told so now, and their blocks
    /// have their places.
    pub(crate) fn held(&self, end: EntryIndex) -> Vec<EntryIndex> {
        let mut state = self.0.state();
        if !state.telling {
            return Vec::new();
        }
        let unnamed = |(entry, offered): (&EntryIndex, &mut Offered)| {
            (!std::mem::replace(&mut offered.named, true)).then_some(*entry)
        };
        let held = state.entries.range_mut(..end).filter_map(unnamed).collect();
        self.0.changed.notify_all();
        held
    }

    /// The entry will not arrive.
    pub(crate) fn remove(&self, entry: EntryIndex) {
        if self.0.state().entries.remove(&entry).is_some() {
            self.0.sink.close_basis(entry);
            self.0.forget_guesses_of(entry);
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

    fn tell(&self, session: u64, told: &Sender<Message>) {
        while let Some(entry) = self.wait_for(session, State::first_waiting) {
            match self.tell_one(session, entry, told) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%entry, "the old file is of no use: {error}");
                    // It stays: a session that is lost before this is heard is followed by one that says it again.
                    if let Some(offered) = self.state().offered_in(session, entry) {
                        offered.stage = Stage::Told;
                    }
                    let without = Sums { entry: entry.0, ..Sums::default() };
                    if told.blocking_send(Message::Sums(without)).is_err() {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    fn handle_advice(&self, session: u64, advice: &Advice) {
        let entry = EntryIndex(advice.entry);
        let mut state = self.state();
        if state.session != session {
            return;
        }
        // What is done with needs no advice, and nobody makes this end read a file for ever.
        let Some(offered) = state.entries.get_mut(&entry).filter(|offered| offered.heard < MAX_ADVICE) else {
            return;
        };
        offered.course = match advice.from {
            Some(from) => Course::Guesses { block: advice.block, from },
            None => Course::Sums,
        };
        offered.heard += 1;
        offered.agreed = false;
        if offered.stage == Stage::Told {
            offered.stage = Stage::Waiting;
        }
        drop(state);
        // Those that are void would else count as ahead; a right one among them is only made again.
        self.forget_guesses_of(entry);
    }

    /// `None` when the session is over.
    fn tell_one(&self, session: u64, entry: EntryIndex, told: &Sender<Message>) -> Option<io::Result<()>> {
        let unfit = |what: &str| Some(Err(io::Error::other(what)));
        let basis = match self.sink.basis(entry) {
            Some(basis) => basis,
            None => {
                self.wait_for(session, |state| state.has_room(entry, 0).then_some(()))?;
                let Some(basis) = self.sink.open_basis(entry) else { return unfit("it cannot be opened") };
                basis
            }
        };
        let size = basis.size();
        let Some(chunk) = chunk_len(size) else { return unfit("it is too short or too long") };
        let Some(blocks) = self.inbound.upgrade()?.with(|receiver| receiver.layout().blocks_of_large(entry))
        else {
            return unfit("it is no large file");
        };
        loop {
            let mut state = self.state();
            if state.session != session {
                return None;
            }
            let Offered { course, heard, .. } = match state.entries.get_mut(&entry) {
                Some(offered) => {
                    offered.stage = Stage::Telling;
                    *offered
                }
                // It has failed meanwhile, or is here: a sender that waits all the same is told to wait no longer.
                None => {
                    drop(state);
                    self.sink.close_basis(entry);
                    return unfit("it is wanted no more");
                }
            };
            drop(state);
            let done = match course {
                // The value of a file's only block is not made of groups.
                Course::Guesses { block: first, from } if blocks.1 > 1 => {
                    let guesses = Guesses { session, entry, size, group: chunk, blocks, first, from, heard };
                    self.guess(&guesses, told)
                }
                _ => self.tell_sums((session, entry, heard), &basis, chunk, told),
            };
            if let Err(error) = done? {
                return Some(Err(error));
            }
            match self.state().offered_in(session, entry) {
                // Its turn comes again.
                Some(Offered { stage: Stage::Waiting, .. }) | None => {}
                Some(offered) if offered.heard == heard => offered.stage = Stage::Told,
                Some(_) => continue,
            }
            return Some(Ok(()));
        }
    }

    /// Tells the sums that were not told, unless there is other advice. `None` when the session is over.
    fn tell_sums(
        &self,
        (session, entry, heard): (u64, EntryIndex, u32),
        basis: &OpenBasis,
        chunk: u32,
        told: &Sender<Message>,
    ) -> Option<io::Result<()>> {
        let size = basis.size();
        let chunks = (size / u64::from(chunk)) as u32;
        let has_room = self.wait_for(session, |state| match state.has_room(entry, chunks) {
            true => Some(true),
            // One of those that take the room needs more told before it makes any.
            false => state.wants_more(entry).then_some(false),
        })?;
        let summed = match self.state().offered_in(session, entry) {
            Some(offered) if has_room => {
                offered.chunks = chunks;
                offered.summed
            }
            Some(offered) => {
                offered.stage = Stage::Waiting;
                return Some(Ok(()));
            }
            None => return Some(Ok(())),
        };
        let mut is_heard = true;
        let done = sums::sum(basis, chunk, summed..chunks, &mut |first, some| {
            let end = first + (some.len() / SUM_LEN) as u32;
            let sums = Sums { entry: entry.0, size, chunk, first, sums: some };
            is_heard = told.blocking_send(Message::Sums(sums)).is_ok();
            let mut state = self.state();
            let goes_on = |offered: &mut Offered| {
                offered.summed = end;
                offered.heard == heard
            };
            is_heard && state.offered_in(session, entry).is_some_and(goes_on)
        });
        is_heard.then_some(done)
    }

    /// The sender has begun a block that was guessed.
    fn handle_judged(&self, block: BlockNumber, right: bool) {
        let Some(inbound) = self.inbound.upgrade() else { return };
        let entry = inbound.with(|receiver| receiver.layout().shape(block)?.entries().next());
        let mut state = self.state();
        if let Some(offered) = entry.and_then(|entry| state.entries.get_mut(&entry)) {
            offered.agreed |= right;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn forget_guesses_of(&self, entry: EntryIndex) {
        let blocks = |inbound: &Inbound| inbound.with(|receiver| receiver.layout().blocks_of_large(entry));
        if let Some((first, count)) = self.inbound.upgrade().and_then(|inbound| blocks(&inbound)) {
            self.forget_guesses(first..BlockNumber(first.0 + count));
        }
    }

    /// Nobody will judge these.
    fn forget_guesses(&self, blocks: Range<BlockNumber>) {
        if let Some(inbound) = self.inbound.upgrade() {
            inbound.forget_guesses(blocks);
        }
        // Whoever looks how many there are does so with this lock, and waits with it.
        drop(self.state());
        self.changed.notify_all();
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
    /// The entry, unless this is another session by now: a thread may outlive its own for as long as a disk takes.
    fn offered_in(&mut self, session: u64, entry: EntryIndex) -> Option<&mut Offered> {
        self.entries.get_mut(&entry).filter(|_| self.session == session)
    }

    /// The entry whose turn it is: those of which the sender has sums come first, because only they make room.
    fn first_waiting(&self) -> Option<EntryIndex> {
        let waits = |offered: &Offered| offered.named && offered.stage == Stage::Waiting;
        let waiting = self.entries.iter().filter(|(_, offered)| waits(offered));
        waiting.min_by_key(|(entry, offered)| (offered.chunks == 0, **entry)).map(|(entry, _)| *entry)
    }

    /// Whether another entry of which the sender has sums waits for its turn.
    fn wants_more(&self, entry: EntryIndex) -> bool {
        let waits = |offered: &Offered| offered.stage == Stage::Waiting && offered.chunks > 0;
        self.entries.iter().any(|(other, offered)| *other != entry && waits(offered))
    }

    /// Whether an old file may be open, and so many of its chunks be known to the sender, besides the others.
    fn has_room(&self, entry: EntryIndex, chunks: u32) -> bool {
        let others = self.entries.iter().filter(|(other, _)| **other != entry);
        let open = others.filter(|(_, offered)| offered.stage != Stage::Waiting || offered.chunks > 0);
        let (count, told) =
            open.fold((0, 0), |(count, told), (_, offered)| (count + 1, told + u64::from(offered.chunks)));
        count == 0 || (count < MOST_OPEN && told + u64::from(chunks) <= u64::from(MAX_CHUNKS))
    }
}

/// Threads for a file of so many bytes.
fn threads_for(size: u64) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    processors.min((size / LEAST_FOR_A_THREAD) as usize).max(1)
}

#[cfg(test)]
mod tests;
