//! What the walk finds while the depot is being connected.
//!
//! As much as fits into one batch travels with the request to open. Whether it stands in the manifest then, or has to be
//! compared with what an earlier run has declared, is known once the depot has answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{Entry, EntryIndex};
use terahaul_net::client::{Beginning, Begun};
use terahaul_tree::Batch;
use terahaul_wire::BatchBuilder;

/// The walk's first batch, shared between who walks and who connects.
#[derive(Clone, Default)]
pub struct Ahead(Arc<Mutex<Found>>);

#[derive(Default)]
struct Found {
    batch: Option<Batch>,
    /// There is no other batch.
    ended: bool,
}

impl Ahead {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first batch; gives back every other.
    pub fn keep(&self, batch: Batch) -> Result<(), Batch> {
        let mut found = self.found();
        if found.batch.is_some() {
            return Err(batch);
        }
        found.batch = Some(batch);
        Ok(())
    }

    /// The walk has ended.
    pub fn end(&self) {
        self.found().ended = true;
    }

    /// What the request to open carries.
    pub fn beginning(&self) -> Beginning {
        let ahead = self.clone();
        Beginning::new(move || ahead.found().beginning())
    }

    /// The entries that are declared already.
    pub fn declared(&self, begun: Option<Begun>) -> Vec<Entry> {
        let count = begun.map_or(0, |begun| begun.entries as usize);
        self.found().entries().iter().take(count).cloned().collect()
    }

    /// What was kept, without those entries.
    pub fn take_rest(&self, begun: Option<Begun>) -> Batch {
        let mut batch = self.found().batch.take().unwrap_or_default();
        let count = begun.map_or(0, |begun| begun.entries as usize);
        batch.found.drain(..count.min(batch.found.len()));
        batch
    }
}

impl Found {
    fn entries(&self) -> &[Entry] {
        self.batch.as_ref().map(|batch| batch.found.as_slice()).unwrap_or_default()
    }

    /// As much as fits into one batch; `None` while there is nothing.
    fn beginning(&self) -> Option<terahaul_wire::Batch> {
        let mut builder = BatchBuilder::default();
        // It ends with the entry that fills it.
        let _ = self.entries().iter().any(|entry| builder.push(entry.clone()));
        let seal = self.ended && builder.len() == self.entries().len();
        (seal || !builder.is_empty()).then(|| terahaul_wire::Batch {
            first: EntryIndex(0),
            entries: builder.take(),
            seal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::{ByteCount, EntryKind, EntryPath, Mtime};

    fn found(count: usize) -> Batch {
        let entry = |number: usize| Entry {
            path: EntryPath::new(format!("{number:04}").as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(1) },
            mtime: Mtime { seconds: 0, nanos: 0 },
            mode: 0o644,
            extra: None,
        };
        Batch { found: (0..count).map(entry).collect(), skipped: Vec::new() }
    }

    fn begun(ahead: &Ahead) -> Option<Begun> {
        let batch = ahead.found().beginning()?;
        Some(Begun { entries: batch.entries.len() as u32, seal: batch.seal })
    }

    #[test]
    fn every_entry_is_either_declared_or_left() {
        for count in [0, 1, 100, 1024] {
            for ended in [false, true] {
                let ahead = Ahead::default();
                ahead.keep(found(count)).unwrap();
                assert!(ahead.keep(found(1)).is_err());
                if ended {
                    ahead.end();
                }
                let begun = begun(&ahead);
                let (declared, rest) = (ahead.declared(begun), ahead.take_rest(begun));
                assert_eq!([declared, rest.found].concat(), found(count).found);
                let all = begun.is_some_and(|begun| begun.entries as usize == count);
                assert_eq!(begun.is_some_and(|begun| begun.seal), ended && all, "{count} {ended}");
            }
        }
    }

    #[test]
    fn an_empty_walk_is_a_manifest_too() {
        let ahead = Ahead::default();
        ahead.end();
        let batch = ahead.found().beginning();
        assert_eq!(batch.map(|batch| (batch.entries.len(), batch.seal)), Some((0, true)));
    }
}
