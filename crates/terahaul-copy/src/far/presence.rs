//! How long a far side stays once its near side has gone without a word.
//!
//! sshd takes hours to notice that the other machine is off, and so long stdin does not end. Until then the same command would
//! find the staging folder in use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Sessions that are open, and since when there are so many.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sessions: usize,
    since: Instant,
}

impl Seen {
    /// When nobody is waited for any longer.
    fn end(self, patience: Duration) -> Option<Instant> {
        (self.sessions == 0).then(|| self.since + patience)
    }
}

/// Whether a near side is there.
pub(super) struct Presence(watch::Sender<Seen>);

impl Presence {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Seen { sessions: 0, since: Instant::now() })))
    }

    /// A session is open until what this returns is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Present {
        self.count(|sessions| sessions + 1);
        Present(Arc::clone(self))
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        self.0.send_modify(|seen| *seen = Seen { sessions: change(seen.sessions), since: Instant::now() });
    }

    /// Returns once there was no session for so long.
    pub(super) async fn deserted(&self, patience: Duration) {
        let mut seen = self.0.subscribe();
        loop {
            let end = seen.borrow_and_update().end(patience);
            // The sender is this one's own, so it does not go.
            let _ = match end {
                None => seen.changed().await,
                Some(end) => match timeout_at(end, seen.changed()).await {
                    Ok(changed) => changed,
                    Err(_) => return,
                },
            };
        }
    }
}

/// A session that is open.
pub(super) struct Present(Arc<Presence>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.count(|sessions| sessions - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_side_is_waited_for_since_its_last_session_and_never_while_one_is_open() {
        let since = Instant::now();
        let end = |sessions| Seen { sessions, since }.end(Duration::from_secs(9));
        assert_eq!([end(0), end(1), end(2)], [Some(since + Duration::from_secs(9)), None, None]);
    }

    #[tokio::test]
    async fn a_far_side_whose_near_side_has_vanished_ends_and_one_with_a_session_stays() {
        const SHORT: Duration = Duration::from_millis(10);
        let presence = Presence::new();
        let (first, second) = (presence.enter(), presence.enter());
        let ends = async || tokio::time::timeout(10 * SHORT, presence.deserted(SHORT)).await.is_ok();
        assert!(!ends().await, "two sessions are open");
        drop(first);
        assert!(!ends().await, "one is");
        drop(second);
        presence.deserted(SHORT).await;
        // Nor does it wait for ever for the first.
        Presence::new().deserted(SHORT).await;
    }
}
