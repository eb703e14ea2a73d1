//! Which entries' blocks wait for the sums of what they replace, and which have a basis to be copied from. Pure.
//!
//! | an entry is | on | it becomes |
//! |---|---|---|
//! | ordinary | `hold` | held: its blocks are parked |
//! | held | sums, not the last | held |
//! | held | the last sums | based: its blocks are planned |
//! | held | word that there is no basis, or the entry is not wanted | ordinary |
//! | held | a new session | held: sums begin anew |
//! | based | all of it is durable or void | ordinary |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use terahaul_core::delta::{Basis, BasisError, Gathering, MAX_CHUNKS, Step, Window, plan};
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
    parked: Vec<BlockNumber>,
    gathering: Option<Gathering>,
}

/// What sums came to.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing yet.
    More,
    /// All are there: once they are in order, [`Bases::settle`].
    Whole(Gathering),
    /// There is no basis.
    Without,
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

    /// Parks the block if its entry is held.
    pub(super) fn park(&mut self, entry: EntryIndex, block: BlockNumber) -> bool {
        let held = self.held.get_mut(&entry);
        held.map(|held| held.parked.push(block)).is_some()
    }

    /// Sums arrived. Those of an entry that is not held are of an earlier session, and not looked at.
    pub(super) fn handle_sums(&mut self, sums: &Sums) -> Result<Heard, BasisError> {
        let Some(held) = self.held.get_mut(&EntryIndex(sums.entry)) else { return Ok(Heard::More) };
        if sums.size == 0 {
            return Ok(Heard::Without);
        }
        if sums.first == 0
            && let Some(earlier) = held.gathering.take()
        {
            self.chunks -= u64::from(earlier.count());
        }
        let gathering = match &mut held.gathering {
            Some(gathering) => gathering,
            none => {
                let gathering = Gathering::new(sums.size, sums.chunk)?;
                let chunks = self.chunks + u64::from(gathering.count());
                if chunks > MOST_CHUNKS {
                    return Err(BasisError::Count(chunks));
                }
                self.chunks = chunks;
                none.insert(gathering)
            }
        };
        match gathering.handle_sums(sums.first, &sums.sums)? {
            true => Ok(held.gathering.take().map_or(Heard::More, Heard::Whole)),
            false => Ok(Heard::More),
        }
    }

    /// The entry waits no longer; returns its parked blocks. `basis` is what [`Heard::Whole`] gave.
    pub(super) fn settle(&mut self, entry: EntryIndex, basis: Option<Basis>) -> Vec<BlockNumber> {
        let held = self.held.remove(&entry);
        match (&held, basis) {
            (Some(_), Some(basis)) => {
                self.based.insert(entry, Arc::new(Based::new(basis)));
            }
            (None, Some(basis)) => self.chunks -= u64::from(basis.count()),
            (_, None) => {}
        }
        let Held { parked, gathering } = held.unwrap_or_default();
        self.chunks -= gathering.map_or(0, |gathering| u64::from(gathering.count()));
        parked
    }

    /// A new session: what was heard in part will be heard again.
    pub(super) fn restart(&mut self) {
        for held in self.held.values_mut() {
            held.parked.clear();
            if let Some(gathering) = held.gathering.take() {
                self.chunks -= u64::from(gathering.count());
            }
        }
    }

    /// What the entry's blocks are planned with.
    pub(super) fn find(&self, entry: EntryIndex) -> Option<Arc<Based>> {
        self.based.get(&entry).cloned()
    }

    /// Forgets bases of entries that need no more blocks.
    pub(super) fn forget(&mut self, is_done: impl Fn(EntryIndex) -> bool) {
        let chunks = &mut self.chunks;
        self.based.retain(|entry, based| {
            let done = is_done(*entry);
            if done {
                *chunks -= u64::from(based.basis.count());
            }
            !done
        });
    }
}

/// An entry that is sent as what its basis lacks.
#[derive(Debug)]
pub(super) struct Based {
    basis: Basis,
    /// By how many bytes what was found last had moved: mostly that of the next block too.
    shift: AtomicI64,
    barren: AtomicU32,
}

impl Based {
    fn new(basis: Basis) -> Self {
        Self { basis, shift: AtomicI64::new(0), barren: AtomicU32::new(0) }
    }

