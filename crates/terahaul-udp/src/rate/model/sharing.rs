//! Insisting on a share of the line, where something else keeps the queue full whatever this transfer does (CUBIC, BBR). To keep
//! waiting little would be to starve.
//!
//! | state | event | next |
//! |---|---|---|
//! | at peace | it may begin ([`Sharing::may_begin`]), and a crowd waits for [`CROWDED_FOR`], or the law finds that drains are futile or that the queue swings | insisting for [`FIRST_SHARE`], on the most |
//! | insisting | nothing waits, for half of [`CROWDED_FOR`] | testing |
//! | insisting | that was long, and no meeting came for [`NO_MEETING`] | testing |
//! | insisting | a meeting ([`super::meetings`]), in which others kept the queue full | insisting anew, twice as long |
//! | insisting | a meeting, in which nobody did: perhaps the others have become like this transfer | at peace |
//! | testing | the queue did not run empty for [`LONGEST_TEST`]; or any event that ends peace, a crowd after a quarter of the time | insisting, twice as long, on what loss has left |
//! | testing | the queue runs empty, within [`SUSPICION`] of the last insisting | testing from now on |
//! | testing | the queue runs empty later | at peace |
//!
//! Where peace since a meeting ends within [`SUSPICION`], it is insisted twice as long, on what loss has left.
//!
//! While it insists, loss beyond the usual makes the share smaller, and a round without it larger. The law's phase says whether it does.

use std::time::Duration;

use crate::Time;

/// Where more waits than eight transfers like this one would keep, something else fills the queue.
const CROWD: f64 = 12.0;
/// What eight keep, and a little.
const EIGHT: f64 = 9.0;
/// How long a crowd has to wait, or ten round trips, more than there is none.
const CROWDED_FOR: Duration = Duration::from_secs(1);
const CROWDED_FOR_ROUNDS: u32 = 10;
/// How long the most is insisted on, whatever is lost: what BBR needs to see that it is not alone. Or so many round trips.
const INSIST: Duration = Duration::from_secs(2);
const INSIST_ROUNDS: u32 = 50;
/// Loss beyond the usual that shows that half the line is too much.
const SHARE_LOSS: f64 = 0.02;
/// More than two can lose who want all of the line: there are many that insist.
const HOPELESS: f64 = 0.55;
const LEAST_SHARE: f64 = 0.05;
/// How long before it is tried for the first time whether the others have become like this transfer, and for how long at most
/// that is put off: to try costs seconds beside who takes what it is left.
const FIRST_SHARE: Duration = Duration::from_secs(10);
const LONGEST_SHARE: Duration = Duration::from_secs(60);
/// How long a meeting in which to try it is waited for. On paths to 120 ms one comes every twelve seconds, further away they are rarer.
const NO_MEETING: Duration = Duration::from_secs(30);
/// How long it is tried without one: transfers like this one have let the queue run empty by then.
const LONGEST_TEST: Duration = Duration::from_secs(5);
/// How long after a share an empty queue is no proof that nobody fills it: CUBIC lets it run empty when it has lost, and is
/// back within seconds.
const SUSPICION: Duration = Duration::from_secs(30);
/// For so long after startup, what waits may be of others like this one that began at the same time: some drains later all
/// of them know the path's length.
const SETTLING: Duration = Duration::from_secs(3);
/// On shorter paths transfers do not manage to drain at the same time and keep less than others may, so that a queue that stays full says
/// nothing of who fills it, and nobody insists.
const NEAR: Duration = Duration::from_millis(4);

/// How much is insisted on, and when. Waiting is in seconds; `keep` is what one transfer keeps waiting, `shortest` the path's own length.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// Of the capacity, at most.
    most: f64,
    /// The same now.
    part: f64,
    /// When startup ended.
    started: Time,
    since: Time,
    /// How long this time.
    lasts: Duration,
    /// For how long far more waits than should, less the time for which it does not.
    crowded: Duration,
    /// The end of the last round trip.
    looked: Option<Time>,
    /// Since when nothing waits.
    empty_since: Option<Time>,
    /// Since when it is tried whether the others let the queue run empty.
    tested_since: Option<Time>,
    /// Until when whoever kept the queue full may only have paused.
    suspicious_until: Time,
    /// When a meeting showed that nobody else keeps the queue full.
    peace: Option<Time>,
}

impl Sharing {
    /// At peace; where it insists, on this part of the capacity at most.
    pub(super) fn new(most: f64) -> Self {
        Self {
            most,
            part: most,
            started: Time::ZERO,
            since: Time::ZERO,
            lasts: FIRST_SHARE,
            crowded: Duration::ZERO,
            looked: None,
            empty_since: None,
            tested_since: None,
            suspicious_until: Time::ZERO,
            peace: None,
        }
    }

    /// The part of the capacity that is insisted on.
    pub(super) fn part(&self) -> f64 {
        self.part
    }

    /// Startup has ended.
    pub(super) fn handle_started(&mut self, now: Time) {
        (self.started, self.peace) = (now, None);
    }

