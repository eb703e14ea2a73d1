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

/// The shards of one block that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shards {
    len: usize,
    count: u16,
    shards: BTreeMap<u16, Vec<u8>>,
}

impl Shards {
    /// `count` shards of `len` bytes were made.
    pub(crate) fn new(len: usize, count: u16) -> Self {
        Self { len, count, shards: BTreeMap::new() }
    }

    /// One has come. `false` if it is none of these.
    pub(crate) fn handle_shard(&mut self, index: u16, count: u16, shard: &[u8]) -> bool {
        let fits = (count, shard.len()) == (self.count, self.len) && index < count;
        if fits {
            self.shards.entry(index).or_insert_with(|| shard.to_vec());
        }
        fits
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.shards.values().map(Vec::capacity).sum()
    }

    /// Whether enough is there to fill the gaps between what a block of `total` bytes `has`.
    pub(crate) fn suffice(&self, total: usize, has: &Ranges) -> bool {
        // Which is so of hardly any packet, and gaps are only looked at where it may be.
        let most = (self.shards.len() * self.len) as u64;
        total as u64 - has.covered() <= most && self.missing(total, has).len() <= self.shards.len()
    }

    /// Fills the gaps between what the block `has`, if enough is there for it.
    pub(crate) fn restore(&self, cargo: &mut [u8], has: &Ranges) -> bool {
        let missing = self.missing(cargo.len(), has);
        missing.len() <= self.shards.len() && self.decode(cargo, &missing).is_some()
    }

    /// The places of shards that are not there as a whole, in order.
    fn missing(&self, total: usize, has: &Ranges) -> Vec<usize> {
        let mut missing: Vec<usize> = Vec::new();
        for gap in has.missing_in(0..total as u64) {
            let places = gap.start as usize / self.len..(gap.end as usize).div_ceil(self.len);
            let from = missing.last().map_or(0, |last| last + 1).max(places.start);
            missing.extend(from..places.end);
            // More would be of no use.
            if missing.len() > self.shards.len() {
                break;
            }
        }
        missing
    }

    fn decode(&self, cargo: &mut [u8], missing: &[usize]) -> Option<()> {
        let total = cargo.len();
        let places = total.div_ceil(self.len);
        let place = |at: usize| -> Range<usize> { at * self.len..((at + 1) * self.len).min(total) };
        let mut decoder = ReedSolomonDecoder::new(places, self.count.into(), self.len).ok()?;
        let mut lost = missing.iter().copied().peekable();
        for at in 0..places {
            if lost.next_if_eq(&at).is_some() {
                continue;
            }
            match &cargo[place(at)] {
                shard if shard.len() == self.len => decoder.add_original_shard(at, shard).ok()?,
                rest => decoder.add_original_shard(at, filled_up(rest, self.len)).ok()?,
            }
        }
        for (index, shard) in self.shards.iter().take(missing.len()) {
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
            let mut has = Ranges::default();
            for run in lost.missing_in(0..total as u64) {
                has.insert(run);
            }
            let mut repairs = Shards::new(len, count);
            for at in came {
                let index = at.index(count.into());
                prop_assert!(repairs.handle_shard(index as u16, count, &shards[index * len..(index + 1) * len]));
            }
            let touched = |place: &usize| lost.iter().any(|gap| {
                (gap.start as usize) < (place + 1) * len && gap.end as usize > place * len
            });
            let missing = (0..total.div_ceil(len)).filter(touched).count();
            prop_assert_eq!(repairs.suffice(total, &has), missing <= repairs.shards.len());
            let before = cargo.clone();
            let restored = repairs.restore(&mut cargo, &has);
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
        let mut repairs = Shards::new(1_400, 8);
        assert!(repairs.handle_shard(7, 8, &[0; 1_400]));
        assert!(!repairs.handle_shard(7, 9, &[0; 1_400]));
        assert!(!repairs.handle_shard(7, 8, &[0; 1_398]));
        assert!(!repairs.handle_shard(8, 8, &[0; 1_400]));
        assert_eq!(repairs.shards.len(), 1);
    }
}
