//! What the channels and the API rely on when blocks arrive.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use crate::rig::{Order, Rig, SIZE, content, deliver};
use terahaul_core::{BlockNumber, BlockRefusal, BlockRun, ByteCount, GroupSync, Hash, Receiver};
use terahaul_store::{Inbound, InboundError, SinkError, StoreError};

/// A test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(60);

fn block(number: u32) -> BlockNumber {
    BlockNumber(number)
}

fn run(first: u32, count: u32) -> BlockRun {
    BlockRun { first: block(first), count }
}

/// Delivers a block, and has it synced alone: while several are delivered, a sync may begin by itself where the machine stands still, and
/// it takes an order too.
fn deliver_and_sync(rig: &Rig, number: u32) {
    deliver(&rig.inbound, number).unwrap();
    rig.order(Order::Sync);
    rig.inbound.flush().unwrap();
    rig.wait_for_sync();
}

#[test]
fn parallel_arrivals_all_become_durable_and_are_told_once() {
    let rig = Rig::free(200);
    let (told, heard) = mpsc::channel();
    rig.inbound.add_listener(Box::new(move |runs| told.send(runs.to_vec()).unwrap()));
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= 200 {
                        return;
                    }
                    deliver(&rig.inbound, number).unwrap();
                    if number.is_multiple_of(16) {
                        rig.inbound.flush().unwrap();
                    }
                }
            });
        }
    });
    rig.inbound.flush().unwrap();
    assert!(rig.inbound.with(|receiver| receiver.is_complete()));
    rig.inbound.close();
    let mut blocks: Vec<u32> = heard.try_iter().flatten().flat_map(BlockRun::blocks).map(|b| b.0).collect();
    blocks.sort_unstable();
    assert!(blocks.iter().copied().eq(0..200), "each block is told exactly once");
    (0..200).for_each(|number| assert!(rig.stored(number) == content(number), "block {number}"));
}

#[test]
fn a_duplicate_is_compared_with_what_is_kept() {
    let rig = Rig::free(1);
    let value = deliver(&rig.inbound, 0).unwrap();
    for durable in [false, true] {
        if durable {
            rig.inbound.flush().unwrap();
        }
        assert_eq!(deliver(&rig.inbound, 0).unwrap(), value, "the same again is fine");
        let mut other = rig.inbound.begin(block(0), SIZE).unwrap();
        other.write(&[IoSlice::new(&content(1))]).unwrap();
        assert!(matches!(other.finish(None), Err(InboundError::Conflict(BlockNumber(0)))));
        assert!(rig.stored(0) == content(0), "the first is kept");
    }
}

#[test]
fn a_block_that_is_not_what_its_sender_claims_may_be_sent_again() {
    let rig = Rig::free(1);
    let mut arrival = rig.inbound.begin(block(0), SIZE).unwrap();
    arrival.write(&[IoSlice::new(&content(0))]).unwrap();
    let wrong = Hash([9; 32]);
    assert!(matches!(arrival.finish(Some(wrong)), Err(InboundError::Mismatch { .. })));
    assert!(rig.inbound.with(|receiver| receiver.received().is_empty()));
    let value = deliver(&rig.inbound, 0).unwrap();

    let mut again = rig.inbound.begin(block(0), SIZE).unwrap();
    again.write(&[IoSlice::new(&content(0))]).unwrap();
    assert_eq!(again.finish(Some(value)).unwrap(), value);
}

#[test]
fn a_block_whose_channel_died_may_be_sent_again() {
    let rig = Rig::free(1);
    let mut first = rig.inbound.begin(block(0), SIZE).unwrap();
    first.write(&[IoSlice::new(&content(3)[..100])]).unwrap();
    let busy = rig.inbound.begin(block(0), SIZE).err().unwrap();
    assert!(matches!(busy, InboundError::Refused(BlockRefusal::Busy(_))));
    drop(first);
    deliver(&rig.inbound, 0).unwrap();
    rig.inbound.flush().unwrap();
    assert!(rig.stored(0) == content(0));
}

/// Of a block that another channel was still writing to a slow disk each refusal counted, until there were too many for the session.
#[test]
fn a_block_that_is_arriving_elsewhere_is_waited_for() {
    for arrives in [false, true] {
        let rig = Rig::free(1);
        let mut first = rig.inbound.begin(block(0), SIZE).unwrap();
        first.write(&[IoSlice::new(&content(0))]).unwrap();
        std::thread::scope(|scope| {
            let again = scope.spawn(|| {
                let mut again = rig.inbound.begin_within(Duration::from_secs(600), block(0), SIZE).unwrap();
                again.write(&[IoSlice::new(&content(0))]).unwrap();
                again.finish(None).unwrap();
            });
            match arrives {
                true => drop(first.finish(None).unwrap()),
                false => drop(first),
            }
            again.join().unwrap();
        });
        rig.inbound.flush().unwrap();
        assert!(rig.stored(0) == content(0));
    }
}

