//! Which part of what a transfer would keep waiting it keeps, where that may be more than the queue holds.
//!
//! On a path of some milliseconds or less a transfer keeps as much waiting as busy ends need, whatever the path's length. Eight such
//! transfers on 10 Gbit/s keep more than a queue of two megabytes holds: without this, half of all packets were dropped there for as
//! long as they lasted (simulated, 0.3 ms).
//!
//! | of a round's packets | the part |
//! |---|---|
//! | some were lost beyond what is usual, and more waits than this transfer keeps | shrinks by [`DOWN`] |
//! | anything else | grows by [`UP`] |
//!
//! One lost packet is enough, as a round of one among many has few: to wait for a hundred of them made shares uneven (Jain 0.44 among
//! eight in place of 0.99).

use super::super::Cohort;

/// The share that is lost beyond what is usual where the queue overflows.
const EXCESS: f64 = 0.01;
const DOWN: f64 = 0.7;
const UP: f64 = 1.005;
const LEAST: f64 = 1.0 / 32.0;

/// The part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modesty(f64);

impl Default for Modesty {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Modesty {
    /// All of it at 1.
    pub(super) fn part(self) -> f64 {
        self.0
    }

    /// What became of a round's packets. `usual` is the share that is lost whatever the rate; `overfull` says that more waits than this
    /// transfer keeps.
    pub(super) fn handle_cohort(&mut self, cohort: &Cohort, usual: f64, overfull: bool) {
        let overflows = overfull && cohort.loss() > usual + EXCESS;
        self.0 = (self.0 * if overflows { DOWN } else { UP }).clamp(LEAST, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a hundred rounds of which so many in a thousand packets were lost.
    fn after(lost: u64, usual: f64, overfull: bool) -> f64 {
        let mut modesty = Modesty::default();
        for round in 0..100 {
            modesty.handle_cohort(&Cohort { round, arrived: 1_000 - lost, lost }, usual, overfull);
        }
        modesty.part()
    }

    #[test]
    fn only_a_queue_that_overflows_makes_modest() {
        assert_eq!(after(50, 0.0, true), LEAST);
        assert_eq!(after(50, 0.0, false), 1.0, "nothing waits: loss is not the queue's");
        assert_eq!(after(50, 0.05, true), 1.0, "as usual");
        assert_eq!(after(5, 0.0, true), 1.0, "that may be anybody's");
    }
}
