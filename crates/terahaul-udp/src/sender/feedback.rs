//! Taking in what the receiver says.

use std::time::Duration;

use terahaul_wire::packet::{BlockGaps, ChannelReport, PacketFrame, PacketFrames, Report};

use super::channel::ChannelState;
use super::flight::{Load, Sent};
use super::outgoing::Segment;
use super::route::Tally;
use super::{Sender, SenderEvent};
use crate::numbered::Numbered;
use crate::path::{Passage, QueueDelay};
use crate::{Datagram, Opened, PathIndex, SessionError, Time};

/// What a report means for each path.
type Tallies = Numbered<PathIndex, Tally>;

/// What packets wait behind others of the burst that measures the line is no queue, up to this part of the round trip. Where it is more,
/// the line is so slow that the first window is too much.
const OWN_PART: u32 = 8;
/// Packets that have to be missing before a channel is called silent.
const SILENT_PACKETS: usize = 3;

impl Sender {
    /// An opened packet came. `true` if it says of something that it has arrived, which was not known: where the other end can only be heard, it
    /// is sent to in vain. While blocks are under way that is parts of them: a path may let pass what is shorter.
    pub fn handle_packet(
        &mut self,
        now: Time,
        datagram: &Datagram,
        packet: &Opened<'_>,
    ) -> Result<bool, SessionError> {
        let Datagram { channel: at, from, .. } = *datagram;
        let channel = self.channels.get_mut(at).ok_or(SessionError::Channel(at.0))?;
        if channel.handle_heard(now, from, packet) {
            let path = channel.path;
            self.routes[path].handle_new_path(now);
            self.forget_way_out(path);
        }
        let mut told = false;
        for frame in PacketFrames::new(packet.payload) {
            match frame? {
                PacketFrame::Report(report) => told |= self.handle_report(now, &report)?,
                PacketFrame::Response(number) => self.channels[at].handle_response(number, from),
                _ => return Err(SessionError::Direction),
            }
        }
        Ok(told)
    }

    /// What the way out takes is to be learnt anew.
    fn forget_way_out(&mut self, path: PathIndex) {
        let channels = self.channels.iter_mut().filter(|channel| channel.path == path);
        channels.for_each(|channel| channel.waiting = QueueDelay::default());
    }

    /// `true` if something has arrived, as above.
    fn handle_report(&mut self, now: Time, report: &Report) -> Result<bool, SessionError> {
        // Numbers begin again: 2,000 a second use them up in 25 days.
        if self.last_report.is_some_and(|last| report.number.wrapping_sub(last).cast_signed() <= 0) {
            return Ok(false);
        }
        self.last_report = Some(report.number);
        self.idle_pings = 0;
        let mut tallies: Tallies = self.routes.iter().map(|_| Tally::default()).collect();
        let mut told = false;
        for channel in &report.channels {
            told |= self.take_channel(now, report.at, channel, &mut tallies)?;
        }
        self.detect_lost(&mut tallies);
        self.detect_silent(now, &tallies);
        self.detect_left(now);
        self.take_blocks(report)?;
        for (path, tally) in tallies.into_enumerated() {
            let bytes = self.channels.iter().filter(|channel| channel.path == path).map(|c| c.bytes_arrived);
            if self.routes[path].handle_report(now, report.at, bytes.sum(), tally) {
                self.routes[path].handle_new_length(now);
                self.forget_way_out(path);
            }
        }
        self.sort_paths();
        self.detect_dark(now);
        Ok(told)
    }