#[test]
fn a_block_of_another_length_than_declared_never_reaches_its_neighbour() {
    let rig = Rig::free(2);
    deliver(&rig.inbound, 1).unwrap();
    for len in [SIZE + 1, SIZE - 1] {
        let refused = rig.inbound.begin(block(0), len).err().unwrap();
        assert!(matches!(refused, InboundError::Refused(BlockRefusal::Length { .. })));
    }
    let mut long = rig.inbound.begin(block(0), SIZE).unwrap();
    let too_much = vec![1; crate::rig::SPAN as usize + 10];
    assert!(matches!(long.write(&[IoSlice::new(&too_much)]), Err(InboundError::Refused(_))));
    assert!(matches!(long.finish(None), Err(InboundError::Refused(BlockRefusal::Length { .. }))));
    let mut short = rig.inbound.begin(block(0), SIZE).unwrap();
    short.write(&[IoSlice::new(&content(0)[1..])]).unwrap();
    assert!(matches!(short.finish(None), Err(InboundError::Refused(BlockRefusal::Length { .. }))));
    assert!(rig.stored(1) == content(1));
    deliver(&rig.inbound, 0).unwrap();
}

#[test]
fn a_full_store_says_so_and_takes_the_block_once_there_is_room() {
    let rig = Rig::free(2);
    deliver(&rig.inbound, 0).unwrap();
    rig.store.set_limit(Some(ByteCount(SIZE)));
    let full = deliver(&rig.inbound, 1).unwrap_err();
    assert!(full.is_full());
    assert!(matches!(full, InboundError::Sink(SinkError::Store(StoreError::Full(_)))), "{full}");
    rig.inbound.flush().expect("what is here can still be made durable");
    rig.store.set_limit(None);
    deliver(&rig.inbound, 1).unwrap();
    rig.inbound.flush().unwrap();
    assert!(rig.inbound.with(|receiver| receiver.is_complete()));
}

#[test]
fn what_a_failed_sync_may_have_lost_has_to_arrive_again() {
    let rig = Rig::gated(2);
    let (told, heard) = mpsc::channel();
    rig.inbound.add_loss_listener(Box::new(move |reason| told.send(reason.to_owned()).unwrap()));
    deliver(&rig.inbound, 0).unwrap();
    // Began before the failure, so its first bytes may be lost too.
    let mut arriving = rig.inbound.begin(block(1), SIZE).unwrap();
    arriving.write(&[IoSlice::new(&content(1))]).unwrap();
    let before = Instant::now();
    rig.order(Order::Full);
    let error = rig.inbound.flush().unwrap_err();
    assert!(error.is_full() && matches!(&error, InboundError::Broken(_)), "{error}");
    assert!(!error.is_passing(), "room does not make itself");
    assert!(heard.recv_timeout(PATIENCE).unwrap().full);
    assert!(matches!(arriving.finish(None), Err(InboundError::Broken(_))));
    let held_off = matches!(rig.inbound.begin(block(0), SIZE), Err(InboundError::Broken(_)));
    assert!(held_off || before.elapsed() >= GroupSync::INTERVAL, "a disk in trouble is not hammered");
    assert_eq!(rig.inbound.with(|receiver| receiver.missing(9)), [run(0, 2)]);

    rig.inbound.flush().expect("nothing is left to sync");
    (0..2).for_each(|number| deliver_and_sync(&rig, number));
    assert!(rig.inbound.with(|receiver| receiver.is_complete()));
}

/// Whoever had received everything was told of a failure that had been made good hours before.
#[test]
fn a_flush_says_nothing_of_what_was_lost_and_has_come_again() {
    let rig = Rig::gated(1);
    let (told, heard) = mpsc::channel();
    rig.inbound.add_loss_listener(Box::new(move |_| told.send(()).unwrap()));
    deliver(&rig.inbound, 0).unwrap();
    rig.order(Order::Full);
    heard.recv_timeout(PATIENCE).expect("a sync begins by itself");
    let until = Instant::now() + PATIENCE;
    while let Err(error) = deliver(&rig.inbound, 0) {
        assert!(Instant::now() < until, "{error}");
        std::thread::yield_now();
    }
    rig.order(Order::Sync);
    rig.inbound.flush().unwrap();
    assert!(rig.inbound.with(|receiver| receiver.is_complete()));
}

#[test]
fn a_record_that_failed_is_written_again_without_sending_again() {
    let rig = Rig::free(1);
    deliver(&rig.inbound, 0).unwrap();
    rig.ledger.fail(true);
    let error = rig.inbound.flush().unwrap_err();
    assert!(error.to_string().contains("record"), "{error}");
    assert!(error.is_passing(), "whoever sends may try again");
    assert!(!rig.inbound.with(|receiver| receiver.is_complete()));
    rig.ledger.fail(false);
    rig.inbound.flush().unwrap();
    assert!(rig.inbound.with(|receiver| receiver.is_complete()));
}

#[test]
fn a_panic_in_the_store_is_an_error_and_not_a_hang() {
    let rig = Rig::gated(1);
    deliver(&rig.inbound, 0).unwrap();
    rig.order(Order::Panic);
    assert!(matches!(rig.inbound.flush(), Err(InboundError::Broken(_))));
    rig.inbound.flush().unwrap();
    deliver(&rig.inbound, 0).unwrap();
    rig.order(Order::Sync);
    rig.inbound.flush().unwrap();
}

