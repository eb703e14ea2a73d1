use super::*;
use proptest::prelude::*;
use std::ops::Range;
use terahaul_core::BlockNumber;

/// Runs apart from each other, in order, below about `limit`.
fn runs(limit: u32) -> impl Strategy<Value = Vec<Range<u32>>> {
    proptest::collection::vec((1u32..400, 1u32..400), 0..20).prop_map(move |steps| {
        let mut end = 0;
        let mut runs = Vec::new();
        for (apart, len) in steps {
            if end + apart + len < limit {
                runs.push(end + apart..end + apart + len);
                end += apart + len;
            }
        }
        runs
    })
}

fn channel(at: u64) -> impl Strategy<Value = ChannelReport> {
    let arrivals = proptest::collection::vec((0u64..20_000, 0..=at), 0..MAX_ARRIVALS);
    (any::<u8>(), 0..MAX_VARINT, 0..MAX_VARINT, runs(20_000), arrivals).prop_map(
        |(number, bytes, congested, mut runs, arrivals)| {
            if runs.is_empty() {
                runs.push(7..8);
            }
            let runs: Vec<Range<u64>> =
                runs.into_iter().rev().map(|r| r.start.into()..r.end.into()).collect();
            let largest = runs[0].end - 1;
            let arrivals = arrivals
                .into_iter()
                .map(|(back, time)| (PacketNumber(largest.saturating_sub(back)), time))
                .collect();
            ChannelReport { channel: ChannelNumber(number), bytes, congested, runs, arrivals }
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    (any::<[u32; 3]>(), 0..MAX_VARINT).prop_flat_map(|([number, credit, floor], at)| {
        let gaps =
            (any::<u32>(), runs(MAX_CARGO)).prop_map(|(serial, missing)| BlockGaps { serial, missing });
        (
            (runs(u32::MAX), runs(u32::MAX)),
            proptest::collection::vec(channel(at), 0..5),
            proptest::collection::vec(gaps, 0..4),
        )
            .prop_map(move |((done, declined), mut channels, gaps)| {
                channels.sort_by_key(|channel| channel.channel);
                channels.dedup_by_key(|channel| channel.channel);
                Report { number, at, credit, floor, done, declined, channels, gaps }
            })
    })
}

fn sync() -> impl Strategy<Value = Sync> {
    let floors = proptest::collection::vec((any::<u8>(), 0..=PacketNumber::MAX.0), 0..MAX_UDP_CHANNELS);
    (0..=MAX_REPORT_INTERVAL, floors).prop_map(|(interval, floors)| Sync {
        interval,
        floors: floors.into_iter().map(|(c, n)| (ChannelNumber(c), PacketNumber(n))).collect(),
    })
}

fn of(total: u32) -> PartOf {
    PartOf { serial: 3, block: BlockNumber(9), total }
}

fn decode_all(payload: &[u8]) -> Result<Vec<PacketFrame<'_>>, PacketError> {
    PacketFrames::new(payload).collect()
}

proptest! {
    #[test]
    fn frames_read_back_as_they_were_written(
        report in report(),
        sync in sync(),
        number: u64,
        cargo in proptest::collection::vec(any::<u8>(), 1..1_400),
        offset in 0u32..1_000_000,
        whole: bool,
        padding in 0usize..50,
    ) {
        let total = if whole { MAX_CARGO } else { offset + cargo.len() as u32 + VALUE_LEN };
        let data = DataHeader { of: of(total), offset };
        let mut frames = vec![
            PacketFrame::Report(report),
            PacketFrame::Ping,
            PacketFrame::Sync(sync),
            PacketFrame::Challenge(number),
            PacketFrame::Response(!number),
        ];
        let mut payload = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut payload));
        let mut padded = payload.clone();
        padded.resize(payload.len() + padding, 0);
        prop_assert_eq!(decode_all(&padded), Ok(frames.clone()));
        frames.push(PacketFrame::Data(data, &cargo));
        frames[5].encode(&mut payload);
        prop_assert_eq!(decode_all(&payload), Ok(frames));
        prop_assert_eq!(data.encode().len(), part_header_len(total));
    }

    #[test]
    fn repairs_read_back_as_they_were_written(
        total in VALUE_LEN + 1..=MAX_CARGO,
        half in MIN_SHARD / 2..700,
        count: prop::sample::Index,
        index: prop::sample::Index,
    ) {
        let shard = vec![7; 2 * half];
        let count = 1 + count.index(most_repairs(total, shard.len()).into()) as u16;
        let index = index.index(count.into()) as u16;
        let header = RepairHeader { of: of(total), index, count };
        let mut payload = Vec::new();
        PacketFrame::Repair(header, &shard).encode(&mut payload);
        prop_assert_eq!(payload.len(), part_header_len(total) + shard.len());
        prop_assert_eq!(decode_all(&payload), Ok(vec![PacketFrame::Repair(header, &shard)]));
    }

    #[test]
    fn whatever_decodes_encodes_to_the_same_bytes(
        report in report(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut payload = Vec::new();
        PacketFrame::Report(report).encode(&mut payload);
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        if let Ok(frames) = decode_all(&payload) {
            let mut again = Vec::new();
            frames.iter().for_each(|frame| frame.encode(&mut again));
            again.resize(payload.len(), 0);
            prop_assert_eq!(again, payload);
        }
    }
}

