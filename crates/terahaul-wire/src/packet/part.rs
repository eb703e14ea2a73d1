//! Parts of blocks: frames that reach to the end of their packet.
//!
//! ```text
//! data         1 · serial u32 · block u32 · offset u24 · bytes                     of a block of MAX_CARGO bytes
//! short data   8 · serial u32 · block u32 · length in all u32 · offset u24 · bytes  of a shorter one
//! repair       7 · serial u32 · block u32 · index u12 · count u12 · a shard         of a block of MAX_CARGO bytes
//! short repair 9 · serial u32 · block u32 · length in all u32 · index u12 · count u12 · a shard
//! ```
//! Nearly every packet is data of a block of full length, so that its length does not travel. Both kinds of a block have headers of one
//! length, a multiple of four: then a shard of a full packet is as long as the data of one.

use std::ops::Deref;

use terahaul_core::{BLOCK_SIZE, BlockNumber};

use super::PacketError;
use super::varint::Reader;

/// Bytes of a block's value, which travels behind its content as if it were its last bytes.
pub const VALUE_LEN: u32 = 32;
/// The longest block on the wire, value included.
pub const MAX_CARGO: u32 = BLOCK_SIZE as u32 + VALUE_LEN;
/// Bytes before those of a block, at most.
pub const MAX_PART_HEADER_LEN: usize = 16;
/// The shortest shard: many more would make finding lost ones dear.
pub const MIN_SHARD: usize = 512;

pub(super) const DATA: u8 = 1;
pub(super) const REPAIR: u8 = 7;
pub(super) const SHORT_DATA: u8 = 8;
pub(super) const SHORT_REPAIR: u8 = 9;

/// Which block a part is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The sender's count of blocks begun in this session: a block that is sent again has another.
    pub serial: u32,
    /// Which block of the transfer.
    pub block: BlockNumber,
    /// The block's bytes and its value: [`VALUE_LEN`] + 1 to [`MAX_CARGO`].
    pub total: u32,
}

/// What a data frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Of which block.
    pub of: PartOf,
    /// Where the bytes belong.
    pub offset: u32,
}

/// Which shard of a block's repair a repair frame carries.
///
/// The block's bytes and its value are cut into shards of this one's length, the last filled up with zeros. A Reed-Solomon code
/// (Lin, Al-Naffouri, Han and Chung, 2016, over 2¹⁶ elements) makes `count` more of them, any of which stands for any that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// Of which block.
    pub of: PartOf,
    /// Which of them: below `count`.
    pub index: u16,
    /// How many there are: 1 to [`most_repairs`].
    pub count: u16,
}

/// How many shards repair a block of so many bytes at most: what a quarter of it lost takes, and some more. The receiver keeps as many.
pub fn most_repairs(total: u32, shard: usize) -> u16 {
    (total.div_ceil(shard.max(MIN_SHARD) as u32) / 4 + 16).min(MAX_COUNT) as u16
}

const MAX_COUNT: u32 = 0xfff;

/// A header as it is written.
#[derive(Clone, Copy, Debug)]
pub struct PartHeader {
    bytes: [u8; MAX_PART_HEADER_LEN],
    len: usize,
}

impl Deref for PartHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes before those of a block of so many.
pub const fn part_header_len(total: u32) -> usize {
    if total == MAX_CARGO { MAX_PART_HEADER_LEN - 4 } else { MAX_PART_HEADER_LEN }
}

fn encode(kinds: [u8; 2], of: &PartOf, position: u32) -> PartHeader {
    let PartOf { serial, block, total } = *of;
    let len = part_header_len(total);
    let mut bytes = [0; MAX_PART_HEADER_LEN];
    bytes[0] = kinds[usize::from(total != MAX_CARGO)];
    bytes[1..5].copy_from_slice(&serial.to_le_bytes());
    bytes[5..9].copy_from_slice(&block.0.to_le_bytes());
    if total != MAX_CARGO {
        bytes[9..13].copy_from_slice(&total.to_le_bytes());
    }
    bytes[len - 3..len].copy_from_slice(&position.to_le_bytes()[..3]);
    PartHeader { bytes, len }
}

/// A frame behind its kind: the block, the position, and what follows.
fn decode<'a>(short: bool, reader: &mut Reader<'a>) -> Result<(PartOf, u32, &'a [u8]), PacketError> {
    let serial = reader.fixed::<4>()? as u32;
    let block = BlockNumber(reader.fixed::<4>()? as u32);
    let total = if short { reader.fixed::<4>()? as u32 } else { MAX_CARGO };
    let position = reader.fixed::<3>()? as u32;
    if total <= VALUE_LEN || total > MAX_CARGO || (short && total == MAX_CARGO) {
        return Err(PacketError::Data);
    }
    Ok((PartOf { serial, block, total }, position, std::mem::take(&mut reader.0)))
}

impl DataHeader {
    /// Writes the frame up to its bytes.
    pub fn encode(&self) -> PartHeader {
        encode([DATA, SHORT_DATA], &self.of, self.offset)
    }

    pub(super) fn decode<'a>(short: bool, reader: &mut Reader<'a>) -> Result<(Self, &'a [u8]), PacketError> {
        let (of, offset, bytes) = decode(short, reader)?;
        let fits = u64::from(offset) + bytes.len() as u64 <= u64::from(of.total);
        if bytes.is_empty() || !fits {
            return Err(PacketError::Data);
        }
        Ok((Self { of, offset }, bytes))
    }
}

impl RepairHeader {
    /// Writes the frame up to its shard.
    pub fn encode(&self) -> PartHeader {
        let position = u32::from(self.index) | u32::from(self.count) << 12;
        encode([REPAIR, SHORT_REPAIR], &self.of, position)
    }

    pub(super) fn decode<'a>(short: bool, reader: &mut Reader<'a>) -> Result<(Self, &'a [u8]), PacketError> {
        let (of, position, shard) = decode(short, reader)?;
        let (index, count) = ((position & MAX_COUNT) as u16, (position >> 12) as u16);
        let fits = shard.len() >= MIN_SHARD && shard.len().is_multiple_of(2);
        if !fits || index >= count || count > most_repairs(of.total, shard.len()) {
            return Err(PacketError::Repair);
        }
        Ok((Self { of, index, count }, shard))
    }
}
