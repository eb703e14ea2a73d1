//! What is under way: items that come out when they are due. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// Items in the order in which they are due; those due at the same time in the order in which they came.
#[derive(Debug)]
pub struct DelayLine<T> {
    items: VecDeque<(Duration, T)>,
}

impl<T> Default for DelayLine<T> {
    fn default() -> Self {
        Self { items: VecDeque::new() }
    }
}

impl<T> DelayLine<T> {
    /// Takes an item that is due at `due`.
    pub fn push(&mut self, due: Duration, item: T) {
        // Nearly always the last: only packets held back are overtaken, and only by a few.
        let mut place = self.items.len();
        while place > 0 && self.items[place - 1].0 > due {
            place -= 1;
        }
        self.items.insert(place, (due, item));
    }

    /// When the next item is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.items.front().map(|(due, _)| *due)
    }

    /// The next item, if it is due.
    pub fn poll_due(&mut self, now: Duration) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.items.pop_front().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_come_out_when_due_and_otherwise_in_order(dues in proptest::collection::vec(0u64..50, 0..200)) {
            let mut line = DelayLine::default();
            for (number, due) in dues.iter().enumerate() {
                line.push(Duration::from_nanos(*due), (*due, number));
            }
            let mut expected: Vec<_> = dues.iter().copied().enumerate().map(|(number, due)| (due, number)).collect();
            expected.sort_unstable();
            let mut out = Vec::new();
            for now in 0..50 {
                while let Some(item) = line.poll_due(Duration::from_nanos(now)) {
                    prop_assert_eq!(item.0, now);
                    out.push(item);
                }
            }
            prop_assert_eq!(out, expected);
        }
    }
}
