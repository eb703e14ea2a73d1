//! Control messages: any bytes decode or are refused, and what decodes is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_wire::{Bind, Control, Message, decode_message, encode_message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((message, len))) = decode_message::<Message>(bytes) {
        assert!(len <= bytes.len());
        let written = encode_message(&message);
        assert_eq!(decode_message::<Message>(&written), Ok(Some((message, written.len()))));
    }
    // Without its length, as the fuzzer finds more of the grammar that way.
    if let Ok(message) = Message::decode_from(bytes) {
        let written = encode_message(&message);
        assert_eq!(Message::decode_from(&written[4..]), Ok(message));
    }
    if let Ok(bind) = Bind::decode_from(bytes) {
        let written = encode_message(&bind);
        assert_eq!(Bind::decode_from(&written[4..]), Ok(bind));
    }
});
