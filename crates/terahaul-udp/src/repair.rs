//! What stands for lost parts of a block: shards of a Reed-Solomon code.
//!
//! A block is cut into shards as long as the data of a full packet, the last one filled up with zeros. From them the sender makes more, and
//! the receiver restores the block from as many of both kinds as it was cut into, whichever these are. So what is lost of a transfer's
//! last round trip need not be sent again a round trip later, and by a satellite that is more than half a second.

use std::collections::BTreeMap;
use std::ops::Range;

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::Ranges;

/// Computes the code's tables, which takes tens of milliseconds. Otherwise the first block that is repaired takes them.
pub fn prepare() {
    let _ = encode(&[1; 64], 32, 1);
}

/// `count` shards of `len` bytes, an even number, for a block: one behind the other. `None` if the code has no such.
pub(crate) fn encode(cargo: &[u8], len: usize, count: u16) -> Option<Vec<u8>> {
    let shards = cargo.len().div_ceil(len);
    let mut encoder = ReedSolomonEncoder::new(shards, count.into(), len).ok()?;
    let (whole, rest) = cargo.split_at(cargo.len() / len * len);
    for shard in whole.chunks_exact(len) {
        encoder.add_original_shard(shard).ok()?;
    }
    if !rest.is_empty() {
        encoder.add_original_shard(filled_up(rest, len)).ok()?;
    }
    let encoded = encoder.encode().ok()?;
    Some(encoded.recovery_iter().flatten().copied().collect())
}

fn filled_up(rest: &[u8], len: usize) -> Vec<u8> {
    let mut shard = rest.to_vec();
    shard.resize(len, 0);
    shard
}

/// The shards of one block that have come, and which places of the block they are to stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shards {
    len: usize,
    count: u16,
    shards: BTreeMap<u16, Vec<u8>>,
    /// Bytes that are not there, for each place.
    lacking: Vec<usize>,
    /// Places that lack any. Whether shards suffice is asked with each packet, and a block may have more gaps than places.
    missing: usize,
}

impl Shards {
    /// `count` shards of `len` bytes were made of a block of `total`, which `has` so much.
    pub(crate) fn new(len: usize, count: u16, total: usize, has: &Ranges) -> Self {
        let mut lacking = vec![0; total.div_ceil(len)];
        let gaps = has.missing_in(0..total as u64).flat_map(|gap| by_place(gap, len));
        gaps.for_each(|(place, bytes)| lacking[place] += bytes);
        let missing = lacking.iter().filter(|bytes| **bytes > 0).count();
        Self { len, count, shards: BTreeMap::new(), lacking, missing }
    }

    /// One has come. `false` if it is none of these.
    pub(crate) fn handle_shard(&mut self, index: u16, count: u16, shard: &[u8]) -> bool {
        let fits = (count, shard.len()) == (self.count, self.len) && index < count;
        if fits {
            self.shards.entry(index).or_insert_with(|| shard.to_vec());
        }
        fits
    }

    /// A part of the block has come that was not there.
    pub(crate) fn handle_part(&mut self, part: Range<u64>) {
        for (place, bytes) in by_place(part, self.len) {
            self.lacking[place] -= bytes;
            self.missing -= usize::from(self.lacking[place] == 0);
        }
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.shards.values().map(Vec::capacity).sum::<usize>() + self.lacking.len() * size_of::<usize>()
    }

    /// Whether enough is there to fill the gaps.
    pub(crate) fn suffice(&self) -> bool {
        self.missing <= self.shards.len()
    }

    /// Fills the gaps, if enough is there for it.
    pub(crate) fn restore(&self, cargo: &mut [u8]) -> bool {
        self.suffice() && self.decode(cargo).is_some()
    }

