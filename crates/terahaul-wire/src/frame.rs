//! What a data channel carries: a header, a block's bytes, a trailer.
//!
//! ```text
//! header, 16 bytes:  kind u8 (1 = block, 2 = end) · zero × 3 · block u32 · length u32 · zero × 4   (little-endian)
//! bytes:             `length` bytes of the block, from its start
//! trailer, 32 bytes: the block's value as the sender computed it
//! ```
//! An `end` header (block and length zero) closes a channel in order; without one the channel was cut.

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
    /// Nothing follows.
    End,
}

/// Why a header is refused. The peer is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not a kind this version knows.
    #[error(
        "the other end sent a data frame of unknown kind {0}: the two programs do not fit; upgrade the older"
    )]
    Kind(u8),
    /// Zero, or longer than a block.
    #[error("the other end sent a data frame of {0} bytes; a block has 1 to 4194304")]
    Length(u32),
    /// Reserved bytes are not zero.
    #[error(
        "the other end sent a data frame with reserved bytes set: the two programs do not fit; upgrade the older"
    )]
    Reserved,
    /// Something follows the frame that ends the channel.
    #[error("the other end sent data after a channel's end: the two programs do not fit; upgrade the older")]
    AfterEnd,
}

impl FrameHeader {
    /// Reads a header.
    pub fn decode(bytes: &[u8; FRAME_HEADER_LEN]) -> Result<Self, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[1..4] != [0; 3] || word(12) != 0 {
            return Err(FrameError::Reserved);
        }
        match bytes[0] {
            1 => match word(8) {
                len if len == 0 || u64::from(len) > BLOCK_SIZE => Err(FrameError::Length(len)),
                len => Ok(Self::Block { block: BlockNumber(word(4)), len }),
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
            Self::Block { block, len } => {
                bytes[0] = 1;
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
                bytes[0] %= 3;
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
