//! Whatever is called durable is there after a power cut, and nothing is called complete that is not.

use std::io::IoSlice;
use std::sync::Arc;

use proptest::prelude::*;
use terahaul_core::{BlockNumber, BlockSet, ByteCount, Layout, Receiver, TransferId};
use terahaul_store::power_cut::{PowerCutDisk, PowerCutLedger, Survivors};
use terahaul_store::{DirectoryStore, FlatSink, FlatTransfer, Inbound, Store, StoreError, StorePlace};

const ID: TransferId = TransferId([3; 16]);

#[derive(Clone, Debug)]
enum Step {
    /// A block arrives whole; in pieces of this many bytes.
    Arrive(usize, usize),
    /// A block's sender dies half-way.
    Stop(usize),
    Flush,
    Cut(Survivors),
    /// The power goes out by itself after so many calls.
    FailAfter(u64),
}

fn survivors() -> impl Strategy<Value = Survivors> {
    prop_oneof![Just(Survivors::None), any::<u64>().prop_map(Survivors::Random)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (any::<usize>(), 1usize..3000).prop_map(|(block, piece)| Step::Arrive(block, piece)),
        1 => any::<usize>().prop_map(Step::Stop),
        3 => Just(Step::Flush),
        2 => survivors().prop_map(Step::Cut),
        1 => (0u64..12).prop_map(Step::FailAfter),
    ]
}

/// A depot's one transfer on a disk that loses power. Each size is a block of its own.
struct Depot {
    sizes: Vec<u32>,
    disk: PowerCutDisk,
    store: DirectoryStore<PowerCutDisk>,
    ledger: Arc<PowerCutLedger>,
    inbound: Option<Inbound>,
    /// A receipt was given.
    promised: bool,
}

impl Depot {
    fn new(sizes: Vec<u32>) -> Self {
        let disk = PowerCutDisk::new();
        let store = DirectoryStore::over(disk.clone());
        let ledger = Arc::new(PowerCutLedger::new(&disk));
        Self { sizes, disk, store, ledger, inbound: None, promised: false }
    }

    fn content(&self, block: usize) -> Vec<u8> {
        (0..self.sizes[block]).map(|at| (at as usize * 31 + block * 7 + 1) as u8 | 1).collect()
    }

