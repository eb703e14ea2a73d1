//! The receiving end of a session.
//!
//! | timer | set when | when it fires |
//! |---|---|---|
//! | [`Wake::Report`] | something arrived that no report has told | a report, at most one an interval |
//! | [`Wake::Report`] | a ping came, the last open block became whole | a report, a quarter of an interval after the last at the earliest |
//! | [`Wake::Repeat`] | a report was sent and nothing came since | the same again, three times, each after twice the time: the last report may have been lost |
//! | [`Wake::Greeting`] | this end knew the other's address first | a report on each channel on which nothing came for long: it tells the sender where this end is, or is now |
//!
//! An address that nothing much has come from gets a shorter report, or none: the sender asks again.

mod assembly;
#[cfg(test)]
mod hostile;
mod incoming;

pub use assembly::{ArrivedBlock, Verdict};

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use terahaul_core::BlockNumber;
use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, PACKET_HEADER_LEN, PACKET_TAG_LEN, PacketFrame, PacketFrames, PacketHeader,
    PacketNumber, Report,
};

use crate::numbered::Numbered;
use crate::path::MtuSearch;
use crate::seal::Burst;
use crate::{Datagram, Opened, Seal, SessionError, Time, Transmit, Wake};
use assembly::Assembly;
use incoming::Incoming;

/// How a receiving end is set up.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// What the sender calls the session.
    pub connection: ConnectionId,
    /// For each channel, where the other end is, if this end is to speak first.
    pub channels: Vec<Option<SocketAddr>>,
    /// Blocks in memory, those handed up and not yet taken included.
    pub max_blocks: u32,
}

/// What the receiving end has to say.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A block is whole. Its buffer has to come back by [`Receiver::handle_taken`].
    Arrived(ArrivedBlock),
}

/// The receiving end of a session.
#[derive(Debug)]
pub struct Receiver {
    connection: ConnectionId,
    channels: Numbered<ChannelNumber, Incoming>,
    next_numbers: Numbered<ChannelNumber, u64>,
    assembly: Assembly,
    events: VecDeque<ReceiverEvent>,
    responses: VecDeque<(ChannelNumber, u64)>,
    interval: Duration,
    reports: u32,
    /// Something no report has told.
    news: bool,
    /// A ping asked for a report.
    asked: bool,
    report_at: Option<Time>,
    reported_at: Option<Time>,
    repeats: u32,
    repeat_at: Option<Time>,
    greet_at: Option<Time>,
    greetings: u32,
    greet_next: ChannelNumber,
    /// The channel that the next report goes out on, among those that hear the sender.
    turn: ChannelNumber,
    scratch: Vec<u8>,
}

/// Before the sender has said how often to report.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const REPEATS: u32 = 3;
const FIRST_GREETING: Duration = Duration::from_millis(100);
/// How long nothing may come on a channel before it is greeted again.
const QUIET: Duration = Duration::from_secs(2);

impl Receiver {
    /// Ready for the first packet.
    pub fn new(now: Time, config: ReceiverConfig) -> Self {
        let greets = config.channels.iter().any(Option::is_some);
        Self {
            connection: config.connection,
            next_numbers: config.channels.iter().map(|_| 0).collect(),
            channels: config.channels.into_iter().map(Incoming::new).collect(),
            assembly: Assembly::new(config.max_blocks),
            events: VecDeque::new(),
            responses: VecDeque::new(),
            interval: FIRST_INTERVAL,
            reports: 0,
            news: false,
            asked: false,
            report_at: None,
            reported_at: None,
            repeats: 0,
            repeat_at: None,
            greet_at: greets.then_some(now),
            greetings: 0,
            greet_next: ChannelNumber::default(),
            turn: ChannelNumber::default(),
            scratch: Vec::new(),
        }
    }

