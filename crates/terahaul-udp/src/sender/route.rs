//! One network path of the sending end: what is measured of it, and how fast its channels together may send.

use std::collections::VecDeque;
use std::time::Duration;

use terahaul_wire::packet::ChannelNumber;

use super::cohorts::Cohorts;
use super::flight::Sent;
use super::opening;
use crate::path::{BurstRoom, Capacity, Ecn, FAR, Held, MtuSearch, Pacer, Passage, RoundTrip, StandingQueue};
use crate::rate::{PathReport, RateLaw};
use crate::{OVERHEAD, Time, Wake};

/// One path. Its channels share all of this.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) law: Box<dyn RateLaw>,
    pub(crate) round_trip: RoundTrip,
    pub(crate) pacer: Pacer,
    pub(crate) mtu: MtuSearch,
    pub(crate) capacity: Capacity,
    pub(crate) ecn: Ecn,
    held: Held,
    queue: StandingQueue,
    burst_room: BurstRoom,
    pub(crate) under_way: u64,
    most_under_way: u64,
    pub(crate) bytes_sent: u64,
    /// Packets may be overtaken by those sent this much later.
    patience: Duration,
    max_rate: f64,
    arrivals: VecDeque<(u64, u64)>,
    cohorts: Cohorts,
    pub(crate) round: u64,
    round_began: Time,
    starved_at: Option<Time>,
    /// The share of bytes that were lost, over the last few hundred packets.
    loss: f64,
    /// When something was last reported, or the first packet was sent after nothing was under way.
    pub(crate) progress_at: Time,
    pub(crate) silences: u32,
    /// When the first of them was noticed.
    silent_since: Option<Time>,
    /// When the newest packet that arrived had been sent.
    newest_arrived: Option<Time>,
    /// Packets that may go out beside the window, to ask for a report.
    pub(crate) probes: u32,
    /// What was sent before this is lost for reasons that are none of congestion.
    excused_until: Time,
    /// What was sent before this went another way.
    since: Time,
    /// When the first packet that the other end has told of was sent: to those before it may not have listened.
    heard_from: Option<Time>,
    pub(crate) sync_at: Time,
    /// The channel that sent last.
    pub(crate) turn: ChannelNumber,
    /// Bursts that may go ahead of the first block.
    pub(crate) openings: u32,
}

/// What the packets of one report mean for one path.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) arrived: u64,
    /// For each of those bytes the seconds since it was sent, added up.
    pub(crate) age: f64,
    pub(crate) lost: u64,
    pub(crate) congested: u64,
    pub(crate) waiting: Option<Duration>,
    /// The newest packet that arrived was sent then.
    pub(crate) newest: Option<Time>,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) passages: Vec<Passage>,
}

/// The longest time between two probes: a path that comes back is noticed within it.
const LONGEST_PROBE: Duration = Duration::from_secs(1);
/// Packets in a burst while the line's capacity is unknown: enough to measure it by.
const MEASURING_BURST: u64 = 24;
/// How long a burst at the user's limit keeps the next waiting, but for one of two datagrams: who hears nothing for a second takes UDP for dead.
const BURSTS_APART: Duration = Duration::from_millis(250);
/// Bytes under way on all paths of a session at most, which is some 900,000 packets that are remembered: the window follows from what the
/// receiver says and asks for. A line of 10 Gbit/s over a satellite (0.6 s) has 750 MB under way.
pub(super) const MOST_UNDER_WAY: u64 = 1 << 30;
const LEAST_PATIENCE: Duration = Duration::from_micros(250);
/// Longer than any path's round trip, short of queues that nobody should wait for. A round trip that was measured while an end was suspended,
/// or made up, would have every packet since then remembered.
const MOST_PATIENCE: Duration = Duration::from_secs(2);
/// Reports of one round trip that are remembered: those of twenty seconds.
const MOST_ARRIVALS: usize = 4096;
/// Reports do not follow each other more closely: each one wakes a thread at either end.
const REPORTS_APART: Duration = Duration::from_millis(1);

