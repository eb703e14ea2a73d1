//! How long a transfer whose sessions end goes on opening others.

use std::time::{Duration, Instant};

use terahaul_core::{Backoff, ByteCount};
use terahaul_wire::ErrorCode;

use super::connect::Client;
use super::error::ClientError;
use crate::channel::Placement;
use crate::control::ControlError;

/// After so long without getting on the caller is told. What is durable stays: the same command resumes.
const GIVE_UP: Duration = Duration::from_secs(600);
/// After so long without a place at the depot, or without the depot, the caller of a new transfer is told.
const PLACE: Duration = Duration::from_secs(60);
/// After so long the caller is told why, once, while it goes on: nobody may be watching who sees that nothing moves.
const TELL: Duration = Duration::from_secs(30);
/// So often in a row a disk may lose what it was sent, with nothing kept in between, and for so long, before the caller is told: all of that
/// is sent again each time. A file server that is away for a minute is waited for.
const LOSSES: u32 = 8;
const LOSING: Duration = Duration::from_secs(120);
/// A session that lasts so long until its connection is lost has got on, even where nothing was to be sent.
const LASTING: Duration = Duration::from_secs(30);

/// Decides after each session that ended before its time.
///
/// A transfer gets on where a session makes bytes durable, or lasts. Dialling is no part of a session: where several addresses do
/// not answer, it lasts longer than many.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    backoff: Backoff,
    lost_since: Option<Instant>,
    /// The caller was told since.
    is_told: bool,
    /// Losses of a disk since it has kept anything, and when the first was.
    losses: u32,
    losing_since: Option<Instant>,
    durable: ByteCount,
}

