//! The files that replace others, and whose turn it is to be told of: there may be a million, of which few are open.

use std::collections::{BTreeMap, BTreeSet};

use terahaul_core::EntryIndex;
use terahaul_core::delta::MAX_CHUNKS;

/// Old files open at once.
pub(super) const MOST_OPEN: usize = 64;

/// An entry that replaces a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// The sender was told in this session that it is held, or is before anything else. Once: it would wait a second time for what
    /// is told only once.
    pub named: bool,
    pub stage: Stage,
    pub course: Course,
    /// Pieces of advice in this session.
    pub heard: u32,
    /// A guess of that course was right.
    pub agreed: bool,
    /// Chunks whose sums were told, and those that the sender makes room for.
    pub summed: u32,
    pub chunks: u32,
    /// So many of its blocks are durable, from the first on: they are not looked at again.
    pub durable: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Telling,
    Told,
}

/// What is told of an old file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
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

/// All of them. What is asked of all is kept beside them, since it is asked again with each block.
#[derive(Default)]
pub(super) struct Offers {
    entries: BTreeMap<EntryIndex, Offered>,
    unnamed: BTreeSet<EntryIndex>,
    /// Those that were named and wait for their turn. Ones of which the sender has sums come first, because only they make room.
    waiting: BTreeSet<(bool, EntryIndex)>,
    /// Those whose old files are open, or of which the sender has sums.
    open: BTreeSet<EntryIndex>,
    /// What the sender makes room for, of all.
    chunks: u64,
}

impl Offers {
    /// The entry replaces a file.
    pub fn add(&mut self, entry: EntryIndex) {
        self.remove(entry);
        let offered = Offered::anew(0);
        self.count(entry, &offered);
        self.entries.insert(entry, offered);
    }

    /// `false`: it was none of them.
    pub fn remove(&mut self, entry: EntryIndex) -> bool {
        let offered = self.entries.remove(&entry);
        if let Some(offered) = &offered {
            self.discount(entry, offered);
        }
        offered.is_some()
    }

    /// Nothing was told of any yet.
    pub fn begin_anew(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        *self = Self::default();
        let anew = entries.into_iter().map(|(entry, offered)| (entry, Offered::anew(offered.durable)));
        self.entries = anew.collect();
        self.unnamed = self.entries.keys().copied().collect();
    }

    pub fn find(&self, entry: EntryIndex) -> Option<&Offered> {
        self.entries.get(&entry)
    }

    pub fn change<T>(&mut self, entry: EntryIndex, change: impl FnOnce(&mut Offered) -> T) -> Option<T> {
        let mut offered = *self.entries.get(&entry)?;
        self.discount(entry, &offered);
        let changed = change(&mut offered);
        self.count(entry, &offered);
        self.entries.insert(entry, offered);
        Some(changed)
    }

    /// Those before `end` that were not named, which they are now.
    pub fn name(&mut self, end: EntryIndex) -> Vec<EntryIndex> {
        let unnamed: Vec<_> = self.unnamed.range(..end).copied().collect();
        for entry in &unnamed {
            self.change(*entry, |offered| offered.named = true);
        }
        unnamed
    }

    /// The entry whose turn it is.
    pub fn first_waiting(&self) -> Option<EntryIndex> {
        self.waiting.first().map(|(_, entry)| *entry)
    }

    /// Whether another entry of which the sender has sums waits for its turn.
    pub fn wants_more(&self, entry: EntryIndex) -> bool {
        self.waiting.iter().take(2).any(|(anew, other)| !anew && *other != entry)
    }

    /// Whether an old file may be open, and so many of its chunks be known to the sender, besides the others.
    pub fn has_room(&self, entry: EntryIndex, chunks: u32) -> bool {
        let own = self.find(entry).map_or(0, |offered| u64::from(offered.chunks));
        let others = self.open.len() - usize::from(self.open.contains(&entry));
        let told = self.chunks - own;
        others == 0 || (others < MOST_OPEN && told + u64::from(chunks) <= u64::from(MAX_CHUNKS))
    }

