//! What a data channel carries: a header, a block's bytes, a trailer.
//!
//! ```text
//! header, 16 bytes:  kind u8 (1 = block, 2 = end, 3 = pieces) · zero × 3 · block u32 · length u32 · zero × 4
//! bytes:             `length` bytes of the block, from its start; or pieces that amount to so many (`piece`)
//! trailer, 32 bytes: the block's value as the sender computed it
//! ```
//! Numbers are little-endian. An `end` header (block and length zero) closes a channel in order; without one the
//! channel was cut.

use terahaul_core::{BLOCK_SIZE, BlockNumber, Hash};

/// Bytes in a header.
pub const FRAME_HEADER_LEN: usize = 16;
/// Bytes in a trailer.
pub const TRAILER_LEN: usize = 32;

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHeader {
    /// `len` bytes of `block` follow, then a [`Trailer`].
    Block {
        /// Which block.
        block: BlockNumber,
        /// Its length, 1 to [`BLOCK_SIZE`].
        len: u32,
    },
    /// Pieces of `block` follow that amount to `len` bytes, each behind its [`PieceHeader`](crate::PieceHeader), then
    /// a [`Trailer`]. Only for a receiver that named the capability.
    Pieces {
        /// Which block.
        block: BlockNumber,
        /// Its length, 1 to [`BLOCK_SIZE`].
        len: u32,
    },
    /// Nothing follows.
    End,
}

/// Why a header is refused. The peer is at fault; each completes "The other end broke the protocol: ", as
/// [violations](crate::WireError::violation) do, and the remedy is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not a kind this version knows.
    #[error("it sent a data frame of unknown kind {0}")]
    Kind(u8),
    /// Zero, or longer than a block.
    #[error("it sent a data frame of {0} bytes, and a block has 1 to 4194304")]
    Length(u32),
    /// Reserved bytes are not zero.
    #[error("it sent a data frame with reserved bytes set")]
    Reserved,
    /// Something follows the frame that ends the channel.
    #[error("it sent data after a channel's end")]
    AfterEnd,
    /// Not a kind of piece this version knows.
    #[error("it sent a piece of a block of unknown kind {0}")]
    PieceKind(u8),
    /// A piece of no bytes, of too many, or of more than its block has left.
    #[error("it sent a piece of {len} bytes where 1 to {most} were possible")]
    PieceLength {
        /// What it said.
        len: u32,
        /// What was possible.
        most: u32,
    },
    /// Compressing did not make a piece smaller, or made nothing of it.
    #[error("it sent a piece of {len} bytes as {packed} compressed ones")]
    Packed {
        /// The piece's length.
        len: u32,
        /// What is said to follow.
        packed: u64,
    },
    /// No file is so long.
    #[error("it wants bytes copied that no file can have")]
    CopyOutside,
    /// Pieces that came as one end before their block does, or go on behind it.
    #[error("it sent pieces that do not amount to their block")]
    NotWhole,
    /// What followed is not what the piece's header says.
    #[error("it sent {packed} compressed bytes that are not a piece of {len} bytes")]
    Unpack {
        /// The piece's length.
        len: u32,
        /// Bytes that followed.
        packed: u32,
    },
}

impl FrameHeader {
    /// Reads a header.
    pub fn decode(bytes: &[u8; FRAME_HEADER_LEN]) -> Result<Self, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[1..4] != [0; 3] || word(12) != 0 {
            return Err(FrameError::Reserved);
        }
        match bytes[0] {
            1 | 3 => match (BlockNumber(word(4)), word(8)) {
                (_, len) if len == 0 || u64::from(len) > BLOCK_SIZE => Err(FrameError::Length(len)),
                (block, len) if bytes[0] == 1 => Ok(Self::Block { block, len }),
                (block, len) => Ok(Self::Pieces { block, len }),
            },
            2 if word(4) == 0 && word(8) == 0 => Ok(Self::End),
            2 => Err(FrameError::Reserved),
            kind => Err(FrameError::Kind(kind)),
        }
    }

    /// Writes a header.
    pub fn encode(self) -> [u8; FRAME_HEADER_LEN] {
        let mut bytes = [0; FRAME_HEADER_LEN];
        match self {
            Self::Block { block, len } | Self::Pieces { block, len } => {
                bytes[0] = if matches!(self, Self::Block { .. }) { 1 } else { 3 };
                bytes[4..8].copy_from_slice(&block.0.to_le_bytes());
                bytes[8..12].copy_from_slice(&len.to_le_bytes());
            }
            Self::End => bytes[0] = 2,
        }
        bytes
    }
}

/// What follows a block's bytes: its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer(pub Hash);

impl Trailer {
    /// Reads a trailer; any 32 bytes are one.
    pub fn decode(bytes: &[u8; TRAILER_LEN]) -> Self {
        Self(Hash(*bytes))
    }

    /// Writes a trailer.
    pub fn encode(self) -> [u8; TRAILER_LEN] {
        self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(bytes: [u8; FRAME_HEADER_LEN], small in any::<bool>()) {
            let mut bytes = bytes;
            if small {
                bytes[1..4].fill(0);
                bytes[12..].fill(0);
                bytes[0] %= 4;
            }
            if let Ok(header) = FrameHeader::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let header = |len: u32| {
            let mut bytes = FrameHeader::Block { block: BlockNumber(1), len: 1 }.encode();
            bytes[8..12].copy_from_slice(&len.to_le_bytes());
            FrameHeader::decode(&bytes)
        };
        assert_eq!(header(0), Err(FrameError::Length(0)));
        assert_eq!(header(BLOCK_SIZE as u32 + 1), Err(FrameError::Length(BLOCK_SIZE as u32 + 1)));
        assert!(header(BLOCK_SIZE as u32).is_ok());
        assert_eq!(FrameHeader::decode(&FrameHeader::End.encode()), Ok(FrameHeader::End));
    }
}
