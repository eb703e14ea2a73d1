//! Rows by what they are called, without the names.
//!
//! The hash of each is kept beside its number: a table that grows would otherwise read every name again, each from another place in
//! memory. With 80,000 entries that took as long as everything else that appending them needs.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// What a key hashes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

impl KeyHash {
    /// As the table takes it, which looks at both ends of it.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// Hashes keys, each process's table in another way: names come from the other end.
#[derive(Default)]
pub(super) struct KeyHasher(RandomState);

impl KeyHasher {
    pub(super) fn hash(&self, key: &impl Hash) -> KeyHash {
        KeyHash(self.0.hash_one(key) as u32)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    hash: KeyHash,
    row: u32,
}

/// Numbers of rows by hash.
#[derive(Default)]
pub(super) struct Index(HashTable<Slot>);

impl Index {
    /// The row of this hash that `is_it`.
    pub(super) fn find(&self, hash: KeyHash, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.0.find(hash.spread(), |slot| slot.hash == hash && is_it(slot.row));
        found.map(|slot| slot.row)
    }

    /// Adds a row whose key none has.
    pub(super) fn insert(&mut self, hash: KeyHash, row: u32) {
        self.0.insert_unique(hash.spread(), Slot { hash, row }, |slot| slot.hash.spread());
    }

    /// `row` takes the place of `old`, which has the same key.
    pub(super) fn replace(&mut self, hash: KeyHash, old: u32, row: u32) {
        if let Some(slot) = self.0.find_mut(hash.spread(), |slot| slot.row == old) {
            slot.row = row;
        }
    }
}
