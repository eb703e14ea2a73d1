//! An inbound over a memory store whose syncs wait for orders.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use terahaul_core::{BLOCK_SIZE, BlockNumber, BlockProof, BlockShape, ByteCount, Hash, Receiver, TransferId};
use terahaul_store::{
    Arrival, BlockSink, BlockWriter, FlatSink, FlatTransfer, Inbound, InboundError, Ledger, LedgerError,
    MemoryLedger, MemoryStore, SinkError, Store,
};

/// Bytes in each block, which is one small file.
pub const SIZE: u64 = 5000;
/// From one block to the next.
pub const SPAN: u64 = BLOCK_SIZE;

/// What a sync is to do.
pub enum Order {
    Sync,
    Full,
    Panic,
}

struct GatedSink {
    sink: FlatSink,
    entered: mpsc::Sender<()>,
    orders: Mutex<mpsc::Receiver<Order>>,
}

impl BlockSink for GatedSink {
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        self.sink.begin(shape)
    }

    fn sync(&self) -> Result<(), SinkError> {
        let _ = self.entered.send(());
        let order = self.orders.lock().unwrap().recv();
        match order {
            Ok(Order::Full) => Err(SinkError::Full(io::ErrorKind::StorageFull.into())),
            Ok(Order::Panic) => panic!("as the test asked"),
            // Nobody gives orders any more.
            Ok(Order::Sync) | Err(_) => self.sink.sync(),
        }
    }
}

/// A ledger that fails when told to.
#[derive(Default)]
pub struct FailingLedger {
    ledger: MemoryLedger,
    failing: AtomicBool,
}

impl FailingLedger {
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }
}

impl Ledger for FailingLedger {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(LedgerError { action: "written", source: "the database is locked".into() });
        }
        self.ledger.record(proven)
    }

    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        self.ledger.proof(shape)
    }
}

pub struct Rig {
    // Dropped before the inbound, whose last sync would wait for orders.
    orders: Option<mpsc::Sender<Order>>,
    entered: Mutex<mpsc::Receiver<()>>,
    pub inbound: Arc<Inbound>,
    pub ledger: Arc<FailingLedger>,
    pub store: MemoryStore,
    transfer: Arc<dyn FlatTransfer>,
}

impl Rig {
    /// So many blocks; syncs run by themselves.
    pub fn free(blocks: u32) -> Self {
        let mut rig = Self::gated(blocks);
        rig.orders = None;
        rig
    }

    /// So many blocks; each sync waits for an order.
    pub fn gated(blocks: u32) -> Self {
        let store = MemoryStore::new();
        let transfer = store.create(TransferId([1; 16])).unwrap();
        let ledger = Arc::new(FailingLedger::default());
        let mut receiver = Receiver::default();
        for _ in 0..blocks {
            receiver.append(Some(ByteCount(SIZE))).unwrap();
            receiver.seal();
        }
        let (orders, taken) = mpsc::channel();
        let (enter, entered) = mpsc::channel();
        let sink = GatedSink {
            sink: FlatSink::new(Arc::clone(&transfer)),
            entered: enter,
            orders: Mutex::new(taken),
        };
        let inbound = Inbound::start(receiver, Arc::new(sink), ledger.clone()).unwrap();
        let (orders, entered, inbound) = (Some(orders), Mutex::new(entered), Arc::new(inbound));
        Self { orders, entered, inbound, ledger, store, transfer }
    }

    /// Lets one sync go on, now or when it comes.
    pub fn order(&self, order: Order) {
        self.orders.as_ref().unwrap().send(order).unwrap();
    }

    /// Returns when a sync has begun.
    pub fn wait_for_sync(&self) {
        self.entered.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
    }

    /// What the store has of a block.
    pub fn stored(&self, number: u32) -> Vec<u8> {
        let mut bytes = vec![0; SIZE as usize];
        self.transfer.read_at(BlockNumber(number).address(), &mut bytes).unwrap();
        bytes
    }
}

/// A block's bytes.
pub fn content(number: u32) -> Vec<u8> {
    (0..SIZE as u32).map(|at| (at.wrapping_mul(31) + number * 7) as u8 | 1).collect()
}

/// Delivers the rest of a block.
pub fn finish(mut arrival: Arrival<'_>, number: u32) -> Result<Hash, InboundError> {
    let bytes = content(number);
    let parts: Vec<_> = bytes.chunks(1024).map(IoSlice::new).collect();
    parts.chunks(2).try_for_each(|parts| arrival.write(parts))?;
    arrival.finish(None)
}

/// Delivers a block.
pub fn deliver(inbound: &Inbound, number: u32) -> Result<Hash, InboundError> {
    finish(inbound.begin(BlockNumber(number), SIZE)?, number)
}
