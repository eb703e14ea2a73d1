//! A data channel's plaintext: whatever frames a sender makes up, only declared blocks with right values are kept.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use terahaul_core::{ByteCount, Receiver, TransferId};
use terahaul_fuzz::{opener, sealer};
use terahaul_net::channel::{SealedReader, SealedWriter, receive_blocks};
use terahaul_store::{FlatSink, Inbound, Ledger, MemoryLedger, MemoryStore, Store};

/// Three packed files in block 0, one large file whose last block, number 2, is short.
const SIZES: [u64; 4] = [3, 5, (4 << 20) + 7, 11];

fuzz_target!(|plain: &[u8]| {
    let mut receiver = Receiver::default();
    for size in SIZES {
        receiver.append(Some(ByteCount(size))).expect("they fit");
    }
    receiver.seal();
    let blocks = receiver.layout().block_count();

    let mut sealed = Vec::new();
    let mut writer = SealedWriter::new(&mut sealed, sealer());
    writer.write(&mut plain.to_vec()).expect("a vector takes all");
    writer.close().expect("a vector takes all");

    let flat = MemoryStore::new().create(TransferId([1; 16])).expect("a new store");
    let ledger = Arc::new(MemoryLedger::default());
    let inbound = Inbound::start(receiver, Arc::new(FlatSink::new(flat)), Arc::clone(&ledger) as _).expect("a thread");
    let reader = SealedReader::new(sealed.as_slice(), opener(), &[], &[]).expect("the records are right");
    let refused = |block: terahaul_core::BlockNumber, error: terahaul_wire::WireError| {
        assert!(u64::from(block.0) < blocks && !error.message.is_empty());
    };
    if let Err(error) = receive_blocks(reader, &inbound, &refused, &|_| Ok(())) {
        assert!(!error.to_string().is_empty());
    }
    inbound.flush().expect("memory does not fail");
    inbound.with(|receiver| {
        assert_eq!(receiver.received(), receiver.durable());
        for block in receiver.durable().runs().flat_map(terahaul_core::BlockRun::blocks) {
            let shape = receiver.layout().shape(block).expect("only declared blocks are kept");
            assert!(ledger.proof(&shape).is_ok_and(|proof| proof.is_some()));
        }
    });
});
