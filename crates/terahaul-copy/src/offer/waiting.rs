//! What the walk has found and nobody has declared yet: whether the receiver has it already is asked first.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use terahaul_core::Entry;

use super::Offer;
use crate::alike::{Asker, Found};

/// Entries that may wait, more or less; the walk does, beyond that.
const MOST: usize = 256 << 10;

/// In the manifest's order.
pub(super) struct Waiting {
    asker: Asker,
    found: VecDeque<Found>,
    entries: usize,
    /// The walk has come to its end.
    whole: bool,
}

impl Waiting {
    pub(super) fn new(asker: Asker) -> Self {
        Self { asker, found: VecDeque::new(), entries: 0, whole: false }
    }

    fn add(&mut self, entries: Vec<Entry>) {
        self.entries += entries.len();
        let last = self.found.pop_back().unwrap_or_default();
        self.asker.add(entries, &mut self.found, last);
    }
}

impl Offer {
    /// The walk's next entries: declared, or kept until it is known what of them is.
    pub(super) fn handle_found(&self, entries: Vec<Entry>) {
        let mut state = self.state();
        while !self.is_stopped() && state.waiting.as_ref().is_some_and(|waiting| waiting.entries >= MOST) {
            state = self.room.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let Some(waiting) = &mut state.waiting else {
            drop(state);
            return self.declare(entries);
        };
        waiting.add(entries);
        drop(state);
        self.grown.notify_waiters();
    }

    /// The walk has ended, as it should or with this error.
    pub(super) fn handle_walked(&self, error: Option<String>) {
        let mut state = self.state();
        match &mut state.waiting {
            Some(waiting) if error.is_none() => waiting.whole = true,
            _ => state.ended = true,
        }
        state.error = state.error.take().or(error);
        drop(state);
        self.grown.notify_waiters();
    }

    /// Some of what waits, for whoever asks about it; `None` when all was taken and the walk has ended.
    pub(crate) async fn next_found(&self) -> Option<Found> {
        loop {
            // Registered before the look, so that nothing that happens in between is missed.
            let grown = self.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            {
                let mut state = self.state();
                let failed = state.error.is_some();
                let waiting = state.waiting.as_mut()?;
                if let Some(found) = waiting.found.pop_front() {
                    waiting.entries -= found.len();
                    self.room.notify_one();
                    return Some(found);
                }
                if waiting.whole || failed || self.stopped.load(Ordering::Relaxed) {
                    return None;
                }
            }
            grown.await;
        }
    }

    /// Makes these the manifest's next.
    pub(crate) fn declare(&self, entries: Vec<Entry>) {
        if let Err(error) = self.source.append(&entries) {
            self.state().error.get_or_insert_with(|| error.to_string());
            self.stop();
        }
        self.grown.notify_waiters();
    }

    /// Nobody asks: all that was found and is found from now on is declared. Takes a while where that is much.
    pub(crate) fn declare_all(&self) {
        loop {
            let mut state = self.state();
            let Some(waiting) = &mut state.waiting else { return };
            let Some(found) = waiting.found.pop_front() else {
                state.ended |= waiting.whole;
                state.waiting = None;
                break;
            };
            waiting.entries -= found.len();
            // The walk adds to what waits until nothing does, so these come before what it finds.
            drop(state);
            self.declare(found.into_entries());
        }
        self.room.notify_one();
        self.grown.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terahaul_core::{ByteCount, EntryKind, EntryPath, Mtime};

    use super::*;
    use crate::rules::{Compare, Kept, Selection};

    #[test]
    fn a_walk_that_is_far_ahead_waits_until_somebody_takes_what_it_found_or_stops_it() {
        let dir = tempfile::tempdir().unwrap();
        let offer = Offer::open(&[dir.path()], &Selection::default(), Kept::default(), Compare::default());
        let offer = Arc::new(offer.unwrap().asking_first(Some([1; 32])));
        let path = EntryPath::new(&b"a"[..]).unwrap();
        let kind = EntryKind::File { size: ByteCount(1) };
        let entry = Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None };
        let fill = |offer: &Offer| {
            (0..4).for_each(|_| offer.handle_found(vec![entry.clone(); MOST / 2]));
        };
        let taking = Arc::clone(&offer);
        std::thread::scope(|scope| {
            scope.spawn(|| fill(&offer));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut taken = 0;
            while taken < 2 * MOST {
                taken += runtime.block_on(taking.next_found()).unwrap().len();
            }
        });
        std::thread::scope(|scope| {
            scope.spawn(|| fill(&offer));
            offer.stop();
        });
    }
}
