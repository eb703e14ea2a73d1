//! The default: a window that keeps a little waiting at the bottleneck, and no more.
//!
//! The line is full as soon as anything waits before it, and what waits beyond that only makes everybody late. So the
//! window is steered by how long packets wait on the way out, measured from end to end, and not by loss, which on a long
//! or wireless path says nothing of congestion. What a radio link's jitter adds to that is told from a queue
//! ([`crate::path::StandingQueue`]).
//!
//! **Cruise** is FAST's law (Wei, Jin, Low and Hegde, 2006): every round trip the window moves towards
//! `W · base / (base + waiting) + α`, which comes to rest where `α` bytes of this transfer wait. `α` is the line's
//! capacity times [`keep`], the same for all transfers on a line, and so they all get the same rate (on near paths with short
//! queues, less than that: [`modesty`]). The capacity is read
//! from how the line pulls bursts apart ([`crate::path::Capacity`]), and is no less than what arrived in the last seconds;
//! while nothing waits, `α` doubles each round, as in
//! Copa (Arun and Balakrishnan, 2018). **Startup** multiplies the window by four each round trip, until something
//! waits, the capacity is reached, or loss exceeds what was usual below; on a far path it takes half of what bursts show the line
//! to carry at once, by satellite all of it, where nothing waits. **Drain** lets the queue run empty for two round
//! trips every few seconds, so that the shortest time is still the path's own (BBR's ProbeRTT: Cardwell and others, 2016);
//! all transfers on a line do so at the same time ([`drains`]).
//! **Share**: something else keeps the queue full whatever this transfer does (CUBIC, BBR). To keep waiting little would
//! be to starve; instead half the capacity is taken, less if that costs loss, until the queue runs empty again.
//!
//! | phase | event | next |
//! |---|---|---|
//! | startup | packets wait; the capacity is reached; loss exceeds what was usual | cruise |
//! | cruise | the queue did not run empty for long, or somebody began | drain |
//! | drain | two round trips at a smaller window | cruise |
//! | drain | the queue did not run empty, in four drains in a row or in the first one of three cycles in a row, [`SETTLING`] after startup or later, on a path that is not [`NEAR`] | share |
//! | cruise | much more waits than transfers like this one would keep, for long, and as late, on such a path | share |
//! | cruise | the queue overflows and runs empty every few round trips, and others have most of the line; as late, on such a path | share |
//! | cruise | it insisted within [`SUSPICION`], and the queue did not run empty for [`LONGEST_TEST`] | share |
//! | share | [`FIRST_SHARE`], twice as long after each test in vain: perhaps the others have become like this transfer | cruise |
//! | share | nothing waits, for long | cruise |
//! | any | silence, a new path | startup |
//!
//! Loss is the guard's business ([`loss_guard`]): policers, and queues too short to show.

mod drains;
mod loss_guard;
mod modesty;
mod swings;

use std::time::Duration;

use super::{Cohort, PathReport, RateLaw};
use crate::Time;
use crate::path::{SATELLITE, WindowedMin};
use drains::Drains;
use loss_guard::{HEAVY, LossGuard};
use modesty::Modesty;
use swings::Swings;

/// How eager a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// As much as another gets.
    Fair,
    /// Nearly all of the line, whoever else wants it.
    Full,
}

