//! Putting packets together.

use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, MAX_PART_HEADER_LEN, PacketFrame, PacketHeader, PacketNumber, Sync,
};

use super::Sender;
use super::channel::{Channel, ChannelState};
use super::flight::{Load, Sent};
use super::outgoing::Segment;
use super::route::Route;
use crate::path::{LONG, MtuSearch};
use crate::seal::Burst;
use crate::{OVERHEAD, PathIndex, Seal, Time, Transmit};

/// Packets that an untried channel may have under way.
const UNTRIED_PACKETS: usize = 16;
/// The same while no other of its path has carried anything: nothing is gained by holding it back.
const UNTRIED_FIRST: usize = 1024;

impl Sender {
    /// The next packets to send, sealed and one behind the other in `buffer`: as many as the pacing allows and the buffer
    /// holds, which is one of the configured size at least.
    pub fn poll_transmit(&mut self, now: Time, keys: &mut dyn Seal, buffer: &mut [u8]) -> Option<Transmit> {
        let mut burst = Burst::new(keys, buffer);
        self.poll_signal(now, &mut burst).or_else(|| {
            (0..self.by_speed.len()).find_map(|at| self.poll_path(now, self.by_speed[at], &mut burst))
        })
    }

    /// Challenges and pings, which no window holds back.
    fn poll_signal(&mut self, now: Time, burst: &mut Burst<'_>) -> Option<Transmit> {
        for at in self.channels.numbers() {
            let apart = self.routes[self.channels[at].path].round_trip.smoothed();
            if let Some(number) = self.channels[at].poll_challenge(now, apart) {
                let frame = PacketFrame::Challenge(number);
                if let Some(transmit) = self.write_signal(now, at, &frame, 0, Load::Signal, burst) {
                    return Some(transmit);
                }
            }
            let channel = &mut self.channels[at];
            if channel.state == ChannelState::Silent && now >= channel.ping_at {
                let pause = apart.max(super::IDLE_PINGS_APART / 4) * (1 << channel.pings.min(4));
                channel.ping_at = now + pause;
                channel.pings += 1;
                self.give_up(at, now - super::UNANSWERED);
                if let Some(transmit) = self.write_signal(now, at, &PacketFrame::Ping, 0, Load::Signal, burst)
                {
                    return Some(transmit);
                }
            }
        }
        if self.pings() && now >= self.idle_ping_at {
            self.idle_ping_at = now + super::IDLE_PINGS_APART * (1 << self.idle_pings.min(5));
            self.idle_pings += 1;
            let alive = self.channels.enumerate().find(|(_, channel)| channel.state == ChannelState::Alive);
            let at = alive.map_or(ChannelNumber::default(), |(at, _)| at);
            return self.write_signal(now, at, &PacketFrame::Ping, 0, Load::Signal, burst);
        }
        None
    }

    fn poll_path(&mut self, now: Time, path: PathIndex, burst: &mut Burst<'_>) -> Option<Transmit> {
        if self.last && self.outgoing.is_drained() {
            self.begin_endgame();
        } else if self.outgoing.fresh() > 0 {
            self.endgame.end();
        }
        if self.routes[path].probes > 0 {
            self.routes[path].probes -= 1;
            let probe = self.poll_probe(now, path, burst);
            if probe.is_none() {
                // Nowhere to send it: the next one is due in time.
                self.routes[path].probes = 0;
            }
            return probe;
        }
        if self.routes[path].quota(now) == 0 || self.leaves_the_rest(path) {
            return None;
        }
        let at = self.next_channel(path)?;
        if self.channels[at].state == ChannelState::Alive
            && self.channels[at].is_proven()
            && let Some(size) = self.routes[path].mtu.poll_probe(now)
        {
            let padding = size as usize - OVERHEAD - 1;
            return self.write_signal(now, at, &PacketFrame::Ping, padding, Load::MtuProbe, burst);
        }
        if self.opens(path) {
            return self.poll_opening(now, path, at, burst);
        }
        self.write_batch(now, path, at, burst)
    }

    fn begin_endgame(&mut self) {
        if self.endgame.has_begun() {
            return;
        }
        let routes = &self.routes;
        let flights = self.channels.iter().map(|channel| {
            let round_trip = routes[channel.path].round_trip.smoothed();
            (round_trip, &channel.flight)
        });
        self.endgame.begin(flights);
        if routes.iter().any(|route| route.round_trip.smoothed() >= LONG) {
            let loss = routes.iter().map(Route::loss).fold(0.0, f64::max);
            // What fits any path: which of them a shard takes is chance.
            let room = routes.iter().map(Route::payload).min().unwrap_or_default();
            self.endgame.repairs.begin(&self.outgoing, loss, room);
        }
    }

