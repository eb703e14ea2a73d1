//! Receipts: any JSON is read or refused, and what is read survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::{Receipt, ReceiptEntry};

fuzz_target!(|bytes: &[u8]| {
    let Ok(receipt) = serde_json::from_slice::<Receipt>(bytes) else { return };
    let _ = receipt.verify();
    for read in &receipt.entries {
        let Ok(entry) = read.to_entry() else { continue };
        // An entry has one spelling: nothing that is shown of it is without the signature.
        assert_eq!(ReceiptEntry::new(&entry, read.blake3), *read);
    }
    let text = serde_json::to_vec(&receipt).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<Receipt>(&text).ok().as_ref(), Some(&receipt));
});
