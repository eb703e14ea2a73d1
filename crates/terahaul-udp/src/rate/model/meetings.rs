//! Moments at which all transfers that are in the same trouble stop together, wherever they run.
//!
//! Whoever begins while others keep a queue full takes that for the path's length, and what overflows for what the path loses anyway. Where
//! several do, and where several insist against each other, nobody sees an empty queue any more, and no drain of one of them makes one. Of
//! eight transfers that began together on 100 Mbit/s, once in six times, half of all packets were dropped for as long as they lasted
//! (simulated), and nothing that one of them could see tells that from a path that loses half of all packets. So those that insist, and those
//! that lose [`MUCH`] and think it usual, send next to nothing for little more than a round trip when the time of day is a whole multiple of
//! some seconds, which hosts agree on to some milliseconds (NTP, RFC 5905):
//!
//! | then | it was | next |
//! |---|---|---|
//! | the queue ran empty | a transfer that insisted | cruise: the others that filled it were of its kind |
//! | it did not | a transfer that insisted | share; as BBR takes each meeting for a wider line, they become rarer |
//! | the path is shorter than it seemed | one that lost much | cruise: the rest was a queue, and no loss is usual any more |
//! | anything else | one that lost much | cruise, as before |
//!
//! CUBIC may let the queue run empty, too, when half of what fills it stays away. Whoever has to insist again soon after that holds rarer
//! meetings as well. Those whose clocks are some seconds apart are about as well off as without meetings.

use std::time::Duration;

use crate::Time;

/// How often, where much is lost.
const EVERY: Duration = Duration::from_secs(6);
/// Every so many-th of those for those that insist, at first and at the rarest. All hold those that the rarest hold.
const RARE: u32 = 2;
const RAREST: u32 = 8;
/// After so long a peace, whoever fills the queue is somebody else.
const PEACE: Duration = Duration::from_secs(30);
/// The share of packets that no path should lose.
const MUCH: f64 = 0.1;
/// For how many round trips, as they are then. What waits is gone after the part of one that it takes, and seen to be after the rest.
const ROUNDS: f64 = 1.25;
/// Of what the path seemed to be.
const SHORTER: f64 = 1.0 / 8.0;
/// The same in what one transfer keeps waiting.
const SOME: f64 = 4.0;

/// Why a transfer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Insists,
    /// And thinks it usual.
    LosesMuch,
}

impl Reason {
    /// Of one that insists, or does not, to which so much loss is usual.
    pub(super) fn of(insists: bool, usual: f64) -> Option<Self> {
        if insists { Some(Self::Insists) } else { (usual > MUCH).then_some(Self::LosesMuch) }
    }
}

/// When they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meetings {
    /// The time of day at the origin of [`Time`].
    origin: Duration,
    /// The time of day at the last look.
    looked: Option<Duration>,
    /// While it insists, only every so many-th.
    rare: u32,
    /// When the last one ended after which it did not insist any more.
    peace: Option<Time>,
}

/// One that is being held. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    pub(super) reason: Reason,
    until: Time,
    /// What arrived before, in bytes a second.
    pub(super) rate: f64,
    /// How long the path seemed to be.
    seemed: f64,
    /// The least that packets waited since.
    least: f64,
}

/// What one has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The path is shorter than it seemed.
    pub(super) shorter: bool,
    /// The queue ran empty.
    pub(super) empty: bool,
}

impl Meetings {
    /// By a clock that shows this time of day at the origin of [`Time`].
    pub(super) fn new(origin: Duration) -> Self {
        Self { origin, looked: None, rare: RARE, peace: None }
    }

    /// Whether one begins now, for whoever has this reason. Call it often, with a reason or without.
    pub(super) fn is_due(&mut self, now: Time, reason: Option<Reason>) -> bool {
        let now = self.origin + now.since(Time::ZERO);
        let looked = self.looked.replace(now).unwrap_or(now);
        let every = match reason {
            None => return false,
            Some(Reason::LosesMuch) => EVERY,
            Some(Reason::Insists) => EVERY * self.rare,
        };
        now.as_nanos() / every.as_nanos() > looked.as_nanos() / every.as_nanos()
    }

    /// It insists from now on.
    pub(super) fn handle_insisting(&mut self, now: Time) {
        let again = self.peace.is_some_and(|peace| now.since(peace) < PEACE);
        self.rare = if again { (self.rare * 2).min(RAREST) } else { RARE };
    }

