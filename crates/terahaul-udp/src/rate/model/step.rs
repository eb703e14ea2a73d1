//! Whether what waits answers to what is sent. A queue does. A route that has become longer does not, but passes for a queue until the
//! shortest way out is forgotten, and on such a path this transfer would insist on half of a line that nobody else uses.
//!
//! To insist is to send more all of a sudden. A full line cannot carry that at once: until others send less, as much as is sent beyond
//! before has to wait, or is dropped. So for each round trip since:
//!
//! | packets | it was |
//! |---|---|
//! | were lost beyond what is usual | a queue |
//! | waited more than before, or less, by more than [`SAME`] | a queue |
//! | did neither, for [`MOST_ROUNDS`] | perhaps a queue: too little more was sent |
//! | did neither, for [`LEAST_ROUNDS`] and for as long as would have made a queue of [`OWED`] | the way itself |

use crate::Time;

/// Round trips until what is sent now is what reports tell of.
const DELAY: u32 = 2;
/// Others take a round trip or two to send less.
const LEAST_ROUNDS: u32 = 8;
const MOST_ROUNDS: u32 = 20;
/// In what one transfer keeps waiting.
const OWED: f64 = 16.0;
const SAME: f64 = 1.0;
/// The share that is lost beyond what is usual where a queue overflows: those who fill it may lose most.
const EXCESS: f64 = 0.005;

/// More is sent than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    before: Seen,
    since: Time,
    rounds: u32,
}

/// What one round trip has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The least and the most that packets waited, in seconds.
    pub(super) least: f64,
    pub(super) most: f64,
    /// The share that was lost beyond what is usual.
    pub(super) excess: f64,
    /// What arrived, as a part of what the line carries.
    pub(super) rate: f64,
}

/// What is known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Open,
    Queue,
    /// What seems to wait does not.
    Way,
}

impl Step {
    /// More is sent from now on; `before` is the last round trip.
    pub(super) fn new(now: Time, before: Seen) -> Self {
        Self { before, since: now, rounds: 0 }
    }

    /// A round trip has ended; `keep` is what one transfer keeps waiting, in seconds.
    pub(super) fn handle_round(&mut self, now: Time, seen: Seen, keep: f64) -> Answer {
        self.rounds += 1;
        if self.rounds <= DELAY {
            self.since = now;
        }
        let differs = |waited: f64| (waited - self.before.least).abs() > SAME * keep;
        let owed = (seen.rate - self.before.rate) * now.since(self.since).as_secs_f64();
        if seen.excess > EXCESS || differs(seen.least) || differs(seen.most) || self.rounds > MOST_ROUNDS {
            Answer::Queue
        } else if self.rounds < LEAST_ROUNDS || owed < OWED * keep {
            Answer::Open
        } else {
            Answer::Way
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const KEEP: f64 = 0.001_25;
    const BEFORE: Seen = Seen { least: 0.05, most: 0.05, excess: 0.0, rate: 0.1 };

    /// After rounds of 100 ms that were all alike but for one.
    fn answer(usual: Seen, odd: Seen) -> Answer {
        let mut step = Step::new(Time::ZERO, BEFORE);
        let mut answers = (1..=MOST_ROUNDS + 1).map(|round| {
            let seen = if round == DELAY { odd } else { usual };
            step.handle_round(Time::ZERO + Duration::from_millis(100) * round, seen, KEEP)
        });
        answers.find(|answer| *answer != Answer::Open).expect("it is not asked for ever")
    }

    #[test]
    fn only_what_waits_as_before_whatever_is_sent_is_no_queue() {
        let more = Seen { rate: 0.5, ..BEFORE };
        assert_eq!(answer(more, more), Answer::Way);
        let others =
            [Seen { least: 0.048, ..more }, Seen { most: 0.052, ..more }, Seen { excess: 0.01, ..more }];
        for odd in others {
            assert_eq!(answer(more, odd), Answer::Queue, "{odd:?}");
        }
    }

    #[test]
    fn who_hardly_sends_more_learns_nothing() {
        let as_much = Seen { rate: 0.105, ..BEFORE };
        assert_eq!(answer(as_much, as_much), Answer::Queue);
    }
}
