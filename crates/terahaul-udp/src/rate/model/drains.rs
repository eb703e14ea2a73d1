//! When to let the queue run empty, and what it means when it does not.
//!
//! Whoever begins while others keep something waiting takes that for the path's own length, keeps his own part on top of it,
//! and so gets more than they do (Low, Peterson and Wang, 2002, of Vegas). Only an empty queue corrects it, and one transfer of
//! eight cannot empty it alone. So transfers drain at the same time, without a word between them: what all of them see, they
//! take for a signal.
//!
//! | what waits | it means | the next drain |
//! |---|---|---|
//! | nothing | the queue is empty | [`EVERY`] from now |
//! | much less than usual, for the first time since this transfer drained | somebody else drains | [`EVERY`] from now, together |
//! | much more than usual, or this transfer itself has begun | somebody begins | [`SETTLED`] round trips from now, together |
//! | more than a little, all through a drain | others do not drain | soon, and deeper |
//! | that, [`FUTILE`] times in a row, or in the first drain [`FUTILE_CYCLES`] times in a row | they never will: CUBIC, BBR; on a near path they may only not have seen it | none; the law has to insist ([`Drains::are_futile`]) |
//!
//! A queue that others fill goes up and down, and now and then that passes for a drain. So this transfer is put off once: who drains lets
//! it see an empty queue the next time, when all do.
//!
//! Where others never let the queue run empty, what is left of it in the deepest drain passes for the path's length from then on. That is
//! why the first drain, which is not so deep, has a say of its own: where all drain together it is enough.
//!
//! The last row is Copa's test for competitive mode (Arun and Balakrishnan, 2018): among transfers of one kind the queue is empty
//! every few round trips.

use std::time::Duration;

use super::is_empty;
use crate::Time;

const EVERY: Duration = Duration::from_secs(3);
const EVERY_ROUNDS: u32 = 20;
/// After a drain that left something in the queue.
const SOON: Duration = Duration::from_millis(200);
const SOON_ROUNDS: u32 = 10;
/// Round trips after which a beginning has settled.
const SETTLED: u32 = 6;
const FALLEN: f64 = 0.8;
/// More than usual, in what one transfer keeps waiting.
const RISEN: f64 = 2.0;
/// More than this part of what one transfer keeps: others did not drain.
const LEFT: f64 = 0.5;
const FUTILE: u32 = 4;
const FUTILE_CYCLES: u32 = 3;
/// What is left of the window in a drain, less [`DEEPER`] for each in vain.
const DEPTH: f64 = 0.9;
/// The same where others have most of the line: what they keep waiting may pass for the path's length, and only less than
/// that shows it. It costs a line that has only transfers like this one 3 % of its time (simulated, 4 and 8 over 20 ms).
const DEPTH_BESIDE: f64 = 0.7;
const DEEPER: f64 = 0.2;
const DEEPEST: f64 = 0.5;

/// The clock of one transfer's drains. Waiting is in seconds; `keep` is what one transfer keeps waiting.
#[derive(Clone, Debug, Default)]
pub(super) struct Drains {
    /// What waits in the mean of the last rounds.
    usual: f64,
    /// When the queue was last seen empty, or was to be.
    last: Time,
    /// Somebody has begun: drain then.
    by: Option<Time>,
    /// Somebody else seems to have drained since the queue was last empty, or was to be.
    put_off: bool,
    /// In a row, in vain.
    failed: u32,
    /// Cycles in a row of which the first drain was in vain, though perhaps not the deeper ones after it.
    failed_first: u32,
    under_way: Option<Drain>,
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    /// The least that waited during it.
    least: f64,
    /// None of those just before it was in vain.
    first: bool,
}

impl Drains {
    /// A round trip has ended in which packets waited `waited` at least; `shortest` is the path's own length.
    pub(super) fn handle_round(&mut self, now: Time, waited: f64, keep: f64, shortest: Duration) {
        let a_while = now.since(self.last) > shortest * 4;
        if is_empty(waited, keep) {
            self.last = now;
            self.put_off = false;
            self.failed = 0;
            if self.under_way.is_none() {
                self.failed_first = 0;
            }
        } else if a_while && !self.put_off && self.usual > 2.0 * keep && waited < FALLEN * self.usual {
            self.last = now;
            self.put_off = true;
            self.by = None;
        } else if a_while && waited > self.usual + RISEN * keep {
            self.handle_beginning(now, shortest);
        }
        self.usual += (waited - self.usual) / 8.0;
        if let Some(drain) = &mut self.under_way {
            drain.least = drain.least.min(waited);
        }
    }

    /// Somebody begins to send as much as the line carries.
    pub(super) fn handle_beginning(&mut self, now: Time, shortest: Duration) {
        self.by.get_or_insert(now + shortest * SETTLED);
    }

    /// Whether to drain now.
    pub(super) fn is_due(&self, now: Time, shortest: Duration) -> bool {
        let every = match self.failed {
            0 => EVERY.max(shortest * EVERY_ROUNDS),
            _ => SOON.max(shortest * SOON_ROUNDS),
        };
        now.since(self.last) >= every || self.by.is_some_and(|by| now >= by)
    }

