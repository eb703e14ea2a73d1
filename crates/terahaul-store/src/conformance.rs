//! One suite that every store passes. Call [`suite`] with a way to make an empty store.

use std::io::IoSlice;
use std::sync::Arc;

use terahaul_core::{Address, TransferId};

use crate::{FlatTransfer, Store, StoreError, StorePlace};

const MIB: u64 = 1 << 20;

/// Runs every check, each on a store of its own. Panics with the first promise that is not kept.
pub fn suite<S: Store>(make: impl Fn() -> S) {
    an_object_is_made_once_and_found_again(&make());
    writes_in_any_order_land_where_they_belong(&make());
    parts_of_any_shape_are_one_write(&make());
    reading_past_the_end_is_short(&make());
    publishing_moves_all_and_may_be_repeated(&make());
    removing_works_in_both_places(&make());
    transfers_do_not_mix(&make());
    far_addresses_are_sparse(&make());
    many_threads_write_at_once(&make());
}

fn id(number: u8) -> TransferId {
    TransferId([number; 16])
}

/// Bytes that differ with their position.
fn pattern(start: u64, len: usize) -> Vec<u8> {
    (start..start + len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1).collect()
}

fn put(transfer: &dyn FlatTransfer, at: u64, bytes: &[u8]) {
    transfer.write_at(Address(at), &[IoSlice::new(bytes)]).expect("a write");
}

fn get(transfer: &dyn FlatTransfer, at: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xEE; len];
    transfer.read_at(Address(at), &mut buffer).expect("a read");
    buffer
}

fn is_missing<T>(result: Result<T, StoreError>, of: TransferId) -> bool {
    matches!(result, Err(StoreError::Missing(id)) if id == of)
}

fn an_object_is_made_once_and_found_again(store: &impl Store) {
    assert!(is_missing(store.open(id(1)), id(1)));
    assert!(is_missing(store.publish(id(1)), id(1)));
    assert!(is_missing(store.reopen(id(1)), id(1)));
    store.create(id(1)).expect("create");
    assert!(matches!(store.create(id(1)), Err(StoreError::Exists(found)) if found == id(1)));
    put(&*store.open(id(1)).expect("open"), 0, b"kept");
    assert_eq!(get(&*store.open(id(1)).expect("open"), 0, 4), b"kept");
    store.publish(id(1)).expect("publish");
    assert!(matches!(store.create(id(1)), Err(StoreError::Exists(_))), "a published id is not free either");
}

fn writes_in_any_order_land_where_they_belong(store: &impl Store) {
    let transfer = store.create(id(1)).expect("create");
    let step = 70_001;
    for turn in [3u64, 0, 4, 1, 2] {
        put(&*transfer, turn * step, &pattern(turn * step, step as usize));
    }
    transfer.sync().expect("sync");
    assert!(get(&*transfer, 0, 5 * step as usize) == pattern(0, 5 * step as usize));
    assert!(get(&*transfer, 12_345, 99_999) == pattern(12_345, 99_999), "a read may begin and end anywhere");
    put(&*transfer, step - 5, b"overwritten");
    assert_eq!(get(&*transfer, step - 5, 11), b"overwritten");
}

fn parts_of_any_shape_are_one_write(store: &impl Store) {
    let transfer = store.create(id(1)).expect("create");
    let lengths: Vec<usize> = (0..3000).map(|at| (at * 7919) % 613).collect();
    let bytes = pattern(7, lengths.iter().sum());
    let mut left = &bytes[..];
    let mut parts = Vec::new();
    for len in lengths {
        let (part, rest) = left.split_at(len);
        parts.push(IoSlice::new(part));
        left = rest;
    }
    transfer.write_at(Address(7), &parts).expect("more parts than one system call takes");
    assert!(get(&*transfer, 7, bytes.len()) == bytes);
    transfer.write_at(Address(0), &[]).expect("no part");
    transfer.write_at(Address(0), &[IoSlice::new(b""), IoSlice::new(b"")]).expect("empty parts");
    assert_eq!(get(&*transfer, 0, 7), [0; 7]);
}

