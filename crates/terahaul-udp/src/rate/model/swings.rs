//! Whether something else makes the queue overflow and run empty, every few round trips.
//!
//! BBR that its socket's buffer limits sends most of a window at once: on a line of 1 Gbit/s and 20 ms the queue overflowed and ran empty
//! every three round trips. An empty queue says that nobody keeps it full, and so a transfer beside it took the losses for its own and
//! stayed at a fifth of the line. Transfers of this kind may make the queue go up and down while they settle, but what they keep waiting
//! does not overflow it.

use super::is_empty;

/// What a swing adds, and what is left of it after each round trip: one every three round trips comes to eleven, one every eight to four and a half.
const FADING: f64 = 0.97;
const FREQUENT: f64 = 7.0;
/// What waits at a swing's upper end, in what one transfer keeps.
const HIGH: f64 = 6.0;
/// The share that is lost beyond what is usual where the queue overflows.
const EXCESS: f64 = 0.02;

/// The swings of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swings {
    /// The queue was empty since it was high.
    low: bool,
    recent: f64,
}

impl Swings {
    /// A round trip has ended in which packets waited so long, in seconds, and this share of them was lost beyond what is usual; `keep` is
    /// what one transfer keeps waiting.
    pub(super) fn handle_round(&mut self, least: f64, most: f64, excess: f64, keep: f64) {
        self.recent *= FADING;
        self.low |= is_empty(least, keep);
        if self.low && most > HIGH * keep && excess > EXCESS {
            self.low = false;
            self.recent += 1.0;
        }
    }

    /// Whether the queue goes up and down all the time.
    pub(super) fn are_frequent(&self) -> bool {
        self.recent > FREQUENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After many round trips of which each n-th begins with an empty queue that is high at its end, and loses so much.
    fn are_frequent(every: u64, lost: f64) -> bool {
        let mut swings = Swings::default();
        for round in 0..1_000u64 {
            let (least, most, lost) =
                if round.is_multiple_of(every) { (0.0, 10.0, lost) } else { (3.0, 4.0, 0.0) };
            swings.handle_round(least, most, lost, 1.0);
        }
        swings.are_frequent()
    }

    #[test]
    fn a_queue_that_is_drained_now_and_then_or_does_not_overflow_does_not_swing() {
        assert!(are_frequent(3, 0.1));
        assert!(!are_frequent(8, 0.1), "eight of its kind did so beside each other");
        assert!(!are_frequent(20, 0.1));
        assert!(!are_frequent(3, 0.0));
    }
}
