//! Headers of a block's pieces: what decodes encodes to the same bytes, keeps to its block, and never grows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_wire::{MAX_PIECE, PIECE_HEADER_LEN, PieceHeader};

fuzz_target!(|input: ([u8; PIECE_HEADER_LEN], u32)| {
    let (bytes, left) = input;
    if let Ok(header) = PieceHeader::decode(&bytes, left) {
        assert_eq!(header.encode(), bytes);
        assert!(header.len() >= 1 && header.len() <= left);
        match header {
            PieceHeader::Raw { len } => assert!(len <= MAX_PIECE),
            PieceHeader::Zstd { len, packed } => assert!(len <= MAX_PIECE && packed >= 1 && packed < len),
            PieceHeader::Copy { len, from } => assert!(from.checked_add(len.into()).is_some()),
        }
    }
});
