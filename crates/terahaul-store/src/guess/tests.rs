use std::io;
use std::sync::Mutex;

use proptest::prelude::*;
use terahaul_core::{BLOCK_SIZE, BlockShape, ByteCount, Receiver, TransferId};

use super::*;
use crate::{
    BasisError, BlockSink, BlockWriter, FlatSink, FlatTransfer, MemoryLedger, MemoryStore, SinkError, Store,
};

const GROUP: u32 = 16 << 10;
const SIZE: u64 = 2 * BLOCK_SIZE + 100_000;

/// A sink whose file replaces `old`, and which counts what it reads of that and what it writes.
struct Replacing {
    inner: FlatSink,
    old: Vec<u8>,
    read: Mutex<u64>,
    written: Arc<Mutex<u64>>,
    fails: Mutex<bool>,
}

struct Counting<'a>(Box<dyn BlockWriter + 'a>, Arc<Mutex<u64>>);

impl BlockWriter for Counting<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError> {
        *self.1.lock().unwrap() += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.0.write(parts)
    }

    fn skip(&mut self, len: u32) -> Result<(), SinkError> {
        self.0.skip(len)
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.0.finish()
    }
}

impl BlockSink for Replacing {
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        Ok(Box::new(Counting(self.inner.begin(shape)?, Arc::clone(&self.written))))
    }

    fn read_basis(&self, _: &BlockShape, from: u64, buffer: &mut [u8]) -> Result<(), BasisError> {
        let old = self.old.get(from as usize..from as usize + buffer.len());
        buffer.copy_from_slice(old.ok_or(BasisError::Outside)?);
        *self.read.lock().unwrap() += buffer.len() as u64;
        Ok(())
    }

    fn sync(&self) -> Result<(), SinkError> {
        match *self.fails.lock().unwrap() {
            true => Err(SinkError::Io(io::ErrorKind::Other.into())),
            false => self.inner.sync(),
        }
    }
}

struct Rig {
    inbound: Inbound,
    sink: Arc<Replacing>,
    flat: Arc<dyn FlatTransfer>,
    judged: Arc<Mutex<Vec<(BlockNumber, bool)>>>,
}

fn content(len: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(next).collect()
}

impl Rig {
    fn replacing(old: Vec<u8>) -> Self {
        let mut receiver = Receiver::default();
        receiver.append(Some(ByteCount(SIZE))).unwrap();
        receiver.seal();
        let flat = MemoryStore::new().create(TransferId([1; 16])).unwrap();
        let sink = Arc::new(Replacing {
            inner: FlatSink::new(Arc::clone(&flat)),
            old,
            read: Mutex::default(),
            written: Arc::default(),
            fails: Mutex::default(),
        });
        let inbound = Inbound::start(receiver, sink.clone(), Arc::new(MemoryLedger::default())).unwrap();
        let judged = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&judged);
        inbound
            .set_guess_listener(Box::new(move |block, right| listener.lock().unwrap().push((block, right))));
        Self { inbound, sink, flat, judged }
    }

    fn shape(&self, block: u32) -> BlockShape {
        self.inbound.with(|receiver| receiver.layout().shape(BlockNumber(block))).unwrap()
    }

    fn guess(&self, block: u32, from: u64, len: u32) -> Option<Guess> {
        self.inbound.guess(BlockNumber(block), from, len, GROUP, &mut vec![0; 100_000]).unwrap()
    }

    fn placed(&self, block: u32) -> Vec<u8> {
        let shape = self.shape(block);
        let mut bytes = vec![0; shape.len as usize];
        self.flat.read_at(shape.number.address(), &mut bytes).unwrap();
        bytes
    }

    fn counts(&self) -> (u64, u64) {
        (
            std::mem::take(&mut *self.sink.read.lock().unwrap()),
            std::mem::take(&mut *self.sink.written.lock().unwrap()),
        )
    }
}

fn value(shape: &BlockShape, bytes: &[u8]) -> Hash {
    let mut hasher = BlockHasher::new(shape);
    hasher.update(bytes);
    hasher.finish().value()
}

#[test]
fn a_block_that_is_as_guessed_is_neither_read_nor_written_again() {
    let old = content(SIZE + 5, 1);
    let rig = Rig::replacing(old.clone());
    for block in 0..3 {
        let (shape, from) = (rig.shape(block), u64::from(block) * BLOCK_SIZE + 5);
        let guess = rig.guess(block, from, shape.len).unwrap();
        assert_eq!(guess.values.len(), (shape.len as usize).div_ceil(GROUP as usize));
        assert_eq!((rig.counts(), rig.inbound.guesses()), ((shape.len.into(), shape.len.into()), 1));
        let mut arrival = rig.inbound.begin(shape.number, shape.len.into()).unwrap();
        arrival.copy(from, shape.len, &mut [0; 999]).unwrap();
        let bytes = &old[from as usize..from as usize + shape.len as usize];
        assert_eq!(arrival.finish(None).unwrap(), value(&shape, bytes));
        assert_eq!((rig.counts(), rig.inbound.guesses()), ((0, 0), 0));
        assert_eq!(rig.placed(block), bytes);
        assert!(rig.guess(block, 0, shape.len).is_none(), "it is here");
    }
    assert_eq!(*rig.judged.lock().unwrap(), [0, 1, 2].map(|block| (BlockNumber(block), true)));
    rig.inbound.flush().unwrap();
    assert_eq!(rig.inbound.copied(), SIZE);
}

