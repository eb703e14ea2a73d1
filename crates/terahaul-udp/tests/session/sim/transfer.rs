//! One of our own transfers in the simulated network: both ends, and the simplest driver that keeps the contract.

use std::net::SocketAddr;
use std::time::Duration;

use terahaul_core::{BlockNumber, Rate};
use terahaul_udp::{
    ArrivedBlock, ChallengeKey, ChannelConfig, ChannelState, Gate, Open, PathConfig, PathIndex, Receiver,
    ReceiverConfig, ReceiverEvent, Seal, Sender, SenderConfig, SenderEvent, Time, Transmit, Verdict,
};
use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, PACKET_TAG_LEN, PacketFrame, PacketFrames, PacketHeader,
};

use super::Law;
use super::line::{HEADERS, Nanos};

const SENDER_ID: ConnectionId = ConnectionId([1; 8]);
const RECEIVER_ID: ConnectionId = ConnectionId([2; 8]);
const BLOCK: usize = 4 << 20;

/// No encryption: the tag repeats the header's number, so that a driver that seals nothing is noticed.
pub struct NoKeys;

impl Seal for NoKeys {
    fn seal(&mut self, header: &PacketHeader, _: &mut [u8], tag: &mut [u8; PACKET_TAG_LEN]) {
        tag[..8].copy_from_slice(&(header.number.0 ^ 0x5a).to_le_bytes());
        tag[8..].fill(header.channel.0);
    }
}

impl Open for NoKeys {
    fn open(&mut self, header: &PacketHeader, sealed: &mut [u8]) -> bool {
        let mut expected = [0; PACKET_TAG_LEN];
        self.seal(header, &mut [], &mut expected);
        sealed.ends_with(&expected)
    }
}

/// A clock: its origin, and how much faster it runs than simulated time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset: i64,
    pub ppm: f64,
}

impl Clock {
    pub fn at(&self, now: Nanos) -> Time {
        let drift = (now as f64 * self.ppm / 1e6) as i64;
        Time::from_nanos((now as i64 + self.offset + drift).max(0) as u64)
    }

    fn back(&self, at: Time, now: Nanos) -> Nanos {
        if at == Time::NEVER {
            return Nanos::MAX;
        }
        let ahead = at.nanos() as i64 - self.at(now).nanos() as i64;
        // Rounded up, so that the clock shows the time asked for.
        now + ((ahead.max(0) as f64) / (1.0 + self.ppm / 1e6)).ceil() as Nanos + u64::from(self.ppm != 0.0)
    }
}

/// A clock is set: what shows this time or later shows so many nanoseconds more from then on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub from: Time,
    pub by: i64,
}

impl Setting {
    fn micros(self, at: u64) -> u64 {
        if at < self.from.micros() { at } else { at.saturating_add_signed(self.by / 1_000) }
    }

    /// What a receiver said, as it would have by that clock. Its timers go by another, which is never set.
    fn retell(self, said: &[u8]) -> Vec<u8> {
        let mut retold = Vec::new();
        for frame in PacketFrames::new(said) {
            let mut frame = frame.expect("a good frame");
            if let PacketFrame::Report(report) = &mut frame {
                report.at = self.micros(report.at);
                let arrivals = report.channels.iter_mut().flat_map(|channel| &mut channel.arrivals);
                arrivals.for_each(|(_, at)| *at = self.micros(*at));
            }
            frame.encode(&mut retold);
        }
        retold
    }
}

/// How a transfer is set up.
pub struct TransferSpec {
    pub bytes: u64,
    pub channels: usize,
    /// Paths of the network that the channels are dealt to in turn.
    pub paths: usize,
    pub max_blocks: u32,
    pub law: Law,
    pub max_rate: Option<Rate>,
    /// The guess that the control channel gives.
    pub rtt: Nanos,
    pub interface_mtu: u64,
    pub receiver_clock: Clock,
    /// Bytes a second that the receiver writes.
    pub disk: f64,
    /// The receiver speaks first: the sender learns from it where it is.
    pub receiver_greets: bool,
    pub starts: Nanos,
    /// How long after that the first block may go: the manifest has to be accepted before.
    pub accepted_after: Nanos,
}

/// Which end a datagram goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

/// A datagram on its way.
pub struct Datagram {
    pub to: End,
    pub from: SocketAddr,
    pub to_address: SocketAddr,
    pub channel: u8,
    /// It may be marked.
    pub ecn: bool,
    pub bytes: Vec<u8>,
}

/// What an end was waiting for.
pub struct News {
    at: Nanos,
    longest_silence: Nanos,
}