    /// It insists no more, or goes on.
    pub(super) fn handle_end(&mut self, now: Time, insists: bool) {
        if insists {
            self.rare = (self.rare * 2).min(RAREST);
        } else {
            self.peace = Some(now);
        }
    }
}

impl Meeting {
    /// On a path on which a round trip takes so long, of which it would be `seemed` if nothing waited; so many bytes a second arrived.
    pub(super) fn new(now: Time, reason: Reason, round_trip: f64, seemed: f64, rate: f64) -> Self {
        let until = now + Duration::from_secs_f64(round_trip * ROUNDS);
        Self { reason, until, rate, seemed, least: f64::INFINITY }
    }

    /// Packets of a report waited so long, in seconds.
    pub(super) fn handle_report(&mut self, waited: f64) {
        self.least = self.least.min(waited);
    }

    /// What it has shown, once it is over: the path seems to be so long now, and one transfer keeps so much waiting.
    pub(super) fn poll_shown(&self, now: Time, seems: f64, keep: f64) -> Option<Shown> {
        let shorter = self.seemed - seems > (self.seemed * SHORTER).max(SOME * keep);
        (now >= self.until).then_some(Shown { shorter, empty: self.least < keep / 2.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of day, in seconds, at which a transfer whose clock began at this one meets in two minutes.
    fn met(origin: f64, mut meetings: Meetings, reason: Reason) -> Vec<u64> {
        let times = (0..120_000).map(|millis| Time::ZERO + Duration::from_millis(millis));
        let due = times.filter(|now| meetings.is_due(*now, Some(reason)));
        due.map(|now| (origin + now.since(Time::ZERO).as_secs_f64()).round() as u64).collect()
    }

    fn of(origin: f64) -> Meetings {
        Meetings::new(Duration::from_secs_f64(origin))
    }

    #[test]
    fn transfers_meet_at_the_same_time_of_day_whenever_they_began() {
        for reason in [Reason::LosesMuch, Reason::Insists] {
            let [one, two] = [1_000.4, 1_017.9].map(|origin| met(origin, of(origin), reason));
            let both: Vec<_> = one.iter().filter(|at| two.contains(at)).collect();
            let only = one.iter().filter(|at| **at >= 1_018 && !two.contains(at)).count();
            assert!(both.len() >= 8 && only == 0, "{reason:?}: {one:?}, {two:?}");
        }
    }

    #[test]
    fn the_rarest_meet_when_all_do() {
        let mut rare = of(1_000.4);
        for _ in 0..10 {
            rare.handle_end(Time::ZERO, true);
        }
        let rare = met(1_000.4, rare, Reason::Insists);
        assert!(rare.len() >= 2);
        for reason in [Reason::LosesMuch, Reason::Insists] {
            let all = met(1_000.4, of(1_000.4), reason);
            assert!(rare.iter().all(|at| all.contains(at)), "{reason:?}: {rare:?}, {all:?}");
        }
    }

    #[test]
    fn who_insists_again_soon_after_a_peace_meets_more_rarely() {
        let mut meetings = of(0.0);
        let after = |secs| Time::ZERO + Duration::from_secs(secs);
        meetings.handle_end(after(100), false);
        meetings.handle_insisting(after(110));
        assert_eq!(meetings.rare, RARE * 2);
        meetings.handle_end(after(120), false);
        meetings.handle_insisting(after(200));
        assert_eq!(meetings.rare, RARE);
    }

    /// What a meeting shows of a path that seemed 40 ms long, and now so long, in which packets waited so long at least, in milliseconds.
    fn shown(seems: f64, waited: f64) -> Shown {
        let mut meeting = Meeting::new(Time::ZERO, Reason::Insists, 0.04, 0.04, 1e6);
        meeting.handle_report(waited / 1e3);
        let early = meeting.poll_shown(Time::ZERO + Duration::from_millis(49), seems / 1e3, 0.001_25);
        assert_eq!(early, None);
        meeting.poll_shown(Time::ZERO + Duration::from_millis(51), seems / 1e3, 0.001_25).expect("it is over")
    }

    #[test]
    fn a_meeting_shows_whether_the_queue_ran_empty_and_the_path_is_shorter() {
        assert_eq!(shown(40.0, 0.1), Shown { shorter: false, empty: true });
        assert_eq!(shown(40.0, 5.0), Shown { shorter: false, empty: false });
        assert_eq!(shown(20.0, 0.0), Shown { shorter: true, empty: true });
        assert_eq!(shown(38.0, 0.0), Shown { shorter: false, empty: true });
    }
}
