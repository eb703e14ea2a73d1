//! Manifests and control messages that lie, or do not end.

use terahaul_core::{EntryIndex, EntryPath};
use terahaul_wire::{
    Batch, Cause, ErrorCode, Failed, MAX_BATCH_ENTRIES, Message, OpenReceive, OpenSend, encode_message,
};

use super::peer::{Peer, file, hello};
use super::{assert_serves, peak_memory};
use crate::rig::Depot;

fn batch(first: u32, entries: Vec<terahaul_core::Entry>) -> Message {
    Message::Batch(Batch { first: EntryIndex(first), entries, seal: false })
}

#[test]
fn messages_that_are_none_end_the_session_and_cost_no_memory() {
    let depot = Depot::start();
    let before = peak_memory(&depot);
    let too_many = (0..=MAX_BATCH_ENTRIES).map(|number| file(&format!("{number}"), 1)).collect();
    let cases: Vec<(Vec<u8>, ErrorCode)> = vec![
        (u32::MAX.to_le_bytes().to_vec(), ErrorCode::Violation),
        ((1u32 << 20 | 1).to_le_bytes().to_vec(), ErrorCode::Violation),
        ([4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff].to_vec(), ErrorCode::Violation),
        // An array of 2^32 entries, and nothing behind it.
        ([10, 0, 0, 0, 0x82, 5, 0x81, 0x83, 0, 0xf4, 0x9a, 0xff, 0xff, 0xff].to_vec(), ErrorCode::Violation),
        (encode_message(&batch(0, too_many)), ErrorCode::Violation),
        (encode_message(&batch(7, vec![file("gap", 1)])), ErrorCode::ManifestConflict),
        (encode_message(&batch(0, vec![file("same", 1), file("same", 2)])), ErrorCode::ManifestConflict),
        (encode_message(&batch(0, vec![file("huge", u64::MAX)])), ErrorCode::LimitExceeded),
        (encode_message(&Message::Opened(Default::default())), ErrorCode::Violation),
        (encode_message(&Message::Accepted(3)), ErrorCode::Violation),
        (encode_message(&Message::Hello(hello())), ErrorCode::Violation),
        (
            encode_message(&Message::Failed(vec![Failed {
                entry: u32::MAX,
                cause: Cause::Changed,
                detail: String::new(),
            }])),
            ErrorCode::ManifestConflict,
        ),
    ];
    for (bytes, code) in cases {
        let (mut peer, _) = Peer::open_send(&depot, "liar");
        peer.say_bytes(&bytes);
        let error = peer.hear_end();
        assert!(
            error.code == code || (code == ErrorCode::LimitExceeded && error.code == ErrorCode::DiskFull),
            "{:?} instead of {code:?}: {} after {:?}",
            error.code,
            error.message,
            &bytes[..bytes.len().min(20)]
        );
    }
    assert!(peak_memory(&depot) < before + 64, "{} MiB", peak_memory(&depot));
    assert_serves(&depot);
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let depot = Depot::start();
    for evil in ["..", "../up", "/abs", "a/../b", "a//b", "a/", "./a", ".", "", "nul\0"] {
        assert!(EntryPath::new(evil.as_bytes()).is_err(), "{evil:?} must not be a path");
        let (mut peer, _) = Peer::open_send(&depot, "elsewhere");
        // A message with a path that is as long and allowed, in which the path is exchanged.
        let stand_in = "q".repeat(evil.len().max(1));
        let mut bytes = encode_message(&batch(0, vec![file(&stand_in, 1)]));
        let at = bytes.windows(stand_in.len()).position(|window| window == stand_in.as_bytes()).unwrap();
        if evil.is_empty() {
            // An empty byte string is one byte shorter than that of one letter.
            bytes.remove(at);
            bytes[at - 1] = 0x40;
            let len = u32::from_le_bytes(bytes[..4].try_into().unwrap()) - 1;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
        } else {
            bytes[at..at + evil.len()].copy_from_slice(evil.as_bytes());
        }
        peer.say_bytes(&bytes);
        peer.assert_ends(ErrorCode::Violation);
    }
    assert_serves(&depot);
}

