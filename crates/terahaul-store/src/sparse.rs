//! Bytes in memory with holes: what stands for a sparse file.

use std::collections::BTreeMap;

const PAGE: usize = 16 * 1024;

/// A growing run of bytes; what was never written reads as zeros and costs nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseBytes {
    pages: BTreeMap<u64, Box<[u8]>>,
    len: u64,
}

impl SparseBytes {
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Makes it at least `end` bytes long.
    pub(crate) fn grow(&mut self, end: u64) {
        self.len = self.len.max(end);
    }

    pub(crate) fn write(&mut self, mut at: u64, mut bytes: &[u8]) {
        self.grow(at + bytes.len() as u64);
        while !bytes.is_empty() {
            let (page, offset) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - offset));
            let page = self.pages.entry(page).or_insert_with(|| vec![0; PAGE].into());
            page[offset..offset + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            bytes = later;
        }
    }

    /// Fills `buffer`; `false` when the bytes end before.
    pub(crate) fn read(&self, mut at: u64, mut buffer: &mut [u8]) -> bool {
        if at.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        while !buffer.is_empty() {
            let (page, offset) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let take = buffer.len().min(PAGE - offset);
            let (now, later) = buffer.split_at_mut(take);
            match self.pages.get(&page) {
                Some(page) => now.copy_from_slice(&page[offset..offset + take]),
                None => now.fill(0),
            }
            at += take as u64;
            buffer = later;
        }
        true
    }
}

/// Ranges of bytes that have been paid for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    /// Start to end; neither overlapping nor touching.
    ranges: BTreeMap<u64, u64>,
}

impl Claims {
    /// How many bytes of `start..end` are not claimed yet.
    pub(crate) fn missing(&self, start: u64, end: u64) -> u64 {
        let claimed: u64 =
            self.touching(start, end).map(|(s, e)| e.min(end).saturating_sub(s.max(start))).sum();
        (end - start) - claimed
    }

    /// Claims `start..end`.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        let touching: Vec<_> = self.touching(start, end).collect();
        let (mut first, mut last) = (start, end);
        for (s, e) in touching {
            self.ranges.remove(&s);
            (first, last) = (first.min(s), last.max(e));
        }
        self.ranges.insert(first, last);
    }

    pub(crate) fn total(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    fn touching(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.ranges.range(..=end).rev().map(|(s, e)| (*s, *e));
        ranges.take_while(move |(_, e)| *e >= start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_byte_is_paid_for_once(ranges in proptest::collection::vec((0u64..200, 1u64..40), 0..60)) {
            let mut claims = Claims::default();
            let mut model = vec![false; 300];
            for (start, len) in ranges {
                let range = start as usize..(start + len) as usize;
                let expected = model[range.clone()].iter().filter(|claimed| !**claimed).count() as u64;
                prop_assert_eq!(claims.missing(start, start + len), expected);
                claims.insert(start, start + len);
                model[range].fill(true);
                prop_assert_eq!(claims.total(), model.iter().filter(|claimed| **claimed).count() as u64);
            }
        }

        #[test]
        fn reads_what_was_written_and_zeros_between(writes in proptest::collection::vec((0usize..60_000, 1usize..20_000, 1u8..), 0..8)) {
            let mut sparse = SparseBytes::default();
            let mut model = Vec::new();
            for (at, len, byte) in writes {
                sparse.write(at as u64, &vec![byte; len]);
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].fill(byte);
            }
            let mut read = vec![9; model.len()];
            prop_assert!(sparse.read(0, &mut read));
            prop_assert!(read == model);
            prop_assert!(!sparse.read(1, &mut vec![0; model.len()]) || model.is_empty());
        }
    }
}
