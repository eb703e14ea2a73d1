//! Files that cannot be read while they are sent.

use super::rig::{Bytes, established, send_all};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use terahaul_core::{
    BlockHasher, BlockNumber, BlockProof, BlockShape, ByteCount, ChannelId, EntryIndex, FailureCause, Hash,
    Receiver, TransferId,
};
use terahaul_net::channel::{
    Outbound, OutboundEvent, SealedReader, Sender, receive_blocks, shared_compression,
};
use terahaul_store::{
    BlockSource, EntryFailure, FlatSink, Inbound, MemoryLedger, MemoryStore, Store, piece_at,
};
use terahaul_wire::{ErrorCode, WireError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const UNREADABLE: EntryIndex = EntryIndex(0);
const FILES: u32 = 2;
const SIZE: ByteCount = ByteCount(1000);

/// Small files in one block, of which the first cannot be read just now.
struct Unreadable {
    /// What the block was worth when it was whole, where that is recorded, as in a depot.
    recorded: Option<Hash>,
}

impl BlockSource for Unreadable {
    fn known_value(&self, _: BlockNumber) -> io::Result<Option<Hash>> {
        Ok(self.recorded)
    }

    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let piece = piece_at(buffer, 0, shape.len);
        piece.fill(0);
        emit(piece)?;
        Ok(vec![EntryFailure { entry: UNREADABLE, cause: FailureCause::Unreadable, detail: String::new() }])
    }
}

/// One data channel that sends what there is to send: which blocks were refused.
fn send(outbound: &Outbound, inbound: &Inbound, source: &dyn BlockSource) -> Vec<BlockNumber> {
    send_refused(outbound, inbound, source).into_iter().map(|(block, _)| block).collect()
}

/// The same, and why they were.
fn send_refused(
    outbound: &Outbound,
    inbound: &Inbound,
    source: &dyn BlockSource,
) -> Vec<(BlockNumber, WireError)> {
    let (client, server, rest) = established();
    let sender = Sender {
        outbound,
        source,
        channel: ChannelId(0),
        hold: &|_| Ok(()),
        compression: &shared_compression(terahaul_core::Compress::No),
        line_full: &|| false,
        is_gone: &|| false,
    };
    let wire = send_all(&sender, client.sealer);
    let reader = SealedReader::new(wire.as_slice(), server.opener, &server.early, &rest).unwrap();
    let refused = Mutex::new(Vec::new());
    let refuse = |block, error| refused.lock().unwrap().push((block, error));
    receive_blocks(reader, inbound, &refuse, &|_| Ok(())).unwrap();
    inbound.flush().unwrap();
    refused.into_inner().unwrap()
}

/// The sender may end after any of these steps. A next one finds the file as it was declared, and sends what is not durable.
#[test]
fn zeros_that_stand_for_a_file_are_not_kept_before_the_receiver_has_heard_of_it() {
    zeros_stand_for_a_file(None);
}

/// A depot's disk has lost a file: the others of its block arrive all the same.
#[test]
fn a_block_is_not_worth_any_more_what_was_recorded_of_it() {
    zeros_stand_for_a_file(Some(Hash([9; 32])));
}

/// Both ends of a transfer of these files, and what the sender's control channel is to tell.
fn both_ends() -> (Outbound, Inbound, UnboundedReceiver<OutboundEvent>) {
    both_ends_of(FILES)
}

fn both_ends_of(files: u32) -> (Outbound, Inbound, UnboundedReceiver<OutboundEvent>) {
    let mut receiver = Receiver::default();
    for _ in 0..files {
        receiver.append(Some(SIZE)).unwrap();
    }
    receiver.seal();
    let sink = Arc::new(FlatSink::new(MemoryStore::new().create(TransferId([1; 16])).unwrap()));
    let inbound = Inbound::start(receiver, sink, Arc::new(MemoryLedger::default())).unwrap();
    let (events, heard) = unbounded_channel();
    let outbound = Outbound::new(events);
    outbound.declare((0..files).map(|_| Some(SIZE)), true).unwrap();
    outbound.handle_accepted(files.into()).unwrap();
    (outbound, inbound, heard)
}