#[test]
fn what_is_not_guessed_is_overwritten_and_what_an_arrival_leaves_half_done_is_no_guess() {
    let old = content(SIZE, 1);
    let rig = Rig::replacing(old.clone());
    let shape = rig.shape(0);
    rig.guess(0, 0, shape.len).unwrap();
    let mut dropped = rig.inbound.begin(shape.number, shape.len.into()).unwrap();
    assert!(rig.guess(0, 0, shape.len).is_none(), "it is arriving");
    dropped.write(&[IoSlice::new(&[9; 70_000])]).unwrap();
    drop(dropped);
    assert_eq!((rig.inbound.guesses(), &rig.judged.lock().unwrap()[..]), (0, &[(BlockNumber(0), false)][..]));
    rig.counts();
    let mut arrival = rig.inbound.begin(shape.number, shape.len.into()).unwrap();
    arrival.copy(0, shape.len, &mut [0; 100_000]).unwrap();
    assert_eq!(arrival.finish(None).unwrap(), value(&shape, &old[..shape.len as usize]));
    assert_eq!(rig.counts(), (shape.len.into(), shape.len.into()), "all of it is copied");
}

/// One thread guesses all blocks over and over, another begins them meanwhile: neither ever refuses the other a block.
#[test]
fn a_block_that_is_being_guessed_is_waited_for() {
    let old = content(SIZE, 1);
    let rig = Rig::replacing(old.clone());
    std::thread::scope(|scope| {
        let guesser = scope.spawn(|| {
            let mut made = 0;
            while !rig.inbound.with(|receiver| receiver.is_complete()) {
                let guessed = |block: &u32| rig.guess(*block, 0, GROUP * 2).is_some();
                made += (0..3).filter(guessed).count();
            }
            made
        });
        for block in 0..3 {
            let shape = rig.shape(block);
            for attempt in 0..50 {
                let mut arrival = rig.inbound.begin(shape.number, shape.len.into()).unwrap();
                if attempt == 49 {
                    arrival.copy(shape.number.address().0, shape.len, &mut [0; 65_536]).unwrap();
                    arrival.finish(None).unwrap();
                }
            }
            assert!(rig.placed(block) == old[shape.number.address().0 as usize..][..shape.len as usize]);
        }
        rig.inbound.flush().unwrap();
        assert!(guesser.join().unwrap() > 0);
    });
}

#[test]
fn a_guess_that_a_failing_disk_may_have_forgotten_is_forgotten() {
    let rig = Rig::replacing(content(SIZE, 1));
    rig.guess(0, 0, rig.shape(0).len).unwrap();
    let mut arrival = rig.inbound.begin(BlockNumber(1), BLOCK_SIZE).unwrap();
    arrival.write(&[IoSlice::new(&content(BLOCK_SIZE, 2))]).unwrap();
    arrival.finish(None).unwrap();
    *rig.sink.fails.lock().unwrap() = true;
    rig.inbound.flush().unwrap_err();
    assert_eq!(rig.inbound.guesses(), 0);
    rig.inbound.forget_guesses(BlockNumber(0)..BlockNumber(9));
}

#[test]
fn what_is_no_block_of_several_or_is_not_in_the_old_file_is_not_guessed() {
    let rig = Rig::replacing(content(BLOCK_SIZE, 1));
    assert!(rig.guess(3, 0, GROUP).is_none());
    assert!(rig.guess(2, 0, GROUP * 40).is_none(), "longer than the block");
    let outside = rig.inbound.guess(BlockNumber(0), 1, BLOCK_SIZE as u32, GROUP, &mut [0; 4096]);
    assert!(matches!(outside, Err(InboundError::Basis(BasisError::Outside))));
    assert!(rig.guess(0, 0, BLOCK_SIZE as u32).is_some(), "and nothing is left of that");
    rig.inbound.forget_guesses(BlockNumber(0)..BlockNumber(1));
    assert_eq!(rig.inbound.guesses(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Copies from where it was guessed from and from elsewhere, and bytes of its own, in any order and of any length: the block is
    /// what they amount to.
    #[test]
    fn whatever_a_sender_makes_of_a_guess_the_block_is_what_it_says(
        guessed in 0u32..=(BLOCK_SIZE as u32 / GROUP),
        parts in proptest::collection::vec((0u32..400_000, 0u8..4), 1..40),
        aligned: bool,
    ) {
        let old = content(SIZE, 1);
        let rig = Rig::replacing(old.clone());
        let shape = rig.shape(0);
        rig.guess(0, 777, guessed * GROUP);
        let mut arrival = rig.inbound.begin(shape.number, shape.len.into()).unwrap();
        let mut new = Vec::new();
        let rest = (shape.len, 0);
        for (len, kind) in parts.into_iter().chain([rest]) {
            let len = if aligned { len.next_multiple_of(GROUP) } else { len }.min(shape.len - new.len() as u32);
            let from = if kind < 3 { new.len() + 777 } else { 13 };
            let end = from + len as usize;
            if kind == 0 {
                let own = content(len.into(), 3);
                arrival.write(&[IoSlice::new(&own)]).unwrap();
                new.extend(own);
            } else {
                arrival.copy(from as u64, len, &mut [0; 65_536]).unwrap();
                new.extend(&old[from..end]);
            }
        }
        prop_assert_eq!(arrival.finish(None).unwrap(), value(&shape, &new));
        prop_assert!(rig.placed(0) == new);
    }
}
