//! What the sealed part of a packet holds: frames, one behind the other.

use terahaul_core::{BLOCK_SIZE, BlockNumber};

use super::report::Report;
use super::varint::{self, Reader};
use super::{ChannelNumber, PacketError, PacketNumber};

/// Bytes of a block's value, which travels behind its content as if it were its last bytes.
pub const VALUE_LEN: u32 = 32;
/// The longest block on the wire, value included.
pub const MAX_CARGO: u32 = BLOCK_SIZE as u32 + VALUE_LEN;
/// Bytes before the cargo in a data frame.
pub const DATA_HEADER_LEN: usize = 15;
/// Most channels of one session.
pub const MAX_UDP_CHANNELS: usize = 16;
/// The longest interval between reports that a sender may ask for, in microseconds.
pub const MAX_REPORT_INTERVAL: u32 = 1_000_000;

const PAD: u8 = 0;
const DATA: u8 = 1;
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

/// Which part of which block a data frame carries. The frame reaches to the end of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The sender's count of blocks begun in this session: a block that is sent again has another.
    pub serial: u32,
    /// Which block of the transfer.
    pub block: BlockNumber,
    /// The block's bytes and its value: [`VALUE_LEN`] + 1 to [`MAX_CARGO`].
    pub total: u32,
    /// Where the bytes belong.
    pub offset: u32,
}

/// The sender's side of the report machinery. Repeated, so losing one loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// How often to report while data arrives, in microseconds.
    pub interval: u32,
    /// For each channel: reports need not speak of packets below this number any more.
    pub floors: Vec<(ChannelNumber, PacketNumber)>,
}

impl DataHeader {
    /// Writes the frame up to its bytes.
    pub fn encode(&self) -> [u8; DATA_HEADER_LEN] {
        let mut bytes = [0; DATA_HEADER_LEN];
        bytes[0] = DATA;
        bytes[1..5].copy_from_slice(&self.serial.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.block.0.to_le_bytes());
        bytes[9..12].copy_from_slice(&self.total.to_le_bytes()[..3]);
        bytes[12..].copy_from_slice(&self.offset.to_le_bytes()[..3]);
        bytes
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<(Self, &'a [u8]), PacketError> {
        let header = Self {
            serial: reader.fixed(4)? as u32,
            block: BlockNumber(reader.fixed(4)? as u32),
            total: reader.fixed(3)? as u32,
            offset: reader.fixed(3)? as u32,
        };
        let bytes = std::mem::take(&mut reader.0);
        let fits = u64::from(header.offset) + bytes.len() as u64 <= u64::from(header.total);
        if header.total <= VALUE_LEN || header.total > MAX_CARGO || bytes.is_empty() || !fits {
            return Err(PacketError::Data);
        }
        Ok((header, bytes))
    }
}

impl PacketFrame<'_> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(header, bytes) => {
                out.extend_from_slice(&header.encode());
                out.extend_from_slice(bytes);
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
            DATA => DataHeader::decode(reader).map(|(header, bytes)| PacketFrame::Data(header, bytes))?,
            PING => PacketFrame::Ping,
            REPORT => PacketFrame::Report(Report::decode(reader)?),
            SYNC => PacketFrame::Sync(Sync::decode(reader)?),
            CHALLENGE => PacketFrame::Challenge(reader.fixed(8)?),
            RESPONSE => PacketFrame::Response(reader.fixed(8)?),
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
