//! A sender whose packets are authentic and lie: of blocks, of their repair, and of what it is going to send.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use terahaul_core::BlockNumber;
use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, DataHeader, MAX_CARGO, MIN_SHARD, PACKET_HEADER_LEN, PACKET_TAG_LEN,
    PacketError, PacketFrame, PacketFrames, PacketNumber, RepairHeader, Report, Sync, VALUE_LEN,
    most_repairs,
};

use super::{ArrivedBlock, Receiver, ReceiverConfig, ReceiverEvent, Verdict};
use crate::path::MtuSearch;
use crate::ranges::MOST_RUNS;
use crate::seal::OVERHEAD;
use crate::seal::tests::Clear;
use crate::{Datagram, Opened, SessionError, Time};

/// Blocks that the receiver has room for.
const MOST: u32 = 4;
/// Of a packet on an Ethernet.
const SHARD: usize = 1_424;

/// The receiver, and what its sender has said.
struct Hostile {
    receiver: Receiver,
    now: Time,
    packets: u64,
    /// Which block it is of.
    verdict: fn(BlockNumber) -> Verdict,
}

impl Hostile {
    fn new(channels: usize) -> Self {
        let remote: Option<SocketAddr> = "192.0.2.1:9".parse().ok();
        let config = ReceiverConfig {
            connection: ConnectionId([0; 8]),
            channels: vec![remote; channels],
            max_blocks: MOST,
        };
        let receiver = Receiver::new(Time::ZERO, config);
        Self { receiver, now: Time::ZERO, packets: 0, verdict: |_| Verdict::Take }
    }

    fn say(&mut self, frame: &PacketFrame<'_>) -> Result<(), SessionError> {
        self.packets += 1;
        self.say_as(0, self.packets, frame)
    }

    /// Says it on that channel, in a packet of this number.
    fn say_as(&mut self, channel: u8, number: u64, frame: &PacketFrame<'_>) -> Result<(), SessionError> {
        let mut payload = Vec::new();
        frame.encode(&mut payload);
        let number = PacketNumber(number);
        let packet = Opened { number, len: OVERHEAD + payload.len(), payload: &payload };
        let (channel, from) = (ChannelNumber(channel), "192.0.2.1:9".parse().unwrap());
        let datagram = Datagram { arrived: self.now, channel, from, congested: false };
        let verdict = self.verdict;
        self.receiver.handle_packet(&datagram, &packet, &mut |block, _| verdict(block))
    }

    fn data(&mut self, header: DataHeader, len: usize) -> Result<(), SessionError> {
        self.say(&PacketFrame::Data(header, &vec![1; len]))
    }

    fn repair(&mut self, header: RepairHeader, len: usize) -> Result<(), SessionError> {
        self.say(&PacketFrame::Repair(header, &vec![2; len]))
    }

    fn arrived(&mut self) -> Vec<ArrivedBlock> {
        std::iter::from_fn(|| self.receiver.poll_event()).map(|ReceiverEvent::Arrived(block)| block).collect()
    }

    /// The reports that go out now, each with its packet's length.
    fn reports(&mut self) -> Vec<(usize, Report)> {
        let (mut reports, mut buffer) = (Vec::new(), vec![0; 65_000]);
        while let Some(transmit) = self.receiver.poll_transmit(self.now, &mut Clear(1), &mut buffer) {
            let frames = &buffer[PACKET_HEADER_LEN..transmit.len - PACKET_TAG_LEN];
            match PacketFrames::new(frames).next() {
                Some(Ok(PacketFrame::Report(report))) => reports.push((transmit.len, report)),
                other => panic!("{other:?}"),
            }
        }
        reports
    }
}

fn data(serial: u32) -> DataHeader {
    DataHeader { serial, block: BlockNumber(serial + 100), total: 10_000, offset: 0 }
}

fn repair(serial: u32) -> RepairHeader {
    let count = most_repairs(10_000, SHARD);
    RepairHeader { serial, block: BlockNumber(serial + 100), total: 10_000, index: 0, count }
}