    /// Old bytes on every channel in turn, small enough for any path.
    fn poll_probe(&mut self, now: Time, path: PathIndex, burst: &mut Burst<'_>) -> Option<Transmit> {
        let at = self.next_channel(path).or_else(|| self.any_channel(path))?;
        let old = self.channels.iter().filter(|channel| channel.path == path).find_map(|channel| {
            channel.flight.oldest_first().find_map(|sent| match sent.load {
                Load::Data(segment) => Some(segment),
                _ => None,
            })
        });
        let most = MtuSearch::BASE as usize - OVERHEAD - MAX_PART_HEADER_LEN - 1;
        let segment = old.and_then(|old| {
            let gap = self.outgoing.first_missing(old)?;
            let len = (gap.end - gap.start).min(most as u64) as u32;
            Some(Segment { serial: old.serial, offset: gap.start as u32, len })
        });
        let Some(segment) = segment else {
            return self.write_signal(now, at, &PacketFrame::Ping, 0, Load::Signal, burst);
        };
        let to = self.channels[at].remote_for(0)?;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        PacketFrame::Ping.encode(&mut frames);
        let len = self.write_data(now, at, &frames, segment, burst);
        self.frames = frames;
        Some(Transmit { channel: at, to, len: len?, segment: len?, ecn: false })
    }

    /// Whether to ping when the time has come: nothing is under way. The first time of all what can go says as much;
    /// later a block may seem to be able to go whose credit was lost.
    pub(super) fn pings(&self) -> bool {
        let idle = self.routes.iter().all(|route| route.under_way == 0);
        let begun = self.routes.iter().any(|route| route.bytes_sent > 0);
        let speaks = |path| (self.has_work_for(path) || self.opens(path)) && self.can_send(path);
        idle && (begun || !self.routes.numbers().any(speaks))
    }

    /// Whether any channel of the path may send.
    pub(super) fn can_send(&self, path: PathIndex) -> bool {
        self.channels.enumerate().any(|(at, channel)| channel.path == path && self.is_usable(at))
    }

    fn is_usable(&self, at: ChannelNumber) -> bool {
        let channel = &self.channels[at];
        let full = self.routes[channel.path].mtu.current();
        let room = match channel.state {
            ChannelState::Alive => true,
            ChannelState::Silent => false,
            ChannelState::Untried => {
                let alive =
                    |other: &Channel| other.path == channel.path && other.state == ChannelState::Alive;
                let most = if self.channels.iter().any(alive) { UNTRIED_PACKETS } else { UNTRIED_FIRST };
                channel.flight.oldest_first().count() < most
            }
        };
        room && channel.remote_for(full.into()).is_some()
    }

    /// The next usable channel of a path: they take turns, a burst each.
    fn next_channel(&mut self, path: PathIndex) -> Option<ChannelNumber> {
        self.turn(path, |sender, at| sender.is_usable(at))
    }

    /// Any channel of a path whose other end is known.
    fn any_channel(&mut self, path: PathIndex) -> Option<ChannelNumber> {
        self.turn(path, |sender, at| sender.channels[at].remote_for(MtuSearch::BASE.into()).is_some())
    }

    fn turn(
        &mut self,
        path: PathIndex,
        fits: impl Fn(&Self, ChannelNumber) -> bool,
    ) -> Option<ChannelNumber> {
        let next = self
            .channels
            .numbers_after(self.routes[path].turn)
            .find(|at| self.channels[*at].path == path && fits(self, *at))?;
        self.routes[path].turn = next;
        Some(next)
    }

    fn write_batch(
        &mut self,
        now: Time,
        path: PathIndex,
        at: ChannelNumber,
        burst: &mut Burst<'_>,
    ) -> Option<Transmit> {
        let full = self.routes[path].mtu.current() as usize;
        if burst.most() < full {
            return None;
        }
        let quota = (self.routes[path].quota(now) as usize).min(burst.most()).max(full);
        let to = self.channels[at].remote_for(0)?;
        if now >= self.routes[path].sync_at && self.has_work_for(path) {
            // A packet of its own, so that all others carry as many bytes of a block: they are the shards of its repair.
            let sync = PacketFrame::Sync(self.sync(path));
            self.handle_sync_sent(now, path);
            return self.write_signal(now, at, &sync, 0, Load::Signal, burst);
        }
        // Nothing else may be marked, nor anything on a channel that is not heard yet: who drops what may be does not hide the path.
        let ecn = self.channels[at].state == ChannelState::Alive && self.routes[path].ecn.is_markable();
        burst.ecn = ecn;
        while burst.len() + full <= quota && (burst.len() == 0 || self.is_usable(at)) {
            let Some(written) = self.write_part(now, path, at, full - OVERHEAD, burst) else {
                // Before the first block nobody could have sent more.
                if self.outgoing.next_serial() > 0 {
                    self.routes[path].handle_starved(now);
                }
                break;
            };
            // Only the last packet of a batch may be shorter than the others.
            if written < full {
                break;
            }
        }
        burst.ecn = false;
        let (len, rate) = (burst.len(), self.routes[path].rate());
        self.routes[path].pacer.handle_sent(now, len as u64, rate);
        (len > 0).then_some(Transmit { channel: at, to, len, segment: full.min(len), ecn })
    }

