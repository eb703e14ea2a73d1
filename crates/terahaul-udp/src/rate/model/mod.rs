//! The default: a window that keeps a little waiting at the bottleneck, and no more.
//!
//! The line is full as soon as anything waits before it, and what waits beyond that only makes everybody late. So the
//! window is steered by how long packets wait on the way out, measured from end to end, and not by loss, which on a long
//! or wireless path says nothing of congestion. What a radio link's jitter adds to that is told from a queue
//! ([`crate::path::StandingQueue`]).
//!
//! **Cruise** is FAST's law (Wei, Jin, Low and Hegde, 2006): every round trip the window moves towards
//! `W · base / (base + waiting) + α`, which comes to rest where `α` bytes of this transfer wait. `base` is what round trips take
//! less what waits on the way out, so that a way back that becomes longer or has a queue is in it at once. `α` is the line's
//! capacity times what is kept ([`keeping`]), the same for all transfers on a line, and so they all get the same rate. The capacity is read
//! from how the line pulls bursts apart ([`crate::path::Capacity`]), and is no less than what arrived in the last seconds;
//! while nothing waits, `α` doubles each round, as in
//! Copa (Arun and Balakrishnan, 2018). **Startup** multiplies the window by four each round trip, until something
//! waits, the capacity is reached, or loss exceeds what was usual below; on a far path it takes what bursts show the line
//! to carry at once, where nothing waits ([`startup`]). **Drain** lets the queue run empty for two round
//! trips every few seconds, so that the shortest time is still the path's own (BBR's ProbeRTT: Cardwell and others, 2016);
//! all transfers on a line do so at the same time ([`drains`]).
//! **Share**: something else keeps the queue full whatever this transfer does (CUBIC, BBR). To keep waiting little would
//! be to starve; instead half the capacity is taken, less if that costs loss, until the queue runs empty again ([`sharing`], which also
//! says from when on and on which paths). **Meeting**: those that insist, and those that lose much, stop at the same time to see whether they
//! are among their own kind ([`meetings`]).
//!
//! | phase | event | next |
//! |---|---|---|
//! | startup | packets wait; the capacity is reached; loss exceeds what was usual | cruise |
//! | cruise | the queue did not run empty for long, or somebody began | drain |
//! | drain | two round trips at a smaller window | cruise |
//! | drain | the queue did not run empty, in four drains in a row or in the first one of three cycles in a row | share |
//! | cruise | much more waits than transfers like this one would keep, for long | share |
//! | cruise | the queue overflows and runs empty every few round trips, and others have most of the line | share |
//! | cruise | it insisted not long ago, and the queue did not run empty since | share |
//! | share | what waits is what waited before more was sent ([`step`]) | startup, as on a new path |
//! | share | nothing waits, for long; or its time has passed and a meeting is far away | cruise |
//! | share, cruise, drain | the time of day says so, and it insists or much loss is usual | meeting |
//! | meeting | the queue ran empty; the path is shorter than it seemed; it did not insist | cruise |
//! | meeting | others keep the queue full | share |
//! | any | silence, a new path | startup |
//!
//! Loss is the guard's business ([`loss_guard`]): policers, and queues too short to show.

mod drains;
mod keeping;
mod loss_guard;
mod meetings;
mod sharing;
mod startup;
mod step;
mod swings;

use std::time::Duration;

use super::{Cohort, PathReport, RateLaw};
use crate::Time;
use crate::path::{FAR, WindowedMin};
use drains::Drains;
use keeping::Keeping;
use loss_guard::LossGuard;
use meetings::{Meeting, Meetings, Reason};
use sharing::Sharing;
use startup::{Gain, Taken};
use step::{Answer, Seen, Step};
use swings::Swings;

/// How eager a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// As much as another gets.
    Fair,
    /// Nearly all of the line, whoever else wants it.
    Full,
}

impl Eagerness {
    /// The part of the line that is insisted on at most.
    fn most_share(self) -> f64 {
        match self {
            Self::Fair => 0.5,
            Self::Full => 0.9,
        }
    }
}

