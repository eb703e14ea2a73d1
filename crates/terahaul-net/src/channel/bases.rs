//! Which entries' blocks wait for guesses, or for the sums of what they replace, and which have a basis to be copied from. Pure.
//!
//! | an entry is | on | it becomes |
//! |---|---|---|
//! | ordinary | `hold` | held: its blocks are parked |
//! | held | a guess | held: its block is tried ([`guesses`](super::guesses)) |
//! | held | no more guesses | ordinary, or based on the sums so far |
//! | held | sums, not the last | held: blocks that those sums reach are tried |
//! | held | a block that was tried is not all among them | held: that block waits for the last sums |
//! | held | the last sums | based: its blocks are planned |
//! | held | word that there is no basis, or the entry is not wanted | ordinary |
//! | held | a new session | held: sums begin anew |
//! | based | all of it is durable or void | ordinary |
//!
//! So the receiver copies while it still sums, and no byte is sent that a sum would have found which is still to come. Those that guesses
//! in their place have spared the receiver do not come: it would read all of an old file once more for a few blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use terahaul_core::delta::{Basis, BasisError, MAX_CHUNKS};
use terahaul_core::{BLOCK_SIZE, BlockContent, BlockNumber, BlockShape, EntryIndex};
use terahaul_wire::{Advice, Guessed, Sums, WireError};

use super::based::Based;
use super::guesses::{Guess, Guesses, Judgement, Waiting};

/// Chunks of all bases at once, at most: some 60 MB. A receiver keeps to half of it, or to one file.
const MOST_CHUNKS: u64 = 2 * MAX_CHUNKS as u64;

/// Guesses of all entries that are kept until their blocks are sent. A receiver makes far fewer ahead.
const MOST_GUESSED: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Bases {
    held: BTreeMap<EntryIndex, Held>,
    based: BTreeMap<EntryIndex, Arc<Based>>,
    chunks: u64,
    /// Guesses that are kept, of all entries.
    guessed: usize,
}

#[derive(Debug)]
struct Held {
    guesses: Guesses,
    /// Blocks that nobody has guessed and no sums have reached, by where in the file they end.
    parked: BTreeMap<u64, BlockNumber>,
    /// Blocks that wait for the last sums, by the same.
    deferred: BTreeMap<u64, BlockNumber>,
    /// Once the first sums have arrived.
    based: Option<Arc<Based>>,
}

impl Held {
    fn of(entry: EntryIndex) -> Self {
        Self {
            guesses: Guesses::of(entry.0),
            parked: BTreeMap::new(),
            deferred: BTreeMap::new(),
            based: None,
        }
    }

    /// Whether nothing is known so far that the block could be planned with.
    fn has_to_wait(&self, block: u32, end: u64) -> bool {
        let summed = || self.based.as_ref().is_some_and(|based| based.may_try(end));
        self.guesses.find(block).is_none()
            && !self.guesses.was_sent(block)
            && (self.guesses.are_awaited() || !summed())
    }
}

/// A block of a large file, as this module knows it.
#[derive(Clone, Copy, Debug)]
struct Place {
    entry: EntryIndex,
    /// Its number in the file.
    block: u32,
    end: u64,
}

impl Place {
    fn of(shape: &BlockShape) -> Option<Self> {
        let BlockContent::Piece { entry, offset, .. } = shape.content else { return None };
        Some(Self { entry, block: (offset / BLOCK_SIZE) as u32, end: offset + u64::from(shape.len) })
    }
}

/// What a block is planned with.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// What is in its place.
    Guess(Arc<Guess>),
    /// Sums.
    Based(Arc<Based>),
}

/// What becomes of blocks that waited.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// They may be claimed again.
    pub blocks: Vec<BlockNumber>,
    /// The receiver is to be told this.
    pub advice: Option<Advice>,
}

/// What sums came to.
#[derive(Debug)]
pub(super) enum Heard {
    /// Some are there: these blocks may be tried.
    More(Vec<BlockNumber>),
    /// There is nothing more to wait for: [`Bases::settle`].
    All,
}

impl Bases {
    /// The entry's blocks wait.
    pub(super) fn hold(&mut self, entry: EntryIndex) {
        if !self.based.contains_key(&entry) {
            self.held.entry(entry).or_insert_with(|| Held::of(entry));
        }
    }

    /// Whether anything waits.
    pub(super) fn are_awaited(&self) -> bool {
        !self.held.is_empty()
    }

