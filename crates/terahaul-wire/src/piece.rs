//! Pieces: how a block's bytes travel when they do not travel as they are.
//!
//! ```text
//! header, 16 bytes:  kind u8 · zero × 3 · length u32 · argument u64      (little-endian)
//! ```
//!
//! | kind | argument | what follows | and means |
//! |---|---|---|---|
//! | 1, raw | 0 | `length` bytes | themselves |
//! | 2, zstd | how many bytes follow, fewer than `length` | one Zstandard frame (RFC 8878) | `length` bytes |
//! | 3, copy | where in the basis | nothing | `length` bytes of the basis from there |
//!
//! Pieces are compressed each for itself: a receiver needs no window, and what a piece becomes is bounded by what its
//! header says and by [`MAX_PIECE`]. Their lengths amount to the block's; the block's value is that of its content, so
//! proofs do not depend on how it travelled.

use crate::FrameError;

/// Bytes in a piece's header.
pub const PIECE_HEADER_LEN: usize = 16;
/// Longest piece of which bytes follow, in bytes of content.
pub const MAX_PIECE: u32 = 1 << 20;

/// What a piece's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceHeader {
    /// `len` bytes follow.
    Raw {
        /// 1 to [`MAX_PIECE`].
        len: u32,
    },
    /// `packed` bytes follow, a Zstandard frame of `len` bytes.
    Zstd {
        /// 1 to [`MAX_PIECE`].
        len: u32,
        /// 1 to `len` - 1.
        packed: u32,
    },
    /// Nothing follows: the bytes are in the receiver's basis of the file, if they are within it.
    Copy {
        /// At least 1.
        len: u32,
        /// Where in the basis they begin.
        from: u64,
    },
}

impl PieceHeader {
    /// Reads a header, where the block still lacks `left` bytes.
    pub fn decode(bytes: &[u8; PIECE_HEADER_LEN], left: u32) -> Result<Self, FrameError> {
        let [kind, zeros @ .., l0, l1, l2, l3, _, _, _, _, _, _, _, _] = *bytes;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let argument = u64::from_le_bytes(*bytes.last_chunk().unwrap_or(&[0; 8]));
        if zeros != [0; 3] {
            return Err(FrameError::Reserved);
        }
        let most = match kind {
            1 | 2 => left.min(MAX_PIECE),
            3 => left,
            _ => return Err(FrameError::PieceKind(kind)),
        };
        if len == 0 || len > most {
            return Err(FrameError::PieceLength { len, most });
        }
        match (kind, u32::try_from(argument)) {
            (1, Ok(0)) => Ok(Self::Raw { len }),
            (1, _) => Err(FrameError::Reserved),
            (3, _) if argument.checked_add(u64::from(len)).is_none() => Err(FrameError::CopyOutside),
            (3, _) => Ok(Self::Copy { len, from: argument }),
            (_, Ok(packed)) if packed > 0 && packed < len => Ok(Self::Zstd { len, packed }),
            _ => Err(FrameError::Packed { len, packed: argument }),
        }
    }

    /// Writes a header.
    pub fn encode(self) -> [u8; PIECE_HEADER_LEN] {
        let (kind, argument) = match self {
            Self::Raw { .. } => (1, 0),
            Self::Zstd { packed, .. } => (2, u64::from(packed)),
            Self::Copy { from, .. } => (3, from),
        };
        let mut bytes = [0; PIECE_HEADER_LEN];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&self.len().to_le_bytes());
        bytes[8..].copy_from_slice(&argument.to_le_bytes());
        bytes
    }

    /// Bytes of the block that the piece stands for; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u32 {
        match self {
            Self::Raw { len } | Self::Zstd { len, .. } | Self::Copy { len, .. } => len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes_and_keeps_to_its_block(
            kind in 0u8..5,
            len in prop_oneof![0u32..4, Just(MAX_PIECE), Just(MAX_PIECE + 1), any::<u32>()],
            argument in prop_oneof![0u64..4, any::<u64>()],
            left in prop_oneof![0u32..4, any::<u32>()],
        ) {
            let mut bytes = [0; PIECE_HEADER_LEN];
            bytes[0] = kind;
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
            bytes[8..].copy_from_slice(&argument.to_le_bytes());
            if let Ok(header) = PieceHeader::decode(&bytes, left) {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(header.len() >= 1 && header.len() <= left);
                match header {
                    PieceHeader::Raw { len } => prop_assert!(len <= MAX_PIECE),
                    PieceHeader::Zstd { len, packed } => {
                        prop_assert!(len <= MAX_PIECE && packed >= 1 && packed < len);
                    }
                    PieceHeader::Copy { len, from } => prop_assert!(from.checked_add(len.into()).is_some()),
                }
            }
        }
    }

    #[test]
    fn headers_that_lie_are_refused_before_anything_is_read() {
        let decode = |header: PieceHeader, left| PieceHeader::decode(&header.encode(), left);
        assert_eq!(decode(PieceHeader::Raw { len: 9 }, 9), Ok(PieceHeader::Raw { len: 9 }));
        assert_eq!(
            decode(PieceHeader::Raw { len: 9 }, 8),
            Err(FrameError::PieceLength { len: 9, most: 8 }),
            "more than the block has left"
        );
        let bomb = PieceHeader::Zstd { len: MAX_PIECE + 1, packed: 10 };
        assert!(matches!(decode(bomb, u32::MAX), Err(FrameError::PieceLength { .. })));
        for packed in [0, 9, 10] {
            let grown = PieceHeader::Zstd { len: 9, packed };
            assert_eq!(decode(grown, 9), Err(FrameError::Packed { len: 9, packed: packed.into() }));
        }
        let copy = PieceHeader::Copy { len: 4 << 20, from: 7 };
        assert_eq!(decode(copy, 4 << 20), Ok(copy), "nothing follows, so nothing is read at once");
        assert!(matches!(decode(copy, 9), Err(FrameError::PieceLength { len: _, most: 9 })));
        let beyond = PieceHeader::Copy { len: 2, from: u64::MAX - 1 };
        assert_eq!(decode(beyond, 9), Err(FrameError::CopyOutside));
        let mut reserved = PieceHeader::Raw { len: 9 }.encode();
        reserved[9] = 1;
        assert_eq!(PieceHeader::decode(&reserved, 9), Err(FrameError::Reserved));
    }
}