impl Persistence {
    /// Waits until the next session may begin, after one that `lasted`, or none, ended with `error`. Gives that back where there
    /// is to be no other.
    pub async fn pause_after(
        &mut self,
        error: ClientError,
        lasted: Option<Duration>,
        durable: ByteCount,
    ) -> Result<(), ClientError> {
        let loss = error.is_loss(lasted);
        let lasted = lasted.filter(|&lasted| lasted > GIVE_UP || matches!(error, ClientError::Control(_)));
        let goes_on = self.handle_disk(Instant::now(), loss, durable);
        let wait = self.handle_lost(Instant::now(), lasted, durable, spread());
        let Some(wait) = wait.filter(|_| goes_on && error.is_passing()) else { return Err(error) };
        match &error {
            // A disk of this end's own is complained of where it failed.
            ClientError::Depot(told) if loss && self.losses == 1 => {
                tracing::warn!("trying again what failed: {}", told.message);
            }
            _ if self.is_to_tell(Instant::now()) => {
                tracing::warn!(
                    "trying again, for ten minutes in all, what has not got on for half a minute: {error}"
                );
            }
            _ => tracing::info!("{error}; trying again"),
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// A session ended, with a disk's `loss` or for another reason. Returns whether that disk may be tried again.
    fn handle_disk(&mut self, now: Instant, loss: bool, durable: ByteCount) -> bool {
        if durable > self.durable {
            (self.losses, self.losing_since) = (0, None);
        }
        if !loss {
            return true;
        }
        self.losses += 1;
        let since = *self.losing_since.get_or_insert(now);
        self.losses < LOSSES || now.saturating_duration_since(since) < LOSING
    }

    /// A session whose connection was lost, if it was that, `lasted`; one that ended for another reason, as a disk's, may do so each
    /// time after as long, and counts only where it was there for longer than nothing is waited for. `durable` is what the transfer has made so
    /// by now. Returns how long to wait before the next, or `None` where it is to be given up. `spread` is as in [`Backoff::handle_failure`].
    fn handle_lost(
        &mut self,
        now: Instant,
        lasted: Option<Duration>,
        durable: ByteCount,
        spread: f64,
    ) -> Option<Duration> {
        if durable > self.durable || lasted.is_some_and(|lasted| lasted > LASTING) {
            self.backoff.handle_success();
            (self.lost_since, self.is_told) = (None, false);
        }
        self.durable = self.durable.max(durable);
        let since = *self.lost_since.get_or_insert(now);
        (now.saturating_duration_since(since) <= GIVE_UP).then(|| self.backoff.handle_failure(spread))
    }

    /// Whether it is time to tell why nothing gets on. Once, until something does.
    fn is_to_tell(&mut self, now: Instant) -> bool {
        let is_long = self.lost_since.is_some_and(|since| now.saturating_duration_since(since) >= TELL);
        is_long && !std::mem::replace(&mut self.is_told, true)
    }
}

/// Opens a transfer's first session. A depot that has too many of this address, or of all, or has closed the transfer in this moment, says
/// that it is unavailable, which passes, and so it does where one was there and is gone, as it may only begin anew; whatever else it says is
/// for the caller to hear at once. Of the far side of a copy other ways are tried instead.
pub(crate) async fn first_session<T, F: Future<Output = Result<T, ClientError>>>(
    client: &Client,
    open: impl FnMut() -> F,
) -> Result<T, ClientError> {
    match client.placement {
        Placement::Declared => first_session_within(PLACE, open).await,
        Placement::Accepted => first_session_within(Duration::ZERO, open).await,
    }
}

async fn first_session_within<T, F: Future<Output = Result<T, ClientError>>>(
    time: Duration,
    mut open: impl FnMut() -> F,
) -> Result<T, ClientError> {
    let (begun, mut backoff) = (Instant::now(), Backoff::default());
    let mut was_there = false;
    loop {
        let error = match open().await {
            Err(error) if begun.elapsed() < time => error,
            opened => return opened,
        };
        let passes = match &error {
            ClientError::Depot(error) => error.retry && error.code == ErrorCode::Unavailable,
            ClientError::Control(ControlError::Decode(_)) => false,
            ClientError::Control(_) => true,
            ClientError::Unreachable { .. } => was_there,
            _ => false,
        };
        if !passes {
            return Err(error);
        }
        was_there = true;
        tracing::info!("{error}; trying again");
        tokio::time::sleep(backoff.handle_failure(spread())).await;
    }
}

/// Spreads reconnecting clients apart; not a secret.
fn spread() -> f64 {
    let mut bytes = [0; 2];
    // Without randomness every client waits the same: slower for the depot, no harm to the transfer.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use terahaul_wire::WireError;

    use super::*;

    /// How long it goes on when every session ends as `session` says, of the number that it is given.
    fn goes_on(most: Duration, session: impl Fn(u64) -> (Option<Duration>, ByteCount)) -> Duration {
        let began = Instant::now();
        let (mut now, mut persistence) = (began, Persistence::default());
        for number in 0.. {
            let (lasted, durable) = session(number);
            now += lasted.unwrap_or(Duration::from_secs(45));
            match persistence.handle_lost(now, lasted, durable, 0.5) {
                Some(wait) if now - began < most => now += wait,
                _ => break,
            }
        }
        now - began
    }

    /// How often a session is opened whose first `refusals` attempts end with `error`, and whether it is at last.
    async fn opens(time: Duration, refusals: u32, error: fn() -> ClientError) -> (u32, bool) {
        let mut attempts = 0;
        let opened = first_session_within(time, || {
            attempts += 1;
            std::future::ready(if attempts <= refusals { Err(error()) } else { Ok(()) })
        });
        let is_open = opened.await.is_ok();
        (attempts, is_open)
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_session_waits_for_a_place_and_for_nothing_else() {
        let full = || ClientError::Depot(WireError::passing(ErrorCode::Unavailable, "too many"));
        let denied = || ClientError::Depot(WireError::fatal(ErrorCode::Denied, "no such token"));
        let gone = || ClientError::Lost("the disk".into());
        let still_sent = || ClientError::Depot(WireError::passing(ErrorCode::WrongState, "still being sent"));
        assert_eq!(opens(PLACE, 2, full).await, (3, true));
        assert_eq!(opens(Duration::ZERO, 2, full).await, (1, false));
        assert_eq!(opens(PLACE, 2, denied).await, (1, false));
        assert_eq!(opens(PLACE, 2, gone).await, (1, false));
        // A receiver was told after a minute that its transfer is not finished yet, which may take days.
        assert_eq!(opens(PLACE, 2, still_sent).await, (1, false));
    }

    /// Each `send` that was opening its session when the depot was started anew ended at once.
    #[tokio::test(start_paused = true)]
    async fn a_depot_that_was_there_is_waited_for_and_one_that_was_not_is_not() {
        let refused = || ClientError::Unreachable { host: "depot".into(), detail: "refused".into() };
        assert_eq!(opens(PLACE, 2, refused).await, (1, false));
        let mut attempts = 0;
        let opened = first_session_within(PLACE, || {
            attempts += 1;
            std::future::ready(match attempts {
                1 => Err(ControlError::Closed.into()),
                2 | 3 => Err(refused()),
                _ => Ok(()),
            })
        });
        assert!(opened.await.is_ok());
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn an_end_that_never_answers_is_given_up_however_long_dialling_takes() {
        let took = goes_on(DAY, |_| (None, ByteCount(0)));
        assert!(took > GIVE_UP && took < 2 * GIVE_UP, "{took:?}");
    }

    #[test]
    fn short_sessions_that_get_on_are_not_given_up() {
        assert!(goes_on(DAY, |number| (Some(Duration::from_secs(5)), ByteCount(number))) >= DAY);
        assert!(goes_on(DAY, |_| (Some(Duration::from_secs(5)), ByteCount(7))) < 2 * GIVE_UP);
    }

    /// Everything was sent again for ten minutes.
    #[test]
    fn a_disk_that_keeps_nothing_is_given_up_soon_and_one_that_keeps_something_is_not() {
        let tries = |durable: fn(u32) -> u64, loss: fn(u32) -> bool| {
            let mut persistence = Persistence::default();
            let (now, most) = (Instant::now(), 100);
            (1..most).find(|&session| {
                let (now, durable) = (now + LOSING / 7 * session, ByteCount(durable(session)));
                let goes_on = persistence.handle_disk(now, loss(session), durable);
                persistence.handle_lost(now, None, durable, 0.5);
                !goes_on
            })
        };
        assert_eq!(tries(|_| 7, |_| true), Some(LOSSES + 1), "after the first, for long enough");
        assert_eq!(tries(|session| u64::from(session / 7), |_| true), None);
        assert_eq!(tries(|_| 7, |session| session == 1), None, "once is repaired");
        assert_eq!(tries(|_| 7, |session| session % 2 == 0), Some(2 * LOSSES), "whatever else ends between");
    }

    /// For ten minutes nothing was said, where nothing that took longer than a proxy's patience ever arrived.
    #[test]
    fn why_nothing_gets_on_is_told_once_until_something_does() {
        let (began, mut persistence) = (Instant::now(), Persistence::default());
        let mut tells = |second, durable| {
            let now = began + Duration::from_secs(second);
            persistence.handle_lost(now, Some(Duration::from_secs(10)), ByteCount(durable), 0.5);
            persistence.is_to_tell(now)
        };
        let told = [(0, 0), (10, 0), (30, 0), (40, 0), (90, 0), (100, 1), (110, 1), (131, 1), (140, 1)];
        assert_eq!(
            told.map(|(second, durable)| tells(second, durable)),
            [false, false, true, false, false, false, false, true, false]
        );
    }

    #[test]
    fn lost_connections_that_lasted_are_not_given_up() {
        assert!(goes_on(DAY, |_| (Some(Duration::from_secs(40)), ByteCount(0))) >= DAY);
    }
}
