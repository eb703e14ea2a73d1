//! Sets of numbers that come in runs: packet numbers, serials, bytes of a block.

use std::collections::VecDeque;
use std::ops::Range;

/// Most runs that the bytes of one block are kept in. Packets of a kilobyte make a quarter of them at the worst; what is beyond
/// was made up by the other end, which would have each more found and moved among millions.
pub(crate) const MOST_RUNS: usize = 16_384;

/// A set of numbers, kept as runs apart from each other, in order.
///
/// Nearly every insertion is at or near the end, and is quick there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    runs: VecDeque<Range<u64>>,
    covered: u64,
}

impl Ranges {
    /// How many numbers are in the set.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// How many runs there are: the set's memory.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> + ExactSizeIterator {
        self.runs.iter()
    }

    /// Adds all of `range`; returns how many of its numbers are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // Packets mostly come in order.
        if let Some(last) = self.runs.back_mut()
            && last.end == range.start
        {
            let new = range.end - range.start;
            last.end = range.end;
            self.covered += new;
            return new;
        }
        // The first run that ends at or behind the range's start, and the first that begins behind its end.
        let from = self.place(|run| run.end < range.start);
        let mut to = from;
        let (mut start, mut end, mut known) = (range.start, range.end, 0);
        while let Some(run) = self.runs.get(to).filter(|run| run.start <= range.end) {
            start = start.min(run.start);
            end = end.max(run.end);
            known += run.end - run.start;
            to += 1;
        }
        match to - from {
            0 => self.runs.insert(from, range),
            1 => self.runs[from] = start..end,
            _ => {
                self.runs[from] = start..end;
                self.runs.drain(from + 1..to);
            }
        }
        let new = end - start - known;
        self.covered += new;
        new
    }

    /// The first index at which `below` no longer holds; searched from the end while it is near.
    fn place(&self, below: impl Fn(&Range<u64>) -> bool) -> usize {
        let mut at = self.runs.len();
        for _ in 0..4 {
            if at == 0 || below(&self.runs[at - 1]) {
                return at;
            }
            at -= 1;
        }
        let (mut low, mut high) = (0, at);
        while low < high {
            let middle = (low + high) / 2;
            if below(&self.runs[middle]) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let at = self.place(|run| run.end <= number);
        self.runs.get(at).is_some_and(|run| run.start <= number)
    }

    /// Takes out all numbers below `floor`.
    pub fn remove_below(&mut self, floor: u64) {
        while let Some(run) = self.runs.front_mut().filter(|run| run.start < floor) {
            if run.end > floor {
                self.covered -= floor - run.start;
                run.start = floor;
                return;
            }
            self.covered -= run.end - run.start;
            self.runs.pop_front();
        }
    }

    /// Takes out the lowest runs until at most `limit` are left.
    pub fn keep_highest(&mut self, limit: usize) {
        while self.runs.len() > limit {
            if let Some(run) = self.runs.pop_front() {
                self.covered -= run.end - run.start;
            }
        }
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn missing_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = self.place(|run| run.end <= range.start);
        let mut from = range.start;
        std::iter::from_fn(move || {
            loop {
                let run = self.runs.get(at).filter(|run| run.start < range.end);
                let Some(run) = run else {
                    let rest = from..range.end;
                    from = range.end;
                    return Some(rest).filter(|rest| !rest.is_empty());
                };
                let gap = from..run.start;
                from = from.max(run.end).min(range.end);
                at += 1;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64),
        RemoveBelow(u64),
        KeepHighest(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..200, 0u64..12).prop_map(|(start, len)| Step::Insert(start, start + len)),
            1 => (0u64..200).prop_map(Step::RemoveBelow),
            1 => (0usize..30).prop_map(Step::KeepHighest),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(steps in proptest::collection::vec(step(), 0..120), from in 0u64..220, len in 0u64..220) {
            let mut ranges = Ranges::default();
            let mut model = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(start, end) => {
                        let new = (start..end).filter(|number| model.insert(*number)).count() as u64;
                        prop_assert_eq!(ranges.insert(start..end), new);
                    }
                    Step::RemoveBelow(floor) => {
                        ranges.remove_below(floor);
                        model.retain(|number| *number >= floor);
                    }
                    Step::KeepHighest(limit) => {
                        ranges.keep_highest(limit);
                        let floor = ranges.iter().next().map_or(u64::MAX, |run| run.start);
                        model.retain(|number| *number >= floor);
                        prop_assert!(ranges.len() <= limit);
                    }
                }
            }
            prop_assert_eq!(ranges.covered(), model.len() as u64);
            let listed: Vec<u64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(&listed, &model.iter().copied().collect::<Vec<_>>());
            prop_assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
            let missing: Vec<u64> = ranges.missing_in(from..from + len).flatten().collect();
            prop_assert_eq!(missing, (from..from + len).filter(|n| !model.contains(n)).collect::<Vec<_>>());
            for number in 0..220 {
                prop_assert_eq!(ranges.contains(number), model.contains(&number));
            }
        }
    }
}
