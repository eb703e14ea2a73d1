//! Data frames' headers: what decodes encodes to the same bytes, and no length exceeds a block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::BLOCK_SIZE;
use terahaul_wire::{FRAME_HEADER_LEN, FrameHeader};

fuzz_target!(|bytes: [u8; FRAME_HEADER_LEN]| {
    if let Ok(header) = FrameHeader::decode(&bytes) {
        assert_eq!(header.encode(), bytes);
        if let FrameHeader::Block { len, .. } = header {
            assert!(len >= 1 && u64::from(len) <= BLOCK_SIZE);
        }
    }
});
