//! Which entries' blocks wait for the sums of what they replace, and which have a basis to be copied from. Pure.
//!
//! | an entry is | on | it becomes |
//! |---|---|---|
//! | ordinary | `hold` | held: its blocks are parked |
//! | held | sums, not the last | held: blocks that those sums reach are tried |
//! | held | a block that was tried is not all among them | held: that block waits for the last sums |
//! | held | the last sums | based: its blocks are planned |
//! | held | word that there is no basis, or the entry is not wanted | ordinary |
//! | held | a new session | held: sums begin anew |
//! | based | all of it is durable or void | ordinary |
//!
//! So the receiver copies while it still sums, and no byte is sent that a later sum would have found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use terahaul_core::delta::{Basis, BasisError, MAX_CHUNKS, Step, Window, plan};
use terahaul_core::{BlockNumber, EntryIndex};
use terahaul_wire::Sums;

/// Chunks of all bases at once, at most: some 60 MB. A receiver keeps to half of it, or to one file.
const MOST_CHUNKS: u64 = 2 * MAX_CHUNKS as u64;
/// Blocks in a row of which nothing is in the basis, until only some are still looked through: a search that finds nothing is
/// slower than a fast line.
const BARREN: u32 = 8;
/// One in so many is, then.
const STILL_TRIED: u32 = 16;

#[derive(Debug, Default)]
pub(super) struct Bases {
    held: BTreeMap<EntryIndex, Held>,
    based: BTreeMap<EntryIndex, Arc<Based>>,
    chunks: u64,
}