impl Route {
    pub(crate) fn new(
        now: Time,
        law: Box<dyn RateLaw>,
        round_trip: Duration,
        mtu: u32,
        max_rate: f64,
        most_under_way: u64,
    ) -> Self {
        Self {
            law,
            round_trip: RoundTrip::expecting(round_trip),
            pacer: Pacer::new(now),
            mtu: MtuSearch::new(mtu),
            capacity: Capacity::default(),
            ecn: Ecn::default(),
            held: Held::default(),
            queue: StandingQueue::default(),
            burst_room: BurstRoom::default(),
            under_way: 0,
            most_under_way,
            bytes_sent: 0,
            patience: round_trip / 8,
            max_rate,
            arrivals: VecDeque::new(),
            cohorts: Cohorts::default(),
            round: 0,
            round_began: now,
            starved_at: None,
            loss: 0.0,
            progress_at: now,
            silences: 0,
            silent_since: None,
            newest_arrived: None,
            probes: 0,
            excused_until: Time::ZERO,
            since: Time::ZERO,
            heard_from: None,
            sync_at: now,
            turn: ChannelNumber::default(),
            openings: opening::bursts(round_trip),
        }
    }

    /// Bytes a second.
    pub(crate) fn rate(&self) -> f64 {
        self.law.rate().min(self.max_rate).max(1.0)
    }

    /// How often the receiver should report. Where one is lost, the window stays full until the next: what waits in the
    /// meantime has to last for as long, or the line runs idle.
    pub(crate) fn report_interval(&self) -> Duration {
        (self.round_trip.smoothed() / 16).clamp(REPORTS_APART, Duration::from_millis(5))
    }

    /// How much later a packet may be sent and yet overtake another.
    pub(crate) fn patience(&self) -> Duration {
        self.patience.max(self.round_trip.min() / 8).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    /// A packet arrived that `overtaken` by ones sent so much later had made look lost.
    pub(crate) fn handle_late(&mut self, overtaken: Duration) {
        let most = self.round_trip.smoothed();
        self.patience = self.patience().max(overtaken + overtaken / 4).min(most.max(LEAST_PATIENCE));
    }

    /// When to ask for a report, if none comes.
    pub(crate) fn probe_at(&self) -> Option<Time> {
        let timeout = self.round_trip.probe_timeout(self.report_interval());
        let wait = (timeout * (1 << self.silences.min(10))).min(LONGEST_PROBE.max(timeout));
        (self.under_way > 0).then_some(self.progress_at + wait)
    }

    /// No report came.
    pub(crate) fn handle_silence(&mut self, now: Time) {
        self.silences += 1;
        self.silent_since.get_or_insert(now);
        self.progress_at = now;
        self.probes = 2;
        if self.silences >= 2 {
            self.handle_dark(now);
        }
    }

    /// Nothing passes, which says nothing of congestion.
    pub(crate) fn handle_dark(&mut self, now: Time) {
        self.excused_until = now;
        self.law.handle_silence(now);
    }

    /// Since when a report is overdue.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent_since
    }

    /// When the newest packet that arrived had been sent.
    pub(crate) fn newest_arrived(&self) -> Option<Time> {
        self.newest_arrived
    }

    /// Whether packets arrive, as far as is known.
    pub(crate) fn is_heard(&self) -> bool {
        self.silences == 0 && self.round_trip.is_measured()
    }

    /// Whether a loss of this packet says something of the path's congestion.
    pub(crate) fn counts_as_loss(&self, sent: &Sent) -> bool {
        let excused = sent.at < self.excused_until || (sent.ecn && self.ecn.is_unheard());
        !excused && self.heard_from.is_none_or(|from| sent.at >= from)
    }

    /// Whether when a packet that was sent at `sent` arrived says something of the path.
    pub(crate) fn is_measured_by(&self, sent: Time) -> bool {
        sent >= self.since
    }

    /// Whether how long a packet waited says something of a queue, and not only of the burst that it was sent in.
    pub(crate) fn may_have_queued(&self, passage: &Passage) -> bool {
        !self.burst_room.is_behind_its_own(passage.sent, passage.path_bytes)
    }

    /// Packets go another way from now on.
    pub(crate) fn handle_new_path(&mut self, now: Time) {
        self.mtu.handle_new_path();
        self.capacity = Capacity::default();
        self.burst_room = BurstRoom::default();
        self.excused_until = now;
        self.since = now;
        self.handle_new_length(now);
    }

    /// The path has another length than was measured.
    pub(crate) fn handle_new_length(&mut self, now: Time) {
        let guess = self.round_trip.smoothed();
        self.round_trip = RoundTrip::expecting(guess);
        self.queue = StandingQueue::default();
        self.ecn.handle_new_path(now);
        self.law.handle_new_path(now, guess);
    }

