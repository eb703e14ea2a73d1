//! What tells which of two ways carries more, and that one of them carries nothing any more.
//!
//! What has come tells after [`JUDGE`], and where a line is slow once it is [`ENOUGH`], or after [`LONG_ENOUGH`]: bytes count over TCP
//! when a socket takes them, and all that sockets hold is much of what a slow line carries in a few seconds.

use std::time::{Duration, Instant};

use crate::BLOCK_SIZE;

/// How long two ways are compared: enough for TCP to start on a long path.
pub(super) const JUDGE: Duration = Duration::from_secs(3);
/// Bytes over the one that carries more that tell.
const ENOUGH: u64 = 4 * BLOCK_SIZE;
/// How long less than that is waited for.
const LONG_ENOUGH: Duration = Duration::from_secs(15);
/// Who counts on being heard hears something several times a second.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// How long after TCP has begun to carry UDP may take to do so, too, where the whole path was down.
const ALONE_FOR: Duration = Duration::from_millis(1500);
/// What is in buffers on the way comes in less.
const A_WHILE: Duration = Duration::from_millis(200);

/// What had been carried when something began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub since: Instant,
    pub tcp: u64,
    pub udp: u64,
    pub copied: u64,
}

impl Mark {
    /// Whether what came since then tells which of the two carries more.
    pub(super) fn tells(&self, now: Instant, tcp: u64, udp: u64) -> bool {
        let most = tcp.saturating_sub(self.tcp).max(udp.saturating_sub(self.udp));
        now >= self.since + JUDGE && (most >= ENOUGH || now >= self.since + LONG_ENOUGH)
    }

    /// Bytes a second over TCP and over UDP since then.
    pub(super) fn rates(&self, now: Instant, tcp: u64, udp: u64) -> (f64, f64) {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64().max(1e-3);
        (tcp.saturating_sub(self.tcp) as f64 / seconds, udp.saturating_sub(self.udp) as f64 / seconds)
    }
}

/// Nothing comes over UDP, and TCP is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// TCP channels that were open before.
    opened: u64,
    /// From when until when TCP has carried since.
    carried: Option<(Instant, Instant)>,
}

impl Quiet {
    /// From now on, when so many TCP channels have been opened.
    pub(super) fn since(opened: u64) -> Self {
        Self { opened, carried: None }
    }

    /// TCP has carried since the last call, or not, and so many of its channels have been opened by now: while something is left, one that was
    /// opened meanwhile tells as much, since that may be waiting for UDP. Those that were open before tell nothing. `true` once it is not the whole path that is down: it has carried for a
    /// while, and UDP has had time to come back after it.
    pub(super) fn handle_tcp(&mut self, now: Instant, carried: bool, opened: u64, left: bool) -> bool {
        if carried || left && opened > self.opened {
            let first = self.carried.filter(|(_, last)| now <= *last + QUIET).map_or(now, |(first, _)| first);
            self.carried = Some((first, now));
        }
        self.carried.is_some_and(|(first, last)| last >= first + A_WHILE && now >= first + ALONE_FOR)
    }
}
