//! Packets of UDP data channels: what decodes encodes to the same bytes, headers and frames alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_wire::packet::{PACKET_HEADER_LEN, PacketFrame, PacketFrames, PacketHeader};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = PacketHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes[..PACKET_HEADER_LEN]);
    }
    let frames: Result<Vec<PacketFrame<'_>>, _> = PacketFrames::new(bytes).collect();
    if let Ok(frames) = frames {
        let mut again = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut again));
        again.resize(bytes.len(), 0);
        assert_eq!(again, bytes);
    }
});