#[test]
fn names_and_keys_that_are_too_long_are_refused() {
    let depot = Depot::start();
    let opens = [
        OpenSend { name: "n".repeat(201), ..OpenSend::default() },
        OpenSend { name: "line\nbreak".into(), ..OpenSend::default() },
        OpenSend { name: String::new(), ..OpenSend::default() },
        OpenSend { name: "n".into(), resume_key: Some("k".repeat(201)), ..OpenSend::default() },
        OpenSend { name: "n".into(), expires_in_days: Some(u32::MAX), ..OpenSend::default() },
    ];
    for open in opens {
        let mut peer = Peer::greet(&depot, &depot.token);
        peer.say(&Message::OpenSend(open.clone()));
        let error = peer.hear_end();
        assert!(!error.retry, "{open:?}: {error}");
    }
    let mut peer = Peer::greet(&depot, &depot.token);
    peer.say(&Message::OpenReceive(OpenReceive { transfer: [7; 16], ..OpenReceive::default() }));
    peer.assert_ends(ErrorCode::NotFound);
    let mut peer = Peer::connect(&depot);
    peer.say(&Message::Hello(terahaul_wire::Hello { versions: vec![7, 9], ..hello() }));
    peer.assert_ends(ErrorCode::Version);
    assert_serves(&depot);
}

#[test]
fn a_first_batch_counts_once_and_only_where_there_is_none() {
    let depot = Depot::start();
    let open = |first: u32, path: &str, size: u64| {
        let first = Some(Batch { first: EntryIndex(first), entries: vec![file(path, size)], seal: true });
        let mut peer = Peer::greet(&depot, &depot.token);
        let open =
            OpenSend { name: "n".into(), resume_key: Some("key".into()), first, ..OpenSend::default() };
        peer.say(&Message::OpenSend(open));
        peer
    };
    open(7, "gap", 1).assert_ends(ErrorCode::ManifestConflict);
    open(0, "huge", u64::MAX).hear_end();
    let mut peer = open(0, "file", 5);
    assert_eq!(peer.hear_opened().entries, 0);
    assert_eq!((peer.hear(), peer.hear()), (Some(Message::ManifestEnd), Some(Message::Accepted(1))));
    // Said again, as by who has not heard the answer.
    let again = Batch { first: EntryIndex(0), entries: vec![file("file", 5)], seal: true };
    peer.say(&Message::Batch(again));
    assert_eq!(peer.hear(), Some(Message::Accepted(1)));
    let mut peer = open(0, "another", 9);
    let opened = peer.hear_opened();
    assert_eq!((opened.entries, opened.bytes), (1, 5));
    assert_eq!(peer.hear(), Some(Message::ManifestEnd));
    peer.say(&batch(1, vec![file("another", 9)]));
    assert_eq!(peer.hear(), Some(Message::Accepted(2)));
    assert_serves(&depot);
}

/// Sends batches until the depot refuses; returns the entries accepted before.
fn declare_endlessly(peer: &mut Peer, most: u32) -> (u32, terahaul_wire::WireError) {
    let mut accepted = 0;
    let batches = most / MAX_BATCH_ENTRIES as u32;
    for number in 0..batches {
        let first = number * MAX_BATCH_ENTRIES as u32;
        let entries = (0..MAX_BATCH_ENTRIES).map(|at| file(&format!("folder {number}/some file {at}"), 100));
        peer.say(&batch(first, entries.collect()));
        // A few batches ahead of the answers.
        while number >= accepted / MAX_BATCH_ENTRIES as u32 + 8 {
            match peer.hear() {
                Some(Message::Accepted(total)) => accepted = total,
                Some(Message::Error(error)) => return (accepted, error),
                said => panic!("{said:?}"),
            }
        }
    }
    panic!("{accepted} entries were accepted and there was no end");
}

#[test]
#[ignore = "long: make soak"]
fn a_manifest_of_ten_million_entries_ends_at_the_limit_in_bounded_memory() {
    let depot = Depot::start();
    let (mut peer, _) = Peer::open_send(&depot, "endless");
    let began = std::time::Instant::now();
    let (accepted, error) = declare_endlessly(&mut peer, 10_000_000);
    println!(
        "{accepted} entries in {:.1} s, then {:?}; the depot's peak is {} MiB",
        began.elapsed().as_secs_f64(),
        error.code,
        peak_memory(&depot)
    );
    assert_eq!((accepted, error.code), (2_000_000, ErrorCode::LimitExceeded), "{error}");
    assert!(peak_memory(&depot) < 768, "{} MiB", peak_memory(&depot));
    assert_serves(&depot);
}
