//! A sender whose packets are authentic and lie: of blocks, of their repair, and of what it is going to send.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use terahaul_core::BlockNumber;
use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, DataHeader, MAX_CARGO, MIN_SHARD, PACKET_HEADER_LEN, PACKET_TAG_LEN,
    PacketError, PacketFrame, PacketFrames, PacketNumber, PartOf, RepairHeader, Report, Sync, VALUE_LEN,
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
        self.brings(frame).map(drop)
    }

    /// Says it, and returns whether that counts as new.
    fn brings(&mut self, frame: &PacketFrame<'_>) -> Result<bool, SessionError> {
        self.packets += 1;
        self.say_as(0, self.packets, frame)
    }

    /// Says it on that channel, in a packet of this number.
    fn say_as(&mut self, channel: u8, number: u64, frame: &PacketFrame<'_>) -> Result<bool, SessionError> {
        let mut payload = Vec::new();
        frame.encode(&mut payload);
        let number = PacketNumber(number);
        let packet = Opened { number, len: OVERHEAD + payload.len(), payload: &payload };
        let (channel, from) = (ChannelNumber(channel), "192.0.2.1:9".parse().unwrap());
        let datagram = Datagram { arrived: self.now, channel, from, congested: false };
        let verdict = self.verdict;
        self.receiver.handle_packet(&datagram, &packet, &mut |block, _| verdict(block))
    }

    fn data(&mut self, of: PartOf, offset: u32, len: usize) -> Result<(), SessionError> {
        self.say(&PacketFrame::Data(DataHeader { of, offset }, &vec![1; len]))
    }

    /// Which shard it is, of how many.
    fn repair(&mut self, of: PartOf, (index, count): (u16, u16), len: usize) -> Result<(), SessionError> {
        self.say(&PacketFrame::Repair(RepairHeader { of, index, count }, &vec![2; len]))
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

fn of(serial: u32) -> PartOf {
    PartOf { serial, block: BlockNumber(serial + 100), total: 10_000 }
}

/// A block of full length.
fn full(serial: u32) -> PartOf {
    PartOf { total: MAX_CARGO, ..of(serial) }
}

/// A filter may let pass what goes one way: who is not heard sends again, now and then, what it has not heard to have come.
#[test]
fn what_comes_again_is_not_said_to_be_new() {
    let mut receiver = Hostile::new(1);
    let part = |receiver: &mut Hostile, offset, len| {
        receiver.brings(&PacketFrame::Data(DataHeader { of: of(0), offset }, &vec![1; len]))
    };
    assert_eq!(receiver.brings(&PacketFrame::Ping), Ok(true), "nothing is under way");
    assert_eq!([part(&mut receiver, 0, 100), part(&mut receiver, 0, 100)], [Ok(true), Ok(false)]);
    assert_eq!(part(&mut receiver, 50, 100), Ok(true), "half of it");
    assert_eq!([part(&mut receiver, 150, 9_850), part(&mut receiver, 0, 100)], [Ok(true), Ok(false)]);
    assert_eq!(receiver.brings(&PacketFrame::Ping), Ok(true));
}

#[test]
fn packets_of_one_block_that_do_not_fit_together_end_the_session() {
    let count = most_repairs(10_000, SHARD);
    let begun = |by_data: bool| {
        let mut hostile = Hostile::new(1);
        let said =
            if by_data { hostile.data(of(0), 0, 100) } else { hostile.repair(of(0), (0, count), SHARD) };
        said.unwrap();
        hostile
    };
    let others = [
        PartOf { block: BlockNumber(7), ..of(0) },
        PartOf { total: 9_999, ..of(0) },
        PartOf { total: 10_001, ..of(0) },
        full(0),
    ];
    for (by_data, other) in [true, false].into_iter().flat_map(|by_data| others.map(|other| (by_data, other)))
    {
        let contradiction = Err(SessionError::Contradiction(other.block));
        assert_eq!(begun(by_data).data(other, 200, 100), contradiction, "{other:?}");
        assert_eq!(begun(by_data).repair(other, (1, count), SHARD), contradiction, "{other:?}");
    }
    for (shard, len) in [((1, count - 1), SHARD), ((1, count), SHARD - 2), ((0, 1), MIN_SHARD)] {
        let contradiction = Err(SessionError::Contradiction(of(0).block));
        assert_eq!(begun(false).repair(of(0), shard, len), contradiction, "{shard:?} of {len}");
    }
}

#[test]
fn what_no_block_can_have_ends_the_session() {
    let [none, beyond] = [VALUE_LEN, MAX_CARGO + 1].map(|total| PartOf { total, ..of(0) });
    for (of, offset, len) in
        [(of(0), 9_999, 2), (of(0), 0xff_ffff, 1), (of(0), 0, 0), (none, 0, 1), (beyond, 0, 1)]
    {
        let said = Hostile::new(1).data(of, offset, len);
        assert_eq!(said, Err(SessionError::Packet(PacketError::Data)), "{of:?}, {len} at {offset}");
    }
    let most = most_repairs(10_000, SHARD);
    for (shard, len) in [
        ((most, most), SHARD),
        ((0, most + 1), SHARD),
        ((0, 0), SHARD),
        ((0, 1), SHARD + 1),
        ((0, 1), MIN_SHARD - 2),
        ((0, 1), 0),
    ] {
        let said = Hostile::new(1).repair(of(0), shard, len);
        assert_eq!(said, Err(SessionError::Packet(PacketError::Repair)), "{shard:?} of {len}");
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
        for index in (0..count).rev().chain(0..count) {
            hostile.repair(PartOf { total, ..of(0) }, (index, count), shard).unwrap();
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
            hostile.data(full(serial), 0, 1).unwrap();
            (0..count).for_each(|index| hostile.repair(full(serial), (index, count), shard).unwrap());
        }
        assert_eq!(hostile.arrived(), []);
        let took = hostile.receiver.assembly.remembered();
        assert!(took <= most, "{took} bytes and not {most}, with shards of {shard}");
        for serial in [MOST, MOST + 1, 1 << 31] {
            assert_eq!(hostile.data(of(serial), 0, 1), Err(SessionError::Credit));
            assert_eq!(hostile.repair(of(serial), (0, 1), SHARD), Err(SessionError::Credit));
        }
    }
}

/// Where one place more has gaps than there are repairs, nobody looks through sixteen thousand of them with each packet: that took a tenth
/// of a millisecond.
#[test]
fn a_block_in_crumbs_takes_no_longer_for_its_repairs() {
    let mut hostile = Hostile::new(1);
    let whole = full(0);
    let count = most_repairs(MAX_CARGO, SHARD);
    let torn = (u32::from(count) + 1) * SHARD as u32;
    let apart = torn.div_ceil(MOST_RUNS as u32 - 10);
    let crumbs = (0..torn / apart).map(|crumb| (crumb * apart + 1, apart - 1));
    let rest = (torn..MAX_CARGO).step_by(60_000).map(|offset| (offset, (MAX_CARGO - offset).min(60_000)));
    crumbs.chain(rest).for_each(|(offset, len)| hostile.data(whole, offset, len as usize).unwrap());
    (0..count).for_each(|index| hostile.repair(whole, (index, count), SHARD).unwrap());
    (0..100_000).for_each(|_| hostile.data(whole, 1, 1).unwrap());
    assert_eq!(hostile.arrived(), []);
    hostile.data(whole, 0, SHARD).unwrap();
    assert_eq!(hostile.arrived().len(), 1, "now there are enough");
}

#[test]
fn one_block_under_many_serials_is_a_block_for_each_and_credit_for_none() {
    let mut hostile = Hostile::new(1);
    let one = |serial| PartOf { serial, block: BlockNumber(7), total: 90 + serial };
    for serial in 0..MOST {
        (0..2).for_each(|_| hostile.data(one(serial), 0, 90 + serial as usize).unwrap());
    }
    assert_eq!(hostile.arrived().len(), MOST as usize, "each once");
    assert_eq!(hostile.data(one(MOST), 0, 1), Err(SessionError::Credit), "none of them was taken");
}

#[test]
fn blocks_that_nobody_wants_take_nothing_however_many_there_are() {
    let mut hostile = Hostile::new(1);
    hostile.verdict = |block| if block.0 == 100 { Verdict::Take } else { Verdict::Decline };
    for serial in 0..100_000 {
        hostile.repair(of(serial), (0, 1), SHARD).unwrap();
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
    (0..2 * MOST - 1).for_each(|serial| hostile.data(full(serial), 0, 1).unwrap());
    let mut longest = 0;
    for step in 1..2_000 {
        hostile.now = hostile.now + Duration::from_micros(100);
        for channel in 0..16 {
            let number = PacketNumber::MAX.0 - (2_000 - step) * (1 << 20);
            hostile.say_as(channel, number, &PacketFrame::Ping).unwrap();
            let (serial, offset) = (u32::from(channel) % MOST * 2, 2_000 * step as u32);
            let crumb = PacketFrame::Data(DataHeader { of: full(serial), offset }, &[1]);
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
    Data(PartOf, u32),
    /// Which shard, and how long it is.
    Repair(PartOf, u16, usize),
    /// The latest block that was handed up comes back.
    Taken,
}

fn step() -> impl Strategy<Value = Step> {
    let totals = prop::sample::select(vec![VALUE_LEN + 1, 3_000, 10_000]);
    let lies = (prop::bool::weighted(0.02), prop::bool::weighted(0.02), prop::bool::weighted(0.02));
    (0u32..8, totals, lies, any::<(u32, u16, u8)>()).prop_map(|(serial, other, lies, (at, index, kind))| {
        let block = BlockNumber(if lies.0 { 0 } else { serial + 100 });
        let of = PartOf { serial, block, total: if lies.1 { other } else { 3_000 + serial } };
        match kind % 8 {
            0 => Step::Taken,
            1..3 => Step::Repair(of, index, if lies.2 { MIN_SHARD } else { 1_000 }),
            _ => Step::Data(of, at % of.total),
        }
    })
}

proptest! {
    /// Whoever lies is found out by the first packet that does not fit, nobody else is, and each block is handed up once.
    #[test]
    fn a_lie_ends_the_session_and_nothing_else_does(steps in proptest::collection::vec(step(), 1..300)) {
        let mut hostile = Hostile::new(1);
        let mut known: BTreeMap<u32, PartOf> = BTreeMap::new();
        let mut shards: BTreeMap<u32, usize> = BTreeMap::new();
        let mut done = BTreeSet::new();
        let (mut held, mut taken) = (Vec::new(), 0);
        for step in steps {
            let (of, shard, said) = match step {
                Step::Data(of, offset) => {
                    (of, None, hostile.data(of, offset, (of.total - offset).min(700) as usize))
                }
                Step::Repair(of, index, shard) => {
                    let count = most_repairs(of.total, shard);
                    (of, Some(shard), hostile.repair(of, (index % count, count), shard))
                }
                Step::Taken => {
                    if let Some(ArrivedBlock { cargo, .. }) = held.pop() {
                        hostile.receiver.handle_taken(hostile.now, cargo);
                        taken += 1;
                    }
                    continue;
                }
            };
            let expected = if done.contains(&of.serial) {
                Ok(())
            } else if of.serial >= MOST + taken {
                Err(SessionError::Credit)
            } else if *known.entry(of.serial).or_insert(of) != of
                || shard.is_some_and(|shard| *shards.entry(of.serial).or_insert(shard) != shard)
            {
                Err(SessionError::Contradiction(of.block))
            } else {
                Ok(())
            };
            prop_assert_eq!(&said, &expected);
            if said.is_err() {
                break;
            }
            for mut block in hostile.arrived() {
                prop_assert!(done.insert(of.serial), "{} came twice", of.serial);
                let known = known[&of.serial];
                prop_assert_eq!((block.number, block.cargo.len() as u32), (known.block, known.total));
                block.parts();
                held.push(block);
            }
            prop_assert!(hostile.receiver.assembly.remembered() <= MOST as usize * (10_000 + 20 * 1_000));
        }
    }
}
