//! The paths of a manifest, 8 bytes each.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use terahaul_core::EntryPath;

/// Paths by a keyed 64-bit hash. The key is random, so nobody can make two paths collide, and by chance it happens
/// to one transfer of a million entries in forty million.
pub(super) struct PathSet {
    key: [u8; 32],
    hashes: HashSet<u64, BuildHasherDefault<Identity>>,
}

/// The hashes are uniform already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl PathSet {
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, hashes: HashSet::default() }
    }

    /// The path's hash in this set.
    pub fn hash(&self, path: &EntryPath) -> u64 {
        let hash = blake3::keyed_hash(&self.key, path.as_bytes());
        u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap_or(&[0; 8]))
    }

    pub fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }

    pub fn insert(&mut self, hash: u64) {
        self.hashes.insert(hash);
    }

    pub fn remove(&mut self, hash: u64) {
        self.hashes.remove(&hash);
    }
}
