//! A clock that was behind when the machine started, and is put right later.
//!
//! A machine whose clock has lost its battery starts with a time in the past, until it hears the right one. What was made meanwhile
//! expires in the past from then on. So wall time is held against time that passes whatever the clock is set to, also across starts of
//! the depot: who finds the clock wrong may stop the depot, set it, and start the depot again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Clock;

/// Corrections of less, in seconds, are no matter.
const IGNORED: i64 = 3600;

/// Changes of less, in seconds, are not worth a write: clocks are set by a second now and then.
const UNKEPT: i64 = 60;

/// What the clock has shown since a depot first ran in this start of the machine.
pub(crate) struct ClockWatch(Mutex<State>);

struct State {
    watched: Watched,
    /// What the database has of `ahead`, if anything.
    kept: Option<i64>,
}

/// What is kept of it for the depot's next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    /// Which start of the machine.
    pub boot: String,
    /// When a depot first ran in it, by the clock as it was when last looked at.
    pub started: i64,
    /// By how much the clock is ahead of the time that has passed.
    pub ahead: i64,
}

/// The clock was set forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Correction {
    /// The first moment of which the clock has shown the wrong time.
    pub from: i64,
    /// The last one, in the same wrong time.
    pub to: i64,
    /// By how much it was behind.
    pub by: i64,
}

impl ClockWatch {
    /// Goes on from what was kept, if the machine was not started since.
    pub fn new(clock: &Clock, kept: Option<Watched>) -> Self {
        let (boot, started) = (clock.boot(), clock.now());
        let kept = kept.filter(|kept| kept.boot == boot && !boot.is_empty());
        let ahead = kept.as_ref().map(|kept| kept.ahead);
        let watched = kept.unwrap_or_else(|| Watched { boot, started, ahead: started - clock.passed() });
        Self(Mutex::new(State { watched, kept: ahead }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the clock was put forward since this was last asked. A correction is answered again until it is settled.
    pub fn poll(&self, clock: &Clock) -> Option<Correction> {
        let watched = &mut self.state().watched;
        let now = clock.now();
        let by = now - clock.passed() - watched.ahead;
        if by > IGNORED {
            return Some(Correction { from: watched.started, to: now - by, by });
        }
        watched.handle_set(by);
        None
    }

    /// What is to be kept together with all that `correction` moves.
    pub fn settled(&self, correction: Correction) -> Watched {
        let mut watched = self.state().watched.clone();
        watched.handle_set(correction.by);
        watched
    }

    /// What is to be kept, if it is not.
    pub fn unkept(&self) -> Option<Watched> {
        let state = self.state();
        let is_kept = state.kept.is_some_and(|kept| (kept - state.watched.ahead).abs() < UNKEPT);
        (!is_kept).then(|| state.watched.clone())
    }

    /// It is kept.
    pub fn handle_kept(&self, watched: Watched) {
        *self.state() = State { kept: Some(watched.ahead), watched };
    }
}

impl Watched {
    fn handle_set(&mut self, by: i64) {
        self.started += by;
        self.ahead += by;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn only_a_jump_forward_is_a_correction_and_it_stays_one_until_it_is_settled() {
        let [shown, passed] = [5_000_000, 100].map(|seconds| Arc::new(AtomicI64::new(seconds)));
        let clock = Clock::set_apart(Arc::clone(&shown), Arc::clone(&passed));
        let watch = ClockWatch::new(&clock, None);
        let step = |by_clock: i64, seconds: i64| {
            shown.fetch_add(by_clock, Ordering::Relaxed);
            passed.fetch_add(seconds, Ordering::Relaxed);
            watch.poll(&clock)
        };
        assert_eq!(step(1_000_000, 1_000_000), None, "time passes");
        assert_eq!(step(IGNORED, 0), None);
        assert_eq!(step(-7200, 0), None);
        let from = 5_000_000 + IGNORED - 7200;
        let to = from + 1_000_000 + 30;
        let correction = Correction { from, to, by: 9000 };
        assert_eq!(step(9030, 30), Some(correction));
        assert_eq!(step(0, 0), Some(correction));
        watch.handle_kept(watch.settled(correction));
        assert_eq!(step(60, 60), None);
        assert_eq!(step(8000, 0), Some(Correction { from: from + 9000, to: to + 9060, by: 8000 }));
    }

    #[test]
    fn the_next_start_goes_on_unless_it_is_another_start_of_the_machine() {
        let [shown, passed] = [5_000_000, 100].map(|seconds| Arc::new(AtomicI64::new(seconds)));
        let clock = Clock::set_apart(Arc::clone(&shown), passed);
        let watch = ClockWatch::new(&clock, None);
        let kept = watch.unkept().expect("nothing is yet");
        watch.handle_kept(kept.clone());
        shown.fetch_add(UNKEPT - 1, Ordering::Relaxed);
        assert_eq!((watch.poll(&clock), watch.unkept()), (None, None));
        shown.fetch_add(7200, Ordering::Relaxed);
        let next = ClockWatch::new(&clock, Some(kept.clone()));
        let correction = Correction { from: 5_000_000, to: 5_000_000, by: 7200 + UNKEPT - 1 };
        assert_eq!(next.poll(&clock), Some(correction));
        let other = Watched { boot: "another".to_owned(), ..kept };
        let next = ClockWatch::new(&clock, Some(other));
        assert_eq!(next.poll(&clock), None);
        assert!(next.unkept().is_some());
    }
}