    fn open_transfer(&self) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        match self.store.create(ID) {
            Err(StoreError::Exists(_)) => self.store.open(ID),
            other => other,
        }
    }

    /// The session that takes blocks, made anew after a cut; `None` when the power is out.
    fn inbound(&mut self) -> Option<&Inbound> {
        if self.inbound.is_none() {
            let transfer = self.open_transfer().ok()?;
            let mut layout = Layout::new();
            for size in &self.sizes {
                layout.append(Some(ByteCount(u64::from(*size)))).unwrap();
                layout.seal();
            }
            let receiver = Receiver::resuming(layout, self.ledger.durable(), []);
            let sink = Arc::new(FlatSink::new(transfer));
            self.inbound = Some(Inbound::start(receiver, sink, self.ledger.clone()).unwrap());
        }
        self.inbound.as_ref()
    }

    /// One step; `false` when it failed, as it does while the power is out.
    fn run(&mut self, step: &Step) -> bool {
        match step {
            Step::Arrive(block, piece) => {
                let block = block % self.sizes.len();
                let bytes = self.content(block);
                let Some(inbound) = self.inbound() else { return false };
                let Ok(mut arrival) = inbound.begin(BlockNumber(block as u32), bytes.len() as u64) else {
                    return false;
                };
                let parts: Vec<_> = bytes.chunks(*piece).map(IoSlice::new).collect();
                parts.chunks(2).all(|parts| arrival.write(parts).is_ok()) && arrival.finish(None).is_ok()
            }
            Step::Stop(block) => {
                let block = block % self.sizes.len();
                let bytes = self.content(block);
                let Some(inbound) = self.inbound() else { return false };
                let Ok(mut arrival) = inbound.begin(BlockNumber(block as u32), bytes.len() as u64) else {
                    return false;
                };
                arrival.write(&[IoSlice::new(&bytes[..bytes.len() / 2])]).is_ok()
            }
            Step::Flush => {
                let Some(inbound) = self.inbound() else { return false };
                if inbound.flush().is_err() {
                    return false;
                }
                if inbound.with(|receiver| receiver.is_complete()) && !self.promised {
                    self.promised = self.store.publish(ID).is_ok();
                    return self.promised;
                }
                true
            }
            Step::Cut(survivors) => {
                self.cut(*survivors);
                true
            }
            Step::FailAfter(calls) => {
                self.disk.fail_after(*calls);
                true
            }
        }
    }

    fn cut(&mut self, survivors: Survivors) {
        self.disk.fail_after(0);
        self.inbound = None;
        self.disk.power_cut(survivors);
    }

    /// Whether all that was promised is there.
    fn check(&self) -> Result<(), String> {
        let durable: BlockSet = self.ledger.durable();
        let transfer = match self.store.open(ID) {
            Ok(transfer) => transfer,
            Err(StoreError::Missing(_)) if durable.is_empty() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let promised = |block: &usize| self.promised || durable.contains(BlockNumber(*block as u32));
        for block in (0..self.sizes.len()).filter(promised) {
            let mut bytes = vec![0; self.sizes[block] as usize];
            let read = transfer.read_at(BlockNumber(block as u32).address(), &mut bytes);
            read.map_err(|error| format!("block {block}: {error}"))?;
            if bytes != self.content(block) {
                return Err(format!("block {block} lost bytes"));
            }
        }
        let places = self.store.list().map_err(|error| error.to_string())?;
        match places[..] {
            [(ID, StorePlace::Published)] => Ok(()),
            [(ID, StorePlace::Incoming)] if !self.promised => Ok(()),
            // A move that the cut came into.
            [(ID, StorePlace::Incoming), (ID, StorePlace::Published)] if !self.promised => Ok(()),
            _ => Err(format!("found at {places:?}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_called_durable_is_there_after_a_power_cut(
        sizes in proptest::collection::vec(1u32..5000, 1..8),
        steps in proptest::collection::vec(step(), 1..60),
        last in survivors(),
    ) {
        let mut depot = Depot::new(sizes);
        for step in &steps {
            if !depot.run(step) {
                depot.cut(last);
            }
            if matches!(step, Step::Cut(_)) {
                depot.check().map_err(TestCaseError::fail)?;
            }
        }
        depot.cut(last);
        depot.check().map_err(TestCaseError::fail)?;

        // Power stays on: what is missing arrives, once, and the receipt is good.
        let missing: Vec<usize> =
            (0..depot.sizes.len()).filter(|block| !depot.ledger.durable().contains(BlockNumber(*block as u32))).collect();
        for block in missing {
            prop_assert!(depot.run(&Step::Arrive(block, 700)));
        }
        prop_assert!(depot.run(&Step::Flush));
        prop_assert!(depot.promised);
        depot.cut(Survivors::None);
        depot.check().map_err(TestCaseError::fail)?;
    }
}

fn complete() -> Depot {
    let mut depot = Depot::new(vec![4000, 1, 513]);
    (0..3).for_each(|block| assert!(depot.run(&Step::Arrive(block, 512))));
    depot.inbound().unwrap().flush().unwrap();
    depot
}

#[test]
fn the_test_would_notice_a_disk_that_lies() {
    let mut depot = Depot::new(vec![4000, 1, 513]);
    depot.disk.lie();
    (0..3).for_each(|block| assert!(depot.run(&Step::Arrive(block, 512))));
    assert!(depot.run(&Step::Flush));
    depot.cut(Survivors::None);
    assert!(depot.check().is_err());
}

/// Cuts the power at every call of `act`; what was durable before is whole after, and the same act works once the power is
/// back: then it is in one place.
fn survives_at_every_step(
    prepare: impl Fn(&Depot),
    act: impl Fn(&Depot) -> Result<(), StoreError>,
    end: StorePlace,
) {
    for survivors in std::iter::once(Survivors::None).chain((1..9).map(Survivors::Random)) {
        let mut calls = 0;
        loop {
            let mut depot = complete();
            prepare(&depot);
            depot.disk.fail_after(calls);
            let finished = act(&depot).is_ok();
            depot.cut(survivors);
            depot.check().unwrap();
            if finished {
                assert_eq!(depot.store.list().unwrap(), [(ID, end)], "done means done");
            }
            act(&depot).unwrap();
            depot.cut(Survivors::None);
            depot.check().unwrap();
            assert_eq!(depot.store.list().unwrap(), [(ID, end)]);
            if finished {
                break;
            }
            calls += 1;
        }
        assert!(calls >= 3, "the act has steps to be cut at");
    }
}

#[test]
fn publishing_survives_a_cut_at_every_step() {
    survives_at_every_step(|_| (), |depot| depot.store.publish(ID), StorePlace::Published);
}

#[test]
fn reopening_survives_a_cut_at_every_step() {
    let publish = |depot: &Depot| depot.store.publish(ID).unwrap();
    survives_at_every_step(publish, |depot| depot.store.reopen(ID), StorePlace::Incoming);
}

#[test]
fn what_was_removed_does_not_come_back() {
    for publish in [false, true] {
        let depot = complete();
        if publish {
            depot.store.publish(ID).unwrap();
        }
        depot.store.remove(ID).unwrap();
        depot.disk.power_cut(Survivors::None);
        assert_eq!(depot.store.list().unwrap(), []);
    }
}