/// The law.
#[derive(Debug)]
pub struct Model {
    eagerness: Eagerness,
    phase: Phase,
    window: f64,
    /// How long a packet takes until its report is here, when nothing waits on its way.
    idle_loop: f64,
    /// Round trips of the last seconds, in nanoseconds, without what waited on the way out.
    loop_floor: WindowedMin,
    shortest: Duration,
    waiting: f64,
    /// How long a packet and its report took last, in seconds.
    round_trip: f64,
    datagram: f64,
    /// Fastest arrival of late: the capacity, until bursts have shown it.
    fastest: WindowedMin,
    /// The same of the last seconds: no line carries less.
    lately: WindowedMin,
    capacity: f64,
    /// The same, where bursts have shown it.
    line: Option<f64>,
    /// How much faster than usual to grow, as nothing waits.
    boost: f64,
    /// It grew in the last round: what that does shows in the next.
    boosted: bool,
    guard: LossGuard,
    round: Round,
    drains: Drains,
    swings: Swings,
    sharing: Sharing,
    meetings: Meetings,
    taken: Taken,
    gain: Gain,
    /// More is sent since it insists, and it is not known yet whether what waits answers to that.
    step: Option<Step>,
    /// It does not.
    elsewhere: bool,
    /// What became of all rounds since the start.
    settled: Cohort,
    /// How long what this transfer keeps waiting takes.
    keeping: Keeping,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Cruise,
    /// At this window, until the round.
    Drain {
        window: f64,
        until_round: u64,
    },
    Share,
    Meeting(Meeting),
}

/// What the round trip under way has shown so far.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    cohort: Cohort,
    /// The least that packets waited, in seconds.
    waiting: Option<f64>,
    /// The most.
    longest: f64,
}

impl Round {
    /// The one of this number, of which nothing is known yet.
    fn new(number: u64) -> Self {
        Self { cohort: Cohort { round: number, ..Cohort::default() }, ..Self::default() }
    }
}

/// Whether that little is no queue: what packets waited, and what one transfer keeps waiting, in seconds.
fn is_empty(waited: f64, keep: f64) -> bool {
    waited < keep / 4.0
}

/// Datagrams in the first round trip: as many bytes as eight TCP connections would send (RFC 6928).
const FIRST_WINDOW: f64 = 96.0;
/// Datagrams in the smallest window.
const LEAST_WINDOW: f64 = 4.0;
/// The same where loss depends on the rate: a packet in a hundred round trips.
const LIMITED_WINDOW: f64 = 0.01;
/// The same in a drain.
const DRAINED_WINDOW: f64 = 2.0;
/// The same while the line is not measured: a burst that measures it. Without one, the little that a transfer gets beside others
/// would pass for the line.
const UNMEASURED_WINDOW: f64 = 16.0;
/// Where packets wait then, bursts go out apart, and not each as soon as the one before it has arrived: where a radio link has slots, all
/// would meet it at the same moment, and what they wait for the next slot would pass for a queue, for ever.
const UNMEASURED_GAIN: f64 = 0.9;

/// A window grows to as many times what fills the line, if it is as fast as it seems. Where a queue is too short for a burst nothing ever
/// waits, and what is lost passes for usual: without this, fifty times of what a line of 4 Mbit/s carries was sent into a queue of five
/// packets (simulated). Where half of all packets are lost behind the line, a window has to be so large.
const MOST_BEYOND: f64 = 2.0;

/// For how long the shortest loop of late is remembered.
const LOOP_MEMORY: Duration = Duration::from_secs(1);

impl Model {
    /// For a path of which nothing is known but a guess of its round trip.
    pub fn new(eagerness: Eagerness, round_trip: Duration) -> Self {
        Self {
            eagerness,
            phase: Phase::Startup,
            window: FIRST_WINDOW * 1_200.0,
            idle_loop: round_trip.as_secs_f64(),
            loop_floor: WindowedMin::new(LOOP_MEMORY),
            shortest: round_trip,
            waiting: 0.0,
            round_trip: round_trip.as_secs_f64(),
            datagram: 1_200.0,
            fastest: WindowedMin::new(Duration::from_secs(20)),
            lately: WindowedMin::new(Duration::from_secs(1)),
            capacity: 0.0,
            line: None,
            boosted: false,
            boost: 1.0,
            guard: LossGuard::new(round_trip),
            round: Round::default(),
            drains: Drains::default(),
            swings: Swings::default(),
            sharing: Sharing::new(eagerness.most_share()),
            meetings: Meetings::new(Duration::ZERO),
            taken: Taken::No,
            gain: Gain::default(),
            step: None,
            elsewhere: false,
            settled: Cohort::default(),
            keeping: Keeping::new(round_trip.as_secs_f64()),
        }
    }

