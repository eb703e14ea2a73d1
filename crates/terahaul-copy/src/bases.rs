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
mod offers;
mod sums;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use guessing::Guesses;
use offers::{Course, Offered, Offers, Stage};
use terahaul_core::delta::{SUM_LEN, chunk_len, group_len};
use terahaul_core::{BlockNumber, BlockRun, EntryIndex};
use terahaul_net::session::Telling;
use terahaul_store::Inbound;
use terahaul_tree::{OpenBasis, TreeSink};
use terahaul_wire::{Advice, MAX_ADVICE, Message, Sums};
use tokio::sync::mpsc::{Sender, channel};

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
    offers: Offers,
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
        inbound.add_listener(Box::new(move |durable| {
            if let Some(shared) = done.upgrade() {
                shared.forget_done(durable);
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
            state.offers.begin_anew();
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
            state.offers.add(entry);
        }
    }

    /// Which entries before `end` the sender is to hold and was not told of in this session. It is told so now, and their blocks
    /// have their places.
    pub(crate) fn held(&self, end: EntryIndex) -> Vec<EntryIndex> {
        let mut state = self.0.state();
        if !state.telling {
            return Vec::new();
        }
        let held = state.offers.name(end);
        self.0.changed.notify_all();
        held
    }

    /// The entry will not arrive.
    pub(crate) fn remove(&self, entry: EntryIndex) {
        if self.0.state().offers.remove(entry) {
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
        while let Some(entry) = self.wait_for(session, |state| state.offers.first_waiting()) {
            match self.tell_one(session, entry, told) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%entry, "the old file is of no use: {error}");
                    // It stays: a session that is lost before this is heard is followed by one that says it again.
                    self.state().change_in(session, entry, |offered| offered.stage = Stage::Told);
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
        let advised = state.offers.change(entry, |offered| {
            // Nobody makes this end read a file for ever.
            if offered.heard == MAX_ADVICE {
                return false;
            }
            offered.course = match advice.from {
                Some(from) => Course::Guesses { block: advice.block, from },
                None => Course::Sums,
            };
            offered.heard += 1;
            offered.agreed = false;
            if offered.stage == Stage::Told {
                offered.stage = Stage::Waiting;
            }
            true
        });
        drop(state);
        // What is done with needs no advice.
        if advised != Some(true) {
            return;
        }
        // Those that are void would else count as ahead; a right one among them is only made again.
        self.forget_guesses_of(entry);
    }

    /// `None` when the session is over.
    fn tell_one(&self, session: u64, entry: EntryIndex, told: &Sender<Message>) -> Option<io::Result<()>> {
        let unfit = |what: &str| Some(Err(io::Error::other(what)));
        let basis = match self.sink.basis(entry) {
            Some(basis) => basis,
            None => {
                self.wait_for(session, |state| state.offers.has_room(entry, 0).then_some(()))?;
                let Some(basis) = self.sink.open_basis(entry) else { return unfit("it cannot be opened") };
                basis
            }
        };
        let size = basis.size();
        let Some(group) = group_len(size) else { return unfit("it is too short") };
        let Some(blocks) = self.inbound.upgrade()?.with(|receiver| receiver.layout().blocks_of_large(entry))
        else {
            return unfit("it is no large file");
        };
        loop {
            let mut state = self.state();
            if state.session != session {
                return None;
            }
            let tell = |offered: &mut Offered| {
                offered.stage = Stage::Telling;
                *offered
            };
            let Offered { course, heard, .. } = match state.offers.change(entry, tell) {
                Some(offered) => offered,
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
                    let guesses = Guesses { session, entry, size, group, blocks, first, from, heard };
                    self.guess(&guesses, told)
                }
                _ => match chunk_len(size) {
                    Some(chunk) => self.tell_sums((session, entry, heard), &basis, chunk, told),
                    None => return unfit("it is too long for sums"),
                },
            };
            if let Err(error) = done? {
                return Some(Err(error));
            }
            let has_advice = self.state().change_in(session, entry, |offered| match offered.stage {
                // Its turn comes again.
                Stage::Waiting => false,
                _ if offered.heard == heard => {
                    offered.stage = Stage::Told;
                    false
                }
                _ => true,
            });
            if has_advice != Some(true) {
                return Some(Ok(()));
            }
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
        let has_room = self.wait_for(session, |state| match state.offers.has_room(entry, chunks) {
            true => Some(true),
            // One of those that take the room needs more told before it makes any.
            false => state.offers.wants_more(entry).then_some(false),
        })?;
        let summed = self.state().change_in(session, entry, |offered| {
            if !has_room {
                offered.stage = Stage::Waiting;
                return None;
            }
            offered.chunks = chunks;
            Some(offered.summed)
        });
        let Some(summed) = summed.flatten() else { return Some(Ok(())) };
        let mut is_heard = true;
        let done = sums::sum(basis, chunk, summed..chunks, &mut |first, some| {
            let end = first + (some.len() / SUM_LEN) as u32;
            let sums = Sums { entry: entry.0, size, chunk, first, sums: some };
            is_heard = told.blocking_send(Message::Sums(sums)).is_ok();
            let goes_on = |offered: &mut Offered| {
                offered.summed = end;
                offered.heard == heard
            };
            is_heard && self.state().change_in(session, entry, goes_on).unwrap_or_default()
        });
        is_heard.then_some(done)
    }

    /// The sender has begun a block that was guessed.
    fn handle_judged(&self, block: BlockNumber, right: bool) {
        let Some(inbound) = self.inbound.upgrade() else { return };
        let entry = inbound.with(|receiver| receiver.layout().own_entry(block));
        let mut state = self.state();
        if let Some(entry) = entry {
            state.offers.change(entry, |offered| offered.agreed |= right);
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

    /// Closes the old files of entries that are durable now that these blocks are.
    fn forget_done(&self, durable: &[BlockRun]) {
        let Some(inbound) = self.inbound.upgrade() else { return };
        let mut state = self.state();
        let mut done = Vec::new();
        // The receiver's lock within this one, and never this one within the receiver's.
        inbound.with(|receiver| {
            let layout = receiver.layout();
            let blocks = durable.iter().copied().flat_map(BlockRun::blocks);
            let entries = blocks.filter_map(|block| layout.own_entry(block));
            for entry in entries.collect::<BTreeSet<_>>() {
                let Some((first, count)) = layout.blocks_of_large(entry) else { continue };
                let is_durable = |block: &u32| receiver.durable().contains(BlockNumber(first.0 + block));
                let is_done = state.offers.change(entry, |offered| {
                    offered.durable += (offered.durable..count).take_while(is_durable).count() as u32;
                    offered.durable == count
                });
                if is_done == Some(true) {
                    done.push(entry);
                }
            }
        });
        for entry in &done {
            state.offers.remove(*entry);
            self.sink.close_basis(*entry);
        }
        drop(state);
        if !done.is_empty() {
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Changes the entry, unless this is another session by now: a thread may outlive its own for as long as a disk takes.
    fn change_in<T>(
        &mut self,
        session: u64,
        entry: EntryIndex,
        change: impl FnOnce(&mut Offered) -> T,
    ) -> Option<T> {
        if self.session == session { self.offers.change(entry, change) } else { None }
    }
}

/// Threads for a file of so many bytes.
fn threads_for(size: u64) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    processors.min((size / LEAST_FOR_A_THREAD) as usize).max(1)
}

#[cfg(test)]
mod tests;