    /// An opened packet came. `admit` is asked once for each block, with its length, before it gets a buffer. `false` if it brings parts of
    /// blocks of which none was lacking: a sender that hears nothing of this end sends those.
    pub fn handle_packet(
        &mut self,
        datagram: &Datagram,
        packet: &Opened<'_>,
        admit: &mut dyn FnMut(BlockNumber, u32) -> Verdict,
    ) -> Result<bool, SessionError> {
        let channel = datagram.channel;
        let incoming = self.channels.get_mut(channel).ok_or(SessionError::Channel(channel.0))?;
        incoming.handle_packet(datagram, packet);
        self.news = true;
        self.repeats = 0;
        self.repeat_at = None;
        let (had, mut has_parts) = (self.assembly.gained(), false);
        for frame in PacketFrames::new(packet.payload) {
            match frame? {
                PacketFrame::Data(header, bytes) => {
                    has_parts = true;
                    let whole = self.assembly.handle_data(&header, bytes, admit)?;
                    self.hand_up(whole);
                }
                PacketFrame::Repair(header, shard) => {
                    has_parts = true;
                    let whole = self.assembly.handle_repair(&header, shard, admit)?;
                    self.hand_up(whole);
                }
                PacketFrame::Ping => self.asked = true,
                PacketFrame::Sync(sync) => {
                    self.interval =
                        Duration::from_micros(sync.interval.into()).max(Duration::from_micros(100));
                    for (channel, floor) in sync.floors {
                        if let Some(incoming) = self.channels.get_mut(channel) {
                            incoming.handle_floor(floor);
                        }
                    }
                }
                PacketFrame::Challenge(number) => {
                    if self.responses.len() < self.channels.len() {
                        self.responses.push_back((channel, number));
                    }
                }
                PacketFrame::Report(_) | PacketFrame::Response(_) => return Err(SessionError::Direction),
            }
        }
        self.schedule_report(datagram.arrived);
        Ok(!has_parts || self.assembly.gained() > had)
    }

    /// A block that was handed up is written, or was refused: its buffer serves another.
    pub fn handle_taken(&mut self, now: Time, buffer: Vec<u8>) {
        self.assembly.handle_taken(buffer);
        self.news = true;
        self.schedule_report(now);
    }

    fn schedule_report(&mut self, now: Time) {
        let apart = if self.asked { self.interval / 4 } else { self.interval };
        let due = match self.reported_at {
            Some(at) if self.asked => now.max(at + apart),
            Some(at) => (at + apart).max(now),
            // The first packet's report is the sender's first measurement.
            None => now,
        };
        self.report_at = Some(self.report_at.map_or(due, |at| at.min(due)));
    }

    /// The next report or response to send, sealed.
    pub fn poll_transmit(&mut self, now: Time, keys: &mut dyn Seal, buffer: &mut [u8]) -> Option<Transmit> {
        let mut burst = Burst::new(keys, buffer);
        let burst = &mut burst;
        while let Some((channel, number)) = self.responses.pop_front() {
            let mut payload = std::mem::take(&mut self.scratch);
            payload.clear();
            PacketFrame::Response(number).encode(&mut payload);
            let transmit = self.write(channel, &payload, burst);
            self.scratch = payload;
            if transmit.is_some() {
                return transmit;
            }
        }
        if let Some(transmit) = self.poll_greeting(now, burst) {
            return Some(transmit);
        }
        let due = |at: Option<Time>| at.is_some_and(|at| now >= at);
        if due(self.report_at) || due(self.repeat_at) { self.send_report(now, burst) } else { None }
    }

    fn send_report(&mut self, now: Time, burst: &mut Burst<'_>) -> Option<Transmit> {
        self.report_at = None;
        self.repeat_at = None;
        let channel = self.reporting_channel()?;
        self.write_report(now, channel);
        let payload = std::mem::take(&mut self.scratch);
        let transmit = self.write(channel, &payload, burst);
        self.scratch = payload;
        self.channels.iter_mut().for_each(Incoming::handle_reported);
        if self.news {
            self.repeats = 0;
        }
        (self.news, self.asked) = (false, false);
        self.reported_at = Some(now);
        if self.repeats < REPEATS {
            self.repeats += 1;
            self.repeat_at = Some(now + (self.interval * 2) * (1 << self.repeats));
        }
        transmit
    }

    /// Channels that heard something lately take turns: one whose way back is blocked does not keep all reports.
    fn reporting_channel(&mut self) -> Option<ChannelNumber> {
        let newest = self.channels.iter().filter_map(Incoming::heard_at).max()?;
        let lately = newest - self.interval * 8 - Duration::from_millis(20);
        let heard = |channel: &ChannelNumber| self.channels[*channel].heard_at() >= Some(lately);
        self.turn = self.channels.numbers_after(self.turn).find(heard)?;
        Some(self.turn)
    }