fn reading_past_the_end_is_short(store: &impl Store) {
    let transfer = store.create(id(1)).expect("create");
    transfer.read_at(Address(0), &mut []).expect("nothing is always there");
    put(&*transfer, 0, &pattern(0, 1000));
    for (at, len) in [(999, 2), (1000, 1), (5 * MIB, 10)] {
        let result = transfer.read_at(Address(at), &mut vec![0; len]);
        assert!(matches!(result, Err(StoreError::Short(short)) if short == id(1)), "{at}");
    }
}

fn publishing_moves_all_and_may_be_repeated(store: &impl Store) {
    let before = store.create(id(1)).expect("create");
    put(&*before, 0, b"first");
    assert_eq!(store.list().expect("list"), [(id(1), StorePlace::Incoming)]);
    for _ in 0..2 {
        store.publish(id(1)).expect("publish");
        assert_eq!(store.list().expect("list"), [(id(1), StorePlace::Published)], "in one place only");
    }
    assert_eq!(get(&*before, 0, 5), b"first", "an open object stays open");
    assert_eq!(get(&*store.open(id(1)).expect("open"), 0, 5), b"first");
    for _ in 0..2 {
        store.reopen(id(1)).expect("reopen");
        assert_eq!(store.list().expect("list"), [(id(1), StorePlace::Incoming)]);
    }
    put(&*store.open(id(1)).expect("open"), 5, b" and more");
    store.publish(id(1)).expect("publish");
    assert_eq!(get(&*store.open(id(1)).expect("open"), 0, 14), b"first and more");
}

fn removing_works_in_both_places(store: &impl Store) {
    store.remove(id(9)).expect("nothing to remove");
    for publish in [false, true] {
        store.create(id(1)).expect("create");
        if publish {
            store.publish(id(1)).expect("publish");
        }
        store.remove(id(1)).expect("remove");
        store.remove(id(1)).expect("remove again");
        assert!(is_missing(store.open(id(1)), id(1)));
        assert_eq!(store.list().expect("list"), []);
    }
}

fn transfers_do_not_mix(store: &impl Store) {
    let transfers: Vec<_> = (1..=3).map(|number| store.create(id(number)).expect("create")).collect();
    for (at, transfer) in transfers.iter().enumerate() {
        put(&**transfer, at as u64 * 100, &pattern(at as u64, 5000));
    }
    store.publish(id(2)).expect("publish");
    store.remove(id(3)).expect("remove");
    assert!(get(&*transfers[0], 0, 5000) == pattern(0, 5000));
    assert!(get(&*store.open(id(2)).expect("open"), 100, 5000) == pattern(1, 5000));
    let mut listed = store.list().expect("list");
    listed.sort_by_key(|(id, _)| *id);
    assert_eq!(listed, [(id(1), StorePlace::Incoming), (id(2), StorePlace::Published)]);
}

fn far_addresses_are_sparse(store: &impl Store) {
    let transfer = store.create(id(1)).expect("create");
    let far = 1 << 40;
    put(&*transfer, far + 5, b"far");
    put(&*transfer, 5 << 30, b"nearer");
    assert_eq!(get(&*transfer, far + 5, 3), b"far");
    assert_eq!(get(&*transfer, (5 << 30) - 2, 8), b"\0\0nearer");
    assert_eq!(get(&*transfer, 1 << 35, 4), [0; 4]);
    if let Some(free) = store.free_space().expect("free space") {
        assert!(free.0 > 0);
    }
}

fn many_threads_write_at_once(store: &impl Store) {
    let transfer = store.create(id(1)).expect("create");
    let size = 256 * 1024;
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for turn in 0..8u64 {
            let (transfer, start) = (Arc::clone(&transfer), &start);
            scope.spawn(move || {
                start.wait();
                for piece in (0..8u64).map(|piece| (piece * 8 + turn) * size) {
                    let bytes = pattern(piece, size as usize);
                    let parts: Vec<_> = bytes.chunks(16 * 1024).map(IoSlice::new).collect();
                    transfer.write_at(Address(piece), &parts).expect("write");
                    assert!(get(&*transfer, piece, size as usize) == bytes);
                }
                transfer.sync().expect("sync");
            });
        }
    });
    let whole = 64 * size as usize;
    assert!(get(&*transfer, 0, whole) == pattern(0, whole));
}
