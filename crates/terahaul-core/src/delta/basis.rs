//! What a sender knows of the receiver's old file: the sums of its chunks, found by their weak half.

use super::{SUM_LEN, Sum, strong};
use crate::BLOCK_SIZE;

/// Most chunks of a basis: about 30 bytes of memory each.
pub const MAX_CHUNKS: u32 = 1 << 20;
/// Most chunks of one weak sum that are compared: more of them are no file's, and would cost time at every position.
const MOST_ALIKE: usize = 8;
/// Most chunks of one bucket: by chance there are hardly ever ten, and a receiver that means harm must not cost more.
const LONGEST_CHAIN: usize = 64;
/// No chunk.
const NONE: u32 = u32::MAX;

/// The filter's bits, at most, as a power of two: it is looked at for every position, so it is to stay in the cache.
const MOST_FILTER_BITS: u32 = 24;

/// Why a basis cannot be used. The other end is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BasisError {
    /// Not a power of two from 4 KiB to 4 MiB.
    #[error("its chunks have {0} bytes")]
    Chunk(u32),
    /// Too short or too long.
    #[error("it has {0} chunks")]
    Count(u64),
    /// Sums that do not follow those before, or are more than there are chunks.
    #[error("its sums have a gap, or there are too many")]
    Sums,
}

/// The receiver's old file, as the sender knows it: as far as its sums have arrived.
#[derive(Debug)]
pub struct Basis {
    size: u64,
    chunk_log: u32,
    count: u32,
    sums: Vec<Sum>,
    /// Of up to 64 bits for each chunk, one is set: nearly all positions need no further look.
    filter: Vec<u64>,
    filter_shift: u32,
    /// The first chunk of each bucket's chain, by the mixed weak sum.
    buckets: Vec<u32>,
    bucket_shift: u32,
    /// The chunk that follows each one in its chain. Of equal ones only the first is in a chain.
    next: Vec<u32>,
}

/// Spreads weak sums: the upper bits choose the bucket.
#[inline(always)]
fn mixed(weak: u32) -> u32 {
    (weak ^ weak >> 15).wrapping_mul(0x85EB_CA6B)
}

impl Basis {
    /// A basis of `size` bytes in chunks of `chunk`, of which nothing is known yet.
    pub fn new(size: u64, chunk: u32) -> Result<Self, BasisError> {
        if !chunk.is_power_of_two() || u64::from(chunk) > BLOCK_SIZE || chunk < 1 << super::MIN_CHUNK_LOG {
            return Err(BasisError::Chunk(chunk));
        }
        let chunk_log = chunk.ilog2();
        let count = size >> chunk_log;
        let count = u32::try_from(count).ok().filter(|count| (1..=MAX_CHUNKS).contains(count));
        let count = count.ok_or(BasisError::Count(size >> chunk_log))?;
        let bits = count.next_power_of_two().ilog2().max(4);
        let (bucket_shift, filter_shift) = (32 - bits, 32 - (bits + 6).min(MOST_FILTER_BITS));
        Ok(Self {
            size,
            chunk_log,
            count,
            sums: Vec::new(),
            filter: vec![0; 1 << (32 - filter_shift - 6)],
            filter_shift,
            buckets: vec![NONE; 1 << bits],
            bucket_shift,
            next: Vec::new(),
        })
    }

    /// The next sums, from the chunk `first` on. `true` when all have arrived.
    pub fn handle_sums(&mut self, first: u32, sums: &[u8]) -> Result<bool, BasisError> {
        let (sums, rest) = sums.as_chunks::<SUM_LEN>();
        let room = self.count as usize - self.sums.len();
        if first as usize != self.sums.len() || !rest.is_empty() || sums.len() > room {
            return Err(BasisError::Sums);
        }
        sums.iter().for_each(|sum| self.add(Sum::decode(*sum)));
        Ok(self.is_whole())
    }

    fn add(&mut self, sum: Sum) {
        let chunk = self.sums.len() as u32;
        self.sums.push(sum);
        self.next.push(NONE);
        let mixed = mixed(sum.weak);
        let bucket = (mixed >> self.bucket_shift) as usize;
        let (mut last, mut length, mut alike) = (None, 0, 0);
        for other in self.chain(bucket) {
            let other_sum = self.sums[other as usize];
            alike += usize::from(other_sum.weak == sum.weak);
            length += 1;
            if other_sum == sum || alike == MOST_ALIKE || length == LONGEST_CHAIN {
                return;
            }
            last = Some(other);
        }
        match last {
            Some(last) => self.next[last as usize] = chunk,
            None => self.buckets[bucket] = chunk,
        }
        let bit = mixed >> self.filter_shift;
        self.filter[bit as usize / 64] |= 1u64 << (bit % 64);
    }

    fn chain(&self, bucket: usize) -> impl Iterator<Item = u32> {
        let there = |chunk: u32| (chunk != NONE).then_some(chunk);
        std::iter::successors(there(self.buckets[bucket]), move |&chunk| there(self.next[chunk as usize]))
    }

    /// Whether all sums have arrived.
    pub fn is_whole(&self) -> bool {
        self.sums.len() == self.count as usize
    }

    /// How many of its first bytes are in chunks whose sums have arrived.
    pub fn known(&self) -> u64 {
        (self.sums.len() as u64) << self.chunk_log
    }

