//! A clock that was behind when the depot started, and is put right later.
//!
//! A machine whose clock has lost its battery starts with a time in the past, until it hears the right one. What was made meanwhile
//! expires in the past from then on. So wall time is held against time that passes whatever the clock is set to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Clock;

/// Corrections of less, in seconds, are no matter.
const IGNORED: i64 = 3600;

/// What the clock has shown since the depot started.
pub(crate) struct ClockWatch(Mutex<Watched>);

#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When the depot started, by the clock as it was when last looked at.
    started: i64,
    /// By how much the clock is ahead of the time that has passed.
    ahead: i64,
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
    pub fn new(clock: &Clock) -> Self {
        let started = clock.now();
        Self(Mutex::new(Watched { started, ahead: started - clock.passed() }))
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the clock was put forward since this was last asked. A correction is answered again until it is settled.
    pub fn poll(&self, clock: &Clock) -> Option<Correction> {
        let mut watched = self.watched();
        let now = clock.now();
        let by = now - clock.passed() - watched.ahead;
        if by > IGNORED {
            return Some(Correction { from: watched.started, to: now - by, by });
        }
        watched.handle_set(by);
        None
    }

    /// What it means was done.
    pub fn handle_settled(&self, correction: Correction) {
        self.watched().handle_set(correction.by);
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
        let watch = ClockWatch::new(&clock);
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
        watch.handle_settled(correction);
        assert_eq!(step(60, 60), None);
        assert_eq!(step(8000, 0), Some(Correction { from: from + 9000, to: to + 9060, by: 8000 }));
    }
}