#[derive(Debug, Default)]
struct Held {
    /// Blocks that no sums have reached, by where in the file they end.
    parked: BTreeMap<u64, BlockNumber>,
    /// Blocks that wait for the last sums.
    deferred: BTreeSet<BlockNumber>,
    /// Once the first sums have arrived.
    based: Option<Arc<Based>>,
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
            self.held.entry(entry).or_default();
        }
    }

    /// Whether anything waits.
    pub(super) fn are_awaited(&self) -> bool {
        !self.held.is_empty()
    }

    /// Parks the block, which ends at `end` of its file, if it is to wait.
    pub(super) fn park(&mut self, entry: EntryIndex, block: BlockNumber, end: u64) -> bool {
        let Some(held) = self.held.get_mut(&entry) else { return false };
        if held.based.as_ref().is_some_and(|based| based.may_try(end)) {
            held.parked.remove(&end);
            return false;
        }
        held.parked.insert(end, block);
        true
    }

    /// What was looked for in the block is not all among the sums so far. `false`: there are no more to wait for.
    pub(super) fn defer(&mut self, entry: EntryIndex, block: BlockNumber) -> bool {
        let held = self.held.get_mut(&entry);
        held.map(|held| held.deferred.insert(block)).is_some()
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
        let Some(Held { parked, based: Some(based), .. }) = self.held.get_mut(&entry) else {
            return Heard::More(Vec::new());
        };
        if whole {
            return Heard::All;
        }
        let mut reached = Vec::new();
        while let Some(first) = parked.first_entry()
            && based.may_try(*first.key())
        {
            reached.push(first.remove());
        }
        Heard::More(reached)
    }

    /// The entry waits no longer, and has a basis if all its sums have arrived; returns its blocks that waited.
    pub(super) fn settle(&mut self, entry: EntryIndex) -> Vec<BlockNumber> {
        let Held { parked, deferred, based } = self.held.remove(&entry).unwrap_or_default();
        match based {
            Some(based) if based.is_whole() => {
                self.based.insert(entry, based);
            }
            Some(partial) => self.chunks -= u64::from(partial.count),
            None => {}
        }
        parked.into_values().chain(deferred).collect()
    }

    /// A new session: what was heard in part will be heard again.
    pub(super) fn restart(&mut self) {
        for held in self.held.values_mut() {
            if let Some(partial) = std::mem::take(held).based {
                self.chunks -= u64::from(partial.count);
            }
        }
    }

    /// What the entry's blocks are planned with.
    pub(super) fn find(&self, entry: EntryIndex) -> Option<Arc<Based>> {
        let whole = self.based.get(&entry);
        whole.or_else(|| self.held.get(&entry)?.based.as_ref()).cloned()
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

/// An entry that is sent as what its basis lacks.
#[derive(Debug)]
pub(super) struct Based {
    /// Written only while sums arrive.
    basis: RwLock<Basis>,
    chunk: usize,
    count: u32,
    /// How much of the basis is known.
    known: AtomicU64,
    /// By how many bytes what was found last had moved: mostly that of the next block too.
    shift: AtomicI64,
    barren: AtomicU32,
}

impl Based {
    fn new(basis: Basis) -> Self {
        let (chunk, count) = (basis.chunk(), basis.count());
        let (known, shift, barren) = (AtomicU64::new(0), AtomicI64::new(0), AtomicU32::new(0));
        Self { basis: RwLock::new(basis), chunk, count, known, shift, barren }
    }

    /// The next sums; `true` when all have arrived. Waits for channels that are just planning.
    pub(super) fn handle_sums(&self, sums: &Sums) -> Result<bool, BasisError> {
        let mut basis = self.basis.write().unwrap_or_else(PoisonError::into_inner);
        let whole = basis.handle_sums(sums.first, &sums.sums)?;
        self.known.store(basis.known(), Ordering::Relaxed);
        if whole {
            // What was not among the first sums may be among all of them.
            self.barren.store(0, Ordering::Relaxed);
        }
        Ok(whole)
    }

    fn whole(&self) -> u64 {
        u64::from(self.count) * self.chunk as u64
    }

    fn is_whole(&self) -> bool {
        self.known.load(Ordering::Relaxed) == self.whole()
    }

    /// Whether a block that ends at `end` of its file may be tried before all sums are there.
    fn may_try(&self, end: u64) -> bool {
        let ahead = self.shift.load(Ordering::Relaxed).min(0).unsigned_abs();
        let needed = end.saturating_add(ahead).saturating_add(self.chunk as u64);
        self.known.load(Ordering::Relaxed) >= needed.min(self.whole())
            && self.barren.load(Ordering::Relaxed) < BARREN
    }

    /// How far around a block is to be read.
    pub(super) fn reach(&self) -> usize {
        self.chunk - 1
    }

    /// Whether the entry's next block is looked through.
    pub(super) fn poll_worth(&self) -> bool {
        let barren = self.barren.fetch_add(1, Ordering::Relaxed);
        barren < BARREN || barren.is_multiple_of(STILL_TRIED) || !self.is_whole()
    }

    /// Plans a block. `None`: some of it may be among the sums that are still to come.
    pub(super) fn plan(&self, window: &Window<'_>) -> Option<Vec<Step>> {
        let mut shift = self.shift.load(Ordering::Relaxed);
        let basis = self.basis.read().unwrap_or_else(PoisonError::into_inner);
        let steps = plan(&basis, window, &mut shift);
        let whole = basis.is_whole();
        drop(basis);
        if steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
            self.shift.store(shift, Ordering::Relaxed);
            self.barren.store(0, Ordering::Relaxed);
        }
        let all_found = steps.iter().all(|step| matches!(step, Step::Copy { .. }));
        (whole || all_found).then_some(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::BLOCK_SIZE;
    use terahaul_core::delta::Sum;

    const ENTRY: EntryIndex = EntryIndex(3);
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

    /// The entry's n-th block is claimed.
    fn park(bases: &mut Bases, block: u32) -> bool {
        bases.park(ENTRY, BlockNumber(block), u64::from(block + 1) * BLOCK_SIZE)
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
        assert!(bases.defer(ENTRY, BlockNumber(0)), "there was something new in it");
        assert!(bases.are_awaited() && bases.find(ENTRY).is_some());
        assert!(matches!(hear(&mut bases, &sums(11, 1)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [2, 0].map(BlockNumber));
        assert!(bases.find(ENTRY).is_some() && !bases.are_awaited());
        assert!(!bases.defer(ENTRY, BlockNumber(0)), "nothing more to wait for");
        assert_eq!(bases.chunks, 12);
        bases.forget(|entry| entry == ENTRY);
        assert!(bases.find(ENTRY).is_none() && bases.chunks == 0);
    }

    #[test]
    fn what_some_sums_lack_is_not_sent_before_all_are_there() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        hear(&mut bases, &sums(0, 8)).unwrap();
        let based = bases.find(ENTRY).unwrap();
        let mut block = vec![1; BLOCK_SIZE as usize];
        let tried = |bytes: &[u8]| based.plan(&Window { bytes, start: 0, block: 0..bytes.len() });
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
        let based = bases.find(ENTRY).unwrap();
        let other = vec![7; 2 << 20];
        for _ in 0..BARREN {
            assert!(!park(&mut bases, 0) && based.poll_worth());
            assert_eq!(based.plan(&Window { bytes: &other, start: 0, block: 0..1 << 20 }), None);
        }
        assert!(park(&mut bases, 0), "no more is tried");
        assert!(matches!(hear(&mut bases, &sums(8, 4)), Ok(Heard::All)));
        assert_eq!(bases.settle(ENTRY), [BlockNumber(0)]);
        assert!(based.poll_worth(), "but with all of them it is");
    }

    #[test]
    fn without_a_basis_its_blocks_go_whole() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        park(&mut bases, 2);
        hear(&mut bases, &sums(0, 9)).unwrap();
        bases.defer(ENTRY, BlockNumber(1));
        assert_eq!(bases.settle(ENTRY), [2, 1].map(BlockNumber));
        assert!(bases.chunks == 0 && !bases.are_awaited() && bases.find(ENTRY).is_none());
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
        assert!(bases.find(ENTRY).is_some() && !bases.are_awaited());
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