    /// Bytes of the basis.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> usize {
        1 << self.chunk_log
    }

    pub(super) fn chunk_log(&self) -> u32 {
        self.chunk_log
    }

    /// How many chunks there are, known or not.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether `bytes` are the chunk of this number.
    pub(super) fn is_chunk(&self, number: u64, bytes: &[u8]) -> bool {
        let sum = usize::try_from(number).ok().and_then(|number| self.sums.get(number));
        sum.is_some_and(|sum| sum.strong == strong(bytes))
    }

    /// Whether there may be a chunk of this weak sum.
    #[inline(always)]
    pub(super) fn may_have(&self, weak: u32) -> bool {
        let bit = mixed(weak) >> self.filter_shift;
        self.filter[bit as usize / 64] >> (bit % 64) & 1 != 0
    }

    /// The first chunk that `bytes`, whose weak sum this is, are. Where that sum is a chunk's and none of them is it, the look
    /// at all of `bytes` was in vain, and is counted.
    pub(super) fn find(&self, weak: u32, bytes: &[u8], in_vain: &mut u64) -> Option<u64> {
        let bucket = (mixed(weak) >> self.bucket_shift) as usize;
        let mut alike = self.chain(bucket).filter(|&chunk| self.sums[chunk as usize].weak == weak).peekable();
        alike.peek()?;
        let strong = strong(bytes);
        let found = alike.find(|&chunk| self.sums[chunk as usize].strong == strong).map(u64::from);
        if found.is_none() {
            *in_vain += bytes.len() as u64;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_chunk_is_found_by_its_content_and_no_other(
            kinds in proptest::collection::vec(0u8..20, 1..60),
            other in 20u8..,
        ) {
            let chunk = |kind: u8| vec![kind; 4096];
            let size = (kinds.len() * 4096 + 100) as u64;
            let mut basis = Basis::new(size, 4096).unwrap();
            for (at, kind) in kinds.iter().enumerate() {
                let whole = basis.handle_sums(at as u32, &Sum::of(&chunk(*kind)).encode()).unwrap();
                prop_assert_eq!(whole, at + 1 == kinds.len());
            }
            for kind in &kinds {
                let content = chunk(*kind);
                let weak = Sum::of(&content).weak;
                prop_assert!(basis.may_have(weak));
                let first = kinds.iter().position(|other| other == kind).map(|at| at as u64);
                prop_assert_eq!(basis.find(weak, &content, &mut 0), first);
            }
            prop_assert_eq!(basis.find(Sum::of(&chunk(other)).weak, &chunk(other), &mut 0), None);
        }

        #[test]
        fn whatever_sums_arrive_the_basis_keeps_to_what_was_said(
            size in prop_oneof![0u64..1 << 16, any::<u64>()],
            log in 0u32..32,
            sums in proptest::collection::vec((0u32..20, proptest::collection::vec(any::<u8>(), 0..40)), 0..10),
        ) {
            let Ok(mut basis) = Basis::new(size, 1 << log) else { return Ok(()) };
            prop_assert!(basis.count() >= 1 && basis.count() <= MAX_CHUNKS);
            prop_assert_eq!(u64::from(basis.count()), size >> log);
            for (first, bytes) in sums {
                let before = basis.known();
                match basis.handle_sums(first, &bytes) {
                    Ok(whole) => prop_assert_eq!(whole, basis.known() == u64::from(basis.count()) << log),
                    Err(_) => prop_assert_eq!(basis.known(), before),
                }
                prop_assert!(basis.known() <= size);
            }
        }
    }

    #[test]
    fn chunks_that_fall_into_one_bucket_cost_no_more_than_some() {
        // Weak sums that differ and are mixed into one bucket: found by trying, as a receiver that means harm would.
        let count = 1 << 16;
        let mut basis = Basis::new(count << 12, 4096).unwrap();
        let bucket = |weak: u32| mixed(weak) >> basis.bucket_shift;
        let weak: Vec<u32> = (0..u32::MAX).filter(|&weak| bucket(weak) == 5).take(300).collect();
        let sums: Vec<u8> = weak.iter().flat_map(|&weak| Sum { weak, strong: weak }.encode()).collect();
        basis.handle_sums(0, &sums).unwrap();
        assert_eq!(basis.chain(5).count(), LONGEST_CHAIN);
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        assert_eq!(Basis::new(1 << 20, 4095).err(), Some(BasisError::Chunk(4095)));
        assert_eq!(Basis::new(1 << 20, 2048).err(), Some(BasisError::Chunk(2048)));
        assert_eq!(Basis::new(1 << 20, 8 << 20).err(), Some(BasisError::Chunk(8 << 20)));
        assert_eq!(Basis::new(4095, 4096).err(), Some(BasisError::Count(0)));
        assert!(matches!(Basis::new(u64::MAX, 4096), Err(BasisError::Count(_))));
        let mut basis = Basis::new(2 * 4096, 4096).unwrap();
        assert_eq!(basis.handle_sums(1, &[0; 8]), Err(BasisError::Sums), "a gap");
        assert_eq!(basis.handle_sums(0, &[0; 9]), Err(BasisError::Sums), "a torn one");
        assert_eq!(basis.handle_sums(0, &[0; 24]), Err(BasisError::Sums), "one too many");
        assert_eq!(basis.handle_sums(0, &[0; 16]), Ok(true));
    }
}