/// Of a packet, or of the two that contradict each other.
#[test]
fn packets_of_one_block_that_do_not_fit_together_end_the_session() {
    let (data, repair) = (data(0), repair(0));
    let other = BlockNumber(7);
    let data_after = [
        DataHeader { block: other, ..data },
        DataHeader { total: 10_001, ..data },
        DataHeader { total: MAX_CARGO, ..data },
    ];
    let repair_after = [
        (RepairHeader { block: other, ..repair }, SHARD),
        (RepairHeader { total: 9_999, ..repair }, SHARD),
        (RepairHeader { total: MAX_CARGO, ..repair }, SHARD),
    ];
    let shard_after = [
        (RepairHeader { index: 1, count: repair.count - 1, ..repair }, SHARD),
        (RepairHeader { index: 1, ..repair }, SHARD - 2),
        (RepairHeader { index: 0, count: 1, ..repair }, MIN_SHARD),
    ];
    let begun = |first: bool| {
        let mut hostile = Hostile::new(1);
        let said = if first { hostile.data(data, 100) } else { hostile.repair(repair, SHARD) };
        said.unwrap();
        hostile
    };
    for first in [true, false] {
        for header in data_after {
            let contradiction = Err(SessionError::Contradiction(header.block));
            assert_eq!(begun(first).data(header, 100), contradiction, "{header:?}");
        }
        for (header, len) in repair_after {
            let contradiction = Err(SessionError::Contradiction(header.block));
            assert_eq!(begun(first).repair(header, len), contradiction, "{header:?}");
        }
    }
    for (header, len) in shard_after {
        let contradiction = Err(SessionError::Contradiction(header.block));
        assert_eq!(begun(false).repair(header, len), contradiction, "{header:?}");
    }
}

#[test]
fn what_no_block_can_have_ends_the_session() {
    let (good, most) = (repair(0), most_repairs(10_000, SHARD));
    let outside = [
        (DataHeader { offset: 9_999, ..data(0) }, 2),
        (DataHeader { offset: 0xff_ffff, ..data(0) }, 1),
        (DataHeader { total: VALUE_LEN, ..data(0) }, 1),
        (DataHeader { total: MAX_CARGO + 1, ..data(0) }, 1),
        (data(0), 0),
    ];
    for (header, len) in outside {
        let said = Hostile::new(1).data(header, len);
        assert_eq!(said, Err(SessionError::Packet(PacketError::Data)), "{header:?}");
    }
    let shards = [
        (RepairHeader { index: most, ..good }, SHARD),
        (RepairHeader { count: most + 1, ..good }, SHARD),
        (RepairHeader { count: 0, ..good }, SHARD),
        (good, SHARD + 1),
        (RepairHeader { count: 1, ..good }, MIN_SHARD - 2),
        (RepairHeader { count: 1, ..good }, 0),
    ];
    for (header, len) in shards {
        let said = Hostile::new(1).repair(header, len);
        assert_eq!(said, Err(SessionError::Packet(PacketError::Repair)), "{header:?}");
    }
}

#[test]
fn what_only_this_end_says_and_channels_that_nobody_agreed_on_end_the_session() {
    let mut hostile = Hostile::new(2);
    let report = PacketFrame::Report(Report::default());
    assert_eq!(hostile.say(&report), Err(SessionError::Direction));
    assert_eq!(hostile.say(&PacketFrame::Response(7)), Err(SessionError::Direction));
    assert_eq!(hostile.say_as(2, 9, &PacketFrame::Ping), Err(SessionError::Channel(2)));
    let floors = vec![(ChannelNumber(200), PacketNumber::MAX), (ChannelNumber(0), PacketNumber::MAX)];
    assert_eq!(hostile.say(&PacketFrame::Sync(Sync { interval: 0, floors })), Ok(()), "it forgets nothing");
    assert!(hostile.reports().iter().all(|(_, report)| report.channels.len() == 1));
}

/// Shards that are no code's, of blocks of which nothing else ever comes.
#[test]
fn a_block_of_nothing_but_made_up_repairs_is_handed_up_and_its_value_is_not_its() {
    for (total, shard) in
        [(VALUE_LEN + 1, MIN_SHARD), (VALUE_LEN + 1, 65_000), (10_000, SHARD), (20_000, 9_000)]
    {
        let mut hostile = Hostile::new(1);
        let count = most_repairs(total, shard);
        let header = RepairHeader { total, count, ..repair(0) };
        for index in (0..count).rev().chain(0..count) {
            hostile.repair(RepairHeader { index, ..header }, shard).unwrap();
        }
        let mut arrived = hostile.arrived();
        assert_eq!(arrived.len(), 1, "once, of {total} bytes");
        let (content, value) = arrived[0].parts();
        assert_eq!(content.len() + value.len(), total as usize);
        assert_ne!(blake3::hash(content).as_bytes(), value);
    }
}