    /// A packet is going out.
    pub(crate) fn handle_sent(&mut self, now: Time, len: u64) {
        if self.under_way == 0 {
            self.progress_at = now;
        }
        self.under_way += len;
        self.bytes_sent += len;
        self.cohorts.handle_sent(self.round, len);
        let measures = self.capacity.rate().is_none() && self.round_trip.min() >= FAR;
        self.burst_room.handle_sent(now, self.bytes_sent, measures);
    }

    /// A packet arrived.
    pub(crate) fn handle_arrived(&mut self, sent: &Sent) {
        if self.newest_arrived.is_none() {
            self.heard_from = Some(self.heard_from.map_or(sent.at, |from| from.min(sent.at)));
        }
        self.under_way = self.under_way.saturating_sub(sent.len.into());
        self.cohorts.handle_arrived(sent.round, sent.len.into());
        self.burst_room.handle_arrived(sent.at, sent.path_bytes);
        if sent.ecn {
            self.ecn.handle_arrived(sent.at);
        }
    }

    /// A packet was lost; `counts` if that says something of the path.
    pub(crate) fn handle_lost(&mut self, sent: &Sent, counts: bool) {
        self.under_way = self.under_way.saturating_sub(sent.len.into());
        self.cohorts.handle_lost(sent.round, sent.len.into(), counts);
        if counts {
            self.burst_room.handle_lost(sent.at, sent.path_bytes);
        } else {
            self.burst_room.handle_excused(sent.at);
        }
        if sent.ecn {
            self.ecn.handle_lost(sent.at);
        }
    }

    /// There was room for more and nothing to send.
    pub(crate) fn handle_starved(&mut self, now: Time) {
        self.starved_at = Some(now);
    }

    /// Bytes of frames in a full packet.
    pub(crate) fn payload(&self) -> usize {
        self.mtu.current() as usize - OVERHEAD
    }

    /// The share of packets that is lost.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// In how many copies to send what was lost, so that one of a hundred such bytes at most is lost again.
    pub(crate) fn copies(&self) -> u32 {
        match self.loss {
            loss if loss < 0.001 => 1,
            loss if loss < 0.03 => 2,
            loss if loss < 0.12 => 3,
            _ => 4,
        }
    }

    /// How many bytes may go out now.
    pub(crate) fn quota(&self, now: Time) -> u64 {
        self.room().map_or(0, |room| self.pacer.quota(now, self.rate(), self.least_burst()).min(room))
    }

    /// When the next packets may go out: `None` while the window is full.
    pub(crate) fn send_at(&self) -> Option<(Time, Wake)> {
        (self.room().is_some() || self.probes > 0).then(|| (self.next_burst(), Wake::Pacing))
    }

    /// When the pacing lets the next burst out.
    fn next_burst(&self) -> Time {
        self.pacer.next(self.rate())
    }

    /// Bytes in the shortest burst: enough to measure the line by, which may have become slower, but for what takes the user's limit too long.
    fn least_burst(&self) -> u64 {
        let full = u64::from(self.mtu.current());
        let enough = match self.capacity.rate() {
            Some(_) => Capacity::SHORTEST.next_multiple_of(full) + full,
            None => (MEASURING_BURST * full).clamp(2 * full, Pacer::MOST),
        };
        let enough = enough.min((self.max_rate * BURSTS_APART.as_secs_f64()) as u64).max(2 * full);
        self.burst_room.most().map_or(enough, |packets| enough.min(packets * full))
    }

    /// Bytes in the shortest burst that measures the line: where the queue takes none that is long enough for many lines, or the user's limit
    /// lets none out, a pair.
    fn shortest_burst(&self) -> u64 {
        let burst = Pacer::burst(self.rate()).max(self.least_burst());
        // It counts from its first packet's end on.
        if burst < Capacity::SHORTEST + u64::from(self.mtu.current()) { 1 } else { Capacity::SHORTEST }
    }

    /// What the window leaves for a burst. Until the line is measured, a burst is not cut into what each report lets out.
    fn room(&self) -> Option<u64> {
        let full = u64::from(self.mtu.current());
        let window = self.law.window().min(self.most_under_way);
        let enough = match self.capacity.rate() {
            Some(_) => full,
            None => self.least_burst().min(window / 2).max(full),
        };
        let room = window.saturating_sub(self.under_way);
        (room >= enough).then_some(room)
    }

