//! A manifest's entries, as they travel and as a depot keeps them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::{EntryKind, Layout};
use terahaul_wire::{MAX_BATCH_ENTRIES, decode_entries, encode_entries};

fuzz_target!(|bytes: &[u8]| {
    let Ok(entries) = decode_entries(bytes) else { return };
    assert!(entries.len() <= MAX_BATCH_ENTRIES);
    let mut layout = Layout::new();
    for entry in &entries {
        assert!(entry.mode <= 0o7777 && entry.mtime.nanos < 1_000_000_000);
        assert!(entry.path.components().all(|name| !matches!(name, b"" | b"." | b"..") && !name.contains(&0)));
        if let EntryKind::Symlink { target } = &entry.kind {
            assert!(!target.is_empty() && !target.contains(&0));
        }
        // Sizes come from outside: they are placed, or refused, and never overflow.
        let _ = layout.append(entry.file_size());
    }
    assert_eq!(decode_entries(&encode_entries(&entries)), Ok(entries));
});