/// The law.
#[derive(Debug)]
pub struct Model {
    eagerness: Eagerness,
    phase: Phase,
    window: f64,
    /// How long a packet takes until its report is here, when nothing waits.
    idle_loop: f64,
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
    /// When startup ended.
    started: Time,
    /// Since when far more waits than it should.
    crowded_since: Option<Time>,
    empty_since: Option<Time>,
    share: f64,
    /// Since when it is tried whether the others let the queue run empty.
    tested_since: Option<Time>,
    /// Until when whoever kept the queue full may only have paused.
    suspicious_until: Time,
    share_since: Time,
    /// How long it is insisted this time.
    share_for: Duration,
    /// What became of all rounds since the start.
    settled: Cohort,
    /// How long what this transfer keeps waiting takes, in seconds.
    keep: f64,
    modesty: Modesty,
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

/// Datagrams in the first round trip: what eight TCP connections would send (RFC 6928).
const FIRST_WINDOW: f64 = 64.0;
/// On a path as long as this, and where nothing waits, this share of the line is taken as soon as it is measured: growing towards it
/// would cost two round trips. Over shorter ones it would spare little, and others begin more often in the meantime.
const FAR: Duration = Duration::from_millis(50);
const HEAD_START: f64 = 0.5;
/// The same by satellite, where each round trip counts: all of it.
const HEAD_START_IN_SPACE: f64 = 1.0;
/// Datagrams in the smallest window.
const LEAST_WINDOW: f64 = 4.0;
/// The same in a drain.
const DRAINED_WINDOW: f64 = 2.0;
/// The same while the line is not measured: a burst that measures it. Without one, the little that a transfer gets beside others
/// would pass for the line.
const UNMEASURED_WINDOW: f64 = 16.0;
/// Where packets wait then, bursts go out apart, and not each as soon as the one before it has arrived: where a radio link has slots, all
/// would meet it at the same moment, and what they wait for the next slot would pass for a queue, for ever.
const UNMEASURED_GAIN: f64 = 0.9;
/// Where more waits than eight transfers like this one would keep, something else fills the queue.
const CROWD: f64 = 12.0;
/// How long half the line is insisted on, whatever is lost: what BBR needs to see that it is not alone.
const INSIST: Duration = Duration::from_secs(2);
/// More than two can lose who want all of the line: there are many that insist.
const HOPELESS: f64 = 0.55;
/// How long before it is tried for the first time whether the others have become like this transfer, and for how long at most
/// that is put off: a test costs most of [`LONGEST_TEST`] beside who takes what it is left.
const FIRST_SHARE: Duration = Duration::from_secs(10);
const LONGEST_SHARE: Duration = Duration::from_secs(60);
/// How long that is tried: transfers like this one have let the queue run empty by then.
const LONGEST_TEST: Duration = Duration::from_secs(5);
/// For so long after startup, what waits may be of others like this one that began at the same time: some drains later all
/// of them know the path's length.
const SETTLING: Duration = Duration::from_secs(3);
/// How long after a share an empty queue is no proof that nobody fills it: CUBIC lets it run empty when it has lost, and is
/// back within seconds.
const SUSPICION: Duration = Duration::from_secs(30);
const CROWDED_FOR: Duration = Duration::from_secs(1);
/// Loss beyond the usual that shows that half the line is too much.
const SHARE_LOSS: f64 = 0.02;

/// How long what a transfer keeps waiting takes at least, in seconds: as long as busy ends need to notice that the queue runs empty.
/// Many transfers on a near path may not find room for it ([`modesty`]).
const LEAST_KEEP: f64 = 0.000_5;
const MOST_KEEP: f64 = 0.004;
/// On shorter paths transfers do not manage to drain at the same time and keep less than others may, so that a queue that stays full says
/// nothing of who fills it, and nobody insists.
const NEAR: Duration = Duration::from_millis(4);

/// How long what this transfer keeps waiting takes, on a path of this length: seconds.
fn keep(shortest: f64, modesty: Modesty) -> f64 {
    (shortest / 16.0).clamp(LEAST_KEEP * modesty.part(), MOST_KEEP)
}

impl Model {
    /// For a path of which nothing is known but a guess of its round trip.
    pub fn new(eagerness: Eagerness, round_trip: Duration) -> Self {
        Self {
            eagerness,
            phase: Phase::Startup,
            window: FIRST_WINDOW * 1_200.0,
            idle_loop: round_trip.as_secs_f64(),
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
            started: Time::ZERO,
            crowded_since: None,
            empty_since: None,
            share: 0.5,
            tested_since: None,
            suspicious_until: Time::ZERO,
            share_since: Time::ZERO,
            share_for: FIRST_SHARE,
            settled: Cohort::default(),
            keep: keep(round_trip.as_secs_f64(), Modesty::default()),
            modesty: Modesty::default(),
        }
    }

    fn most_share(&self) -> f64 {
        match self.eagerness {
            Eagerness::Fair => 0.5,
            Eagerness::Full => 0.9,
        }
    }

    /// Bytes that this transfer keeps waiting.
    fn alpha(&self) -> f64 {
        (self.capacity * self.keep).max(2.0 * self.datagram)
    }