    fn count(&mut self, entry: EntryIndex, offered: &Offered) {
        let Offered { named, stage, chunks, .. } = *offered;
        match (named, stage) {
            (false, _) => drop(self.unnamed.insert(entry)),
            (true, Stage::Waiting) => drop(self.waiting.insert((chunks == 0, entry))),
            (true, Stage::Telling | Stage::Told) => {}
        }
        if stage != Stage::Waiting || chunks > 0 {
            self.open.insert(entry);
        }
        self.chunks += u64::from(chunks);
    }

    fn discount(&mut self, entry: EntryIndex, offered: &Offered) {
        self.unnamed.remove(&entry);
        self.waiting.remove(&(offered.chunks == 0, entry));
        self.open.remove(&entry);
        self.chunks -= u64::from(offered.chunks);
    }

    #[cfg(test)]
    pub fn entries(&self) -> Vec<EntryIndex> {
        self.entries.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_takes_all_room_and_needs_more_is_told_before_others() {
        let mut offers = Offers::default();
        let (first, second) = (EntryIndex(5), EntryIndex(1));
        let mut set = |entry, stage, chunks| {
            offers.add(entry);
            offers.change(entry, |offered| {
                (offered.named, offered.stage, offered.chunks) = (true, stage, chunks)
            });
            (offers.has_room(second, 1), offers.wants_more(second), offers.first_waiting())
        };
        set(first, Stage::Told, MAX_CHUNKS);
        assert_eq!(set(second, Stage::Telling, 0), (false, false, None));
        set(first, Stage::Waiting, MAX_CHUNKS);
        assert_eq!(set(second, Stage::Waiting, 0), (false, true, Some(first)));
    }

    /// Whatever is kept beside them says what looking at each would.
    #[test]
    fn what_is_asked_of_all_is_what_looking_at_each_says() {
        let mut offers = Offers::default();
        let mut seed = 1u64;
        let mut pick = |of: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % of
        };
        for _ in 0..20_000 {
            let entry = EntryIndex(pick(12) as u32);
            let stage = [Stage::Waiting, Stage::Telling, Stage::Told][pick(3) as usize];
            match pick(12) {
                0 => offers.add(entry),
                1 => drop(offers.remove(entry)),
                2 if pick(20) == 0 => offers.begin_anew(),
                3 | 4 => drop(offers.name(entry)),
                5 | 6 => drop(offers.change(entry, |offered| offered.chunks = MAX_CHUNKS / 3)),
                _ => drop(offers.change(entry, |offered| offered.stage = stage)),
            }
            let all = || offers.entries.iter();
            let waiting = all().filter(|(_, offered)| offered.named && offered.stage == Stage::Waiting);
            let first = waiting.min_by_key(|(entry, offered)| (offered.chunks == 0, **entry));
            assert_eq!(offers.first_waiting(), first.map(|(entry, _)| *entry));
            let others = || all().filter(|(other, _)| **other != entry).map(|(_, offered)| offered);
            let open = || others().filter(|offered| offered.stage != Stage::Waiting || offered.chunks > 0);
            let told: u64 = open().map(|offered| u64::from(offered.chunks)).sum();
            let fits = |chunks: u32| told + u64::from(chunks) <= u64::from(MAX_CHUNKS);
            for chunks in [0, 1, MAX_CHUNKS] {
                let has_room = open().count() == 0 || fits(chunks);
                assert_eq!(offers.has_room(entry, chunks), has_room, "{chunks}");
            }
        }
    }

    /// Each look went through all of them, with each block: a tree of a million large files took hours of it.
    #[test]
    fn a_million_files_are_told_of_one_after_the_other() {
        const FILES: u32 = 1_000_000;
        let mut offers = Offers::default();
        (0..FILES).for_each(|entry| offers.add(EntryIndex(entry)));
        assert_eq!(offers.name(EntryIndex(FILES)).len(), FILES as usize);
        assert_eq!(offers.name(EntryIndex(FILES)), []);
        for entry in (0..FILES).map(EntryIndex) {
            assert_eq!(offers.first_waiting(), Some(entry));
            assert!(offers.has_room(entry, 1));
            offers.change(entry, |offered| offered.stage = Stage::Telling);
            assert!(!offers.wants_more(entry) && offers.has_room(entry, 1));
            assert!(offers.remove(entry));
        }
        assert_eq!(offers.first_waiting(), None);
    }
}