#[test]
fn what_arrives_during_a_sync_is_the_next_group() {
    let rig = Rig::gated(4);
    let (told, heard) = mpsc::channel();
    let kept = rig.inbound.add_listener(Box::new(move |runs| told.send(runs.to_vec()).unwrap()));
    let removed = rig.inbound.add_listener(Box::new(|_| panic!("it was removed")));
    rig.inbound.remove_listener(removed);
    deliver(&rig.inbound, 3).unwrap();
    rig.inbound.with(Receiver::handle_flush);
    rig.wait_for_sync();
    deliver(&rig.inbound, 2).unwrap();
    deliver(&rig.inbound, 0).unwrap();
    deliver(&rig.inbound, 1).unwrap();
    assert!(heard.try_recv().is_err(), "nothing is durable before the sync ends");
    rig.order(Order::Sync);
    rig.order(Order::Sync);
    rig.inbound.flush().unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), [run(3, 1)]);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), [run(0, 3)]);
    rig.inbound.remove_listener(kept);
    assert!(heard.recv_timeout(PATIENCE).is_err(), "no listener, no group: its sender is gone");
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_not_for_what_comes_after() {
    let rig = Rig::gated(2);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| {
            deliver(&rig.inbound, 0).unwrap();
            rig.inbound.flush().unwrap();
            assert!(rig.inbound.with(|receiver| receiver.durable().contains(block(0))));
        });
        rig.wait_for_sync();
        deliver(&rig.inbound, 1).unwrap();
        rig.order(Order::Sync);
        flush.join().unwrap();
    });
    assert!(!rig.inbound.with(|receiver| receiver.is_complete()), "the second block's sync is still held");
}

#[test]
fn a_flush_does_not_wait_for_blocks_that_are_freed_meanwhile() {
    // One that never comes, or the one before it would begin a sync by itself.
    let rig = Rig::gated(12);
    (0..10).for_each(|number| deliver_and_sync(&rig, number));
    deliver(&rig.inbound, 10).unwrap();
    let (told, heard) = mpsc::channel();
    let flushing = Arc::clone(&rig.inbound);
    // Not joined: one that waits for ever is what this is about.
    std::thread::spawn(move || told.send(flushing.flush().is_ok()));
    rig.wait_for_sync();
    rig.inbound.with(|receiver| receiver.handle_freed(&[run(0, 5)]));
    rig.order(Order::Sync);
    assert!(heard.recv_timeout(PATIENCE).expect("the flush returns"));
    assert!(rig.inbound.with(|receiver| receiver.durable().contains(block(10))));
}

#[test]
fn without_a_flush_a_block_is_durable_soon() {
    let rig = Rig::free(1);
    let (told, heard) = mpsc::channel();
    rig.inbound.add_listener(Box::new(move |runs| told.send(runs.to_vec()).unwrap()));
    deliver(&rig.inbound, 0).unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), [run(0, 1)]);
}

#[test]
fn closing_during_a_flush_syncs_what_is_here_and_ends_both() {
    let rig = Rig::gated(2);
    deliver(&rig.inbound, 0).unwrap();
    let late = rig.inbound.begin(block(1), SIZE).unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| rig.inbound.flush());
        rig.wait_for_sync();
        let closers = [(); 2].map(|()| scope.spawn(|| rig.inbound.close()));
        rig.order(Order::Sync);
        flush.join().unwrap().expect("its block was made durable");
        closers.into_iter().for_each(|closer| closer.join().unwrap());
    });
    assert!(matches!(rig.inbound.begin(block(1), SIZE), Err(InboundError::Closed)));
    assert!(crate::rig::finish(late, 1).is_err(), "arrivals fail once it is closed");
    rig.inbound.flush().expect("all that was received is durable");
}

#[test]
fn closing_on_a_disk_that_fails_ends_a_waiting_flush_with_the_reason() {
    let rig = Rig::gated(1);
    deliver(&rig.inbound, 0).unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| rig.inbound.flush());
        rig.wait_for_sync();
        let closer = scope.spawn(|| rig.inbound.close());
        rig.order(Order::Full);
        assert!(matches!(flush.join().unwrap(), Err(InboundError::Broken(_))));
        closer.join().unwrap();
    });
}

#[test]
fn a_listener_may_close_while_another_thread_does() {
    let rig = Rig::gated(1);
    let inbound = Arc::clone(&rig.inbound);
    let place: Arc<OnceLock<Weak<Inbound>>> = Arc::default();
    let seen = Arc::clone(&place);
    inbound.add_listener(Box::new(move |_| {
        if let Some(inbound) = seen.get().and_then(Weak::upgrade) {
            inbound.close();
        }
    }));
    place.set(Arc::downgrade(&inbound)).unwrap();
    deliver(&inbound, 0).unwrap();
    inbound.with(Receiver::handle_flush);
    rig.wait_for_sync();
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| inbound.close());
        rig.order(Order::Sync);
        closer.join().unwrap();
    });
    assert!(matches!(inbound.begin(block(0), SIZE), Err(InboundError::Closed)));
}
