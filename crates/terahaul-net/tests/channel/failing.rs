//! Files that cannot be read while they are sent.

use super::rig::{established, send_all};
use std::io;
use std::sync::{Arc, Mutex};

use terahaul_core::{
    BlockNumber, BlockShape, ByteCount, ChannelId, EntryIndex, FailureCause, Hash, Receiver, TransferId,
};
use terahaul_net::channel::{
    Outbound, OutboundEvent, SealedReader, Sender, receive_blocks, shared_compression,
};
use terahaul_store::{
    BlockSource, EntryFailure, FlatSink, Inbound, MemoryLedger, MemoryStore, Store, piece_at,
};
use tokio::sync::mpsc::unbounded_channel;

const UNREADABLE: EntryIndex = EntryIndex(0);
const FILES: u32 = 2;
const SIZE: ByteCount = ByteCount(1000);

/// Small files in one block, of which the first cannot be read just now.
struct Unreadable {
    /// What the block was worth when it was whole, where that is recorded, as in a depot.
    recorded: Option<Hash>,
}

impl BlockSource for Unreadable {
    fn known_value(&self, _: BlockNumber) -> Option<Hash> {
        self.recorded
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

/// One data channel that sends what there is to send.
fn send(outbound: &Outbound, inbound: &Inbound, recorded: Option<Hash>) -> Vec<BlockNumber> {
    let (client, server, rest) = established();
    let sender = Sender {
        outbound,
        source: &Unreadable { recorded },
        channel: ChannelId(0),
        hold: &|_| Ok(()),
        compression: &shared_compression(terahaul_core::Compress::No),
        line_full: &|| false,
        is_gone: &|| false,
    };
    let wire = send_all(&sender, client.sealer);
    let reader = SealedReader::new(wire.as_slice(), server.opener, &server.early, &rest).unwrap();
    let refused = Mutex::new(Vec::new());
    let refuse = |block, _| refused.lock().unwrap().push(block);
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

fn zeros_stand_for_a_file(recorded: Option<Hash>) {
    let mut receiver = Receiver::default();
    for _ in 0..FILES {
        receiver.append(Some(SIZE)).unwrap();
    }
    receiver.seal();
    let sink = Arc::new(FlatSink::new(MemoryStore::new().create(TransferId([1; 16])).unwrap()));
    let inbound = Inbound::start(receiver, sink, Arc::new(MemoryLedger::default())).unwrap();
    let (events, mut heard) = unbounded_channel();
    let outbound = Outbound::new(events);
    outbound.declare((0..FILES).map(|_| Some(SIZE)), true).unwrap();
    outbound.handle_accepted(FILES.into()).unwrap();

    assert_eq!(send(&outbound, &inbound, recorded), [BlockNumber(0)]);
    assert!(inbound.with(|receiver| receiver.durable().runs().next().is_none()), "zeros were kept");
    let Ok(OutboundEvent::Failed(failures)) = heard.try_recv() else { panic!("nobody is told") };
    assert_eq!(failures[0].entry, UNREADABLE);

    // The control channel has told, and hears that the block was refused.
    inbound.with(|receiver| receiver.handle_failed([UNREADABLE]));
    assert!(outbound.handle_refused(BlockNumber(0)));
    assert_eq!(send(&outbound, &inbound, recorded), []);
    assert!(inbound.with(|receiver| receiver.is_complete()), "the other file has arrived");
    assert!(heard.try_recv().is_err(), "said once");

    // A new session's receiver may have lost what the last one was told.
    outbound.reopen();
    let zeros = outbound.value_to_send(Hash([7; 32]), &failures);
    assert_ne!(zeros, Hash([7; 32]));
}