    /// By a clock that shows this time of day (since the Unix epoch) at the origin of [`Time`]. Transfers whose time of day is another's to some
    /// ten milliseconds let the queue run empty together ([`meetings`]).
    pub fn at(self, time_of_day: Duration) -> Self {
        Self { meetings: Meetings::new(time_of_day), ..self }
    }

    /// The path's length, and what has become of it of late: where the way back has become longer, or has a queue, a window for the
    /// shortest round trip would turn round in too long a loop to come to rest.
    fn unqueued(&mut self, now: Time, report: &PathReport) -> Duration {
        let sample = report.round_trip.saturating_sub(report.waiting).max(report.shortest);
        self.loop_floor.handle_sample(now, sample.as_nanos() as i64);
        let least = self.loop_floor.value().map_or(0, |nanos| nanos.max(0) as u64);
        Duration::from_nanos(least).max(report.shortest)
    }

    /// Bytes that this transfer keeps waiting.
    fn alpha(&self) -> f64 {
        (self.capacity * self.keeping.seconds()).max(2.0 * self.datagram)
    }

    fn cruise_at(&mut self, now: Time, window: f64) {
        if self.phase == Phase::Startup {
            self.sharing.handle_started(now);
        }
        self.phase = Phase::Cruise;
        self.window = window;
        self.boost = 1.0;
        self.sharing.handle_new_window();
        self.drains.restart(now);
        // Far away a drain costs as much as it may gain, unless somebody else is there.
        if self.shortest < FAR || !is_empty(self.waiting, self.keeping.seconds()) {
            self.drains.handle_beginning(now, self.shortest);
        }
    }

    fn insist(&mut self, now: Time, before: Option<Seen>) {
        self.phase = Phase::Share;
        self.step = before.map(|before| Step::new(now, before));
        self.guard.interrupt();
        self.sharing.begin(now);
    }

    /// A round trip has ended in which it insisted: whether what waits is no queue.
    fn is_unanswered(&mut self, now: Time, seen: Option<Seen>) -> bool {
        let (Some(step), Some(seen)) = (&mut self.step, seen) else { return false };
        let answer = step.handle_round(now, seen, self.keeping.seconds());
        if answer != Answer::Open {
            self.step = None;
        }
        answer == Answer::Way
    }

    fn cruise(&mut self, report: &PathReport) {
        self.share_what_was_taken(report);
        let alpha = self.alpha() * self.boost;
        let target = self.window * self.idle_loop / (self.idle_loop + self.waiting) + alpha;
        let part = (report.arrived + report.lost) as f64 / self.window;
        let step = part.min(1.0) * 0.5 * (target - self.window);
        let filling = self.capacity * (self.idle_loop + self.waiting) + self.alpha();
        let most = self.guard.ceiling().unwrap_or(f64::INFINITY).min(MOST_BEYOND * filling);
        if step < 0.0 {
            self.window += step;
        } else if !report.sender_limited {
            let growth = part.min(1.0) * self.guard.most_growth(self.window, self.datagram);
            self.window += step.min(growth).min((most - self.window).max(0.0));
        }
    }

    /// Holds a meeting, if it is time for one.
    fn meet(&mut self, now: Time, report: &PathReport) {
        let insists = self.phase == Phase::Share;
        let reason = match insists {
            true => Some(Reason::Insists { wanted: self.sharing.wants_meeting(now) }),
            false => Reason::of_loss(self.guard.usual()),
        };
        // Not what the last packet took, which may have waited for a process that was stopped.
        let round_trip = self.idle_loop + self.waiting;
        let is_due = self.meetings.is_due(now, reason, Duration::from_secs_f64(round_trip));
        let may = insists || matches!(self.phase, Phase::Cruise | Phase::Drain { .. });
        let (true, Some(reason)) = (is_due && may, reason) else { return };
        // What arrived while there was little to send says nothing.
        let arrived = report.arrival_rate.filter(|_| !report.sender_limited);
        let rate = arrived.unwrap_or(self.window / round_trip);
        self.guard.interrupt();
        self.drains.interrupt();
        self.phase = Phase::Meeting(Meeting::new(now, reason, self.idle_loop, self.waiting, rate));
    }