    /// One packet with what comes next of the blocks; returns its length.
    fn write_part(
        &mut self,
        now: Time,
        path: PathIndex,
        at: ChannelNumber,
        room: usize,
        burst: &mut Burst<'_>,
    ) -> Option<usize> {
        if let Some(segment) = self.outgoing.next(room as u32) {
            return self.write_data(now, at, &[], segment, burst);
        }
        if let Some((header, shard)) = self.endgame.repairs.next(&mut self.outgoing, room) {
            let channel = self.channels.get_mut(at)?;
            let route = &mut self.routes[channel.path];
            let packet = Packet { frames: &[&header.encode()], data: shard, load: Load::Signal };
            return packet.write(now, self.connection, at, channel, route, burst);
        }
        let copy = self.next_copy(now, path, room as u32)?;
        self.write_data(now, at, &[], copy, burst)
    }

    fn next_copy(&mut self, now: Time, path: PathIndex, room: u32) -> Option<Segment> {
        let from = self.copies_from(now, path);
        loop {
            let segment = self.endgame.next(path, from)?;
            if let Some(missing) = self.outgoing.missing_in(segment, room) {
                return Some(missing);
            }
        }
    }

    /// A packet with a sync has gone out: the next is due in time.
    pub(super) fn handle_sync_sent(&mut self, now: Time, path: PathIndex) {
        let route = &mut self.routes[path];
        route.sync_at = now + (route.round_trip.smoothed() / 2).max(route.report_interval());
    }

    pub(super) fn sync(&self, path: PathIndex) -> Sync {
        // Each report is of all paths: the quickest says how often.
        let heard = self.routes.enumerate().filter(|(at, route)| *at == path || route.is_heard());
        let interval = heard.map(|(_, route)| route.report_interval()).min().unwrap_or_default();
        // Channels of other paths take their own turn; a few numbers fit into any packet.
        let floors = self.channels.enumerate().filter(|(_, channel)| channel.path == path).take(32);
        let floors = floors.map(|(at, channel)| (at, PacketNumber(channel.flight.floor())));
        Sync { interval: interval.as_micros() as u32, floors: floors.collect() }
    }

    /// One packet with `frames` and part of a block.
    fn write_data(
        &mut self,
        now: Time,
        at: ChannelNumber,
        frames: &[u8],
        segment: Segment,
        burst: &mut Burst<'_>,
    ) -> Option<usize> {
        let (header, bytes) = self.outgoing.data(segment)?;
        let channel = self.channels.get_mut(at)?;
        let route = &mut self.routes[channel.path];
        let packet = Packet { frames: &[frames, &header.encode()], data: bytes, load: Load::Data(segment) };
        packet.write(now, self.connection, at, channel, route, burst)
    }

    /// One packet with one frame and padding.
    fn write_signal(
        &mut self,
        now: Time,
        at: ChannelNumber,
        frame: &PacketFrame<'_>,
        padding: usize,
        load: Load,
        burst: &mut Burst<'_>,
    ) -> Option<Transmit> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        frame.encode(&mut frames);
        frames.resize(frames.len() + padding, 0);
        let len = OVERHEAD + frames.len();
        let to = self.channels.get(at)?.remote_for(len as u64)?;
        let len = self.write_frames(now, at, &frames, load, burst);
        self.frames = frames;
        let len = len?;
        Some(Transmit { channel: at, to, len, segment: len, ecn: false })
    }

    /// One packet with these frames.
    pub(super) fn write_frames(
        &mut self,
        now: Time,
        at: ChannelNumber,
        frames: &[u8],
        load: Load,
        burst: &mut Burst<'_>,
    ) -> Option<usize> {
        let channel = self.channels.get_mut(at)?;
        let route = &mut self.routes[channel.path];
        Packet { frames: &[frames], data: &[], load }.write(now, self.connection, at, channel, route, burst)
    }
}

/// What one packet carries.
struct Packet<'a> {
    frames: &'a [&'a [u8]],
    /// What the last frame ends with.
    data: &'a [u8],
    load: Load,
}

impl Packet<'_> {
    /// Writes it as the next of `channel`, which is the one `at` that number, and counts it as sent.
    fn write(
        self,
        now: Time,
        connection: ConnectionId,
        at: ChannelNumber,
        channel: &mut Channel,
        route: &mut Route,
        burst: &mut Burst<'_>,
    ) -> Option<usize> {
        let number = PacketNumber(channel.next_number());
        let header = PacketHeader { channel: at, number, connection };
        let len = burst.push(&header, self.frames, self.data)?;
        route.handle_sent(now, len as u64);
        let (path_bytes, round) = (route.bytes_sent, route.round);
        if burst.ecn {
            route.ecn.handle_sent();
        }
        let (ecn, load) = (burst.ecn, self.load);
        channel.handle_sent(Sent { at: now, path_bytes, round, len: len as u32, ecn, load });
        Some(len)
    }
}
