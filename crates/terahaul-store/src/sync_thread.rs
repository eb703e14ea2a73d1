//! The thread that makes received blocks durable, a group at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use terahaul_core::{BlockNumber, BlockProof, BlockRun};

use crate::inbound::{Inbound, Shared, State, SyncFailure};

type Group = [(BlockNumber, BlockProof)];

enum Outcome {
    Durable,
    /// Synced, but not recorded: the next attempt takes the group again.
    Unrecorded(SyncFailure),
    /// Not synced. The system may have marked the bytes as written and dropped them, so a later sync that succeeds
    /// proves nothing about them: they have to arrive again.
    Lost(SyncFailure),
}

/// Tells those who wait that nothing more becomes durable, also when the thread panics.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        state.closed = true;
        drop(state);
        self.0.done.notify_all();
        self.0.settled.notify_all();
    }
}

/// Runs until the inbound is closed.
pub(crate) fn sync_loop(shared: &Shared) {
    // Declared before the guard, so that it is dropped after it: it takes the lock itself.
    let _ended = Ended(shared);
    let mut state = shared.state();
    loop {
        if state.closed {
            state.receiver.handle_flush();
        }
        let now = Instant::now();
        if let Some(group) = state.receiver.poll_sync(now) {
            state.attempts += 1;
            drop(state);
            let outcome = make_durable(shared, &group);
            let failed = !matches!(outcome, Outcome::Durable);
            settle(shared, &group, outcome);
            state = shared.state();
            if failed && state.closed {
                return;
            }
        } else if state.closed {
            return;
        } else {
            state = match state.receiver.poll_timeout() {
                None => shared.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let wait = at.saturating_duration_since(now);
                    shared.work.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

fn make_durable(shared: &Shared, group: &Group) -> Outcome {
    let attempt = || match shared.sink.sync() {
        Err(error) => Outcome::Lost(SyncFailure { reason: error.to_string(), full: error.is_full() }),
        Ok(()) => match shared.ledger.record(group) {
            Err(error) => {
                Outcome::Unrecorded(SyncFailure { reason: error.to_string(), full: error.is_full() })
            }
            Ok(()) => Outcome::Durable,
        },
    };
    // A flush waits for this thread, so it outlives a panic in what it calls.
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| {
        let reason = "storing the transfer failed unexpectedly: see the log, then run the same command again";
        Outcome::Lost(SyncFailure { reason: reason.into(), full: false })
    })
}

/// Enters the outcome, tells the listeners, then wakes those who wait in a flush.
fn settle(shared: &Shared, group: &Group, outcome: Outcome) {
    let mut state = shared.state();
    match outcome {
        Outcome::Durable => {
            state.receiver.handle_synced(group);
            state.hold_off = None;
            let listeners: Vec<_> = state.on_durable.iter().map(|(_, call)| Arc::clone(call)).collect();
            drop(state);
            let runs = runs_of(group);
            listeners.iter().for_each(|listener| quietly(|| listener(&runs)));
        }
        Outcome::Unrecorded(failure) => {
            state.receiver.handle_sync_failed(Instant::now());
            fail(state, failure);
        }
        Outcome::Lost(failure) => {
            state.receiver.handle_lost();
            state.losses += 1;
            state.guesses.clear();
            state.loss_untold = true;
            let listeners: Vec<_> = state.on_lost.iter().map(|(_, call)| Arc::clone(call)).collect();
            fail(state, failure.clone());
            listeners.iter().for_each(|listener| quietly(|| listener(&failure)));
        }
    }
    shared.done.notify_all();
}

fn fail(mut state: MutexGuard<'_, State>, failure: SyncFailure) {
    // Whoever sends them is told, and whoever waits for them says so where it does not pass.
    tracing::info!(reason = failure.reason, "received blocks could not be made durable");
    state.failed_attempt = state.attempts;
    state.failure = Some(failure);
    state.hold_off = Some(Instant::now() + Inbound::HOLD_OFF);
}

/// A listener's panic is its own: its hook has reported it, and the transfer goes on.
fn quietly(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

fn runs_of(group: &Group) -> Vec<BlockRun> {
    let mut runs: Vec<BlockRun> = Vec::new();
    for (block, _) in group {
        match runs.last_mut() {
            Some(run) if run.first.0 + run.count == block.0 => run.count += 1,
            _ => runs.push(BlockRun { first: *block, count: 1 }),
        }
    }
    runs
}