    /// The window is another from now on: what waited says nothing of it.
    pub(super) fn handle_new_window(&mut self) {
        self.crowded = Duration::ZERO;
    }

    /// A round trip has ended in which packets waited `waited` at least.
    pub(super) fn handle_round(&mut self, now: Time, waited: f64, keep: f64, shortest: Duration) {
        self.empty_since = if waited < keep { self.empty_since.or(Some(now)) } else { None };
        if waited < keep / 2.0 {
            self.tested_since = (now < self.suspicious_until).then_some(now);
        }
        // One that ends late was idle for most of it.
        let longest = (shortest + Duration::from_secs_f64(waited)) * 2;
        let took = self.looked.replace(now).map_or(Duration::ZERO, |looked| now.since(looked).min(longest));
        if waited > CROWD * keep {
            self.crowded = (self.crowded + took).min(crowded_for(shortest));
        } else if waited < CROWD / 2.0 * keep {
            self.crowded = Duration::ZERO;
        } else if waited < EIGHT * keep {
            // What eight like this one keep after a moment of more is no crowd, and CUBIC's waves are mostly above.
            self.crowded = self.crowded.saturating_sub(took);
        }
    }

    /// Whether what fills the queue can be told from others like this one.
    pub(super) fn may_begin(&self, now: Time, shortest: Duration) -> bool {
        now.since(self.started) >= SETTLING && shortest >= NEAR
    }

    /// Whether to insist now; `swings` says that the queue overflows and runs empty all the time, and that others have most of the line.
    pub(super) fn is_due(&self, now: Time, shortest: Duration, swings: bool) -> bool {
        let long = crowded_for(shortest);
        let long = if self.tested_since.is_some() { long / 4 } else { long };
        let crowded = self.crowded >= long;
        let tested = self.tested_since.is_some_and(|since| now.since(since) >= LONGEST_TEST);
        tested || ((crowded || swings) && self.may_begin(now, shortest))
    }

    /// It insists from now on.
    pub(super) fn begin(&mut self, now: Time) {
        let peace = self.peace.take().is_some_and(|peace| now.since(peace) < SUSPICION);
        // Where others still insist, what loss has left of the share is what there is.
        if self.tested_since.take().is_some() || peace {
            self.renew(now);
        } else {
            (self.since, self.lasts, self.part) = (now, FIRST_SHARE, self.most);
        }
        self.empty_since = None;
    }

    /// While it insists: this share of a round's packets was lost beyond what is usual.
    pub(super) fn handle_loss(&mut self, now: Time, excess: f64, shortest: Duration) {
        let is_young = now.since(self.since) < INSIST.max(shortest * INSIST_ROUNDS);
        self.part = match excess > SHARE_LOSS {
            true if excess > HOPELESS => self.part * 0.9,
            true if is_young => self.part,
            true => self.part * 0.98,
            false => self.part + 0.005,
        };
        self.part = self.part.clamp(LEAST_SHARE, self.most);
    }

    /// While it insists: whether there is nobody to insist against, or that was long enough and no meeting has come.
    pub(super) fn is_over(&self, now: Time, shortest: Duration) -> bool {
        let unopposed = |since| now.since(since) >= crowded_for(shortest) / 2;
        now.since(self.since) >= self.lasts + NO_MEETING || self.empty_since.is_some_and(unopposed)
    }

    /// While it insists: whether to see if it still has to, as that was long enough, or costs loss.
    pub(super) fn wants_meeting(&self, now: Time) -> bool {
        now.since(self.since) >= self.lasts || self.part < self.most
    }

    /// It insists anew: it has stopped, and others have filled the queue. They may have taken that for its end.
    pub(super) fn renew(&mut self, now: Time) {
        self.since = now;
        self.lasts = (self.lasts * 2).min(LONGEST_SHARE);
    }

    /// All that were in trouble have stopped at once, and nobody else filled the queue.
    pub(super) fn make_peace(&mut self, now: Time) {
        (self.tested_since, self.suspicious_until) = (None, Time::ZERO);
        self.peace = Some(now);
    }

    /// It insists no more.
    pub(super) fn end(&mut self, now: Time) {
        self.tested_since = Some(now);
        self.suspicious_until = now + SUSPICION;
    }
}

