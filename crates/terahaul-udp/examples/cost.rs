//! What a packet costs the session itself: nanoseconds of copying and counting at either end, without encryption, sockets and
//! threads, over a line of 10 Gbit/s that loses nothing and is 0.2 ms long there and back.
//!
//! Where memory is noisy, `valgrind --tool=callgrind` counts instructions instead.
//!
//! `cargo run --release -p terahaul-udp --example cost [GIGABYTES]`

// The clock is this program's: the session reads none.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terahaul_core::BlockNumber;
use terahaul_udp::rate::{Eagerness, Model};
use terahaul_udp::{
    ChallengeKey, ChannelConfig, Datagram, Gate, Open, PathConfig, PathIndex, Receiver, ReceiverConfig,
    ReceiverEvent, Seal, Sender, SenderConfig, SenderEvent, Time, Verdict,
};
use terahaul_wire::packet::{ChannelNumber, ConnectionId, MAX_CARGO, PACKET_TAG_LEN, PacketHeader};

/// No encryption: what it takes is the library's.
struct Clear;

impl Seal for Clear {
    fn seal(&mut self, _: &PacketHeader, _: &mut [u8], _: &mut [u8; PACKET_TAG_LEN]) {}
}

impl Open for Clear {
    fn open(&mut self, _: &PacketHeader, _: &mut [u8]) -> bool {
        true
    }
}

const CONNECTION: ConnectionId = ConnectionId([7; 8]);
const CHANNEL: ChannelNumber = ChannelNumber(0);
const BLOCKS: u32 = 8;
const WAY: Duration = Duration::from_micros(100);
const BYTES_A_SECOND: f64 = 1.25e9;

/// One direction of the line: bursts, and when they arrive.
#[derive(Default)]
struct Line {
    free: Time,
    under_way: VecDeque<(Time, Vec<u8>, usize)>,
    spare: Vec<Vec<u8>>,
}

impl Line {
    fn send(&mut self, now: Time, bytes: &[u8], segment: usize) {
        self.free = self.free.max(now) + Duration::from_secs_f64(bytes.len() as f64 / BYTES_A_SECOND);
        let mut burst = self.spare.pop().unwrap_or_default();
        burst.clear();
        burst.extend_from_slice(bytes);
        self.under_way.push_back((self.free + WAY, burst, segment));
    }

    fn next_at(&self) -> Time {
        self.under_way.front().map_or(Time::NEVER, |(at, ..)| *at)
    }

    fn arrived(&mut self, now: Time) -> Option<(Vec<u8>, usize)> {
        let (_, burst, segment) = self.under_way.pop_front_if(|(at, ..)| *at <= now)?;
        Some((burst, segment))
    }
}

/// Time spent in one part.
#[derive(Default)]
struct Spent(Duration);

impl Spent {
    fn on<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let came = what();
        self.0 += began.elapsed();
        came
    }
}

#[derive(Default)]
struct Cost {
    sending: Spent,
    taking_reports: Spent,
    opening: Spent,
    receiving: Spent,
    reporting: Spent,
    packets: u64,
    reports: u64,
}

fn ends(datagram: u32, round_trip: Duration) -> (Sender, Receiver) {
    let sender = SenderConfig {
        connection: CONNECTION,
        channels: vec![ChannelConfig { remote: Some(address(2)), path: PathIndex(0) }],
        paths: vec![PathConfig { max_datagram: datagram }],
        round_trip,
        max_blocks: BLOCKS as usize,
        max_rate: None,
        challenges: ChallengeKey([7; 32]),
    };
    let receiver = ReceiverConfig { connection: CONNECTION, channels: vec![None], max_blocks: BLOCKS };
    let law = Box::new(Model::new(Eagerness::Fair, round_trip));
    (Sender::new(Time::ZERO, sender, vec![law]), Receiver::new(Time::ZERO, receiver))
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9))
}

