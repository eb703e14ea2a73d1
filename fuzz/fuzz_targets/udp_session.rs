//! Both ends of a UDP session against another end that may say anything: no panic, no more memory than was agreed, and every
//! burst that goes out is one of whole packets.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use terahaul_core::BlockNumber;
use terahaul_fuzz::Trusting;
use terahaul_udp::rate::{Eagerness, Model};
use terahaul_udp::{
    ChallengeKey, ChannelConfig, Datagram, Gate, Opened, PathConfig, PathIndex, Receiver, ReceiverConfig, ReceiverEvent, Sender,
    SenderConfig, Time, Verdict,
};
use terahaul_wire::packet::{ChannelNumber, ConnectionId, PACKET_TAG_LEN, PacketHeader, PacketNumber};

const HERE: ConnectionId = ConnectionId([1; 8]);
const THERE: ConnectionId = ConnectionId([2; 8]);
const BLOCKS: u32 = 4;

/// A payload as it came: on which channel, under which number, how many microseconds after the one before.
type Came = (bool, u16, u16, Vec<u8>);

fn open<'a>(gate: &mut Gate, came: &Came, bytes: &'a mut Vec<u8>) -> Option<Opened<'a>> {
    let (channel, number) = (ChannelNumber(came.0.into()), PacketNumber(came.1.into()));
    *bytes = PacketHeader { channel, number, connection: HERE }.encode().to_vec();
    bytes.extend_from_slice(&came.3);
    bytes.extend_from_slice(&[0; PACKET_TAG_LEN]);
    gate.open(&mut Trusting, bytes).ok()
}

fuzz_target!(|packets: Vec<Came>| {
    let remote = ([127, 0, 0, 1], 9).into();
    let round_trip = Duration::from_millis(10);
    let mut sender = Sender::new(
        Time::ZERO,
        SenderConfig {
            connection: THERE,
            channels: vec![ChannelConfig { remote: Some(remote), path: PathIndex(0) }; 2],
            paths: vec![PathConfig { max_datagram: 1_452 }],
            round_trip,
            max_blocks: BLOCKS as usize,
            max_rate: None,
            challenges: ChallengeKey([7; 32]),
        },
        vec![Box::new(Model::new(Eagerness::Fair, round_trip))],
    );
    let mut receiver = Receiver::new(
        Time::ZERO,
        ReceiverConfig { connection: THERE, channels: vec![Some(remote); 2], max_blocks: BLOCKS },
    );
    let gates = || [0, 1].map(|channel| Gate::new(HERE, ChannelNumber(channel)));
    let (mut at_sender, mut at_receiver) = (gates(), gates());
    let (mut nanos, mut blocks, mut taken) = (0, 0, Vec::new());
    let (mut burst, mut bytes) = (vec![0; 65_000], Vec::new());
    for came in &packets {
        nanos += u64::from(came.2) * 1_000;
        let now = Time::from_nanos(nanos);
        let channel = ChannelNumber(came.0.into());
        let datagram = Datagram { arrived: now, channel, from: remote, congested: false };
        if sender.wants_block() {
            sender.handle_block(BlockNumber(blocks), vec![7; 5_000]).expect("a good block");
            blocks += 1;
        }
        if let Some(opened) = open(&mut at_sender[usize::from(came.0)], came, &mut bytes) {
            if sender.handle_packet(now, &datagram, &opened).is_err() {
                return;
            }
        }
        sender.handle_timeout(now);
        while sender.poll_event().is_some() {}
        for _ in 0..4 {
            let Some(out) = sender.poll_transmit(now, &mut Trusting, &mut burst) else { break };
            assert!(out.len <= burst.len() && out.segment > 0 && out.segment <= out.len);
        }
        if let Some(opened) = open(&mut at_receiver[usize::from(came.0)], came, &mut bytes) {
            let mut admit = |_, _| Verdict::Take;
            if receiver.handle_packet(&datagram, &opened, &mut admit).is_err() {
                return;
            }
        }
        while let Some(ReceiverEvent::Arrived(mut block)) = receiver.poll_event() {
            block.parts();
            taken.push(block.cargo);
            assert!(taken.len() <= BLOCKS as usize);
        }
        if came.1 % 3 == 0
            && let Some(cargo) = taken.pop()
        {
            receiver.handle_taken(now, cargo);
        }
        while let Some(out) = receiver.poll_transmit(now, &mut Trusting, &mut burst) {
            assert!(out.len <= burst.len() && out.segment > 0 && out.segment <= out.len);
        }
    }
});