    /// `true` if something has arrived on it, as above.
    fn take_channel(
        &mut self,
        now: Time,
        report_at: u64,
        report: &ChannelReport,
        tallies: &mut Tallies,
    ) -> Result<bool, SessionError> {
        let is_idle = self.is_idle();
        let tells = |sent: &Sent| is_idle || matches!(sent.load, Load::Data(_));
        let channel = self.channels.get_mut(report.channel).ok_or(SessionError::Channel(report.channel.0))?;
        let route = &mut self.routes[channel.path];
        let tally = &mut tallies[channel.path];

        let way = |(number, arrived): &(terahaul_wire::packet::PacketNumber, u64)| {
            let flight = &channel.flight;
            let sent = flight.under_way(number.0).filter(|sent| route.is_measured_by(sent.at))?;
            let missing = flight.missing_before(number.0, &report.runs);
            Some(Passage { sent: sent.at, path_bytes: sent.path_bytes, missing, arrived: *arrived })
        };
        let newest = report.arrivals.first().and_then(way);
        if let Some(newest) = newest {
            let held = Duration::from_micros(report_at.saturating_sub(newest.arrived));
            // A report is not held back for longer than all of it takes: the receiver's clock was set meanwhile, and that is no round trip.
            if let Some(sample) = now.since(newest.sent).checked_sub(held) {
                tally.round_trip = Some(tally.round_trip.map_or(sample, |least| least.min(sample)));
            }
        }
        let mut passages: Vec<Passage> = report.arrivals.iter().filter_map(way).collect();
        let may_have_queued = passages.iter().any(|passage| route.may_have_queued(passage));
        if let Some(one_way) = passages.iter().map(|p| one_way(p.sent, p.arrived)).min() {
            let shortest = route.round_trip.min();
            let excess = tally.round_trip.unwrap_or(route.round_trip.latest()).saturating_sub(shortest);
            channel.waiting.handle_sample(now, one_way, excess);
            let waited = channel.waiting.latest();
            if may_have_queued || waited > shortest / OWN_PART {
                tally.waiting = Some(tally.waiting.map_or(waited, |least| least.min(waited)));
            }
        }
        tally.passages.append(&mut passages);

        let outgoing = &mut self.outgoing;
        let (mut heard, mut told) = (false, false);
        let late = channel.flight.handle_runs(&report.runs, |_, sent| {
            heard = true;
            told |= tells(&sent);
            route.handle_arrived(&sent);
            tally.arrived += u64::from(sent.len);
            tally.age += now.since(sent.at).as_secs_f64() * f64::from(sent.len);
            tally.newest = tally.newest.max(Some(sent.at));
            match sent.load {
                Load::Data(segment) => outgoing.handle_arrived(segment),
                Load::MtuProbe => route.mtu.handle_probe_arrived(sent.len),
                Load::Signal => {}
            }
            if sent.load != Load::MtuProbe {
                route.mtu.handle_arrived(sent.len);
            }
        });
        let late = late.ok_or(SessionError::NeverSent)?;
        let newest_sent = channel.flight.newest_arrived().map(|(_, at)| at);
        for sent in late {
            told |= tells(&sent);
            if let Some(newest) = newest_sent {
                route.handle_late(newest.since(sent.at));
            }
            tally.arrived += u64::from(sent.len);
            self.lost_bytes = self.lost_bytes.saturating_sub(sent.len.into());
            if let Load::Data(segment) = sent.load {
                outgoing.handle_arrived(segment);
            }
        }
        tally.congested = tally.congested.saturating_add(report.congested.saturating_sub(channel.congested));
        channel.congested = channel.congested.max(report.congested);
        // The other end may say anything.
        channel.bytes_arrived = channel.bytes_arrived.max(report.bytes.min(channel.bytes_sent));
        channel.flight.forget_lost(now - route.round_trip.smoothed() * 3);
        if heard {
            channel.handle_told();
        }
        if heard && channel.state != ChannelState::Alive && channel.is_there(now) {
            channel.state = ChannelState::Alive;
            channel.pings = 0;
            self.events.push_back(SenderEvent::Channel(report.channel, ChannelState::Alive));
        }
        Ok(told)
    }

    fn detect_lost(&mut self, tallies: &mut Tallies) {
        for at in self.channels.numbers() {
            let path = self.channels[at].path;
            let patience = self.routes[path].patience();
            let mut lost = std::mem::take(&mut self.lost_now);
            self.channels[at].flight.detect_lost(patience, |sent| lost.push(sent));
            for sent in lost.drain(..) {
                self.lose(path, sent, &mut tallies[path]);
            }
            self.lost_now = lost;
        }
    }

