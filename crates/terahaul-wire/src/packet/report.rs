//! What the receiver has: a snapshot. Any report makes all earlier ones superfluous.
//!
//! ```text
//! report:   number · at · credit · floor · runs of done blocks · runs of declined blocks · channels · gaps
//! runs:     count u8, then for each: start, less the end of the one before · length
//! channel:  number u8 · bytes · congested · largest · length of the run that ends there
//!           · count, then for each older run: packets missing before it, less 1 · length, less 1
//!           · count u8, then for each arrival: largest − packet · at − time
//! gaps:     count u8, then for each block: serial · count, then for each gap: start, less the end of the one before · length
//! ```
//! All numbers are varints unless a width is given.

use std::ops::Range;

use super::frame::MAX_UDP_CHANNELS;
use super::part::MAX_CARGO;
use super::varint::{self, MAX_VARINT, Reader};
use super::{ChannelNumber, PacketError, PacketNumber};

/// Most runs of packet numbers on a channel in one report.
pub const MAX_REPORT_RUNS: usize = 1024;
/// Most arrivals on a channel in one report.
pub const MAX_ARRIVALS: usize = 64;
/// Most runs of blocks in one report.
pub const MAX_BLOCK_RUNS: usize = 64;
/// Most blocks whose gaps one report names.
pub const MAX_GAP_BLOCKS: usize = 16;

/// A snapshot of what arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts up: a report with a lower number than one seen is stale.
    pub number: u32,
    /// When it was written, in microseconds on the receiver's clock.
    pub at: u64,
    /// Blocks with a serial below this may be begun.
    pub credit: u32,
    /// All blocks with a serial below this have arrived whole, or were declined.
    pub floor: u32,
    /// Further blocks that have arrived whole, as runs of serials, in order.
    pub done: Vec<Range<u32>>,
    /// Blocks that the receiver does not take, as runs of serials, in order; the latest.
    pub declined: Vec<Range<u32>>,
    /// The channels on which anything arrived, in order.
    pub channels: Vec<ChannelReport>,
    /// What is missing of some blocks, where a ping asked for it.
    pub gaps: Vec<BlockGaps>,
}

/// What arrived on one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelReport {
    /// Which channel.
    pub channel: ChannelNumber,
    /// Bytes of all its datagrams so far, each counted once.
    pub bytes: u64,
    /// Packets so far that a router marked (ECN).
    pub congested: u64,
    /// Packet numbers that arrived, as runs, newest first, apart from each other. As many of the newest as fit.
    pub runs: Vec<Range<u64>>,
    /// When some of these packets arrived, in microseconds on the receiver's clock. The first is the largest packet.
    pub arrivals: Vec<(PacketNumber, u64)>,
}

/// What is missing of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockGaps {
    /// Which block.
    pub serial: u32,
    /// The missing ranges of its bytes, in order, apart from each other; as many as fit.
    pub missing: Vec<Range<u32>>,
}

