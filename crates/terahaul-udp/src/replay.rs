//! Refuses packets that came before.

use terahaul_wire::packet::PacketNumber;

/// Packets behind the newest that may still come. More than a round trip's worth of reordering on any path.
const WINDOW: u64 = 1 << 14;
const WORDS: usize = (WINDOW / 64) as usize;

/// Which of the newest packet numbers of a channel came already.
///
/// A packet is looked up before it is opened and recorded only after, so that a forged one moves nothing.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// One above the newest number.
    end: u64,
    /// One bit a number, at the number's remainder by [`WINDOW`].
    seen: Box<[u64; WORDS]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { end: 0, seen: Box::new([0; WORDS]) }
    }
}

impl ReplayWindow {
    /// How far ahead of the newest packet another may be. A sender can lose no more than its window, and a key never
    /// serves for longer: numbers beyond come from strangers.
    pub const AHEAD: u64 = 1 << 22;

    /// Whether a packet of this number may be opened.
    pub fn may_be_new(&self, number: PacketNumber) -> bool {
        let number = number.0;
        if number >= self.end {
            return number - self.end <= Self::AHEAD;
        }
        self.end - number <= WINDOW && self.word(number) & bit(number) == 0
    }

    /// A packet of this number was opened.
    pub fn record(&mut self, number: PacketNumber) {
        let number = number.0;
        if number >= self.end {
            // What lay a window ago gives its place to what is new.
            let from = self.end.max(number.saturating_sub(WINDOW - 1));
            if number + 1 - from >= WINDOW {
                self.seen.fill(0);
            } else {
                (from..=number).for_each(|fresh| *self.word_mut(fresh) &= !bit(fresh));
            }
            self.end = number + 1;
        }
        *self.word_mut(number) |= bit(number);
    }

    fn word(&self, number: u64) -> u64 {
        self.seen[(number % WINDOW / 64) as usize]
    }

    fn word_mut(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number % WINDOW / 64) as usize]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn no_number_is_taken_twice_and_new_ones_near_the_newest_are_taken(
            steps in proptest::collection::vec((0u64..40_000, 0u64..3), 1..300),
        ) {
            let mut window = ReplayWindow::default();
            let mut taken = BTreeSet::new();
            let mut newest = 0;
            for (back, ahead) in steps {
                let number = (newest + ahead * 9_000).saturating_sub(back);
                let is_new = !taken.contains(&number);
                let near = number + WINDOW > newest;
                let may = window.may_be_new(PacketNumber(number));
                prop_assert_eq!(may, is_new && near, "{} of {}", number, newest);
                if may {
                    window.record(PacketNumber(number));
                    taken.insert(number);
                    newest = newest.max(number);
                }
            }
        }
    }

    #[test]
    fn a_number_far_ahead_is_a_strangers() {
        let mut window = ReplayWindow::default();
        assert!(window.may_be_new(PacketNumber(ReplayWindow::AHEAD)));
        assert!(!window.may_be_new(PacketNumber(ReplayWindow::AHEAD + 1)));
        window.record(PacketNumber(ReplayWindow::AHEAD));
        assert!(!window.may_be_new(PacketNumber(0)));
        assert!(window.may_be_new(PacketNumber(2 * ReplayWindow::AHEAD)));
    }
}
