//! Moments at which all transfers that are in the same trouble stop together, wherever they run.
//!
//! Whoever begins while others keep a queue full takes that for the path's length, and what overflows for what the path loses anyway. Where
//! several do, and where several insist against each other, nobody sees an empty queue any more, and no drain of one of them makes one. Of
//! eight transfers that began together on 100 Mbit/s, once in six times, half of all packets were dropped for as long as they lasted
//! (simulated), and nothing that one of them could see tells that from a path that loses half of all packets. So those that insist, and those
//! that lose [`MUCH`] and think it usual, send nothing for a round trip when the time of day is a whole multiple of some seconds, which hosts
//! agree on to some milliseconds (NTP, RFC 5905), and then a few packets, to see what waits:
//!
//! | then | it was | next |
//! |---|---|---|
//! | nothing does | a transfer that insisted | cruise: the others that filled the queue were of its kind |
//! | something does | a transfer that insisted | share |
//! | the path is shorter than it seemed | one that lost much | cruise: the rest was a queue |
//! | anything else | one that lost much | cruise, as before |
//!
//! Where the path is shorter than it seemed, no loss is usual any more. Where it does lose so much, a meeting costs two round trips, and those
//! that end nothing become rarer. BBR takes each for a wider line, and CUBIC alone may let the queue run empty when half of what fills it stays
//! away, and then has most of the line until it is insisted against again: so whoever insists holds one when it has done so for long enough, or
//! what it insists on costs loss, as it does where several insist ([`super::sharing`] says when). Those whose clocks are some seconds apart are
//! about as well off as without meetings.

use std::time::Duration;

use super::PathReport;
use crate::Time;

/// How often, on paths that are short, where much is lost.
const EVERY: Duration = Duration::from_secs(6);
/// No more often than once in so many round trips.
const APART: u32 = 50;
/// Every so many-th for those that insist, and for all at the rarest. All hold those that the rarest hold.
const RARE: u32 = 2;
const RAREST: u32 = 8;
/// One that is noticed so late is not held: others have gone on.
const LATE: Duration = Duration::from_millis(500);
/// The share of packets that no path should lose.
const MUCH: f64 = 0.1;
/// When some packets are sent, and from when on what is heard of them counts, in round trips as they are then. What waited is gone after the
/// part of one that it took.
const LOOK: f64 = 0.9;
/// As many datagrams.
const FEW: f64 = 4.0;
const HEARD: f64 = 1.25;
/// Of what the path seemed to be.
const SHORTER: f64 = 1.0 / 8.0;
/// The same in what one transfer keeps waiting.
const SOME: f64 = 4.0;

/// Why a transfer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Insists {
        /// Long enough, or at a cost, to see whether it still has to.
        wanted: bool,
    },
    /// And thinks it usual.
    LosesMuch,
}

impl Reason {
    /// Of one that does not insist, to which so much loss is usual.
    pub(super) fn of_loss(usual: f64) -> Option<Self> {
        (usual > MUCH).then_some(Self::LosesMuch)
    }
}

/// When they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meetings {
    /// The time of day at the origin of [`Time`].
    origin: Duration,
    /// The time of day at the last look.
    looked: Option<Duration>,
    /// Only every so many-th, where much is lost.
    rare: u32,
}

/// One that is being held. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Meeting {
    pub(super) reason: Reason,
    /// When to send some packets, if that has not been done.
    look_from: Option<Time>,
    until: Time,
    /// What arrived before, in bytes a second.
    pub(super) rate: f64,
    /// How long the path seemed to be.
    seemed: f64,
    /// The least that packets waited since.
    least: f64,
    /// Most bytes under way.
    pub(super) window: f64,
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
        Self { origin, looked: None, rare: 1 }
    }

    /// The same on another path.
    pub(super) fn anew(self) -> Self {
        Self { rare: 1, ..self }
    }

    /// Whether one begins now, for whoever has this reason, on a path of which a round trip takes so long. Call it often, with a reason or
    /// without.
    pub(super) fn is_due(&mut self, now: Time, reason: Option<Reason>, round_trip: Duration) -> bool {
        let now = self.origin + now.since(Time::ZERO);
        let looked = self.looked.replace(now).unwrap_or(now);
        let rare = match reason {
            None => return false,
            Some(Reason::LosesMuch) => self.rare,
            Some(Reason::Insists { wanted: true }) => RARE,
            Some(Reason::Insists { wanted: false }) => RAREST,
        };
        // Powers of two: whoever is further away, or holds rarer ones, meets with all others.
        let round_trips = (round_trip * APART).as_nanos().div_ceil(EVERY.as_nanos()).max(1);
        let every = EVERY.as_nanos() * u128::from(rare) * round_trips.next_power_of_two();
        now.as_nanos() / every > looked.as_nanos() / every && now.as_nanos() % every < LATE.as_nanos()
    }

    /// One has ended that was held for much loss, and with it, or not, what it was held for.
    pub(super) fn handle_end(&mut self, over: bool) {
        self.rare = if over { 1 } else { (self.rare.max(RARE) * 2).min(RAREST) };
    }
}

