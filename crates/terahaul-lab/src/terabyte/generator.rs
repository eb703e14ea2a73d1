//! Bytes that a seed stands for: a source without a disk.

use std::io;

use terahaul_core::BlockShape;
use terahaul_store::{BlockSource, EntryFailure, piece_at};

/// Bytes that cannot be compressed, each a function of the seed and its address: any of them can be made again, in
/// any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
}

const WORD: usize = 8;

impl Generator {
    /// The bytes of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Fills `buffer` with the bytes from `address` on.
    pub fn fill(self, address: u64, buffer: &mut [u8]) {
        let offset = (address % WORD as u64) as usize;
        let mut number = address / WORD as u64;
        let head = if offset == 0 { 0 } else { (WORD - offset).min(buffer.len()) };
        let (first, rest) = buffer.split_at_mut(head);
        if head > 0 {
            first.copy_from_slice(&self.word(number)[offset..offset + head]);
            number += 1;
        }
        let mut words = rest.chunks_exact_mut(WORD);
        for word in &mut words {
            word.copy_from_slice(&self.word(number));
            number += 1;
        }
        let last = words.into_remainder();
        let len = last.len();
        last.copy_from_slice(&self.word(number)[..len]);
    }

    /// Wang Yi's `wyrand`, with a counter as its state: one multiplication for eight bytes.
    fn word(self, number: u64) -> [u8; WORD] {
        let state = self.seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0xa076_1d64_78bd_642f));
        let product = u128::from(state) * u128::from(state ^ 0xe703_7ed1_a0b4_28db);
        ((product >> 64) as u64 ^ product as u64).to_le_bytes()
    }
}

impl BlockSource for Generator {
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let mut at = 0;
        while at < shape.len {
            let piece = piece_at(buffer, at, shape.len);
            self.fill(shape.number.address().0 + u64::from(at), piece);
            at += piece.len() as u32;
            emit(piece)?;
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_seed_makes_the_same_bytes_and_another_makes_others() {
        let mut bytes = [[0; 64]; 3];
        Generator::new(1).fill(0, &mut bytes[0]);
        Generator::new(1).fill(0, &mut bytes[1]);
        Generator::new(2).fill(0, &mut bytes[2]);
        assert_eq!(bytes[0], bytes[1]);
        assert_ne!(bytes[0], bytes[2]);
    }

    #[test]
    fn every_byte_value_is_about_as_frequent_as_every_other() {
        let mut bytes = vec![0; 1 << 20];
        Generator::new(42).fill(0, &mut bytes);
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4096 of each are expected, give or take 64; five times that is once in a million.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 320), "{counts:?}");
    }

    proptest! {
        #[test]
        fn bytes_do_not_depend_on_how_they_are_asked_for(seed: u64, start in 0u64..40, len in 0usize..60, cut in 0usize..60) {
            let mut whole = vec![0; 100];
            Generator::new(seed).fill(0, &mut whole);
            let mut parts = vec![0; len];
            let (a, b) = parts.split_at_mut(cut.min(len));
            Generator::new(seed).fill(start, a);
            Generator::new(seed).fill(start + a.len() as u64, b);
            prop_assert_eq!(&parts[..], &whole[start as usize..start as usize + len]);
        }
    }
}