    fn decode(&self, cargo: &mut [u8]) -> Option<()> {
        let total = cargo.len();
        let place = |at: usize| -> Range<usize> { at * self.len..((at + 1) * self.len).min(total) };
        let mut decoder = ReedSolomonDecoder::new(self.lacking.len(), self.count.into(), self.len).ok()?;
        for (at, _) in self.lacking.iter().enumerate().filter(|(_, bytes)| **bytes == 0) {
            match &cargo[place(at)] {
                shard if shard.len() == self.len => decoder.add_original_shard(at, shard).ok()?,
                rest => decoder.add_original_shard(at, filled_up(rest, self.len)).ok()?,
            }
        }
        for (index, shard) in self.shards.iter().take(self.missing) {
            decoder.add_recovery_shard((*index).into(), shard).ok()?;
        }
        let decoded = decoder.decode().ok()?;
        for (at, shard) in decoded.restored_original_iter() {
            let here = &mut cargo[place(at)];
            here.copy_from_slice(&shard[..here.len()]);
        }
        Some(())
    }
}

/// How many bytes of `part` lie in which places of `len` bytes.
fn by_place(part: Range<u64>, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let (start, end) = (part.start as usize, part.end as usize);
    let bytes = move |place: usize| end.min((place + 1) * len) - start.max(place * len);
    (start / len..end.div_ceil(len)).map(move |place| (place, bytes(place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any parts lost, and any shards: the block is whole again when there are as many shards as places with a gap, and not touched before.
        #[test]
        fn a_block_is_restored_from_as_many_shards_as_it_lacks(
            total in 1usize..20_000,
            half in 256usize..700,
            count in 1u16..20,
            gaps in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..3_000), 0..6),
            came in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
            first in 0usize..4,
        ) {
            let len = 2 * half;
            let whole: Vec<u8> = (0..total).map(|at| (at * 31 + at / 251) as u8).collect();
            let shards = encode(&whole, len, count).unwrap();
            prop_assert_eq!(shards.len(), len * usize::from(count));
            let mut cargo = whole.clone();
            let mut lost = Ranges::default();
            for (at, length) in gaps {
                let start = at.index(total);
                let end = (start + length).min(total);
                cargo[start..end].fill(0);
                lost.insert(start as u64..end as u64);
            }
            let runs: Vec<_> = lost.missing_in(0..total as u64).collect();
            let (before, after) = runs.split_at(first.min(runs.len()));
            let mut has = Ranges::default();
            before.iter().for_each(|run| _ = has.insert(run.clone()));
            let mut repairs = Shards::new(len, count, total, &has);
            after.iter().for_each(|run| repairs.handle_part(run.clone()));
            for at in came {
                let index = at.index(count.into());
                prop_assert!(repairs.handle_shard(index as u16, count, &shards[index * len..(index + 1) * len]));
            }
            let touched = |place: &usize| lost.iter().any(|gap| {
                (gap.start as usize) < (place + 1) * len && gap.end as usize > place * len
            });
            let missing = (0..total.div_ceil(len)).filter(touched).count();
            prop_assert_eq!(repairs.suffice(), missing <= repairs.shards.len());
            let before = cargo.clone();
            let restored = repairs.restore(&mut cargo);
            prop_assert_eq!(restored, missing <= repairs.shards.len());
            prop_assert_eq!(&cargo, if restored { &whole } else { &before });
        }
    }

    /// Both ends make the same ones, whichever version of the library each has: another code restores what was never sent.
    #[test]
    fn shards_are_those_of_the_protocol() {
        let cargo: Vec<u8> = (0..100_000u32).map(|at| (at * 31 + at / 251) as u8).collect();
        let codes = [(1_428, 20), (1_152, 200), (512, 64)];
        let shards = codes.map(|(len, count)| encode(&cargo, len, count).unwrap()).concat();
        assert_eq!(&blake3::hash(&shards).to_hex()[..16], "28778a9fef30445d");
    }

    #[test]
    fn shards_of_another_code_are_not_kept() {
        let mut repairs = Shards::new(1_400, 8, 10_000, &Ranges::default());
        assert!(repairs.handle_shard(7, 8, &[0; 1_400]));
        assert!(!repairs.handle_shard(7, 9, &[0; 1_400]));
        assert!(!repairs.handle_shard(7, 8, &[0; 1_398]));
        assert!(!repairs.handle_shard(8, 8, &[0; 1_400]));
        assert_eq!(repairs.shards.len(), 1);
    }
}
