//! Sending of a changed file only what the receiver's old one, its *basis*, lacks.
//!
//! The receiver cuts the basis into chunks of one length and gives each a [`Sum`]: a weak one that can be rolled over the
//! sender's bytes, and a strong one. The sender [plans](plan) each block as copies out of the basis and bytes that are sent. What is
//! put together is verified against the block's value like any block, so a sum that fits by accident costs one block sent
//! twice and never a wrong byte: that is why eight bytes a chunk suffice, as they do for rsync, whose idea this is (Tridgell and
//! Mackerras, The rsync algorithm, 1996).
//!
//! Chunks of the basis lie at multiples of their length; only the sender looks at every position, and only where the next chunk
//! is not the one that is expected. Content-defined chunks would need that look at every byte on both sides.

mod basis;
mod plan;
mod rolling;

pub use basis::{Basis, BasisError, MAX_CHUNKS};
pub use plan::{Step, Window, plan};
use rolling::Rolling;

use crate::BLOCK_SIZE;

/// Bytes of a [`Sum`] on the wire.
pub const SUM_LEN: usize = 8;
/// Shortest chunk, as a power of two.
const MIN_CHUNK_LOG: u32 = 12;

/// What is known of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    weak: u32,
    strong: u32,
}

impl Sum {
    /// Of `chunk`, whose length is a multiple of 16.
    pub fn of(chunk: &[u8]) -> Self {
        Self { weak: Rolling::over(chunk).weak(), strong: strong(chunk) }
    }

    /// Weak, then strong, little-endian.
    pub fn encode(self) -> [u8; SUM_LEN] {
        (u64::from(self.weak) | u64::from(self.strong) << 32).to_le_bytes()
    }

    /// Any eight bytes are a sum.
    pub fn decode(bytes: [u8; SUM_LEN]) -> Self {
        let [weak, strong] = [0, 32].map(|shift| (u64::from_le_bytes(bytes) >> shift) as u32);
        Self { weak, strong }
    }
}

/// A CRC costs a fifth of a cryptographic hash, and has to withstand accidents only.
fn strong(chunk: &[u8]) -> u32 {
    crc32fast::hash(chunk)
}

/// How long the chunks of a basis of `size` bytes are best: near the size's square root, where sums and what a small change
/// costs are together least; a power of two, and never so short that there are more than [`MAX_CHUNKS`]. `None` for a basis that
/// has less than one chunk, or is too long.
pub fn chunk_len(size: u64) -> Option<u32> {
    let root = size.checked_ilog2()? / 2;
    let log =
        (root.max(MIN_CHUNK_LOG)..=BLOCK_SIZE.ilog2()).find(|log| size >> log <= u64::from(MAX_CHUNKS))?;
    (size >> log > 0).then_some(1 << log)
}

/// How long the groups of a file of `size` bytes are that are guessed to be what they were: as its chunks, and whole blocks of one that is
/// too long for sums. `None` for one that has less than one.
pub fn group_len(size: u64) -> Option<u32> {
    chunk_len(size).or_else(|| (size >= BLOCK_SIZE).then_some(BLOCK_SIZE as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_for_sums_has_groups() {
        assert_eq!((group_len(4095), group_len(4096)), (None, Some(4096)));
        assert_eq!((group_len(1 << 40), group_len(1 << 43)), (Some(1 << 20), Some(4 << 20)));
    }

    #[test]
    fn chunks_are_near_the_square_root_and_never_too_many() {
        assert_eq!(chunk_len(0), None);
        assert_eq!(chunk_len(4095), None);
        assert_eq!(chunk_len(4096), Some(4096));
        assert_eq!(chunk_len(2_000_000_000), Some(32 << 10));
        assert_eq!(chunk_len(10_000_000_000), Some(64 << 10));
        assert_eq!(chunk_len(1 << 40), Some(1 << 20));
        assert_eq!(chunk_len(1 << 42), Some(4 << 20));
        assert_eq!(chunk_len(1 << 43), None);
        assert_eq!(chunk_len(u64::MAX), None);
    }

    #[test]
    fn sums_are_read_as_they_are_written() {
        let sum = Sum::of(&[7; 4096]);
        assert_eq!(Sum::decode(sum.encode()), sum);
        assert_ne!(Sum::of(&[8; 4096]), sum);
    }
}