impl News {
    /// The longest that it was without any.
    pub fn longest_silence(&self, now: Nanos) -> Nanos {
        self.longest_silence.max(now - self.at)
    }

    fn handle(&mut self, now: Nanos) {
        self.longest_silence = self.longest_silence(now);
        self.at = now;
    }
}

pub struct Transfer {
    pub sender: Sender,
    pub receiver: Receiver,
    sender_gates: Vec<Gate>,
    receiver_gates: Vec<Gate>,
    pub sender_clock: Clock,
    pub receiver_clock: Clock,
    /// What the receiver's reports tell the time by was set.
    pub receiver_set: Option<Setting>,
    /// Where the network sees each end's channels; a packet to any other address is lost.
    pub sender_addresses: Vec<SocketAddr>,
    pub receiver_addresses: Vec<SocketAddr>,
    /// How many more datagrams of each channel get through.
    pub passes: Vec<u64>,
    /// The last datagram of one burst in so many is lost.
    pub cuts_one_in: u64,
    bursts: u64,
    paths: usize,
    pub starts: Nanos,
    accepted: Nanos,
    pub bytes: u64,
    next_block: u32,
    block_count: u32,
    source: Vec<u8>,
    spare: Vec<Vec<u8>>,
    disk: f64,
    disk_free_at: Nanos,
    writing: std::collections::VecDeque<(Nanos, Vec<u8>)>,
    arrived: Vec<bool>,
    pub arrived_bytes: u64,
    /// Blocks that were being written at once, at most.
    pub most_buffers: usize,
    /// When the last block arrived, and when the sender knew.
    pub arrived_at: Option<Nanos>,
    pub finished_at: Option<Nanos>,
    pub datagrams: u64,
    pub data_bytes: u64,
    pub reports: u64,
    pub report_bytes: u64,
    /// Of what arrived, at the sender.
    pub told: News,
    /// Of anything, at the receiver.
    pub came: News,
    pub channel_events: Vec<(Nanos, u8, ChannelState)>,
    /// Declines the first so many offers.
    pub declines: u32,
    again: Vec<u32>,
    buffer: Vec<u8>,
}

impl Transfer {
    pub fn new(spec: TransferSpec) -> Self {
        let address = |host: u8, port: u16, at: usize| {
            SocketAddr::from(([192, 0, 2 + (at % spec.paths) as u8, host], port + at as u16))
        };
        let sender_addresses: Vec<_> = (0..spec.channels).map(|at| address(1, 1_000, at)).collect();
        let receiver_addresses: Vec<_> = (0..spec.channels).map(|at| address(2, 2_000, at)).collect();
        let known = |greets: bool, address: &SocketAddr| (!greets).then_some(*address);
        let rtt = Duration::from_nanos(spec.rtt);
        let sender_clock = Clock { offset: 5_000_000_000, ppm: 0.0 };
        let config = SenderConfig {
            connection: RECEIVER_ID,
            channels: receiver_addresses
                .iter()
                .enumerate()
                .map(|(at, address)| ChannelConfig {
                    remote: known(spec.receiver_greets, address),
                    path: PathIndex(at % spec.paths),
                })
                .collect(),
            paths: vec![PathConfig { max_datagram: (spec.interface_mtu - HEADERS) as u32 }; spec.paths],
            round_trip: rtt,
            max_blocks: spec.max_blocks as usize,
            max_rate: spec.max_rate,
            challenges: ChallengeKey([7; 32]),
        };
        let receiver_config = ReceiverConfig {
            connection: SENDER_ID,
            channels: sender_addresses.iter().map(|address| known(!spec.receiver_greets, address)).collect(),
            max_blocks: spec.max_blocks,
        };
        let block_count = spec.bytes.div_ceil(BLOCK as u64) as u32;
        let mut source: Vec<u8> = Vec::with_capacity(BLOCK + 256);
        let mut chance = super::chance::Chance::new(7, 7);
        (0..(BLOCK + 256) / 8).for_each(|_| source.extend(chance.next().to_le_bytes()));
        let gates = |id| (0..spec.channels).map(|at| Gate::new(id, ChannelNumber(at as u8))).collect();
        Self {
            sender: Sender::new(
                sender_clock.at(spec.starts),
                config,
                (0..spec.paths).map(|_| (spec.law)(rtt)).collect(),
            ),
            receiver: Receiver::new(spec.receiver_clock.at(spec.starts), receiver_config),
            sender_gates: gates(SENDER_ID),
            receiver_gates: gates(RECEIVER_ID),
            sender_clock,
            receiver_clock: spec.receiver_clock,
            receiver_set: None,
            sender_addresses,
            receiver_addresses,
            passes: vec![u64::MAX; spec.channels],
            cuts_one_in: u64::MAX,
            bursts: 0,
            paths: spec.paths,
            starts: spec.starts,
            accepted: spec.starts + spec.accepted_after,
            bytes: spec.bytes,
            next_block: 0,
            block_count,
            source,
            spare: Vec::new(),
            disk: spec.disk,
            disk_free_at: 0,
            writing: std::collections::VecDeque::new(),
            arrived: vec![false; block_count as usize],
            arrived_bytes: 0,
            most_buffers: 0,
            arrived_at: None,
            finished_at: None,
            datagrams: 0,
            data_bytes: 0,
            reports: 0,
            report_bytes: 0,
            told: News { at: spec.starts, longest_silence: 0 },
            came: News { at: spec.starts, longest_silence: 0 },
            channel_events: Vec::new(),
            declines: 0,
            again: Vec::new(),
            buffer: vec![0; 64 << 10],
        }
    }