/// A block of full length lacks more than its repairs can ever be.
#[test]
fn blocks_that_are_begun_and_never_completed_take_no_more_memory_than_was_agreed() {
    let most = MOST as usize * (MAX_CARGO + MAX_CARGO / 2) as usize;
    for shard in [MIN_SHARD, SHARD, 8_920, 65_000] {
        let mut hostile = Hostile::new(1);
        let count = most_repairs(MAX_CARGO, shard);
        for serial in (0..MOST).rev() {
            hostile.data(DataHeader { total: MAX_CARGO, ..data(serial) }, 1).unwrap();
            for index in 0..count {
                let header = RepairHeader { total: MAX_CARGO, index, count, ..repair(serial) };
                hostile.repair(header, shard).unwrap();
            }
        }
        assert_eq!(hostile.arrived(), []);
        let took = hostile.receiver.assembly.remembered();
        assert!(took <= most, "{took} bytes and not {most}, with shards of {shard}");
        for serial in [MOST, MOST + 1, 1 << 31] {
            assert_eq!(hostile.data(data(serial), 1), Err(SessionError::Credit));
            assert_eq!(hostile.repair(repair(serial), SHARD), Err(SessionError::Credit));
        }
    }
}

/// Where one place more has gaps than there are repairs, nobody looks through sixteen thousand of them with each packet: that took a tenth
/// of a millisecond.
#[test]
fn a_block_in_crumbs_takes_no_longer_for_its_repairs() {
    let mut hostile = Hostile::new(1);
    let part = |offset: usize| DataHeader { total: MAX_CARGO, offset: offset as u32, ..data(0) };
    let count = most_repairs(MAX_CARGO, SHARD);
    let torn = (usize::from(count) + 1) * SHARD;
    let apart = torn.div_ceil(MOST_RUNS - 10);
    (0..torn / apart).for_each(|crumb| hostile.data(part(crumb * apart + 1), apart - 1).unwrap());
    (torn..MAX_CARGO as usize)
        .step_by(60_000)
        .for_each(|offset| hostile.data(part(offset), (MAX_CARGO as usize - offset).min(60_000)).unwrap());
    for index in 0..count {
        hostile.repair(RepairHeader { total: MAX_CARGO, index, count, ..repair(0) }, SHARD).unwrap();
    }
    (0..100_000).for_each(|_| hostile.data(part(1), 1).unwrap());
    assert_eq!(hostile.arrived(), []);
    hostile.data(part(0), SHARD).unwrap();
    assert_eq!(hostile.arrived().len(), 1, "now there are enough");
}

#[test]
fn one_block_under_many_serials_is_a_block_for_each_and_credit_for_none() {
    let mut hostile = Hostile::new(1);
    let one = |serial| DataHeader { block: BlockNumber(7), total: 90 + serial, ..data(serial) };
    for serial in 0..MOST {
        (0..2).for_each(|_| hostile.data(one(serial), 90 + serial as usize).unwrap());
    }
    assert_eq!(hostile.arrived().len(), MOST as usize, "each once");
    assert_eq!(hostile.data(one(MOST), 1), Err(SessionError::Credit), "none of them was taken");
}

#[test]
fn blocks_that_nobody_wants_take_nothing_however_many_there_are() {
    let mut hostile = Hostile::new(1);
    hostile.verdict = |block| if block.0 == 100 { Verdict::Take } else { Verdict::Decline };
    for serial in 0..100_000 {
        hostile.repair(repair(serial), SHARD).unwrap();
    }
    let took = hostile.receiver.assembly.remembered();
    assert!(took <= 20_000, "{took} bytes");
    assert_eq!(hostile.reports().last().map(|(_, report)| report.declined.clone()), Some(vec![1..100_000]));
}

/// Of everything that a report can tell of, as much as there can be.
#[test]
fn no_lie_makes_a_report_longer_than_a_packet_for_any_path() {
    let mut hostile = Hostile::new(16);
    hostile.verdict = |block| if block.0 % 2 == 0 { Verdict::Take } else { Verdict::Decline };
    let part = |serial, offset| DataHeader { total: MAX_CARGO, offset, ..data(serial) };
    (0..2 * MOST - 1).for_each(|serial| hostile.data(part(serial, 0), 1).unwrap());
    let mut longest = 0;
    for step in 1..2_000 {
        hostile.now = hostile.now + Duration::from_micros(100);
        for channel in 0..16 {
            let number = PacketNumber::MAX.0 - (2_000 - step) * (1 << 20);
            hostile.say_as(channel, number, &PacketFrame::Ping).unwrap();
            let (serial, offset) = (u32::from(channel) % MOST * 2, 2_000 * step as u32);
            let crumb = PacketFrame::Data(part(serial, offset), &[1]);
            hostile.say_as(channel, number + 2, &crumb).unwrap();
        }
        longest = hostile.reports().iter().fold(longest, |longest, (len, _)| longest.max(*len));
    }
    assert!((800..=MtuSearch::BASE as usize).contains(&longest), "{longest} bytes");
}

