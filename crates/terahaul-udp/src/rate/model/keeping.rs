//! How long what a transfer keeps waiting takes.
//!
//! A sixteenth of the path's length; on a near path as long as the ends need to notice that the queue runs empty. That depends on the
//! machines: half a millisecond where every thread has a processor to itself, and four times as long where packets, reports and what
//! hashes blocks wait for the same ones. On a line of 2.5 Gbit/s and 0.3 ms whose ends share two processors half a millisecond left a sixth of
//! the line empty. Eight transfers on 10 Gbit/s, on the other hand, keep more than a queue of two megabytes holds, and half of all packets
//! would be dropped there for as long as they last (simulated, 0.3 ms). So a near path's share of [`LEAST`] is learnt:
//!
//! | of a round's packets | the part |
//! |---|---|
//! | some were lost beyond what is usual, and more waits than a transfer that has learnt nothing keeps | shrinks by [`DOWN`] |
//! | anything else, while it is below one | grows by [`UP`] |
//! | the path is near, the window held them back, and the queue ran nearly empty | grows by [`MORE`], from one up to [`MOST_PARTS`] |
//! | the queue did not | shrinks by [`BACK`], down to one: where others come, nobody keeps more than they |
//!
//! What is nearly empty is not a part of what is kept now: a queue of which most is one transfer's would pass for nearly empty to that one
//! alone, which would keep more and more of it. And it takes many such rounds: another's drain makes two. Of four transfers over 4 ms one kept four
//! times as much as the others, until these took it for something that does not yield, insisted, and lost a tenth of all packets (simulated).
//!
//! One lost packet is enough, as a round of one among many has few: to wait for a hundred of them made shares uneven (Jain 0.44 among
//! eight in place of 0.99).

use super::super::Cohort;

/// Seconds that take at least to notice that the queue runs empty, and at most what is kept on a far path.
const LEAST: f64 = 0.000_5;
const MOST: f64 = 0.004;
/// The part of the path's length.
const OF_PATH: f64 = 1.0 / 16.0;
/// The share that is lost beyond what is usual where the queue overflows.
const EXCESS: f64 = 0.01;
const DOWN: f64 = 0.7;
const UP: f64 = 1.005;
const LEAST_PARTS: f64 = 1.0 / 32.0;
const MORE: f64 = 1.1;
const BACK: f64 = 0.998;
const MOST_PARTS: f64 = 4.0;
/// The part of [`LEAST`] below which the queue ran nearly empty.
const NEARLY_EMPTY: f64 = 0.5;

/// What it is on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    /// The path's length, in seconds.
    shortest: f64,
    part: f64,
}

impl Keeping {
    /// On a path of this length, in seconds.
    pub(super) fn new(shortest: f64) -> Self {
        Self { shortest, part: 1.0 }
    }

    /// It turns out to be so long, in seconds.
    pub(super) fn handle_shortest(&mut self, shortest: f64) {
        self.shortest = shortest;
    }

    fn with(self, part: f64) -> f64 {
        (self.shortest * OF_PATH).clamp(LEAST * part, MOST)
    }

    /// In seconds.
    pub(super) fn seconds(self) -> f64 {
        self.with(self.part)
    }

    /// What became of a round's packets. `usual` is the share that is lost whatever the rate; `waiting` is how long packets wait now,
    /// in seconds.
    pub(super) fn handle_cohort(&mut self, cohort: &Cohort, usual: f64, waiting: f64) {
        let overfull = waiting > self.with(self.part.min(1.0));
        if overfull && cohort.loss() > usual + EXCESS {
            self.part = (self.part * DOWN).max(LEAST_PARTS);
        } else if self.part < 1.0 {
            self.part = (self.part * UP).min(1.0);
        }
    }

    /// A round has ended in which packets waited so long at least, in seconds; `held_back` by nothing but the window.
    pub(super) fn handle_round(&mut self, waited: f64, held_back: bool) {
        if self.part >= 1.0 {
            let is_near = self.shortest * OF_PATH < LEAST;
            let nearly_empty = waited < NEARLY_EMPTY * LEAST;
            let step = if is_near && held_back && nearly_empty { MORE } else { BACK };
            self.part = (self.part * step).clamp(1.0, MOST_PARTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: f64 = 0.000_1;

    /// After a hundred rounds of which so many in a thousand packets were lost, while packets waited so long.
    fn after(lost: u64, usual: f64, waiting: f64) -> f64 {
        let mut keeping = Keeping::new(NEAR);
        for round in 0..100 {
            keeping.handle_cohort(&Cohort { round, arrived: 1_000 - lost, lost }, usual, waiting);
        }
        keeping.seconds() / LEAST
    }

    #[test]
    fn only_a_queue_that_overflows_makes_modest() {
        assert_eq!(after(50, 0.0, 2.0 * LEAST), LEAST_PARTS);
        assert_eq!(after(50, 0.0, 0.0), 1.0, "nothing waits: loss is not the queue's");
        assert_eq!(after(50, 0.05, 2.0 * LEAST), 1.0, "as usual");
        assert_eq!(after(5, 0.0, 2.0 * LEAST), 1.0, "that may be anybody's");
    }

    #[test]
    fn where_the_queue_runs_empty_more_is_kept_until_it_does_not() {
        let mut keeping = Keeping::new(NEAR);
        let mut rounds = |count: u32, waited: f64, held_back: bool| {
            (0..count).for_each(|_| keeping.handle_round(waited, held_back));
            keeping.seconds() / LEAST
        };
        assert_eq!(rounds(10, 0.0, false), 1.0, "there was nothing to send");
        assert_eq!(rounds(20, 0.0, true), MOST_PARTS);
        let less = rounds(20, MOST, true);
        assert!(less < MOST_PARTS && less > 3.5, "{less}");
        assert_eq!(rounds(1_000, MOST, true), 1.0);
    }

    #[test]
    fn others_that_drain_or_keep_less_do_not_pass_for_busy_ends() {
        let mut keeping = Keeping::new(NEAR);
        (0..2).for_each(|_| keeping.handle_round(0.0, true));
        let drained = keeping.seconds() / LEAST;
        assert!(drained < 1.25, "{drained}");
        (0..1_000).for_each(|_| keeping.handle_round(0.6 * LEAST, true));
        assert_eq!(keeping.seconds(), LEAST, "something always waits");
    }

    #[test]
    fn what_was_learnt_of_busy_ends_shrinks_where_the_queue_overflows() {
        let mut keeping = Keeping::new(NEAR);
        (0..20).for_each(|_| keeping.handle_round(0.0, true));
        keeping.handle_cohort(&Cohort { round: 11, arrived: 950, lost: 50 }, 0.0, 2.0 * LEAST);
        assert_eq!(keeping.seconds(), MOST_PARTS * DOWN * LEAST, "though no more waits than it kept");
    }

    #[test]
    fn on_a_far_path_it_is_a_part_of_its_length() {
        let mut keeping = Keeping::new(0.016);
        (0..10).for_each(|_| keeping.handle_round(0.0, true));
        assert_eq!(keeping.seconds(), 0.001, "whatever its ends do");
        assert_eq!(Keeping::new(1.0).seconds(), MOST);
    }
}
