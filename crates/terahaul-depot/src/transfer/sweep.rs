//! What a depot does now and then.

use std::sync::Arc;
use std::time::Duration;

use crate::DepotError;
use crate::db::REMOVED;
use crate::depot::Depot;

/// How often.
const EVERY: Duration = Duration::from_secs(30);

/// Sweeps for as long as the depot exists.
pub(crate) fn spawn(depot: &Depot) {
    let weak = Arc::downgrade(&depot.inner);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            let Some(inner) = weak.upgrade() else { return };
            if inner.db.is_closed() {
                return;
            }
            let depot = Depot { inner };
            // It is about to stop, and what it has open is nobody's any more.
            if depot.check_data().await.is_err() {
                return;
            }
            if let Err(error) = depot.sweep().await {
                tracing::warn!(%error, "sweeping failed; it is tried again");
            }
        }
    });
}

impl Depot {
    /// Drops from memory what is idle, ends removals that were cut and, once the clock [is trusted](crate::DepotConfig::trusts_clock_after),
    /// removes expired transfers and sessions. Not so where the clock was put forward: what seems to have expired by that is looked at again the
    /// next time.
    pub async fn sweep(&self) -> Result<(), DepotError> {
        // Before the clock is asked whether it was put forward, and not again: that may happen during all that is waited for below.
        let now = self.inner.config.clock.now();
        if self.follow_clock().await? {
            return Ok(());
        }
        // Before it is dropped from memory, which alone knows that it is sent.
        self.keep_what_is_sent().await;
        self.raise_generation().await;
        self.inner.registry.drop_idle().await;
        self.remove_unmarked().await;
        let is_trusted = self.inner.started.elapsed() >= self.inner.config.trusts_clock_after;
        // A removal that a stop has cut is marked with no clock's time, and goes on by none.
        let ended = if is_trusted { now } else { REMOVED };
        for id in self.inner.db.expired_transfers(ended).await? {
            // One whose file the disk does not let go holds up no other.
            if let Err(error) = self.remove_expired(id).await {
                tracing::warn!(transfer = %id, %error, "an expired transfer could not be removed; it is tried again");
            }
        }
        if !is_trusted {
            return Ok(());
        }
        // Last: on a full disk this fails until a transfer's space is free.
        Ok(self.inner.db.delete_expired_sessions(now).await?)
    }

    /// Whether the clock was put forward. What was made, extended or finished before was to be kept for days that it had wrong.
    pub(crate) async fn follow_clock(&self) -> Result<bool, DepotError> {
        let depot = self.clone();
        // A task of its own: a request that is given up must not stop this between the database and the watch.
        let task = tokio::spawn(async move { depot.correct_times().await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn correct_times(&self) -> Result<bool, DepotError> {
        let (db, watch) = (&self.inner.db, &self.inner.clock_watch);
        // Each correction moves what is kept, and is made once.
        let _following = self.inner.following_clock.lock().await;
        let Some(correction) = watch.poll(&self.inner.config.clock) else {
            if let Some(watched) = watch.unkept() {
                match db.keep_clock(&watched).await {
                    Ok(()) => watch.handle_kept(watched),
                    // A full disk, on which sweeping goes on: it makes room.
                    Err(error) => {
                        tracing::warn!(%error, "what the clock shows could not be recorded; it is tried again");
                    }
                }
            }
            return Ok(false);
        };
        let watched = watch.settled(correction);
        let kept = db.correct_times(correction, &watched).await?;
        watch.handle_kept(watched);
        let hours = correction.by / 3600;
        tracing::warn!(
            hours,
            kept,
            "the clock was put forward: transfers and tokens that were made, extended or finished before are kept as much longer"
        );
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures_util::FutureExt as _;
    use terahaul_core::{ByteCount, EntryIndex, EntryKind};
    use terahaul_wire::Batch;

    use super::*;
    use crate::db::Term;
    use crate::fixture::{Fixture, entry};
    use crate::{Clock, DepotConfig};

    /// Its space came back ten minutes after a start that nothing disturbed.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_removal_that_a_stop_has_cut_is_ended_before_the_clock_is_trusted() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let [cut, expired] = [fixture.finished(ByteCount(1)).await, fixture.finished(ByteCount(1)).await];
        depot.inner.db.expire_transfer(cut).await.unwrap();
        depot.inner.db.keep_transfer(expired, Term { days: 1, expires: 1 }).await.unwrap();
        depot.sweep().await.unwrap();
        assert!(depot.inner.db.transfer(cut).await.unwrap().is_none());
        let left: Vec<_> = depot.inner.store.list().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(left, [expired]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_clock_that_is_put_forward_during_a_sweep_removes_nothing() {
        let [shown, passed] = [1_000_000_000, 17].map(|seconds| Arc::new(AtomicI64::new(seconds)));
        let clock = Clock::set_apart(Arc::clone(&shown), Arc::clone(&passed));
        let set = |config| DepotConfig { clock, trusts_clock_after: Duration::ZERO, ..config };
        let fixture = Fixture::with(set).await;
        let depot = &fixture.depot;
        let (idle, sent) = (fixture.transfer().await, fixture.transfer().await);
        let live = depot.open_inbound(&fixture.owner, sent).await.unwrap();
        let entries = vec![entry("a", EntryKind::Directory)];
        let batch = Batch { first: EntryIndex(0), entries, seal: true };
        live.append_entries(batch).await.unwrap();
        for seconds in [&shown, &passed] {
            seconds.fetch_add(7200, Ordering::Relaxed);
        }
        // What is being sent is to be extended, and waits for the database.
        let held = depot.inner.db.hold().await.unwrap();
        let mut sweep = pin!(depot.sweep());
        assert!((&mut sweep).now_or_never().is_none());
        shown.fetch_add(365 * 86_400, Ordering::Relaxed);
        drop(held);
        sweep.await.unwrap();
        assert!(depot.inner.db.transfer(idle).await.unwrap().is_some());
        depot.sweep().await.unwrap();
        depot.row(idle).await.expect("it is kept as much longer");
    }
}