    /// `measured`: this report is the first by which the line's capacity is known.
    fn startup(&mut self, now: Time, report: &PathReport, measured: bool) {
        let full = self.capacity * self.idle_loop + self.alpha();
        let known = report.capacity.is_some();
        if measured && self.shortest >= FAR && is_empty(self.waiting, self.keep) {
            let share = if self.shortest >= SATELLITE { HEAD_START_IN_SPACE } else { HEAD_START };
            self.window = self.window.max(share * full);
        }
        if !report.sender_limited {
            // A line that bursts show to be far wider is approached faster.
            let factor = if known { (full / self.window).clamp(4.0, 32.0) } else { 4.0 };
            self.window += report.arrived as f64 * (factor - 1.0);
        }
        let settled = (self.round.cohort.arrived + self.round.cohort.lost) as f64;
        let usual = self.settled.loss();
        let lost = self.round.cohort.loss();
        let packets = settled / self.datagram;
        let chance = 3.0 * (10.0 * usual.max(0.005) / packets.max(1.0)).sqrt();
        let arrival = report.arrival_rate.unwrap_or(0.0).max(self.capacity * 0.5);
        let line = match report.arrival_rate {
            // Others may be starting, too: what arrives is what this transfer can have.
            Some(rate) if lost.max(usual) > HEAVY => rate,
            _ if known => self.capacity,
            _ => arrival,
        };
        let filling = line * self.idle_loop + self.alpha();
        if report.waiting.saturating_sub(report.jitter).as_secs_f64() > (2.0 * self.keep).max(0.001) {
            self.guard.learn(usual);
            // Others may have what this transfer has not even asked for yet.
            self.cruise_at(now, filling.min(self.window));
        } else if packets > 200.0 && lost > usual + chance.max(0.05) {
            self.guard.learn(usual);
            let window = report.arrival_rate.unwrap_or(arrival) / (1.0 - usual) * self.idle_loop;
            self.guard.hold_at(now, window, report.round);
            self.cruise_at(now, window);
        } else if known && self.window >= full {
            self.guard.learn(usual);
            self.cruise_at(now, filling);
        }
    }

    fn cruise_at(&mut self, now: Time, window: f64) {
        if self.phase == Phase::Startup {
            self.started = now;
        }
        self.phase = Phase::Cruise;
        self.window = window;
        self.boost = 1.0;
        self.crowded_since = None;
        self.drains.restart(now);
        // By satellite a drain costs as much as it may gain, unless somebody else is there.
        if self.shortest < SATELLITE || !is_empty(self.waiting, self.keep) {
            self.drains.handle_beginning(now, self.shortest);
        }
    }

    /// Whether what fills the queue can be told from others like this one.
    fn may_insist(&self, now: Time) -> bool {
        now.since(self.started) >= SETTLING && self.shortest >= NEAR
    }

    fn begin_share(&mut self, now: Time) {
        self.phase = Phase::Share;
        self.guard.interrupt();
        // Where others still insist, what loss has left of the share is what there is.
        if self.tested_since.take().is_some() {
            self.share_for = (self.share_for * 2).min(LONGEST_SHARE);
        } else {
            self.share_for = FIRST_SHARE;
            self.share = self.most_share();
        }
        self.share_since = now;
        self.empty_since = None;
    }

    fn cruise(&mut self, report: &PathReport) {
        let alpha = self.alpha() * self.boost;
        let target = self.window * self.idle_loop / (self.idle_loop + self.waiting) + alpha;
        let part = (report.arrived + report.lost) as f64 / self.window;
        let step = part.min(1.0) * 0.5 * (target - self.window);
        let room = self.guard.ceiling().map_or(f64::INFINITY, |ceiling| (ceiling - self.window).max(0.0));
        if step < 0.0 {
            self.window += step;
        } else if !report.sender_limited {
            self.window += step.min(room);
        }
    }