/// Sends so many whole blocks.
fn send(datagram: u32, blocks: u32) -> Cost {
    let round_trip = 2 * WAY;
    let (mut sender, mut receiver) = ends(datagram, round_trip);
    let mut gates = [Gate::new(CONNECTION, CHANNEL), Gate::new(CONNECTION, CHANNEL)];
    let (mut out, mut back) = (Line::default(), Line::default());
    let mut buffer = vec![0; 65_000];
    let mut cost = Cost::default();
    let (mut now, mut given, mut delivered) = (Time::ZERO, 0, 0);
    let mut spare: Vec<Vec<u8>> = (0..BLOCKS + 1).map(|_| vec![7; MAX_CARGO as usize]).collect();
    while delivered < blocks {
        while let Some((mut burst, segment)) = out.arrived(now) {
            let datagram = Datagram { arrived: now, channel: CHANNEL, from: address(1), congested: false };
            let mut opened = Vec::with_capacity(burst.len() / segment + 1);
            cost.opening.on(|| {
                opened.extend(
                    burst.chunks_mut(segment).filter_map(|sealed| gates[0].open(&mut Clear, sealed).ok()),
                );
            });
            cost.packets += opened.len() as u64;
            cost.receiving.on(|| {
                for packet in &opened {
                    let taken = receiver.handle_packet(&datagram, packet, &mut |_, _| Verdict::Take);
                    taken.expect("packets of this session");
                }
            });
            drop(opened);
            out.spare.push(burst);
        }
        while let Some(ReceiverEvent::Arrived(block)) = receiver.poll_event() {
            receiver.handle_taken(now, block.cargo);
        }
        while let Some(report) = cost.reporting.on(|| receiver.poll_transmit(now, &mut Clear, &mut buffer)) {
            cost.reports += 1;
            back.send(now, &buffer[..report.len], report.segment);
        }
        while let Some((mut report, _)) = back.arrived(now) {
            let datagram = Datagram { arrived: now, channel: CHANNEL, from: address(2), congested: false };
            let opened = gates[1].open(&mut Clear, &mut report).expect("a report");
            let told = cost.taking_reports.on(|| sender.handle_packet(now, &datagram, &opened));
            told.expect("a report of this session");
            back.spare.push(report);
        }
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Delivered(_, cargo) = event {
                delivered += 1;
                spare.push(cargo);
            }
        }
        while given < blocks && sender.wants_block() {
            let Some(cargo) = spare.pop() else { break };
            sender.handle_block(BlockNumber(given), cargo).expect("a whole block");
            given += 1;
            if given == blocks {
                sender.handle_last();
            }
        }
        cost.sending.on(|| sender.handle_timeout(now));
        while let Some(burst) = cost.sending.on(|| sender.poll_transmit(now, &mut Clear, &mut buffer)) {
            out.send(now, &buffer[..burst.len], burst.segment);
        }
        let timers = [sender.poll_timeout().map(|(at, _)| at), receiver.poll_timeout().map(|(at, _)| at)];
        let next = timers.into_iter().flatten().chain([out.next_at(), back.next_at()]).min();
        now = now.max(next.unwrap_or(Time::NEVER)) + Duration::from_nanos(100);
    }
    cost
}

fn main() {
    let gigabytes = std::env::args().nth(1).map_or(Some(2), |word| word.parse().ok());
    let Some(gigabytes) = gigabytes.filter(|gigabytes| (1..1000).contains(gigabytes)) else {
        return eprintln!("usage: cost [GIGABYTES], from 1 to 999");
    };
    let blocks = (u64::from(gigabytes * 1_000u32) * 1_000_000).div_ceil(MAX_CARGO.into()) as u32;
    println!(
        "nanoseconds a packet: sending, reports taken in, opening, receiving, reports made; packets a report"
    );
    for datagram in [1_472, 8_972] {
        let cost = send(datagram, blocks);
        let each = |spent: &Spent| spent.0.as_nanos() as f64 / cost.packets as f64;
        println!(
            "{datagram} bytes: {:.0} {:.0} {:.0} {:.0} {:.0}; {:.0}",
            each(&cost.sending),
            each(&cost.taking_reports),
            each(&cost.opening),
            each(&cost.receiving),
            each(&cost.reporting),
            cost.packets as f64 / cost.reports as f64,
        );
    }
}