#[test]
fn who_asks_without_end_is_answered_as_often_as_anybody() {
    let mut hostile = Hostile::new(1);
    hostile.say(&PacketFrame::Sync(Sync { interval: 0, floors: Vec::new() })).unwrap();
    let mut reports = 0;
    for _ in 0..10_000 {
        hostile.now = hostile.now + Duration::from_micros(1);
        hostile.say(&PacketFrame::Ping).unwrap();
        hostile.say(&PacketFrame::Challenge(7)).unwrap();
        let mut buffer = [0; 2_000];
        while let Some(transmit) = hostile.receiver.poll_transmit(hostile.now, &mut Clear(1), &mut buffer) {
            reports += usize::from(transmit.len > OVERHEAD + 9);
        }
    }
    assert!(reports <= 401, "{reports} reports in 10 ms");
}

#[derive(Clone, Debug)]
enum Step {
    Data(DataHeader, usize),
    Repair(RepairHeader, usize),
    /// The oldest block that was handed up comes back.
    Taken,
}

fn step() -> impl Strategy<Value = Step> {
    let totals = prop::sample::select(vec![VALUE_LEN + 1, 3_000, 10_000]);
    let lies = (prop::bool::weighted(0.02), prop::bool::weighted(0.02), prop::bool::weighted(0.02));
    (0u32..8, totals, lies, any::<(u32, u16, u8)>()).prop_map(|(serial, other, lies, (at, index, kind))| {
        let block = BlockNumber(if lies.0 { 0 } else { serial + 100 });
        let total = if lies.1 { other } else { 3_000 + serial };
        let shard = if lies.2 { MIN_SHARD } else { 1_000 };
        match kind % 8 {
            0 => Step::Taken,
            1..3 => {
                let count = most_repairs(total, shard);
                Step::Repair(RepairHeader { serial, block, total, index: index % count, count }, shard)
            }
            _ => {
                let offset = at % total;
                let len = (total - offset).min(700) as usize;
                Step::Data(DataHeader { serial, block, total, offset }, len)
            }
        }
    })
}

proptest! {
    /// Whoever lies is found out by the first packet that does not fit, nobody else is, and each block is handed up once.
    #[test]
    fn a_lie_ends_the_session_and_nothing_else_does(steps in proptest::collection::vec(step(), 1..300)) {
        let mut hostile = Hostile::new(1);
        let mut known: BTreeMap<u32, (BlockNumber, u32)> = BTreeMap::new();
        let mut shards: BTreeMap<u32, usize> = BTreeMap::new();
        let mut done = BTreeSet::new();
        let (mut held, mut taken) = (Vec::new(), 0);
        for step in steps {
            let (serial, block, total, shard) = match &step {
                Step::Data(header, _) => (header.serial, header.block, header.total, None),
                Step::Repair(header, shard) => (header.serial, header.block, header.total, Some(*shard)),
                Step::Taken => {
                    if let Some(ArrivedBlock { cargo, .. }) = held.pop() {
                        hostile.receiver.handle_taken(hostile.now, cargo);
                        taken += 1;
                    }
                    continue;
                }
            };
            let said = match step {
                Step::Data(header, len) => hostile.data(header, len),
                Step::Repair(header, len) => hostile.repair(header, len),
                Step::Taken => continue,
            };
            let expected = if done.contains(&serial) {
                Ok(())
            } else if serial >= MOST + taken {
                Err(SessionError::Credit)
            } else if *known.entry(serial).or_insert((block, total)) != (block, total)
                || shard.is_some_and(|shard| *shards.entry(serial).or_insert(shard) != shard)
            {
                Err(SessionError::Contradiction(block))
            } else {
                Ok(())
            };
            prop_assert_eq!(&said, &expected);
            if said.is_err() {
                break;
            }
            for mut block in hostile.arrived() {
                prop_assert!(done.insert(serial), "{} came twice", serial);
                prop_assert_eq!((block.number, block.cargo.len() as u32), known[&serial]);
                block.parts();
                held.push(block);
            }
            prop_assert!(known.len() <= (MOST + taken) as usize);
            let most = MOST as usize * (10_000 + 20 * 1_000);
            prop_assert!(hostile.receiver.assembly.remembered() <= most);
        }
    }
}