    /// How far around a block is to be read.
    pub(super) fn reach(&self) -> usize {
        self.basis.chunk() - 1
    }

    /// Whether the entry's next block is looked through.
    pub(super) fn poll_worth(&self) -> bool {
        let barren = self.barren.fetch_add(1, Ordering::Relaxed);
        barren < BARREN || barren.is_multiple_of(STILL_TRIED)
    }

    /// Plans a block.
    pub(super) fn plan(&self, window: &Window<'_>) -> Vec<Step> {
        let mut shift = self.shift.load(Ordering::Relaxed);
        let steps = plan(&self.basis, window, &mut shift);
        self.shift.store(shift, Ordering::Relaxed);
        if steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
            self.barren.store(0, Ordering::Relaxed);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::delta::Sum;

    const ENTRY: EntryIndex = EntryIndex(3);

    fn sums(first: u32, count: usize) -> Sums {
        let sums = Sum::of(&[1; 4096]).encode().repeat(count);
        Sums { entry: ENTRY.0, size: 4 * 4096, chunk: 4096, first, sums }
    }

    fn settle(bases: &mut Bases, heard: Heard) -> Vec<BlockNumber> {
        let Heard::Whole(gathering) = heard else { panic!("{heard:?}") };
        bases.settle(ENTRY, Some(gathering.finish()))
    }

    #[test]
    fn blocks_wait_until_all_sums_are_there() {
        let mut bases = Bases::default();
        assert!(!bases.park(ENTRY, BlockNumber(1)), "nobody holds it");
        bases.hold(ENTRY);
        assert!(bases.park(ENTRY, BlockNumber(1)) && bases.park(ENTRY, BlockNumber(2)));
        assert!(matches!(bases.handle_sums(&sums(0, 3)), Ok(Heard::More)));
        assert!(bases.are_awaited() && bases.find(ENTRY).is_none());
        let heard = bases.handle_sums(&sums(3, 1)).unwrap();
        assert_eq!(settle(&mut bases, heard), [1, 2].map(BlockNumber));
        assert!(bases.find(ENTRY).is_some() && !bases.are_awaited());
        assert_eq!(bases.chunks, 4);
        bases.forget(|entry| entry == ENTRY);
        assert!(bases.find(ENTRY).is_none() && bases.chunks == 0);
    }

    #[test]
    fn without_a_basis_its_blocks_go_whole() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        bases.park(ENTRY, BlockNumber(7));
        assert!(matches!(bases.handle_sums(&sums(0, 1)), Ok(Heard::More)));
        let none = Sums { size: 0, ..sums(0, 0) };
        assert!(matches!(bases.handle_sums(&none), Ok(Heard::Without)));
        assert_eq!(bases.settle(ENTRY, None), [BlockNumber(7)]);
        assert!(bases.chunks == 0 && !bases.are_awaited() && bases.find(ENTRY).is_none());
    }

    #[test]
    fn a_new_session_begins_anew_and_keeps_what_is_whole() {
        let mut bases = Bases::default();
        bases.hold(ENTRY);
        bases.park(ENTRY, BlockNumber(7));
        bases.handle_sums(&sums(0, 3)).unwrap();
        bases.restart();
        assert_eq!(bases.chunks, 0);
        assert_eq!(bases.handle_sums(&sums(3, 1)).err(), Some(BasisError::Sums), "the first are missing");
        let heard = bases.handle_sums(&sums(0, 4)).unwrap();
        assert_eq!(settle(&mut bases, heard), [], "the queue has its blocks again");
        bases.restart();
        bases.hold(ENTRY);
        assert!(bases.find(ENTRY).is_some() && !bases.are_awaited());
        assert!(matches!(bases.handle_sums(&sums(0, 4)), Ok(Heard::More)), "said again, and known");
    }

    #[test]
    fn a_receiver_that_says_too_much_is_refused() {
        let mut bases = Bases::default();
        let huge = u64::from(MAX_CHUNKS) * 4096;
        for entry in 0..3 {
            bases.hold(EntryIndex(entry));
            let heard = bases.handle_sums(&Sums { entry, size: huge, chunk: 4096, ..Sums::default() });
            assert_eq!(heard.is_ok(), entry < 2, "{heard:?}");
        }
    }
}