    /// Goes on once a meeting is over.
    fn part_from(&mut self, now: Time, meeting: &Meeting) {
        let Some(shown) = meeting.poll_shown(now, self.idle_loop, self.keeping.seconds()) else { return };
        if shown.shorter {
            self.guard = LossGuard::new(self.shortest);
        }
        let over = match meeting.reason {
            Reason::Insists { .. } => shown.empty,
            Reason::LosesMuch => {
                self.meetings.handle_end(shown.shorter);
                shown.shorter
            }
        };
        match meeting.reason {
            _ if over => {
                self.sharing.make_peace(now);
                self.cruise_at(now, meeting.rate * self.idle_loop + self.alpha());
            }
            Reason::Insists { .. } => {
                self.sharing.renew(now);
                self.phase = Phase::Share;
            }
            Reason::LosesMuch => {
                self.phase = Phase::Cruise;
                self.drains.restart(now);
            }
        }
    }

    /// A round trip has ended.
    fn end_round(&mut self, now: Time, ended: Round, report: &PathReport) {
        let keep = self.keeping.seconds();
        let waited = ended.waiting.unwrap_or(0.0);
        let empty = is_empty(waited, keep);
        self.drains.handle_round(now, waited, keep, self.shortest);
        let excess = ended.cohort.loss() - self.guard.usual();
        self.swings.handle_round(waited, ended.longest, excess, keep);
        self.sharing.handle_round(now, waited, keep, self.shortest);
        let rate = report.arrival_rate.map(|rate| rate / self.capacity);
        let seen = rate.map(|rate| Seen { least: waited, most: ended.longest, excess, rate });
        if self.phase == Phase::Share {
            self.elsewhere = self.is_unanswered(now, seen);
        }
        match self.phase {
            Phase::Cruise => {
                let held_back = !report.sender_limited && self.guard.may_boost(self.window);
                self.keeping.handle_round(waited, held_back);
                let may_grow = empty && held_back;
                self.boosted = may_grow && !self.boosted;
                self.boost = match (may_grow, self.boosted) {
                    (false, _) => 1.0,
                    (true, true) => (self.boost * 2.0).min(64.0),
                    (true, false) => self.boost,
                };
                let beside = report.arrival_rate.is_some_and(|rate| rate < self.capacity / 2.0);
                let swings = beside && self.swings.are_frequent();
                if self.sharing.is_due(now, self.shortest, swings) {
                    self.insist(now, seen);
                } else if self.drains.is_due(now, self.shortest) {
                    let empty = self.window * self.idle_loop / (self.idle_loop + self.waiting);
                    // Where much waits on a near path, hardly a packet is left of the window; and with none no round trip ends.
                    let least = DRAINED_WINDOW * self.datagram;
                    let window = (empty * self.drains.begin(beside)).max(least);
                    self.phase = Phase::Drain { window, until_round: ended.cohort.round + 2 };
                }
            }
            Phase::Drain { until_round, .. } if ended.cohort.round >= until_round => {
                self.phase = Phase::Cruise;
                self.drains.end(now, keep);
                if self.sharing.may_begin(now, self.shortest) && self.drains.are_futile(keep) {
                    self.insist(now, seen);
                }
            }
            Phase::Share if self.sharing.is_over(now, self.shortest) => {
                self.sharing.end(now);
                let rate = report.arrival_rate.unwrap_or(self.sharing.part() * self.capacity);
                self.cruise_at(now, rate * self.idle_loop + self.alpha());
            }
            _ => {}
        }
    }
}