/// As docs/protocol.md has them.
#[test]
fn headers_of_parts_have_these_bytes() {
    let of = |total| PartOf { serial: 3, block: BlockNumber(0x0a09), total };
    let data = |total| DataHeader { of: of(total), offset: 0x01_0203 }.encode().to_vec();
    let repair = |total| RepairHeader { of: of(total), index: 0x123, count: 0x456 }.encode().to_vec();
    assert_eq!(data(MAX_CARGO), [1, 3, 0, 0, 0, 9, 10, 0, 0, 3, 2, 1]);
    assert_eq!(data(300), [8, 3, 0, 0, 0, 9, 10, 0, 0, 44, 1, 0, 0, 3, 2, 1]);
    assert_eq!(repair(MAX_CARGO), [7, 3, 0, 0, 0, 9, 10, 0, 0, 0x23, 0x61, 0x45]);
    assert_eq!(repair(300), [9, 3, 0, 0, 0, 9, 10, 0, 0, 44, 1, 0, 0, 0x23, 0x61, 0x45]);
}

#[test]
fn bytes_outside_their_block_are_refused() {
    let good = DataHeader { of: of(40), offset: 30 };
    let decode = |header: DataHeader, bytes: &[u8]| {
        let mut payload = header.encode().to_vec();
        payload.extend_from_slice(bytes);
        decode_all(&payload).map(|frames| frames.len())
    };
    assert_eq!(decode(good, &[1; 10]), Ok(1));
    assert_eq!(decode(good, &[1; 11]), Err(PacketError::Data));
    assert_eq!(decode(good, &[]), Err(PacketError::Data));
    assert_eq!(decode(DataHeader { of: of(VALUE_LEN), offset: 0 }, &[1]), Err(PacketError::Data));
    assert_eq!(decode(DataHeader { of: of(MAX_CARGO + 1), ..good }, &[1]), Err(PacketError::Data));
    let mut twofold = good.encode().to_vec();
    twofold[9..13].copy_from_slice(&MAX_CARGO.to_le_bytes());
    twofold.push(1);
    assert_eq!(decode_all(&twofold), Err(PacketError::Data), "a whole block's length does not travel");
}

#[test]
fn repairs_that_no_block_can_have_are_refused() {
    let good = RepairHeader { of: of(40_000), index: 0, count: 1 };
    let decode = |header: RepairHeader, len: usize| {
        let mut payload = header.encode().to_vec();
        payload.resize(payload.len() + len, 1);
        decode_all(&payload).map(|frames| frames.len())
    };
    assert_eq!(decode(good, 1_400), Ok(1));
    let most = most_repairs(40_000, 1_400);
    assert_eq!(decode(RepairHeader { index: most - 1, count: most, ..good }, 1_400), Ok(1));
    let bad = [
        (RepairHeader { count: most + 1, ..good }, 1_400),
        (RepairHeader { count: 0, ..good }, 1_400),
        (RepairHeader { index: 1, ..good }, 1_400),
        (good, 1_401),
        (good, MIN_SHARD - 2),
        (good, 0),
    ];
    assert!(bad.iter().all(|(header, len)| decode(*header, *len) == Err(PacketError::Repair)));
}

#[test]
fn nothing_hides_behind_padding_and_unknown_frames_are_named() {
    assert_eq!(decode_all(&[0, 0, 2]), Err(PacketError::Padding));
    assert_eq!(decode_all(&[2, 99]), Err(PacketError::Kind(99)));
    assert_eq!(decode_all(&[]), Ok(vec![]));
}

#[test]
fn a_report_that_names_a_channel_twice_is_refused() {
    let twice = |first, second| {
        let channel = |number| ChannelReport {
            channel: ChannelNumber(number),
            runs: std::iter::once(7..8).collect(),
            arrivals: vec![(PacketNumber(7), 0)],
            ..ChannelReport::default()
        };
        let report = Report { channels: vec![channel(first), channel(second)], ..Report::default() };
        let mut payload = Vec::new();
        PacketFrame::Report(report).encode(&mut payload);
        decode_all(&payload).map(drop)
    };
    assert_eq!(twice(1, 2), Ok(()));
    assert_eq!([twice(1, 1), twice(2, 1)], [Err(PacketError::Range); 2]);
}
