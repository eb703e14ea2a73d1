//! What a sender knows of one old file by its sums, shared by the channels that plan with it while more sums arrive.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use terahaul_core::delta::{Basis, BasisError, Step, Window, plan};
use terahaul_wire::Sums;

/// Blocks in a row of which nothing is in the basis, until only some are still looked through: a search that finds nothing is
/// slower than a fast line.
pub(super) const BARREN: u32 = 8;
/// One in so many is, then.
const STILL_TRIED: u32 = 16;
/// Chunks in a row at a block's end that make it likely that the next block follows them in the old file, too.
const CLUE: usize = 4;

/// An entry that is sent as what its basis lacks.
#[derive(Debug)]
pub(super) struct Based {
    /// Written only while sums arrive.
    basis: RwLock<Basis>,
    chunk: usize,
    pub(super) count: u32,
    /// How much of the basis is known.
    known: AtomicU64,
    /// By how many bytes what was found last had moved: mostly that of the next block too.
    shift: AtomicI64,
    barren: AtomicU32,
    /// No more sums are to come, be it all or not.
    closed: AtomicBool,
}

/// How a block was planned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// `None`: some of it may be among the sums that are still to come.
    pub steps: Option<Vec<Step>>,
    /// What is at its end was found, and with it what probably follows: by so many bytes it lies further on than in the old file.
    pub shift: Option<i64>,
}

impl Based {
    pub(super) fn new(basis: Basis) -> Self {
        let (chunk, count) = (basis.chunk(), basis.count());
        let (known, shift, barren) = (AtomicU64::new(0), AtomicI64::new(0), AtomicU32::new(0));
        let closed = AtomicBool::new(false);
        Self { basis: RwLock::new(basis), chunk, count, known, shift, barren, closed }
    }

    /// What was not told by now is not needed.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.barren.store(0, Ordering::Relaxed);
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

    pub(super) fn is_whole(&self) -> bool {
        self.known.load(Ordering::Relaxed) == self.whole() || self.closed.load(Ordering::Relaxed)
    }

    /// Whether a block that ends at `end` of its file may be tried before all sums are there.
    pub(super) fn may_try(&self, end: u64) -> bool {
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

    /// Plans a block.
    pub(super) fn plan(&self, window: &Window<'_>) -> Plan {
        let mut shift = self.shift.load(Ordering::Relaxed);
        let basis = self.basis.read().unwrap_or_else(PoisonError::into_inner);
        // Before the lock is given back: the last sums may arrive then, of which this plan knows nothing.
        let whole = self.is_whole();
        let steps = plan(&basis, window, &mut shift);
        drop(basis);
        if steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
            self.shift.store(shift, Ordering::Relaxed);
            self.barren.store(0, Ordering::Relaxed);
        }
        let all_found = steps.iter().all(|step| matches!(step, Step::Copy { .. }));
        let is_long = |len: u32| len as usize >= CLUE * self.chunk || all_found;
        let ends_found = matches!(steps.last(), Some(Step::Copy { len, .. }) if is_long(*len));
        let shift = (ends_found && !whole).then_some(shift);
        Plan { steps: (whole || all_found).then_some(steps), shift }
    }
}