impl RateLaw for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn handle_report(&mut self, now: Time, report: &PathReport) {
        self.datagram = f64::from(report.datagram);
        self.shortest = report.shortest;
        self.keeping.handle_shortest(report.shortest.as_secs_f64());
        self.idle_loop = (self.unqueued(now, report) + report.held).as_secs_f64();
        if let Some(rate) = report.arrival_rate {
            self.fastest.handle_sample(now, -(rate as i64));
            self.lately.handle_sample(now, -(rate as i64));
        }
        let [fastest, lately] = [&self.fastest, &self.lately].map(|rates| -rates.value().unwrap_or(0) as f64);
        self.line = report.capacity.map(|rate| rate.max(lately));
        self.capacity = self.line.unwrap_or(fastest);
        self.waiting = report.standing.as_secs_f64();
        self.round_trip = (report.round_trip.max(report.shortest) + report.held).as_secs_f64();
        if report.round > self.round.cohort.round {
            let ended = std::mem::replace(&mut self.round, Round::new(report.round));
            self.end_round(now, ended, report);
        }
        self.round.cohort.arrived += report.arrived;
        self.round.cohort.lost += report.lost;
        let waited = report.waiting.as_secs_f64();
        self.round.longest = self.round.longest.max(waited - report.jitter.as_secs_f64());
        self.round.waiting = Some(self.round.waiting.map_or(waited, |least| least.min(waited)));
        self.meet(now, report);
        match &mut self.phase {
            Phase::Meeting(meeting) => {
                meeting.handle_report(now, report);
                let meeting = *meeting;
                self.part_from(now, &meeting);
            }
            Phase::Startup => self.startup(now, report),
            Phase::Cruise => self.cruise(report),
            Phase::Drain { .. } => {}
            Phase::Share => {
                let loop_time = self.idle_loop + self.waiting;
                self.window = self.sharing.part() * self.capacity * loop_time;
            }
        }
        if report.congested > 0 {
            let marked = report.congested as f64 * self.datagram;
            self.window -= 0.5 * marked.min(report.arrived as f64).min(self.window);
            self.boost = 1.0;
        }
        let least = match report.capacity {
            // Nothing waits that would make the round trip longer: of so short a one the line may carry less than a packet.
            _ if self.guard.is_limited() => LIMITED_WINDOW,
            Some(_) => LEAST_WINDOW,
            None => UNMEASURED_WINDOW,
        };
        self.window = self.window.max(least * self.datagram);
    }

    fn handle_cohort(&mut self, now: Time, cohort: &Cohort) {
        self.settled.arrived += cohort.arrived;
        self.settled.lost += cohort.lost;
        if self.phase == Phase::Startup {
            self.gain.handle_cohort(cohort);
        } else if self.phase == Phase::Share {
            self.sharing.handle_loss(now, cohort.loss() - self.guard.usual(), self.shortest);
        } else if self.phase == Phase::Cruise {
            self.keeping.handle_cohort(cohort, self.guard.usual(), self.waiting);
            let state = loss_guard::Now {
                window: self.window,
                datagram: self.datagram,
                round: self.round.cohort.round,
                queue_shows: self.waiting > self.keeping.seconds() / 2.0,
            };
            if let Some(window) = self.guard.handle_cohort(now, cohort, &state) {
                self.window = window;
                self.boost = 1.0;
            }
        }
    }

    fn handle_silence(&mut self, _: Time) {
        self.window = (self.window / 4.0).max(FIRST_WINDOW * self.datagram);
        self.phase = Phase::Startup;
        self.taken = Taken::Past;
        self.gain = Gain::default();
        self.guard.interrupt();
        self.round = Round::new(self.round.cohort.round);
    }

    fn handle_new_path(&mut self, now: Time, round_trip: Duration) {
        *self = Self {
            round: Round::new(self.round.cohort.round),
            meetings: self.meetings.anew(),
            ..Self::new(self.eagerness, round_trip)
        };
        self.drains.restart(now);
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    fn rate(&self) -> f64 {
        let loop_time = self.idle_loop + self.waiting;
        match self.phase {
            // What goes out faster than the line carries only waits.
            Phase::Startup => (2.5 * self.window / self.idle_loop).min(self.line.unwrap_or(f64::INFINITY)),
            Phase::Cruise if self.line.is_none() && self.waiting > self.keeping.seconds() => {
                UNMEASURED_GAIN * self.window / self.round_trip
            }
            Phase::Cruise => 1.1 * self.window / loop_time,
            Phase::Drain { window, .. } => window / loop_time,
            // The window decides.
            Phase::Meeting(meeting) => meeting.rate,
            Phase::Share => self.sharing.part() * self.capacity,
        }
    }

    fn window(&self) -> u64 {
        match self.phase {
            Phase::Drain { window, .. } => window as u64,
            Phase::Meeting(meeting) => meeting.window as u64,
            // The rate decides; the window only keeps a path that died from filling memory.
            Phase::Share => (self.window * 2.0) as u64,
            // Of a smaller one packets go out further apart.
            _ => self.window.max(LEAST_WINDOW * self.datagram) as u64,
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Startup => "startup",
            Phase::Cruise => "cruise",
            Phase::Drain { .. } => "drain",
            Phase::Share => "share",
            Phase::Meeting(_) => "meeting",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn a_drain_leaves_room_for_packets_however_much_waits_on_a_near_path() {
        let near = Duration::from_micros(100);
        let mut law = Model { phase: Phase::Cruise, ..Model::new(Eagerness::Fair, near) };
        let waiting = near * 200;
        let mut reports = (1..1_000).map(|round| PathReport {
            round_trip: near + waiting,
            shortest: near,
            waiting,
            standing: waiting,
            arrival_rate: Some(1e6),
            capacity: Some(125e6),
            arrived: 20_000,
            round,
            datagram: 1_472,
            ..PathReport::default()
        });
        let drains = reports.any(|report| {
            law.handle_report(Time::ZERO + waiting * report.round as u32, &report);
            law.phase() == "drain"
        });
        assert!(drains);
        assert!(law.window() >= 2 * 1_472, "{}", law.window());
    }

    /// Of a policer whose bucket lets bursts pass, which seem to show a wide line.
    fn of_a_policer(round: u64, arrived: u64, congested: u64) -> PathReport {
        PathReport {
            round_trip: RTT,
            shortest: RTT,
            arrival_rate: Some(1e6),
            capacity: Some(125e6),
            arrived,
            congested,
            round,
            datagram: 1_000,
            ..PathReport::default()
        }
    }

    /// It may grow so in an epoch; reports come more often than once in a round trip.
    #[test]
    fn near_a_limit_that_was_seen_the_window_grows_threefold_in_eight_round_trips_at_most() {
        let mut law = Model { phase: Phase::Cruise, window: 10e3, ..Model::new(Eagerness::Fair, RTT) };
        law.guard.hold_at(Time::ZERO, law.window, 0);
        let mut now = Time::ZERO + RTT * 100;
        law.handle_cohort(now, &Cohort { round: 1, arrived: 1_000, lost: 0 });
        for round in 1..=8 {
            for _ in 0..16 {
                now = now + RTT / 16;
                law.handle_report(now, &of_a_policer(round, (law.window / 16.0) as u64, 0));
            }
        }
        assert!((15e3..30e3).contains(&law.window), "{}", law.window);
    }

    #[test]
    fn marks_leave_half_of_a_window_that_is_smaller_than_they_say() {
        let mut law = Model { phase: Phase::Cruise, window: 400.0, ..Model::new(Eagerness::Fair, RTT) };
        law.guard.hold_at(Time::ZERO, law.window, 0);
        law.handle_report(Time::ZERO + RTT, &of_a_policer(1, 1_000, 1));
        assert!(law.window >= 200.0, "{}", law.window);
    }

    /// What was tried before a blackout says nothing of the line after it, which may be a hundredth as wide.
    #[test]
    fn a_window_from_before_a_blackout_does_not_come_back() {
        let mut law = Model { phase: Phase::Cruise, window: 10e6, ..Model::new(Eagerness::Fair, RTT) };
        let lossy = |round| Cohort { round, arrived: 1_800_000, lost: 200_000 };
        law.handle_cohort(Time::ZERO, &lossy(1));
        assert!((1e6..9.5e6).contains(&law.window), "a smaller one is tried: {}", law.window);
        let mut now = Time::ZERO + RTT * 50;
        law.handle_silence(now);
        for round in 2..100 {
            now = now + RTT;
            law.handle_cohort(now, &lossy(round));
            let report = PathReport {
                round_trip: RTT * 2,
                shortest: RTT,
                waiting: RTT,
                standing: RTT,
                capacity: Some(1.25e6),
                arrived: 25_000,
                round,
                datagram: 1_000,
                ..PathReport::default()
            };
            law.handle_report(now, &report);
            assert!(law.window < 4e6, "{} in round {round}", law.window);
        }
    }
}