    /// A round trip has ended.
    fn end_round(&mut self, now: Time, ended: Round, report: &PathReport) {
        let keep = self.keep;
        let waited = ended.waiting.unwrap_or(0.0);
        let empty = is_empty(waited, keep);
        self.drains.handle_round(now, waited, keep, self.shortest);
        let excess = ended.cohort.loss() - self.guard.usual();
        self.swings.handle_round(waited, ended.longest, excess, keep);
        self.empty_since = if waited < keep { self.empty_since.or(Some(now)) } else { None };
        if waited < keep / 2.0 {
            self.tested_since = (now < self.suspicious_until).then_some(now);
        }
        if waited > CROWD * keep {
            self.crowded_since = self.crowded_since.or(Some(now));
        } else if waited < CROWD / 2.0 * keep {
            self.crowded_since = None;
        }
        let long = CROWDED_FOR.max(report.shortest * 10);
        match self.phase {
            Phase::Cruise => {
                let may_grow = empty && !report.sender_limited && self.guard.may_boost(self.window);
                self.boosted = may_grow && !self.boosted;
                self.boost = match (may_grow, self.boosted) {
                    (false, _) => 1.0,
                    (true, true) => (self.boost * 2.0).min(64.0),
                    (true, false) => self.boost,
                };
                let long = if self.tested_since.is_some() { long / 4 } else { long };
                let crowded = self.crowded_since.is_some_and(|since| now.since(since) >= long);
                let tested = self.tested_since.is_some_and(|since| now.since(since) >= LONGEST_TEST);
                let beside = report.arrival_rate.is_some_and(|rate| rate < self.capacity / 2.0);
                let swings = beside && self.swings.are_frequent();
                if tested || ((crowded || swings) && self.may_insist(now)) {
                    self.begin_share(now);
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
                if self.may_insist(now) && self.drains.are_futile(keep) {
                    self.begin_share(now);
                }
            }
            Phase::Share => {
                let rate = report.arrival_rate.unwrap_or(self.share * self.capacity);
                let long_enough = now.since(self.share_since) > self.share_for;
                if long_enough || self.empty_since.is_some_and(|since| now.since(since) >= long / 2) {
                    self.tested_since = Some(now);
                    self.suspicious_until = now + SUSPICION;
                    self.cruise_at(now, rate * self.idle_loop + self.alpha());
                }
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
        self.keep = keep(report.shortest.as_secs_f64(), self.modesty);
        self.idle_loop = (report.shortest + report.held).as_secs_f64();
        if let Some(rate) = report.arrival_rate {
            self.fastest.handle_sample(now, -(rate as i64));
            self.lately.handle_sample(now, -(rate as i64));
        }
        let [fastest, lately] = [&self.fastest, &self.lately].map(|rates| -rates.value().unwrap_or(0) as f64);
        let measured = self.line.is_none() && report.capacity.is_some();
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
        match self.phase {
            Phase::Startup => self.startup(now, report, measured),
            Phase::Cruise => self.cruise(report),
            Phase::Drain { .. } => {}
            Phase::Share => {
                let loop_time = self.idle_loop + self.waiting;
                self.window = self.share * self.capacity * loop_time;
            }
        }
        if report.congested > 0 {
            let marked = report.congested as f64 * self.datagram;
            self.window -= 0.5 * marked.min(report.arrived as f64);
            self.boost = 1.0;
        }
        let least = if report.capacity.is_some() { LEAST_WINDOW } else { UNMEASURED_WINDOW };
        self.window = self.window.max(least * self.datagram);
    }

    fn handle_cohort(&mut self, now: Time, cohort: &Cohort) {
        self.settled.arrived += cohort.arrived;
        self.settled.lost += cohort.lost;
        if self.phase == Phase::Share {
            let lost = cohort.loss() - self.guard.usual();
            let insisting = now.since(self.share_since) < INSIST.max(self.shortest * 50);
            self.share = match lost > SHARE_LOSS {
                true if lost > HOPELESS => self.share * 0.9,
                true if insisting => self.share,
                true => self.share * 0.98,
                false => self.share + 0.005,
            };
            self.share = self.share.clamp(0.05, self.most_share());
        } else if self.phase == Phase::Cruise {
            self.modesty.handle_cohort(cohort, self.guard.usual(), self.waiting > self.keep);
            let state = loss_guard::Now {
                window: self.window,
                datagram: self.datagram,
                round: self.round.cohort.round,
                queue_shows: self.waiting > self.keep / 2.0,
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
        self.guard.interrupt();
        self.round = Round::new(self.round.cohort.round);
    }

    fn handle_new_path(&mut self, now: Time, round_trip: Duration) {
        *self = Self { round: Round::new(self.round.cohort.round), ..Self::new(self.eagerness, round_trip) };
        self.drains.restart(now);
    }

    fn rate(&self) -> f64 {
        let loop_time = self.idle_loop + self.waiting;
        match self.phase {
            // What goes out faster than the line carries only waits.
            Phase::Startup => (2.5 * self.window / self.idle_loop).min(self.line.unwrap_or(f64::INFINITY)),
            Phase::Cruise if self.line.is_none() && self.waiting > self.keep => {
                UNMEASURED_GAIN * self.window / self.round_trip
            }
            Phase::Cruise => 1.1 * self.window / loop_time,
            Phase::Drain { window, .. } => window / loop_time,
            Phase::Share => self.share * self.capacity,
        }
    }

    fn window(&self) -> u64 {
        match self.phase {
            Phase::Drain { window, .. } => window as u64,
            // The rate decides; the window only keeps a path that died from filling memory.
            Phase::Share => (self.window * 2.0) as u64,
            _ => self.window as u64,
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Startup => "startup",
            Phase::Cruise => "cruise",
            Phase::Drain { .. } => "drain",
            Phase::Share => "share",
        }
    }
}

#[cfg(test)]
mod tests {
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

        /// Packets wait for so long, in a drain for `left` at most, until `until` or for at most `longest`. Returns how long that was.
        fn wait(&mut self, waiting: Duration, left: Duration, longest: Duration, until: &str) -> Duration {
            let from = self.now;
            while self.now.since(from) < longest && self.law.phase() != until {
                self.now = self.now + RTT;
                self.round += 1;
                let drained = waiting.min(left);
                let waiting = if self.law.phase() == "drain" { drained } else { waiting };
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

    /// The window after the first report that knows a line of 125 MB/s, of which packets wait so long.
    fn first_window(round_trip: Duration, waiting: Duration) -> u64 {
        let mut law = Model::new(Eagerness::Fair, round_trip);
        let report = PathReport {
            round_trip: round_trip + waiting,
            shortest: round_trip,
            waiting,
            standing: waiting,
            capacity: Some(125e6),
            arrived: 20_000,
            datagram: 1_200,
            ..PathReport::default()
        };
        law.handle_report(Time::ZERO + round_trip, &report);
        law.window()
    }

    #[test]
    fn half_a_far_line_is_taken_at_once_where_nobody_waits() {
        let (far, near) = (Duration::from_millis(100), Duration::from_millis(20));
        let half = (125e6 * 0.1 / 2.0) as u64;
        assert!((half..half * 11 / 10).contains(&first_window(far, Duration::ZERO)));
        assert!(first_window(far, Duration::from_millis(3)) < half / 4, "somebody else uses it");
        assert!(first_window(near, Duration::ZERO) < half / 8, "there is time to grow");
        let whole = (125e6 * SATELLITE.as_secs_f64()) as u64;
        assert!((whole..whole * 11 / 10).contains(&first_window(SATELLITE, Duration::ZERO)));
    }

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

    #[test]
    fn who_never_yields_is_asked_more_and_more_rarely() {
        let mut path = Insisting::new();
        let mut shares = Vec::new();
        for _ in 0..5 {
            shares.push(path.wait(RTT, KEPT_FULL, LONGEST_SHARE * 2, "cruise").as_secs());
            assert!(path.wait(RTT, KEPT_FULL, LONGEST_TEST * 2, "share") <= LONGEST_TEST + RTT * 2);
        }
        assert_eq!(shares, [10, 20, 40, 60, 60]);
    }

    /// CUBIC lets the queue run empty when it has lost, and then fills it again: less than a crowd, and never empty.
    #[test]
    fn who_filled_the_queue_before_is_noticed_sooner_when_it_comes_back() {
        let (full, back, minute) = (RTT, RTT / 3, Duration::from_secs(60));
        let again = |pause: Duration, left: Duration| {
            let mut path = Insisting::new();
            path.wait(full, left, minute, "cruise");
            path.wait(Duration::ZERO, left, pause, "never");
            path.wait(back, left, minute, "share")
        };
        assert!(again(Duration::from_secs(1), KEPT_FULL) <= LONGEST_TEST + RTT * 2);
        assert_eq!(again(SUSPICION, DRAINED), minute, "others of its kind are not insisted against");
    }
}