/// The receiver has refused the block, and has read what in it has failed.
fn hears_of_failures(outbound: &Outbound) {
    let refusal = WireError::passing(ErrorCode::Conflict, "");
    outbound.handle_told(BlockNumber(0), outbound.untold(BlockNumber(0)), Some(refusal)).unwrap();
}

fn zeros_stand_for_a_file(recorded: Option<Hash>) {
    let (outbound, inbound, mut heard) = both_ends();
    let source = &Unreadable { recorded };

    assert_eq!(send(&outbound, &inbound, source), [BlockNumber(0)]);
    assert!(inbound.with(|receiver| receiver.durable().runs().next().is_none()), "zeros were kept");
    let Ok(OutboundEvent::Failed(failures)) = heard.try_recv() else { panic!("nobody is told") };
    assert_eq!(failures[0].entry, UNREADABLE);

    // The control channel has told, and hears that the block was refused.
    inbound.with(|receiver| receiver.handle_failed([UNREADABLE]));
    hears_of_failures(&outbound);
    assert_eq!(send(&outbound, &inbound, source), []);
    assert!(inbound.with(|receiver| receiver.is_complete()), "the other file has arrived");
    assert!(heard.try_recv().is_err(), "said once");

    // A new session's receiver may have lost what the last one was told.
    outbound.reopen();
    let zeros = outbound.value_to_send(Hash([7; 32]), &failures);
    assert_ne!(zeros, Hash([7; 32]));
}

/// A block of which one more file has changed each time that it is read, while other bytes of it go out.
struct Changing {
    read: AtomicU32,
}

impl BlockSource for Changing {
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let piece = piece_at(buffer, 0, shape.len);
        piece.fill(WHOLE);
        emit(piece)?;
        let changed = self.read.fetch_add(1, Ordering::Relaxed).min(MANY - 2);
        let failed = |entry| EntryFailure {
            entry: EntryIndex(entry),
            cause: FailureCause::Changed,
            detail: String::new(),
        };
        Ok((0..=changed).map(failed).collect())
    }
}

const MANY: u32 = 50;

/// It was sent once more for each, and the session ended at the sixth.
#[test]
fn a_block_whose_files_change_one_after_another_is_sent_twice_at_most() {
    let (outbound, inbound, mut heard) = both_ends_of(MANY);
    let source = &Changing { read: AtomicU32::default() };
    assert_eq!(send(&outbound, &inbound, source), [BlockNumber(0)]);
    let sent = outbound.sent();
    inbound.with(|receiver| receiver.handle_failed([EntryIndex(0)]));
    hears_of_failures(&outbound);
    while inbound.with(|receiver| !receiver.is_complete()) {
        assert_eq!(send(&outbound, &inbound, source), []);
        while let Ok(event) = heard.try_recv() {
            match event {
                OutboundEvent::Failed(failures) => {
                    let entries = failures.iter().map(|failure| failure.entry);
                    inbound.with(|receiver| receiver.handle_failed(entries));
                }
                OutboundEvent::Unread(block, untold) => outbound.handle_told(block, untold, None).unwrap(),
                OutboundEvent::Advice(_) => {}
            }
        }
    }
    assert_eq!(outbound.sent().0, 2 * sent.0);
}

/// A depot's disk, which gives other bytes of the second file than it was given, and does not say so.
struct Rotten;

/// What each byte of a block was when it arrived.
const WHOLE: u8 = 7;

impl BlockSource for Rotten {
    fn known_value(&self, _: BlockNumber) -> io::Result<Option<Hash>> {
        let mut layout = terahaul_core::Layout::new();
        for _ in 0..FILES {
            layout.append(Some(SIZE)).unwrap();
        }
        layout.seal();
        let proof = self.known_proof(&layout.shape(BlockNumber(0)).unwrap())?;
        Ok(proof.map(|proof| proof.value()))
    }

    fn known_proof(&self, shape: &BlockShape) -> io::Result<Option<BlockProof>> {
        let mut hasher = BlockHasher::new(shape);
        hasher.update(&vec![WHOLE; shape.len as usize]);
        Ok(Some(hasher.finish()))
    }

    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let piece = piece_at(buffer, 0, shape.len);
        piece.fill(WHOLE);
        piece[SIZE.0 as usize] = 0;
        emit(piece)?;
        Ok(Vec::new())
    }
}