    /// A report was taken in: `at` is the receiver's clock, `bytes` what arrived on the path in all.
    /// Returns whether the path turns out to have another length than was measured.
    pub(crate) fn handle_report(&mut self, now: Time, at: u64, bytes: u64, mut tally: Tally) -> bool {
        if let Some(sample) = tally.round_trip {
            self.round_trip.handle_sample(now, sample);
        }
        tally.passages.sort_by_key(|passage| passage.path_bytes);
        self.capacity.handle_passages(&tally.passages, self.shortest_burst());
        if let Some(newest) = tally.newest {
            self.progress_at = now;
            self.silences = 0;
            self.silent_since = None;
            self.newest_arrived = self.newest_arrived.max(Some(newest));
            if newest >= self.round_began {
                self.round += 1;
                self.round_began = now;
                self.patience = self.patience * 63 / 64;
            }
        }
        let settled = (tally.arrived + tally.lost) as f64;
        if settled > 0.0 {
            let weight = settled / (settled + 500.0 * f64::from(self.mtu.current()));
            self.loss += (tally.lost as f64 / settled - self.loss) * weight;
        }
        if let Some(sample) = tally.round_trip
            && tally.arrived > 0
        {
            self.held.handle_report(Duration::from_secs_f64(tally.age / tally.arrived as f64), sample);
        }
        if let Some(waited) = tally.waiting {
            self.queue.handle_sample(now, waited, self.round_trip.min());
        }
        let congested = match tally.newest {
            Some(newest) => {
                let (queue, length) = (self.queue.value(), self.round_trip.min());
                self.ecn.handle_report(now, newest, self.round, tally.congested, queue, length)
            }
            None => 0,
        };
        let starved_since = self.starved_at.map(|at| at + self.round_trip.smoothed());
        let was_starved =
            matches!((starved_since, tally.newest), (Some(since), Some(newest)) if newest < since);
        let report = PathReport {
            round_trip: self.round_trip.latest(),
            shortest: self.round_trip.min(),
            waiting: tally
                .waiting
                .map_or(self.queue.value(), |waited| waited.saturating_sub(self.queue.hidden())),
            standing: self.queue.value(),
            jitter: self.queue.shown(),
            held: self.held.value(self.report_interval()),
            arrival_rate: self.arrival_rate(at, bytes),
            capacity: self.capacity.rate(),
            arrived: tally.arrived,
            lost: tally.lost,
            congested,
            under_way: self.under_way,
            round: self.round,
            sender_limited: was_starved || self.is_held_by_limit(),
            datagram: self.mtu.current(),
        };
        while let Some(cohort) = self.cohorts.poll_settled(self.round) {
            self.law.handle_cohort(now, &cohort);
        }
        if tally.newest.is_some() || tally.lost > 0 {
            self.law.handle_report(now, &report);
        }
        self.law.is_elsewhere()
    }

    /// Whether the limit is what keeps the window from being used: what is sent then says nothing of what the path would carry, and a
    /// window that grew on it would be in nobody's way but that of whoever comes later.
    fn is_held_by_limit(&self) -> bool {
        let round = (self.round_trip.smoothed() + self.report_interval()).as_secs_f64();
        self.law.window() as f64 > 2.0 * self.max_rate * round
    }