    /// Parks the block if it is to wait.
    pub(super) fn park(&mut self, shape: &BlockShape) -> bool {
        let Some(Place { entry, block, end }) = Place::of(shape) else { return false };
        let Some(held) = self.held.get_mut(&entry) else { return false };
        let waits = held.has_to_wait(block, end);
        if waits {
            held.parked.insert(end, shape.number);
        } else {
            held.parked.remove(&end);
        }
        waits
    }

    /// Whether the block is to wait: also one that was claimed before, with a guess that is void by now.
    pub(super) fn has_to_wait(&self, shape: &BlockShape) -> bool {
        let Some(Place { entry, block, end }) = Place::of(shape) else { return false };
        self.held.get(&entry).is_some_and(|held| held.has_to_wait(block, end))
    }

    /// What was looked for in the block is not all among the sums so far. `false`: there are no more to wait for.
    pub(super) fn defer(&mut self, shape: &BlockShape) -> bool {
        let Some(Place { entry, block, end }) = Place::of(shape) else { return false };
        let held = self.held.get_mut(&entry).filter(|held| held.guesses.find(block).is_none());
        held.map(|held| held.deferred.insert(end, shape.number)).is_some()
    }

    /// The receiver has guessed a block, or guesses no more.
    pub(super) fn handle_guessed(&mut self, guessed: Guessed) -> Result<Freed, WireError> {
        let entry = EntryIndex(guessed.entry);
        let start = u64::from(guessed.block) * BLOCK_SIZE;
        let counts = self.with_guesses(entry, |guesses| guesses.handle_guessed(guessed)).transpose()?;
        if self.guessed > MOST_GUESSED {
            return Err(WireError::violation("it guesses too far ahead"));
        }
        // Of an earlier session.
        let Some(held) = self.held.get_mut(&entry) else { return Ok(Freed::default()) };
        if counts == Some(true) {
            let behind = start + 1..=start + BLOCK_SIZE;
            let Held { parked, deferred, .. } = held;
            let waited = [parked, deferred].map(|waiting| {
                let end = waiting.range(behind.clone()).next().map(|(end, _)| *end);
                end.and_then(|end| waiting.remove(&end))
            });
            return Ok(Freed { blocks: waited.into_iter().flatten().collect(), advice: None });
        }
        let judgement = self.with_guesses(entry, Guesses::handle_end).unwrap_or_default();
        Ok(self.carry_out(entry, judgement))
    }

    /// What is done to the guesses of an entry that is held, counted.
    fn with_guesses<T>(&mut self, entry: EntryIndex, act: impl FnOnce(&mut Guesses) -> T) -> Option<T> {
        let Held { guesses, .. } = self.held.get_mut(&entry)?;
        let before = guesses.kept();
        let done = act(guesses);
        self.guessed = self.guessed + guesses.kept() - before;
        Some(done)
    }

    /// A block was read, and its end is not as guessed.
    pub(super) fn handle_doubt(&mut self, shape: &BlockShape) -> Freed {
        let Some(Place { entry, block, end }) = Place::of(shape) else { return Freed::default() };
        let waiting = Waiting { block: shape.number, end };
        match self.with_guesses(entry, |guesses| guesses.handle_doubt(block, waiting)) {
            Some(judgement) => self.carry_out(entry, judgement),
            // There is nothing more to wait for.
            None => Freed { blocks: vec![shape.number], advice: None },
        }
    }

    /// A block was sent, or is at the receiver for good; `agreed` if it was as guessed at its end.
    pub(super) fn handle_sent(&mut self, shape: &BlockShape, agreed: bool) -> Freed {
        let Some(Place { entry, block, .. }) = Place::of(shape) else { return Freed::default() };
        match self.with_guesses(entry, |guesses| guesses.handle_sent(block, agreed)) {
            Some(judgement) => self.carry_out(entry, judgement),
            None => Freed::default(),
        }
    }

    /// By the sums so far, what follows a block is so much further on in the new file than in the old.
    pub(super) fn handle_found(&mut self, shape: &BlockShape, shift: i64) -> Option<Advice> {
        let Place { entry, block, end } = Place::of(shape)?;
        let from = u64::try_from(i64::try_from(end).ok()?.checked_sub(shift)?).ok()?;
        self.held.get_mut(&entry)?.guesses.handle_found(block + 1, from)
    }

    fn carry_out(&mut self, entry: EntryIndex, judgement: Judgement) -> Freed {
        let Judgement { free: mut blocks, park, advice, settled } = judgement;
        let Some(held) = self.held.get_mut(&entry) else { return Freed::default() };
        held.parked.extend(park.iter().map(|waiting| (waiting.end, waiting.block)));
        if settled {
            if let Some(based) = &held.based {
                based.close();
            }
            blocks.extend(self.settle(entry));
        }
        Freed { blocks, advice }
    }

