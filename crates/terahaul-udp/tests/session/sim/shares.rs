//! What everybody gets of a line.

use super::{Nanos, Transfer, World};

/// In a stretch of time, each as a part of what the line carries.
pub struct Shares {
    /// Each of our transfers.
    pub ours: Vec<f64>,
    /// Each of the others.
    pub theirs: Vec<f64>,
    /// Which part of all packets its queue dropped.
    pub dropped: f64,
}

struct Counted {
    ours: Vec<u64>,
    theirs: Vec<u64>,
    sent: u64,
    dropped: u64,
}

impl Counted {
    fn in_all(world: &World) -> Self {
        Self {
            ours: world.transfers.iter().map(Transfer::acknowledged).collect(),
            theirs: world.others.iter().map(|flow| flow.delivered * 1_500).collect(),
            sent: world.out.counters.sent,
            dropped: world.out.counters.dropped,
        }
    }
}

impl World {
    /// Runs until `until`: what everybody gets from `from` on.
    pub fn shares(&mut self, from: Nanos, until: Nanos) -> Shares {
        self.run(from, |_| false);
        let before = Counted::in_all(self);
        self.run(until, |_| false);
        let after = Counted::in_all(self);
        let line = self.out.spec.rate * (until - from) as f64 / 1e9;
        let share = |before: &[u64], after: &[u64]| {
            before.iter().zip(after).map(|(before, after)| (after - before) as f64 / line).collect()
        };
        Shares {
            ours: share(&before.ours, &after.ours),
            theirs: share(&before.theirs, &after.theirs),
            dropped: (after.dropped - before.dropped) as f64 / (after.sent - before.sent).max(1) as f64,
        }
    }
}

impl Shares {
    /// All of ours together.
    pub fn total(&self) -> f64 {
        self.ours.iter().sum()
    }

    /// Jain's index of ours: 1 where all get the same.
    pub fn jain(&self) -> f64 {
        let squares: f64 = self.ours.iter().map(|share| share * share).sum();
        self.total() * self.total() / (self.ours.len() as f64 * squares)
    }
}