    /// Bytes a second that arrived over the last round trip, by the receiver's clock.
    fn arrival_rate(&mut self, at: u64, bytes: u64) -> Option<f64> {
        if self.arrivals.back().is_some_and(|(last, known)| at <= *last || bytes < *known) {
            return None;
        }
        self.arrivals.push_back((at, bytes));
        let span = self.round_trip.smoothed().max(self.report_interval() * 4).as_micros() as u64;
        let is_old = |(time, _): &(u64, u64)| at - time >= span;
        while self.arrivals.len() > MOST_ARRIVALS || self.arrivals.get(1).is_some_and(is_old) {
            self.arrivals.pop_front();
        }
        let (from, before) = *self.arrivals.front()?;
        (at - from >= span).then(|| (bytes - before) as f64 * 1e6 / (at - from) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{Eagerness, Fixed, Model};
    use crate::sender::flight::Load;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    /// A path on which one packet a round trip gets through a full queue, for `rounds` of them.
    fn crowded(rounds: u32) -> (Route, Time) {
        let law = Box::new(Model::new(Eagerness::Fair, ROUND_TRIP));
        let mut route = Route::new(Time::ZERO, law, ROUND_TRIP, 1_472, f64::INFINITY, MOST_UNDER_WAY);
        let full = u64::from(route.mtu.current());
        let mut now = Time::ZERO;
        for round in 1..=rounds {
            let sent = Sent {
                at: now,
                path_bytes: route.bytes_sent,
                round: route.round,
                len: full as u32,
                ecn: false,
                load: Load::Signal,
            };
            route.handle_sent(now, full);
            now = now + ROUND_TRIP * 2;
            route.handle_arrived(&sent);
            let tally = Tally {
                arrived: full,
                waiting: Some(ROUND_TRIP),
                newest: Some(sent.at),
                round_trip: Some(if round == 1 { ROUND_TRIP } else { ROUND_TRIP * 2 }),
                ..Tally::default()
            };
            route.handle_report(
                now,
                now.since(Time::ZERO).as_micros() as u64,
                u64::from(round) * full,
                tally,
            );
        }
        (route, now)
    }

    #[test]
    fn a_line_that_the_start_did_not_measure_is_measured_later() {
        let (mut route, now) = crowded(50);
        assert_eq!((route.law.phase(), route.capacity.rate()), ("cruise", None));
        let (full, burst) = (u64::from(route.mtu.current()), route.quota(now));
        assert!(burst >= 8 * full, "a burst of {burst} bytes");
        // The next is not cut into what each report lets out.
        route.handle_sent(now, burst);
        let later = route.next_burst() + ROUND_TRIP;
        while route.quota(later) == 0 {
            route.under_way -= full;
        }
        assert!(route.quota(later) >= 8 * full, "a burst of {} bytes", route.quota(later));
    }

    /// What was held up for a minute arrives, at last, and tells of a round trip of a minute; what follows it tells of the path.
    #[test]
    fn what_goes_out_while_the_path_seems_long_does_not_hold_up_what_follows() {
        let (mut route, began) = crowded(20);
        let tell = |route: &mut Route, after: Duration, round_trip: Duration| {
            let now = began + after;
            let tally = Tally {
                arrived: 1_200,
                waiting: Some(Duration::ZERO),
                newest: Some(now - round_trip),
                round_trip: Some(round_trip),
                ..Tally::default()
            };
            let at = now.since(Time::ZERO).as_micros() as u64;
            route.handle_report(now, at, route.bytes_sent, tally);
            now
        };
        let minute = Duration::from_secs(60);
        let now = tell(&mut route, minute, minute);
        let burst = route.quota(now);
        route.pacer.handle_sent(now, burst, route.rate());
        let (late, _) = route.send_at().unwrap();
        assert!(late > now + Duration::from_secs(10), "{late}");
        let now = tell(&mut route, minute + ROUND_TRIP, ROUND_TRIP);
        let (next, _) = route.send_at().unwrap();
        assert!(next <= now + ROUND_TRIP, "{} later", next.since(now).as_secs_f64());
    }

    /// By its clock, hardly any time passes between its reports.
    #[test]
    fn reports_without_end_in_a_round_trip_are_not_all_remembered() {
        let (mut route, now) = crowded(1);
        for at in 1..100_000 {
            route.handle_report(now, 1_000_000 + at, at, Tally::default());
        }
        assert!(route.arrivals.len() <= MOST_ARRIVALS, "{} are", route.arrivals.len());
    }

    /// A receiver may ask for any rate, and never tell of a packet.
    #[test]
    fn what_nobody_tells_of_is_bounded_whatever_rate_was_asked_for() {
        let law = Box::new(Fixed::new(1e19, ROUND_TRIP));
        let mut route = Route::new(Time::ZERO, law, ROUND_TRIP, 1_472, f64::INFINITY, MOST_UNDER_WAY);
        let most = MOST_UNDER_WAY + Pacer::MOST;
        while route.under_way <= most {
            let quota = route.quota(route.next_burst());
            if quota == 0 {
                return;
            }
            route.handle_sent(route.next_burst(), quota);
        }
        panic!("{} bytes are under way", route.under_way);
    }
}