    /// A drain begins: which part of the window to leave, alone on the line or `beside` others.
    pub(super) fn begin(&mut self, beside: bool) -> f64 {
        self.by = None;
        self.under_way = Some(Drain { least: f64::INFINITY, first: self.failed == 0 });
        let depth = if beside { DEPTH_BESIDE } else { DEPTH };
        (depth - DEEPER * f64::from(self.failed)).max(DEEPEST)
    }

    /// It has ended.
    pub(super) fn end(&mut self, now: Time, keep: f64) {
        self.restart(now);
        let Some(Drain { least, first }) = self.under_way.take() else { return };
        let more_if = |in_vain: bool, before: u32| if in_vain { before + 1 } else { 0 };
        let in_vain = least >= LEFT * keep;
        self.failed = more_if(in_vain, self.failed);
        if first {
            self.failed_first = more_if(in_vain, self.failed_first);
        }
    }

    /// Whether others fill the queue, and never let it run empty.
    pub(super) fn are_futile(&self, keep: f64) -> bool {
        (self.failed >= FUTILE || self.failed_first >= FUTILE_CYCLES) && self.usual > 2.0 * keep
    }

    /// The one under way shows nothing any more.
    pub(super) fn interrupt(&mut self) {
        self.under_way = None;
    }

    /// The window is another from now on: time for the queue to follow.
    pub(super) fn restart(&mut self, now: Time) {
        (self.last, self.by, self.put_off) = (now, None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(20);
    const KEEP: f64 = 0.001_25;

    /// Rounds of 20 ms in which so much waits, in what one transfer keeps; the round of the first drain that is due.
    fn first_drain(drains: &mut Drains, waiting: impl Fn(u64) -> f64) -> Option<u64> {
        (1..1_000).find(|round| {
            let now = Time::ZERO + SHORTEST * *round as u32;
            drains.handle_round(now, waiting(*round) * KEEP, KEEP, SHORTEST);
            drains.is_due(now, SHORTEST)
        })
    }

    #[test]
    fn a_queue_that_runs_empty_by_itself_is_not_drained() {
        let waiting = |round: u64| if round.is_multiple_of(100) { 0.0 } else { 2.0 };
        assert_eq!(first_drain(&mut Drains::default(), waiting), None);
        assert_eq!(first_drain(&mut Drains::default(), |_| 2.0), Some(150));
    }

    #[test]
    fn those_that_see_another_begin_or_drain_do_the_same_together() {
        // One has been there for long, the other for a second; both see a third begin.
        let begins = |round: u64| if round < 100 { 3.0 } else { 8.0 };
        let mut young = Drains::default();
        young.restart(Time::ZERO + SHORTEST * 50);
        let old = first_drain(&mut Drains::default(), begins);
        assert_eq!(old, first_drain(&mut young, begins));
        assert_eq!(old, Some(100 + u64::from(SETTLED)));
        // And both see that another drains.
        let drains = |round: u64| if round == 120 { 2.0 } else { 3.0 };
        let mut young = Drains::default();
        young.restart(Time::ZERO + SHORTEST * 50);
        let old = first_drain(&mut Drains::default(), drains);
        assert_eq!(old, first_drain(&mut young, drains));
        assert_eq!(old, Some(270));
    }

    /// Beside CUBIC, on a line of 1 Gbit/s: what one round showed passed for a drain, again and again, and none was due for 25 s.
    #[test]
    fn a_queue_that_others_fill_is_drained_though_it_goes_up_and_down() {
        let waiting = |round: u64| if round % 10 < 7 { 9.0 } else { 6.0 };
        let every = (EVERY.as_millis() / SHORTEST.as_millis()) as u64;
        let due = first_drain(&mut Drains { usual: 8.0 * KEEP, ..Drains::default() }, waiting).unwrap();
        assert!((every..=2 * every).contains(&due), "after {due} round trips");
    }

    #[test]
    fn drains_in_vain_are_soon_repeated_deeper_and_then_given_up() {
        let mut drains = Drains::default();
        let mut depths = Vec::new();
        let mut now = Time::ZERO;
        while !drains.are_futile(KEEP) {
            now = now + SHORTEST;
            drains.handle_round(now, 10.0 * KEEP, KEEP, SHORTEST);
            if drains.is_due(now, SHORTEST) {
                depths.push(drains.begin(false));
                drains.handle_round(now, 9.0 * KEEP, KEEP, SHORTEST);
                drains.end(now, KEEP);
            }
        }
        assert!(depths.is_sorted_by(|one, next| one >= next), "{depths:?}");
        assert_eq!((depths.len(), depths.last()), (FUTILE as usize, Some(&DEEPEST)));
        assert!(now.since(Time::ZERO) < Duration::from_secs(5), "{now}");
        drains.handle_round(now, 0.0, KEEP, SHORTEST);
        assert!(!drains.are_futile(KEEP));
    }
}