#[test]
fn a_file_that_is_not_as_it_was_recorded_fails_alone_once_its_block_was_refused() {
    let (outbound, inbound, mut heard) = both_ends();
    assert_eq!(send(&outbound, &inbound, &Rotten), [BlockNumber(0)]);
    assert!(heard.try_recv().is_err(), "it may be the way that has changed it");

    assert!(outbound.handle_refused(BlockNumber(0)));
    assert_eq!(send(&outbound, &inbound, &Rotten), [], "nothing of it is sent before that is said");
    let Ok(OutboundEvent::Failed(failures)) = heard.try_recv() else { panic!("nobody is told") };
    let rotten = EntryIndex(1);
    assert_eq!(failures.iter().map(|failure| failure.entry).collect::<Vec<_>>(), [rotten]);
    let Ok(OutboundEvent::Unread(block, untold)) = heard.try_recv() else { panic!("it is not asked for") };
    assert_eq!((block, &untold[..]), (BlockNumber(0), &[rotten][..]));

    inbound.with(|receiver| receiver.handle_failed([rotten]));
    outbound.handle_told(block, untold, None).unwrap();
    assert_eq!(send(&outbound, &inbound, &Rotten), []);
    assert!(inbound.with(|receiver| receiver.is_complete()), "the other file has arrived");
    assert!(heard.try_recv().is_err(), "said once");
}

/// It was sent with the value that the damaged bytes have, the receiver took it, and nothing of the transfer got its name, in any run.
#[test]
fn a_file_that_is_not_as_it_was_recorded_fails_also_where_another_of_its_block_had_failed_before() {
    let (outbound, inbound, mut heard) = both_ends();
    outbound.handle_failed([UNREADABLE]);
    inbound.with(|receiver| receiver.handle_failed([UNREADABLE]));
    assert_eq!(send(&outbound, &inbound, &Rotten), [BlockNumber(0)]);
    let Ok(OutboundEvent::Failed(failures)) = heard.try_recv() else { panic!("nobody is told") };
    assert_eq!(failures.iter().map(|failure| failure.entry).collect::<Vec<_>>(), [EntryIndex(1)]);
}

/// A channel was lost after it had delivered the block and before that was durable; then one of its files vanished.
#[test]
fn a_file_that_vanishes_between_two_sendings_of_its_block_fails_alone() {
    let (outbound, inbound, mut heard) = both_ends();
    let whole = Bytes(vec![WHOLE; 2 * SIZE.0 as usize]);
    assert_eq!(send(&outbound, &inbound, &whole), []);
    outbound.handle_channel_lost(ChannelId(0));

    let vanished = &Unreadable { recorded: None };
    let refused = send_refused(&outbound, &inbound, vanished);
    assert!(heard.try_recv().is_ok());
    inbound.with(|receiver| receiver.handle_failed([UNREADABLE]));
    assert_eq!(refused.len(), 1);
    hears_of_failures(&outbound);
    for _ in 0..10 {
        let refused = send_refused(&outbound, &inbound, vanished);
        let [(block, error)] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((error.code, error.retry), (ErrorCode::Conflict, false), "the first is kept");
        outbound.handle_refusal(*block, error.clone()).unwrap();
        assert!(outbound.is_sent(), "it waits for the one that is there to become durable");
        outbound.handle_channel_lost(ChannelId(0));
    }
    assert!(inbound.with(|receiver| receiver.is_complete()), "the other file has arrived");
}

/// Nothing is known to have failed, so what is there and what is sent may each be half of two versions.
#[test]
fn a_block_that_differs_from_the_one_that_was_kept_ends_the_session_unless_a_file_has_failed() {
    let (outbound, inbound, _heard) = both_ends();
    assert_eq!(send(&outbound, &inbound, &Bytes(vec![WHOLE; 2 * SIZE.0 as usize])), []);
    outbound.handle_channel_lost(ChannelId(0));
    let other = Bytes(vec![1; 2 * SIZE.0 as usize]);
    let told: Vec<_> = (0..6)
        .map(|_| {
            let refused = send_refused(&outbound, &inbound, &other);
            let [(block, error)] = &refused[..] else { panic!("{refused:?}") };
            outbound.handle_refusal(*block, error.clone()).is_ok()
        })
        .collect();
    assert_eq!(told, [true, true, true, true, true, false]);
}
