//! Where something is in a transfer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in a block: the unit of scheduling, hashing, acknowledgement and resume.
///
/// A power of two, so that a block of a large file is an aligned BLAKE3 subtree.
pub const BLOCK_SIZE: u64 = 4 << 20;

/// A position in a transfer's flat address space, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub u64);

/// A block's number: its address divided by [`BLOCK_SIZE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockNumber(pub u32);

/// An entry's position in the manifest, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryIndex(pub u32);

impl Address {
    /// The block that holds this address, or `None` past the last block there can be.
    pub fn block(self) -> Option<BlockNumber> {
        u32::try_from(self.0 / BLOCK_SIZE).ok().map(BlockNumber)
    }

    /// Bytes between the start of this address's block and the address.
    pub fn offset_in_block(self) -> u64 {
        self.0 % BLOCK_SIZE
    }
}

impl BlockNumber {
    /// The block's first address.
    pub fn address(self) -> Address {
        Address(u64::from(self.0) * BLOCK_SIZE)
    }
}

impl std::ops::Add<u64> for Address {
    type Output = Self;
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for EntryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