    fn len_of(&self, block: u32) -> usize {
        (self.bytes - u64::from(block) * BLOCK as u64).min(BLOCK as u64) as usize
    }

    fn content(&self, block: u32) -> &[u8] {
        let shift = block as usize % 251;
        &self.source[shift..shift + self.len_of(block)]
    }

    /// Hands blocks in, as a sending driver does.
    fn feed(&mut self, now: Nanos) {
        while now >= self.accepted && self.sender.wants_block() {
            let block = match self.again.pop() {
                Some(block) => block,
                None if self.next_block < self.block_count => {
                    self.next_block += 1;
                    self.next_block - 1
                }
                None => break,
            };
            let mut cargo = self.spare.pop().unwrap_or_default();
            cargo.clear();
            cargo.extend_from_slice(self.content(block));
            cargo.extend([block as u8; 32]);
            self.sender.handle_block(BlockNumber(block), cargo).expect("a block fits");
        }
        if self.next_block == self.block_count && self.again.is_empty() {
            self.sender.handle_last();
        }
    }

    /// Lets both ends do what they have to; what they send goes to `emit`.
    pub fn pump(&mut self, now: Nanos, end: End, emit: &mut dyn FnMut(Datagram)) {
        match end {
            End::Sender => self.pump_sender(now, emit),
            End::Receiver => self.pump_receiver(now, emit),
        }
    }