impl Report {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::write(out, self.number.into());
        varint::write(out, self.at);
        varint::write(out, self.credit.into());
        varint::write(out, self.floor.into());
        encode_blocks(out, &self.done);
        encode_blocks(out, &self.declined);
        out.push(self.channels.len().min(MAX_UDP_CHANNELS) as u8);
        for channel in self.channels.iter().take(MAX_UDP_CHANNELS) {
            channel.encode(self.at, out);
        }
        out.push(self.gaps.len().min(MAX_GAP_BLOCKS) as u8);
        for gaps in self.gaps.iter().take(MAX_GAP_BLOCKS) {
            gaps.encode(out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, PacketError> {
        let word = u64::from(u32::MAX);
        let mut report = Self {
            number: reader.bounded(word)? as u32,
            at: reader.varint()?,
            credit: reader.bounded(word)? as u32,
            floor: reader.bounded(word)? as u32,
            ..Self::default()
        };
        report.done = decode_blocks(reader)?;
        report.declined = decode_blocks(reader)?;
        for _ in 0..count(reader, MAX_UDP_CHANNELS)? {
            let channel = ChannelReport::decode(report.at, reader)?;
            // Each once: a sender looks through all that it has in flight on a channel.
            if report.channels.last().is_some_and(|before| before.channel >= channel.channel) {
                return Err(PacketError::Range);
            }
            report.channels.push(channel);
        }
        for _ in 0..count(reader, MAX_GAP_BLOCKS)? {
            report.gaps.push(BlockGaps::decode(reader)?);
        }
        Ok(report)
    }
}

fn count(reader: &mut Reader<'_>, limit: usize) -> Result<usize, PacketError> {
    match reader.byte()? as usize {
        count if count <= limit => Ok(count),
        _ => Err(PacketError::Range),
    }
}

fn encode_blocks(out: &mut Vec<u8>, runs: &[Range<u32>]) {
    out.push(runs.len().min(MAX_BLOCK_RUNS) as u8);
    encode_apart(out, runs, MAX_BLOCK_RUNS);
}

fn decode_blocks(reader: &mut Reader<'_>) -> Result<Vec<Range<u32>>, PacketError> {
    let count = count(reader, MAX_BLOCK_RUNS)?;
    decode_apart(reader, count, u32::MAX)
}

/// Runs in order: each by its distance from the one before, and its length.
fn encode_apart(out: &mut Vec<u8>, runs: &[Range<u32>], limit: usize) {
    let mut end = 0;
    for run in runs.iter().take(limit) {
        varint::write(out, run.start.saturating_sub(end).into());
        varint::write(out, run.end.saturating_sub(run.start).into());
        end = run.end;
    }
}

fn decode_apart(reader: &mut Reader<'_>, count: usize, limit: u32) -> Result<Vec<Range<u32>>, PacketError> {
    // A run takes two bytes at least: a count that lies cannot make this allocate more than the packet's length.
    let mut runs: Vec<Range<u32>> = Vec::with_capacity(count.min(reader.0.len() / 2));
    let mut end = 0;
    for _ in 0..count {
        let apart = reader.varint()?;
        let len = reader.varint()?;
        if len == 0 || (apart == 0 && !runs.is_empty()) {
            return Err(PacketError::Runs);
        }
        let start = apart.checked_add(end).ok_or(PacketError::Range)?;
        end = start.checked_add(len).filter(|end| *end <= u64::from(limit)).ok_or(PacketError::Range)?;
        runs.push(start as u32..end as u32);
    }
    Ok(runs)
}

impl ChannelReport {
    fn encode(&self, at: u64, out: &mut Vec<u8>) {
        out.push(self.channel.0);
        varint::write(out, self.bytes);
        varint::write(out, self.congested);
        let first = self.runs.first().cloned().unwrap_or(0..1);
        let largest = first.end.saturating_sub(1);
        varint::write(out, largest);
        varint::write(out, first.end - first.start);
        let older = self.runs.get(1..MAX_REPORT_RUNS.min(self.runs.len()).max(1)).unwrap_or_default();
        varint::write(out, older.len() as u64);
        let mut below = first.start;
        for run in older {
            varint::write(out, below.saturating_sub(run.end).saturating_sub(1));
            varint::write(out, (run.end - run.start).saturating_sub(1));
            below = run.start;
        }
        out.push(self.arrivals.len().min(MAX_ARRIVALS) as u8);
        for (number, time) in self.arrivals.iter().take(MAX_ARRIVALS) {
            varint::write(out, largest.saturating_sub(number.0));
            varint::write(out, at.saturating_sub(*time));
        }
    }

    fn decode(at: u64, reader: &mut Reader<'_>) -> Result<Self, PacketError> {
        let channel = ChannelNumber(reader.byte()?);
        let bytes = reader.varint()?;
        let congested = reader.varint()?;
        let largest = reader.bounded(PacketNumber::MAX.0)?;
        let len = reader.bounded(largest + 1)?;
        if len == 0 {
            return Err(PacketError::Runs);
        }
        let older = reader.bounded(MAX_REPORT_RUNS as u64 - 1)? as usize;
        let mut below = largest + 1 - len;
        let mut runs = Vec::with_capacity((older + 1).min(reader.0.len() / 2 + 1));
        runs.push(below..largest + 1);
        for _ in 0..older {
            let apart = reader.bounded(MAX_VARINT - 1)? + 1;
            let len = reader.bounded(MAX_VARINT - 1)? + 1;
            let end = below.checked_sub(apart).ok_or(PacketError::Range)?;
            below = end.checked_sub(len).ok_or(PacketError::Range)?;
            runs.push(below..end);
        }
        let arrivals = (0..count(reader, MAX_ARRIVALS)?)
            .map(|_| {
                let number = largest.checked_sub(reader.varint()?).ok_or(PacketError::Range)?;
                let time = at.checked_sub(reader.varint()?).ok_or(PacketError::Range)?;
                Ok((PacketNumber(number), time))
            })
            .collect::<Result<_, PacketError>>()?;
        Ok(Self { channel, bytes, congested, runs, arrivals })
    }
}

impl BlockGaps {
    fn encode(&self, out: &mut Vec<u8>) {
        varint::write(out, self.serial.into());
        varint::write(out, self.missing.len().min(MAX_REPORT_RUNS) as u64);
        encode_apart(out, &self.missing, MAX_REPORT_RUNS);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, PacketError> {
        let serial = reader.bounded(u32::MAX.into())? as u32;
        let count = reader.bounded(MAX_REPORT_RUNS as u64)? as usize;
        Ok(Self { serial, missing: decode_apart(reader, count, MAX_CARGO)? })
    }
}
