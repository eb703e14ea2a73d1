//! When a receiver makes what it has durable.
//!
//! Syncs are grouped: one at least every [`GroupSync::INTERVAL`] or every [`GroupSync::BYTES`], whichever comes
//! first, and at once when nothing more is expected. A sync in progress delays the next, so a slow disk makes larger
//! groups, not a queue.

use std::time::{Duration, Instant};

use crate::ByteCount;

/// Decides when to sync. Driven by `handle_*`; `poll_sync` says whether to start one now.
///
/// | state | leaves when | to |
/// |---|---|---|
/// | clean | bytes are received | dirty |
/// | dirty | interval, byte limit or flush reached: `poll_sync` is true | syncing |
/// | syncing | `handle_synced` | dirty if more arrived meanwhile, else clean |
#[derive(Clone, Debug, Default)]
pub struct GroupSync {
    dirty: ByteCount,
    since: Option<Instant>,
    syncing: bool,
    flush: bool,
}

impl GroupSync {
    /// Longest time a received byte waits for its sync to start.
    pub const INTERVAL: Duration = Duration::from_millis(1000);
    /// Most bytes received before a sync starts.
    pub const BYTES: ByteCount = ByteCount(256 << 20);

    /// Bytes were verified and written, and are not durable yet.
    pub fn handle_received(&mut self, now: Instant, bytes: ByteCount) {
        self.dirty += bytes;
        self.since.get_or_insert(now);
    }

    /// Nothing more is expected for now: do not wait for the interval. It holds for what was received before it.
    pub fn handle_flush(&mut self) {
        self.flush = self.since.is_some();
    }

    /// Whether a sync should start now. When true, all that was received before is the sync's.
    pub fn poll_sync(&mut self, now: Instant) -> bool {
        let due = !self.syncing
            && self.since.is_some_and(|since| {
                self.flush
                    || self.dirty >= Self::BYTES
                    || now.saturating_duration_since(since) >= Self::INTERVAL
            });
        if due {
            *self = Self { syncing: true, ..Self::default() };
        }
        due
    }

    /// The sync that `poll_sync` asked for has ended.
    pub fn handle_synced(&mut self) {
        self.syncing = false;
    }

    /// When `poll_sync` should next be called if nothing else happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.syncing { None } else { self.since.map(|since| since + Self::INTERVAL) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        // Any instant serves as the origin; nothing compares it with the present.
        #[allow(clippy::disallowed_methods)]
        Instant::now()
    }

    #[test]
    fn a_byte_waits_at_most_the_interval() {
        let t0 = start();
        let mut sync = GroupSync::default();
        assert_eq!(sync.poll_timeout(), None);
        sync.handle_received(t0, ByteCount(1));
        assert!(!sync.poll_sync(t0 + Duration::from_millis(999)));
        assert_eq!(sync.poll_timeout(), Some(t0 + GroupSync::INTERVAL));
        assert!(sync.poll_sync(t0 + GroupSync::INTERVAL));
        sync.handle_synced();
        assert_eq!(sync.poll_timeout(), None, "nothing is left");
    }

    #[test]
    fn many_bytes_do_not_wait_and_one_sync_runs_at_a_time() {
        let t0 = start();
        let mut sync = GroupSync::default();
        sync.handle_received(t0, GroupSync::BYTES);
        assert!(sync.poll_sync(t0));
        sync.handle_received(t0, GroupSync::BYTES);
        assert!(!sync.poll_sync(t0), "a sync is running");
        sync.handle_synced();
        assert!(sync.poll_sync(t0));
    }

    #[test]
    fn a_flush_is_for_what_came_before_it_and_does_not_hurry_what_comes_later() {
        let t0 = start();
        let mut sync = GroupSync::default();
        sync.handle_flush();
        sync.handle_received(t0, ByteCount(1));
        assert!(!sync.poll_sync(t0), "there was nothing to flush");
        sync.handle_flush();
        assert!(sync.poll_sync(t0));
        sync.handle_received(t0, ByteCount(1));
        sync.handle_synced();
        assert!(!sync.poll_sync(t0), "one flush is one sync, however long bytes keep coming");
        sync.handle_flush();
        assert!(sync.poll_sync(t0));
    }

    #[test]
    fn a_flush_during_a_sync_holds_for_what_that_sync_does_not_take() {
        let t0 = start();
        let mut sync = GroupSync::default();
        sync.handle_received(t0, GroupSync::BYTES);
        assert!(sync.poll_sync(t0));
        sync.handle_received(t0, ByteCount(1));
        sync.handle_flush();
        sync.handle_synced();
        assert!(sync.poll_sync(t0));
    }
}