    fn pump_sender(&mut self, now: Nanos, emit: &mut dyn FnMut(Datagram)) {
        let time = self.sender_clock.at(now);
        self.sender.handle_timeout(time);
        self.feed(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(transmit) = self.sender.poll_transmit(time, &mut NoKeys, &mut buffer) {
            self.emit(End::Receiver, &transmit, &buffer, emit);
            self.feed(now);
        }
        self.buffer = buffer;
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Delivered(_, buffer) => self.spare.push(buffer),
                SenderEvent::Declined(block, buffer) => {
                    self.again.push(block.0);
                    self.spare.push(buffer);
                }
                SenderEvent::Channel(channel, state) => self.channel_events.push((now, channel.0, state)),
                SenderEvent::Mtu(..) => {}
            }
        }
        let all_sent = self.next_block == self.block_count && self.again.is_empty();
        if self.finished_at.is_none() && all_sent && self.sender.is_idle() {
            self.finished_at = Some(now);
        }
    }

    fn pump_receiver(&mut self, now: Nanos, emit: &mut dyn FnMut(Datagram)) {
        while let Some(ReceiverEvent::Arrived(block)) = self.receiver.poll_event() {
            self.check(now, block);
        }
        while self.writing.front().is_some_and(|(done, _)| *done <= now) {
            let (_, buffer) = self.writing.pop_front().expect("it was just there");
            self.receiver.handle_taken(self.receiver_clock.at(now), buffer);
        }
        let time = self.receiver_clock.at(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(transmit) = self.receiver.poll_transmit(time, &mut NoKeys, &mut buffer) {
            self.reports += 1;
            self.report_bytes += transmit.len as u64;
            self.emit(End::Sender, &transmit, &buffer, emit);
        }
        self.buffer = buffer;
    }

    fn check(&mut self, now: Nanos, mut block: ArrivedBlock) {
        let number = block.number.0;
        assert!(!std::mem::replace(&mut self.arrived[number as usize], true), "block {number} arrived twice");
        let (content, value) = block.parts();
        assert!(content == self.content(number), "block {number} is not what was sent");
        assert_eq!(value, [number as u8; 32], "block {number} has another block's value");
        self.arrived_bytes += content.len() as u64;
        if self.arrived_bytes == self.bytes {
            self.arrived_at = Some(now);
        }
        let writes = (content.len() as f64 / self.disk * 1e9) as Nanos;
        self.disk_free_at = self.disk_free_at.max(now) + writes;
        self.writing.push_back((self.disk_free_at, block.cargo));
        self.most_buffers = self.most_buffers.max(self.writing.len());
    }

    fn emit(&mut self, to: End, transmit: &Transmit, buffer: &[u8], emit: &mut dyn FnMut(Datagram)) {
        let channel = transmit.channel.0;
        let from = match to {
            End::Receiver => self.sender_addresses[usize::from(channel)],
            End::Sender => self.receiver_addresses[usize::from(channel)],
        };
        let is_burst = to == End::Receiver && transmit.len > transmit.segment;
        self.bursts += u64::from(is_burst);
        let is_cut = is_burst && self.bursts.is_multiple_of(self.cuts_one_in);
        let datagrams = buffer[..transmit.len].chunks(transmit.segment);
        let last = datagrams.len() - 1;
        for (number, datagram) in datagrams.enumerate() {
            if to == End::Receiver {
                self.datagrams += 1;
                self.data_bytes += datagram.len() as u64;
            }
            let left = &mut self.passes[usize::from(channel)];
            if *left > 0 && !(is_cut && number == last) {
                *left -= 1;
                let (to_address, ecn, bytes) = (transmit.to, transmit.ecn, datagram.to_vec());
                emit(Datagram { to, from, to_address, channel, ecn, bytes });
            }
        }
    }

    /// A datagram comes out of the network.
    pub fn handle(&mut self, now: Nanos, mut datagram: Datagram, marked: bool) {
        let at = usize::from(datagram.channel);
        let (channel, from) = (ChannelNumber(datagram.channel), datagram.from);
        let came = |arrived| terahaul_udp::Datagram { arrived, channel, from, congested: marked };
        match datagram.to {
            End::Sender if self.sender_addresses[at] == datagram.to_address => {
                let retold;
                if let Ok(mut opened) = self.sender_gates[at].open(&mut NoKeys, &mut datagram.bytes) {
                    if let Some(set) = self.receiver_set {
                        retold = set.retell(opened.payload);
                        opened.payload = &retold;
                    }
                    let time = self.sender_clock.at(now);
                    if self.sender.handle_packet(time, &came(time), &opened).expect("a good report") {
                        self.told.handle(now);
                    }
                }
            }
            End::Receiver if self.receiver_addresses[at] == datagram.to_address => {
                if let Ok(opened) = self.receiver_gates[at].open(&mut NoKeys, &mut datagram.bytes) {
                    let time = self.receiver_clock.at(now);
                    let declines = &mut self.declines;
                    let mut admit = |_: BlockNumber, _: u32| {
                        if *declines == 0 {
                            return Verdict::Take;
                        }
                        *declines -= 1;
                        Verdict::Decline
                    };
                    if self.receiver.handle_packet(&came(time), &opened, &mut admit).expect("a good packet") {
                        self.came.handle(now);
                    }
                }
            }
            _ => {}
        }
    }

    /// Which of the network's paths a channel takes.
    pub fn path_of(&self, channel: u8) -> usize {
        usize::from(channel) % self.paths
    }

    /// Whether a block waits to be handed up.
    pub fn has_arrived(&mut self) -> bool {
        self.receiver.has_event()
    }

    /// When an end wants to be called.
    pub fn next_call(&self, now: Nanos, end: End) -> Nanos {
        match end {
            End::Sender => {
                let at = self.sender.poll_timeout().map_or(Time::NEVER, |(at, _)| at);
                let accepted = if now < self.accepted { self.accepted } else { Nanos::MAX };
                self.sender_clock.back(at, now).min(accepted)
            }
            End::Receiver => {
                let at = self.receiver.poll_timeout().map_or(Time::NEVER, |(at, _)| at);
                let written = self.writing.front().map_or(Nanos::MAX, |(done, _)| *done);
                self.receiver_clock.back(at, now).min(written.max(now))
            }
        }
    }

    /// Bytes of datagrams that the sender knows to have arrived, headers counted.
    pub fn acknowledged(&self) -> u64 {
        self.sender.status().map(|path| path.arrived).sum::<u64>() * 1_500 / 1_472
    }

    /// Bytes a second of content, from the start until the sender knew that all had arrived.
    pub fn goodput(&self) -> f64 {
        let end = self.finished_at.expect("the transfer has finished");
        self.bytes as f64 / ((end - self.starts) as f64 / 1e9)
    }

    /// The share of data packets that were lost or sent needlessly.
    pub fn overhead(&self) -> f64 {
        let least = self.bytes as f64 * 1_472.0 / 1_428.0;
        self.data_bytes as f64 / least - 1.0
    }
}