    /// A report into `scratch`: as much history as fits into a packet of the base size, and may go where `channel` ends.
    fn write_report(&mut self, now: Time, channel: ChannelNumber) {
        let remote = self.channels.get(channel).and_then(Incoming::remote);
        let allowed = remote.map_or(0, |(_, allowance)| allowance.min(MtuSearch::BASE.into()) as usize);
        let room = allowed.saturating_sub(PACKET_HEADER_LEN + PACKET_TAG_LEN);
        self.reports = self.reports.wrapping_add(1);
        let heard = self.channels.iter().filter(|channel| channel.has_heard()).count().max(1);
        let (mut runs, mut arrivals, mut gaps) = (480 / heard, (32 / heard).max(2), 32);
        loop {
            let channels = self.channels.enumerate();
            let report = Report {
                number: self.reports,
                at: now.micros(),
                credit: self.assembly.credit(),
                floor: self.assembly.floor(),
                done: self.assembly.done_above_floor(16),
                declined: self.assembly.declined(8),
                channels: channels
                    .filter_map(|(channel, incoming)| incoming.report(channel, runs, arrivals))
                    .collect(),
                gaps: if self.asked { self.assembly.gaps(4, gaps) } else { Vec::new() },
            };
            self.scratch.clear();
            PacketFrame::Report(report).encode(&mut self.scratch);
            if self.scratch.len() <= room || runs <= 1 {
                return;
            }
            (runs, arrivals, gaps) = (runs / 2, (arrivals * 2 / 3).max(2), gaps / 2);
        }
    }

    fn hand_up(&mut self, whole: Option<ArrivedBlock>) {
        if let Some(block) = whole {
            // Perhaps the transfer's last: the sender should know without delay.
            self.asked |= self.assembly.len() == 0;
            self.events.push_back(ReceiverEvent::Arrived(block));
        }
    }

    fn poll_greeting(&mut self, now: Time, burst: &mut Burst<'_>) -> Option<Transmit> {
        if now < self.greet_at? {
            return None;
        }
        while let Some(incoming) = self.channels.get(self.greet_next) {
            let channel = self.greet_next;
            self.greet_next.0 += 1;
            if incoming.heard_at().is_some_and(|at| now < at + QUIET) {
                continue;
            }
            self.write_report(now, channel);
            let payload = std::mem::take(&mut self.scratch);
            let transmit = self.write(channel, &payload, burst);
            self.scratch = payload;
            if transmit.is_some() {
                return transmit;
            }
        }
        self.greet_next = ChannelNumber::default();
        self.greet_at = Some(now + FIRST_GREETING * (1 << self.greetings.min(4)));
        self.greetings = self.greetings.saturating_add(1);
        None
    }

    fn write(&mut self, channel: ChannelNumber, payload: &[u8], burst: &mut Burst<'_>) -> Option<Transmit> {
        let incoming = self.channels.get_mut(channel)?;
        let (to, allowance) = incoming.remote()?;
        if (PACKET_HEADER_LEN + payload.len() + PACKET_TAG_LEN) as u64 > allowance {
            // The sender asks again, which is worth a little more.
            return None;
        }
        let number = self.next_numbers.get_mut(channel)?;
        let header = PacketHeader { channel, number: PacketNumber(*number), connection: self.connection };
        let len = burst.push(&header, &[payload], &[])?;
        *number += 1;
        incoming.handle_sent(len);
        // Nobody would give way to marks on reports.
        Some(Transmit { channel, to, len, segment: len, ecn: false })
    }

    /// When to call [`Self::poll_transmit`] again if nothing comes before, and why.
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        [(self.report_at, Wake::Report), (self.repeat_at, Wake::Repeat), (self.greet_at, Wake::Greeting)]
            .into_iter()
            .filter_map(|(at, why)| at.map(|at| (at, why)))
            .min_by_key(|(at, _)| *at)
    }

    /// Bytes in datagrams that came on each channel.
    pub fn channel_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.channels.iter().map(Incoming::bytes)
    }

    /// Bytes of blocks' content that have come so far, or that repairs stand for, each counted once.
    pub fn content_arrived(&self) -> u64 {
        self.assembly.content()
    }

    /// Whether [`Self::poll_event`] has something to say.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }
}
