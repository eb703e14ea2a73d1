//! What the sealed part of a packet holds: frames, one behind the other.

use super::part::{self, DataHeader, RepairHeader};
use super::report::Report;
use super::varint::{self, Reader};
use super::{ChannelNumber, PacketError, PacketNumber};

/// Most channels of one session.
pub const MAX_UDP_CHANNELS: usize = 16;
/// The longest interval between reports that a sender may ask for, in microseconds.
pub const MAX_REPORT_INTERVAL: u32 = 1_000_000;

const PAD: u8 = 0;
const PING: u8 = 2;
const REPORT: u8 = 3;
const SYNC: u8 = 4;
const CHALLENGE: u8 = 5;
const RESPONSE: u8 = 6;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketFrame<'a> {
    /// Part of a block.
    Data(DataHeader, &'a [u8]),
    /// What can stand for a part of a block that is lost.
    Repair(RepairHeader, &'a [u8]),
    /// Asks for a report at once, with the missing parts of the oldest blocks.
    Ping,
    /// What the receiver has.
    Report(Report),
    /// What the receiver may forget, and how often it should report.
    Sync(Sync),
    /// Asks the other end to show that it reads what is sent to its address.
    Challenge(u64),
    /// The number of a challenge.
    Response(u64),
}

/// The sender's side of the report machinery. Repeated, so losing one loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// How often to report while data arrives, in microseconds.
    pub interval: u32,
    /// For each channel: reports need not speak of packets below this number any more.
    pub floors: Vec<(ChannelNumber, PacketNumber)>,
}

impl PacketFrame<'_> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(header, bytes) => {
                out.extend_from_slice(&header.encode());
                out.extend_from_slice(bytes);
            }
            Self::Repair(header, shard) => {
                out.extend_from_slice(&header.encode());
                out.extend_from_slice(shard);
            }
            Self::Ping => out.push(PING),
            Self::Report(report) => {
                out.push(REPORT);
                report.encode(out);
            }
            Self::Sync(sync) => {
                out.push(SYNC);
                varint::write(out, sync.interval.into());
                out.push(sync.floors.len().min(MAX_UDP_CHANNELS) as u8);
                for (channel, floor) in sync.floors.iter().take(MAX_UDP_CHANNELS) {
                    out.push(channel.0);
                    varint::write(out, floor.0);
                }
            }
            Self::Challenge(number) | Self::Response(number) => {
                out.push(if matches!(self, Self::Challenge(_)) { CHALLENGE } else { RESPONSE });
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// The frames of a packet's opened payload. After an error there are no more.
#[derive(Clone, Debug)]
pub struct PacketFrames<'a> {
    reader: Reader<'a>,
}

impl<'a> PacketFrames<'a> {
    /// Reads `payload` from its start.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader(payload) }
    }

    fn decode(&mut self) -> Result<Option<PacketFrame<'a>>, PacketError> {
        let Some((&kind, rest)) = self.reader.0.split_first() else { return Ok(None) };
        if kind == PAD {
            let padding = std::mem::take(&mut self.reader.0);
            return if padding.iter().all(|byte| *byte == PAD) {
                Ok(None)
            } else {
                Err(PacketError::Padding)
            };
        }
        self.reader.0 = rest;
        let reader = &mut self.reader;
        Ok(Some(match kind {
            part::DATA | part::SHORT_DATA => {
                let (header, bytes) = DataHeader::decode(kind == part::SHORT_DATA, reader)?;
                PacketFrame::Data(header, bytes)
            }
            part::REPAIR | part::SHORT_REPAIR => {
                let (header, shard) = RepairHeader::decode(kind == part::SHORT_REPAIR, reader)?;
                PacketFrame::Repair(header, shard)
            }
            PING => PacketFrame::Ping,
            REPORT => PacketFrame::Report(Report::decode(reader)?),
            SYNC => PacketFrame::Sync(Sync::decode(reader)?),
            CHALLENGE => PacketFrame::Challenge(reader.fixed::<8>()?),
            RESPONSE => PacketFrame::Response(reader.fixed::<8>()?),
            unknown => return Err(PacketError::Kind(unknown)),
        }))
    }
}

impl<'a> Iterator for PacketFrames<'a> {
    type Item = Result<PacketFrame<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.decode().transpose();
        if let Some(Err(_)) = frame {
            self.reader.0 = &[];
        }
        frame
    }
}

impl Sync {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, PacketError> {
        let interval = reader.bounded(MAX_REPORT_INTERVAL.into())? as u32;
        let count = reader.byte()? as usize;
        if count > MAX_UDP_CHANNELS {
            return Err(PacketError::Range);
        }
        let floors = (0..count)
            .map(|_| {
                let channel = ChannelNumber(reader.byte()?);
                Ok((channel, PacketNumber(reader.bounded(PacketNumber::MAX.0)?)))
            })
            .collect::<Result<_, PacketError>>()?;
        Ok(Self { interval, floors })
    }
}