impl Meeting {
    /// On a path that seems to be so long, and on which packets wait so long; so many bytes a second arrived.
    pub(super) fn new(now: Time, reason: Reason, seemed: f64, waiting: f64, rate: f64) -> Self {
        let after = |time: f64| now + Duration::from_secs_f64(time);
        let round_trip = seemed + waiting;
        // However much waits, it is gone by then.
        let look_from = Some(after((LOOK * round_trip).max(waiting)));
        let until = after(HEARD * round_trip);
        Self { reason, look_from, until, rate, seemed, least: f64::INFINITY, window: 0.0 }
    }

    /// A report came: the first one of the meeting too.
    pub(super) fn handle_report(&mut self, now: Time, report: &PathReport) {
        self.least = self.least.min(report.waiting.as_secs_f64());
        // To look is to send some once, whatever is still under way: part of that may be lost.
        let looks = self.look_from.take_if(|from| now >= *from).is_some();
        let left = if looks { report.under_way as f64 } else { 0.0 };
        self.window = left + FEW * f64::from(report.datagram);
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

    const SHORT: Duration = Duration::from_millis(20);
    const WANTED: Reason = Reason::Insists { wanted: true };
    const EARLY: Reason = Reason::Insists { wanted: false };

    /// The times of day, in seconds, at which a transfer whose clock began at this one meets in two minutes.
    fn met(origin: f64, mut meetings: Meetings, reason: Reason) -> Vec<u64> {
        let times = (0..120_000).map(|millis| Time::ZERO + Duration::from_millis(millis));
        let due = times.filter(|now| meetings.is_due(*now, Some(reason), SHORT));
        due.map(|now| (origin + now.since(Time::ZERO).as_secs_f64()).round() as u64).collect()
    }

    fn of(origin: f64) -> Meetings {
        Meetings::new(Duration::from_secs_f64(origin))
    }

    #[test]
    fn transfers_meet_at_the_same_time_of_day_whenever_they_began() {
        for reason in [Reason::LosesMuch, WANTED] {
            let [one, two] = [1_000.4, 1_017.9].map(|origin| met(origin, of(origin), reason));
            let both: Vec<_> = one.iter().filter(|at| two.contains(at)).collect();
            let only = one.iter().filter(|at| **at >= 1_018 && !two.contains(at)).count();
            assert!(both.len() >= 8 && only == 0, "{reason:?}: {one:?}, {two:?}");
        }
    }

    #[test]
    fn the_rarest_meet_when_all_do() {
        let mut in_vain = of(1_000.4);
        for _ in 0..10 {
            in_vain.handle_end(false);
        }
        let rarest =
            [(in_vain, Reason::LosesMuch), (of(1_000.4), EARLY)].map(|(rare, why)| met(1_000.4, rare, why));
        assert!(rarest[0] == rarest[1] && rarest[0].len() >= 2, "{rarest:?}");
        for reason in [Reason::LosesMuch, WANTED] {
            let all = met(1_000.4, of(1_000.4), reason);
            assert!(rarest[0].iter().all(|at| all.contains(at)), "{reason:?}: {rarest:?}, {all:?}");
        }
    }

    #[test]
    fn meetings_that_end_nothing_and_those_of_far_paths_are_rarer() {
        let after = |secs| Time::ZERO + Duration::from_secs(secs);
        let met = |meetings: Meetings, reason| met(0.0, meetings, reason).len();
        let mut meetings = of(0.0);
        assert_eq!((met(meetings, Reason::LosesMuch), met(meetings, WANTED)), (19, 9));
        meetings.handle_end(false);
        assert_eq!(met(meetings, Reason::LosesMuch), 4);
        meetings.handle_end(true);
        assert_eq!(met(meetings, Reason::LosesMuch), 19);
        let far = |millis: u64| {
            let mut meetings = of(0.0);
            let times = (0..120_000).map(|millis| after(0) + Duration::from_millis(millis));
            let round_trip = Duration::from_millis(millis);
            times.filter(|now| meetings.is_due(*now, Some(Reason::LosesMuch), round_trip)).count()
        };
        assert_eq!((far(120), far(121), far(600)), (19, 9, 2));
    }

    /// Whoever was stopped for a minute would have stopped for longer than that once more.
    #[test]
    fn a_meeting_that_is_noticed_late_is_not_held() {
        let due = |late: u64| {
            let mut meetings = of(0.0);
            let mut at = |millis| {
                meetings.is_due(Time::ZERO + Duration::from_millis(millis), Some(Reason::LosesMuch), SHORT)
            };
            at(5_990);
            at(6_000 + late)
        };
        assert!(due(10) && due(400), "reports may be rare");
        assert!(!due(600));
    }

    /// What a meeting shows of a path that seemed 40 ms long, and now so long, in which packets waited so long at least, in milliseconds.
    fn shown(seems: f64, waited: f64) -> Shown {
        let mut meeting = Meeting::new(Time::ZERO, WANTED, 0.04, 0.0, 1e6);
        let waiting = Duration::from_secs_f64(waited / 1e3);
        meeting.handle_report(Time::ZERO, &PathReport { waiting, ..PathReport::default() });
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