fn crowded_for(shortest: Duration) -> Duration {
    CROWDED_FOR.max(shortest * CROWDED_FOR_ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::super::{Cohort, Eagerness, Model, PathReport, Phase, RateLaw};
    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    /// What waits at the end of a drain, with others that drain and with others that do not.
    const DRAINED: Duration = Duration::from_micros(500);
    const KEPT_FULL: Duration = Duration::from_millis(1);

    /// A law in the phase that insists, and the time.
    struct Insisting {
        law: Model,
        now: Time,
        round: u64,
    }

    impl Insisting {
        fn new() -> Self {
            let law = Model { phase: Phase::Share, ..Model::new(Eagerness::Fair, RTT) };
            Self { law, now: Time::ZERO, round: 0 }
        }

        /// Packets wait for so long, in a drain or meeting for `left` at most, until `until` or for at most `longest`. Returns how long that
        /// was.
        fn wait(&mut self, waiting: Duration, left: Duration, longest: Duration, until: &str) -> Duration {
            let from = self.now;
            while self.now.since(from) < longest && self.law.phase() != until {
                self.now = self.now + RTT;
                self.round += 1;
                let drained = waiting.min(left);
                let waiting = if matches!(self.law.phase(), "drain" | "meeting") { drained } else { waiting };
                let report = PathReport {
                    round_trip: RTT + waiting,
                    shortest: RTT,
                    waiting,
                    standing: waiting,
                    held: Duration::from_millis(1),
                    arrival_rate: Some(50e6),
                    capacity: Some(125e6),
                    arrived: 1_000_000,
                    round: self.round,
                    datagram: 1_000,
                    ..PathReport::default()
                };
                self.law.handle_report(self.now, &report);
            }
            self.now.since(from)
        }
    }

    /// After a crowd has waited long enough, so long after startup.
    fn insists(after: Duration, shortest: Duration) -> bool {
        let mut sharing = Sharing::new(0.5);
        let now = Time::ZERO + after;
        for (now, waited) in [(now - CROWDED_FOR, 0.0), (now, CROWD * 2.0)] {
            sharing.handle_round(now, waited, 1.0, shortest);
        }
        sharing.is_due(now, shortest, false)
    }

    #[test]
    fn nobody_insists_against_what_may_be_of_its_own_kind() {
        assert!(insists(SETTLING, RTT));
        assert!(!insists(SETTLING / 2, RTT), "many may have begun together");
        assert!(!insists(SETTLING, NEAR / 2), "on a near path they may not manage to drain together");
    }

    #[test]
    fn who_never_yields_is_asked_more_and_more_rarely() {
        let mut path = Insisting::new();
        let mut met = Vec::new();
        for _ in 0..5 {
            path.wait(RTT, RTT, LONGEST_SHARE * 2, "meeting");
            met.push(path.now.since(Time::ZERO).as_secs());
            assert!(path.wait(RTT, RTT, LONGEST_TEST, "share") <= RTT * 4);
        }
        assert_eq!(met, [12, 36, 48, 96, 144]);
    }

    /// One of several that insist loses much, one beside CUBIC does not.
    #[test]
    fn whoever_loses_by_insisting_holds_the_next_meeting() {
        let met_after = |lost| {
            let mut path = Insisting::new();
            path.wait(RTT, RTT, Duration::from_secs(13), "meeting");
            assert!(path.wait(RTT, RTT, LONGEST_TEST, "share") <= RTT * 4, "others fill the queue");
            path.wait(RTT, RTT, INSIST, "never");
            path.law.handle_cohort(path.now, &Cohort { arrived: 100_000, lost, ..Cohort::default() });
            path.wait(RTT, RTT, LONGEST_SHARE, "meeting");
            path.now.since(Time::ZERO).as_secs()
        };
        assert_eq!(met_after(0), 36, "it has insisted for twenty seconds");
        assert_eq!(met_after(10_000), 24);
    }

    /// CUBIC alone may let the queue run empty in a meeting.
    #[test]
    fn whoever_has_to_insist_soon_after_a_meeting_does_so_for_longer_on_what_loss_has_left() {
        let again = |after: Duration| {
            let mut sharing = Sharing::new(0.5);
            sharing.begin(Time::ZERO);
            let loses = Time::ZERO + INSIST;
            sharing.handle_loss(loses, 2.0 * SHARE_LOSS, RTT);
            let left = sharing.part();
            sharing.make_peace(loses);
            sharing.begin(loses + after);
            assert!(left < 0.5);
            (sharing.part() == left, sharing.lasts)
        };
        assert_eq!(again(SUSPICION / 2), (true, FIRST_SHARE * 2));
        assert_eq!(again(SUSPICION), (false, FIRST_SHARE));
    }

    /// Over 600 ms the next one that it would hold may be a minute and a half away.
    #[test]
    fn a_meeting_that_is_far_away_is_not_waited_for() {
        let mut sharing = Sharing::new(0.5);
        sharing.begin(Time::ZERO);
        let ends = (0..).find(|second| sharing.is_over(Time::ZERO + Duration::from_secs(*second), RTT * 30));
        assert_eq!(ends, Some((FIRST_SHARE + NO_MEETING).as_secs()));
    }

    /// CUBIC lets the queue run empty when it has lost, and then fills it again: less than a crowd, and never empty.
    #[test]
    fn who_filled_the_queue_before_is_noticed_sooner_when_it_comes_back() {
        let (full, back, minute) = (RTT, RTT / 3, Duration::from_secs(60));
        let again = |pause: Duration, left: Duration| {
            let mut path = Insisting::new();
            path.wait(full, full, Duration::from_secs(10), "never");
            path.wait(Duration::ZERO, left, pause, "never");
            path.wait(back, left, minute, "share")
        };
        assert!(again(Duration::from_secs(1), KEPT_FULL) <= LONGEST_TEST + RTT * 2);
        assert_eq!(again(SUSPICION, DRAINED), minute, "others of its kind are not insisted against");
    }
}