    /// Sums arrived: whose they are. `None` for an entry that is not held: those are of an earlier session, and not looked at.
    pub(super) fn basis_for(&mut self, sums: &Sums) -> Result<Option<Arc<Based>>, BasisError> {
        let Some(held) = self.held.get_mut(&EntryIndex(sums.entry)) else { return Ok(None) };
        if sums.first == 0
            && let Some(earlier) = held.based.take()
        {
            self.chunks -= u64::from(earlier.count);
        }
        if let Some(based) = &held.based {
            return Ok(Some(Arc::clone(based)));
        }
        let basis = Basis::new(sums.size, sums.chunk)?;
        let chunks = self.chunks + u64::from(basis.count());
        if chunks > MOST_CHUNKS {
            return Err(BasisError::Count(chunks));
        }
        self.chunks = chunks;
        Ok(Some(Arc::clone(held.based.insert(Arc::new(Based::new(basis))))))
    }

    /// The sums are in what [`basis_for`](Self::basis_for) has returned.
    pub(super) fn handle_sums(&mut self, entry: EntryIndex, whole: bool) -> Heard {
        let Some(Held { guesses, parked, based: Some(based), .. }) = self.held.get_mut(&entry) else {
            return Heard::More(Vec::new());
        };
        if whole {
            return Heard::All;
        }
        let mut reached = Vec::new();
        while !guesses.are_awaited()
            && let Some(first) = parked.first_entry()
            && based.may_try(*first.key())
        {
            reached.push(first.remove());
        }
        Heard::More(reached)
    }

    /// The entry waits no longer, and has a basis if all its sums have arrived; returns its blocks that waited.
    pub(super) fn settle(&mut self, entry: EntryIndex) -> Vec<BlockNumber> {
        let Some(Held { guesses, parked, deferred, based }) = self.held.remove(&entry) else {
            return Vec::new();
        };
        self.guessed -= guesses.kept();
        match based {
            Some(based) if based.is_whole() => {
                self.based.insert(entry, based);
            }
            Some(partial) => self.chunks -= u64::from(partial.count),
            None => {}
        }
        parked.into_values().chain(deferred.into_values()).chain(guesses.into_doubtful()).collect()
    }

    /// A new session: what was heard in part will be heard again.
    pub(super) fn restart(&mut self) {
        self.guessed = 0;
        for (entry, held) in &mut self.held {
            if let Some(partial) = std::mem::replace(held, Held::of(*entry)).based {
                self.chunks -= u64::from(partial.count);
            }
        }
    }

    /// What the block is planned with.
    pub(super) fn find(&self, shape: &BlockShape) -> Option<Known> {
        let Place { entry, block, .. } = Place::of(shape)?;
        let held = self.held.get(&entry);
        if let Some(guess) = held.and_then(|held| held.guesses.find(block)) {
            return Some(Known::Guess(Arc::clone(guess)));
        }
        let based = self.based.get(&entry).or_else(|| held?.based.as_ref())?;
        Some(Known::Based(Arc::clone(based)))
    }

    /// Those of these entries that wait.
    pub(super) fn held_among(&self, entries: Range<EntryIndex>) -> Vec<EntryIndex> {
        self.held.range(entries).map(|(entry, _)| *entry).collect()
    }

