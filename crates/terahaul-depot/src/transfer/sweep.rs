//! What a depot does now and then.

use std::sync::Arc;
use std::time::Duration;

use crate::DepotError;
use crate::clock_watch::Correction;
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
            if let Err(error) = (Depot { inner }).sweep().await {
                tracing::warn!(%error, "sweeping failed; it is tried again");
            }
        }
    });
}

impl Depot {
    /// Drops from memory what is idle and, once the clock [is trusted](crate::DepotConfig::trusts_clock_after), removes expired
    /// transfers and sessions. Not so where the clock was put forward: what seems to have expired by that is looked at again the
    /// next time.
    pub async fn sweep(&self) -> Result<(), DepotError> {
        if let Some(correction) = self.inner.clock_watch.poll(&self.inner.config.clock) {
            return self.follow(correction).await;
        }
        // Before it is dropped from memory, which alone knows that it is sent.
        self.keep_what_is_sent().await;
        self.inner.registry.drop_idle().await;
        self.remove_unmarked().await;
        if self.inner.started.elapsed() < self.inner.config.trusts_clock_after {
            return Ok(());
        }
        let now = self.inner.config.clock.now();
        for id in self.inner.db.expired_transfers(now).await? {
            // One whose file the disk does not let go holds up no other.
            if let Err(error) = self.remove_expired(id).await {
                tracing::warn!(transfer = %id, %error, "an expired transfer could not be removed; it is tried again");
            }
        }
        // Last: on a full disk this fails until a transfer's space is free.
        Ok(self.inner.db.delete_expired_sessions(now).await?)
    }

    /// What was made since the depot started was to be kept for days that the clock had wrong.
    async fn follow(&self, correction: Correction) -> Result<(), DepotError> {
        let kept = self.inner.db.correct_times(correction).await?;
        self.inner.clock_watch.handle_settled(correction);
        let hours = correction.by / 3600;
        tracing::warn!(
            hours,
            kept,
            "the clock was put forward: transfers and tokens that were made before are kept as much longer"
        );
        Ok(())
    }
}