    fn lose(&mut self, path: PathIndex, sent: Sent, tally: &mut Tally) {
        let route = &mut self.routes[path];
        let counts = sent.load != Load::MtuProbe && route.counts_as_loss(&sent);
        route.handle_lost(&sent, counts);
        if sent.load == Load::MtuProbe {
            route.mtu.handle_probe_lost(sent.len);
            return;
        }
        if route.mtu.handle_lost(sent.len) {
            self.events.push_back(SenderEvent::Mtu(path, route.mtu.current()));
        }
        if counts {
            tally.lost += u64::from(sent.len);
        }
        self.lost_bytes += u64::from(sent.len);
        if let Load::Data(segment) = sent.load {
            self.send_again(path, segment);
        }
    }

    /// Channels on which nothing arrives while what was sent later on others does.
    fn detect_silent(&mut self, now: Time, tallies: &Tallies) {
        for at in self.channels.numbers() {
            let path = self.channels[at].path;
            let route = &self.routes[path];
            let Some(newest) = tallies[path].newest else { continue };
            let channel = &self.channels[at];
            let Some(oldest) = channel.flight.unheard().next() else { continue };
            let overdue = newest - (route.round_trip.smoothed() / 2 + route.patience());
            if oldest.at >= overdue {
                continue;
            }
            // The end of a burst that is only lost in part says nothing of what is sent later.
            let heard = channel.flight.newest_arrived().map(|(_, sent)| sent);
            let since = |sent: &&Sent| Some(sent.at) > heard && sent.at < newest;
            if channel.flight.unheard().filter(since).count() >= SILENT_PACKETS {
                self.fall_silent(now, at);
            }
            // What goes out on a silent one is pings, for which nobody need be probed.
            let is_silent = self.channels[at].state == ChannelState::Silent;
            self.give_up(at, if is_silent { Time::NEVER } else { overdue });
        }
    }

    /// Channels whose packets are reported, but from elsewhere only.
    fn detect_left(&mut self, now: Time) {
        for at in self.channels.numbers() {
            if self.channels[at].state != ChannelState::Silent && !self.channels[at].is_there(now) {
                self.fall_silent(now, at);
                self.give_up(at, Time::NEVER);
            }
        }
    }

    fn take_blocks(&mut self, report: &Report) -> Result<(), SessionError> {
        let begun = self.outgoing.next_serial();
        let last_done = report.done.iter().chain(&report.declined).map(|run| run.end).max();
        if report.floor > begun || last_done.is_some_and(|end| end > begun) {
            return Err(SessionError::NeverSent);
        }
        self.credit = self.credit.max(report.credit);
        for run in &report.declined {
            for serial in self.outgoing.held_in(run.clone()) {
                if let Some((number, cargo)) = self.outgoing.handle_done(serial) {
                    self.events.push_back(SenderEvent::Declined(number, cargo));
                }
            }
        }
        let below = std::iter::once(0..report.floor);
        for run in below.chain(report.done.iter().cloned()) {
            for serial in self.outgoing.held_in(run) {
                if let Some((number, cargo)) = self.outgoing.handle_done(serial) {
                    self.events.push_back(SenderEvent::Delivered(number, cargo));
                }
            }
        }
        report.gaps.iter().for_each(|gaps| self.take_gaps(gaps));
        Ok(())
    }

    /// What lies between the gaps has arrived, whatever became of the reports that said so.
    fn take_gaps(&mut self, gaps: &BlockGaps) {
        let mut from = 0;
        for gap in &gaps.missing {
            if gap.start > from {
                let segment = Segment { serial: gaps.serial, offset: from, len: gap.start - from };
                self.outgoing.handle_arrived(segment);
            }
            from = gap.end;
        }
    }
}

/// Nanoseconds from one end's clock to the other's: their origins make any number of it.
fn one_way(sent: Time, arrived_micros: u64) -> i64 {
    let arrived = i128::from(arrived_micros) * 1_000;
    let way = arrived - i128::from(sent.nanos());
    way.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