    /// Forgets bases of entries that need no more blocks.
    pub(super) fn forget(&mut self, is_done: impl Fn(EntryIndex) -> bool) {
        let chunks = &mut self.chunks;
        self.based.retain(|entry, based| {
            let done = is_done(*entry);
            if done {
                *chunks -= u64::from(based.count);
            }
            !done
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::based::{BARREN, Plan};
    use super::*;
    use terahaul_core::delta::{Step, Sum, Window};
    use terahaul_core::{ByteCount, Layout};

    const ENTRY: EntryIndex = EntryIndex(0);
    const CHUNK: u32 = 1 << 20;
    const BLOCKS: u32 = 3;

    /// Of a basis of three blocks, all alike.
    fn sums(first: u32, count: usize) -> Sums {
        let sums = Sum::of(&vec![1; CHUNK as usize]).encode().repeat(count);
        Sums { entry: ENTRY.0, size: u64::from(BLOCKS) * BLOCK_SIZE, chunk: CHUNK, first, sums }
    }

    fn hear(bases: &mut Bases, sums: &Sums) -> Result<Heard, BasisError> {
        let Some(based) = bases.basis_for(sums)? else { return Ok(Heard::More(Vec::new())) };
        let whole = based.handle_sums(sums)?;
        Ok(bases.handle_sums(EntryIndex(sums.entry), whole))
    }

    fn shape(block: u32) -> BlockShape {
        let mut layout = Layout::new();
        layout.append(Some(ByteCount(u64::from(BLOCKS) * BLOCK_SIZE))).unwrap();
        layout.shape(BlockNumber(block)).unwrap()
    }

    /// The entry's n-th block is claimed.
    fn park(bases: &mut Bases, block: u32) -> bool {
        bases.park(&shape(block))
    }

    fn find(bases: &Bases) -> Option<Arc<Based>> {
        match bases.find(&shape(0))? {
            Known::Based(based) => Some(based),
            Known::Guess(_) => panic!("nobody has guessed"),
        }
    }

    fn reached(heard: Result<Heard, BasisError>) -> Vec<u32> {
        let Ok(Heard::More(reached)) = heard else { panic!("{heard:?}") };
        reached.into_iter().map(|block| block.0).collect()
    }

    #[test]
    fn blocks_are_tried_as_soon_as_sums_reach_them() {
        let mut bases = Bases::default();
        assert!(!park(&mut bases, 0), "nobody holds it");
        bases.hold(ENTRY);
        assert!(park(&mut bases, 0) && park(&mut bases, 1));
        assert_eq!(reached(hear(&mut bases, &sums(0, 4))), [0u32; 0], "a chunk may begin at the block's end");
        assert_eq!(reached(hear(&mut bases, &sums(4, 1))), [0]);
        assert!(!park(&mut bases, 0), "it is claimed again");
        assert_eq!(reached(hear(&mut bases, &sums(5, 6))), [1]);
        assert!(park(&mut bases, 2));
        assert!(bases.defer(&shape(0)), "there was something new in it");
        assert!(bases.are_awaited() && find(&bases).is_some());
        assert!(matches!(hear(&mut bases, &sums(11, 1)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [2, 0].map(BlockNumber));
        assert!(find(&bases).is_some() && !bases.are_awaited());
        assert!(!bases.defer(&shape(0)), "nothing more to wait for");
        assert_eq!(bases.chunks, 12);
        bases.forget(|entry| entry == ENTRY);
        assert!(find(&bases).is_none() && bases.chunks == 0);
    }

    #[test]
    fn what_some_sums_lack_is_not_sent_before_all_are_there() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        hear(&mut bases, &sums(0, 8)).unwrap();
        let based = find(&bases).unwrap();
        let mut block = vec![1; BLOCK_SIZE as usize];
        let tried = |bytes: &[u8]| based.plan(&Window { bytes, start: 0, block: 0..bytes.len() }).steps;
        assert_eq!(tried(&block), Some(vec![Step::Copy { from: 0, len: BLOCK_SIZE as u32 }]));
        block[5] = 2;
        assert_eq!(tried(&block), None);
        hear(&mut bases, &sums(8, 4)).unwrap();
        let literal = |step: &Step| matches!(step, Step::Literal { .. });
        assert!(tried(&block).is_some_and(|steps| steps.iter().any(literal)));
    }

    #[test]
    fn a_file_that_has_nothing_of_its_basis_waits_for_the_last_sums() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        hear(&mut bases, &sums(0, 8)).unwrap();
        let based = find(&bases).unwrap();
        let other = vec![7; 2 << 20];
        for _ in 0..BARREN {
            assert!(!park(&mut bases, 0) && based.poll_worth());
            let planned = based.plan(&Window { bytes: &other, start: 0, block: 0..1 << 20 });
            assert_eq!(planned, Plan { steps: None, shift: None });
        }
        assert!(park(&mut bases, 0), "no more is tried");
        assert!(matches!(hear(&mut bases, &sums(8, 4)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [BlockNumber(0)]);
        assert!(based.poll_worth(), "but with all of them it is");
    }

    fn guessed(block: u32, heard: u32) -> Guessed {
        Guessed { entry: ENTRY.0, heard, block, from: 0, group: CHUNK, values: vec![9; 8] }
    }

    fn guess(bases: &mut Bases, block: u32, heard: u32) -> Vec<u32> {
        let freed = bases.handle_guessed(guessed(block, heard)).unwrap();
        freed.blocks.into_iter().map(|block| block.0).collect()
    }

    #[test]
    fn a_block_goes_once_it_is_guessed_and_no_other_waits_for_ever() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        assert!(park(&mut bases, 0) && park(&mut bases, 2));
        assert_eq!(guess(&mut bases, 0, 0), [0]);
        assert!(!park(&mut bases, 0) && matches!(bases.find(&shape(0)), Some(Known::Guess(_))));
        assert_eq!(guess(&mut bases, 1, 0), [0u32; 0], "nobody has asked for it");
        assert!(bases.handle_sent(&shape(0), true).blocks.is_empty() && bases.guessed == 1);
        let end = Guessed { values: Vec::new(), ..guessed(0, 0) };
        assert!(bases.handle_guessed(end).unwrap().blocks.is_empty());
        let settled = bases.handle_sent(&shape(1), true);
        assert_eq!((settled.blocks, bases.guessed), (vec![BlockNumber(2)], 0));
        assert!(!bases.are_awaited());
    }

    /// The receiver had told the last sums when it heard that guesses are wanted again, and began with those.
    #[test]
    fn the_last_sums_end_all_waiting_whatever_was_asked_for_since() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        for block in 0..2 {
            guess(&mut bases, block, 0);
        }
        bases.handle_doubt(&shape(0));
        let asked = bases.handle_doubt(&shape(1)).advice.unwrap();
        assert_eq!((asked.block, asked.from, bases.guessed), (0, None, 0));
        assert_eq!(reached(hear(&mut bases, &sums(0, 5))), [0]);
        let better = bases.handle_found(&shape(0), -5).unwrap();
        assert_eq!((better.block, better.from), (1, Some(BLOCK_SIZE + 5)));
        park(&mut bases, 2);
        assert_eq!(guess(&mut bases, 1, 2), [1]);
        assert!(bases.handle_doubt(&shape(1)).blocks.is_empty());
        assert_eq!(bases.guessed, 1);
        assert!(matches!(hear(&mut bases, &sums(5, 7)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [2, 1].map(BlockNumber));
        assert_eq!(bases.guessed, 0);
        assert_eq!(bases.handle_doubt(&shape(1)).blocks, [BlockNumber(1)], "it was being read meanwhile");
    }

    #[test]
    fn guesses_that_end_in_doubt_are_kept_no_longer() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        guess(&mut bases, 0, 0);
        guess(&mut bases, 1, 0);
        bases.handle_sent(&shape(0), true);
        bases.handle_doubt(&shape(1));
        assert_eq!(bases.guessed, 1);
        let end = bases.handle_guessed(Guessed { values: Vec::new(), ..guessed(0, 0) }).unwrap();
        assert!(end.advice.is_some_and(|advice| advice.from.is_none()));
        assert_eq!(bases.guessed, 0);
    }

    #[test]
    fn a_receiver_that_guesses_too_far_ahead_is_refused() {
        let mut bases = Bases::default();
        for entry in 0..4 {
            bases.hold(EntryIndex(entry));
        }
        for number in 0..MOST_GUESSED as u32 {
            let some = Guessed { entry: number % 4, ..guessed(number, 0) };
            bases.handle_guessed(some).unwrap();
        }
        assert!(bases.handle_guessed(guessed(5000, 0)).is_err());
        bases.restart();
        assert!(bases.handle_guessed(guessed(5000, 0)).is_ok());
    }

    #[test]
    fn without_a_basis_its_blocks_go_whole() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        park(&mut bases, 2);
        hear(&mut bases, &sums(0, 9)).unwrap();
        bases.defer(&shape(1));
        assert_eq!(bases.settle(ENTRY), [2, 1].map(BlockNumber));
        assert!(bases.chunks == 0 && !bases.are_awaited() && find(&bases).is_none());
    }

    #[test]
    fn a_new_session_begins_anew_and_keeps_what_is_whole() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        hear(&mut bases, &sums(0, 3)).unwrap();
        park(&mut bases, 1);
        bases.restart();
        assert_eq!(bases.chunks, 0);
        assert_eq!(hear(&mut bases, &sums(3, 1)).err(), Some(BasisError::Sums), "the first are missing");
        assert!(matches!(hear(&mut bases, &sums(0, 12)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [], "the queue has its blocks again");
        bases.restart();
        bases.hold(ENTRY);
        assert!(find(&bases).is_some() && !bases.are_awaited());
        assert_eq!(reached(hear(&mut bases, &sums(0, 12))), [0u32; 0], "said again, and known");
    }

    #[test]
    fn a_receiver_that_says_too_much_is_refused() {
        let mut bases = Bases::default();
        let huge = u64::from(MAX_CHUNKS) * 4096;
        for entry in 0..3 {
            bases.hold(EntryIndex(entry));
            let heard = hear(&mut bases, &Sums { entry, size: huge, chunk: 4096, ..Sums::default() });
            assert_eq!(heard.is_ok(), entry < 2, "{heard:?}");
        }
    }
}
