//! Blocks whose groups are known before they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terahaul_core::{BLOCK_SIZE, BlockNumber, ByteCount, Layout};
use terahaul_wire::GUESS_LEN;

use super::*;

const GROUP: u32 = 64 << 10;

/// One large file, all of whose groups may be known; it counts what is read of it.
struct Source {
    now: Vec<u8>,
    known: Option<Arc<[Hash]>>,
    blocks: AtomicUsize,
    around: AtomicUsize,
}

impl BlockSource for Source {
    fn known_groups(&self, _: &BlockShape, group: u32) -> Option<Arc<[Hash]>> {
        self.known.clone().filter(|_| group == GROUP)
    }

    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        buffer.copy_from_slice(&self.now[..shape.len as usize]);
        emit(buffer)?;
        Ok(Vec::new())
    }

    fn read_around(&self, _: EntryIndex, offset: u64, buffer: &mut [u8]) -> usize {
        self.around.fetch_add(buffer.len(), Ordering::Relaxed);
        buffer.copy_from_slice(&self.now[offset as usize..][..buffer.len()]);
        buffer.len()
    }
}

/// A file's first block.
fn shape() -> BlockShape {
    shape_of(2 * BLOCK_SIZE, 0)
}

/// A block of a file of so many bytes.
fn shape_of(size: u64, block: u32) -> BlockShape {
    let mut layout = Layout::new();
    layout.append(Some(ByteCount(size))).unwrap();
    layout.shape(BlockNumber(block)).unwrap()
}

fn content() -> Vec<u8> {
    (0..BLOCK_SIZE).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// With one byte changed in each of these groups.
fn edited(groups: &[u32]) -> Vec<u8> {
    let mut content = content();
    groups.iter().for_each(|group| content[(group * GROUP) as usize + 7] ^= 1);
    content
}

fn values(content: &[u8]) -> Vec<Hash> {
    let mut hasher = BlockHasher::in_groups(&shape(), GROUP).unwrap();
    hasher.update(content);
    hasher.finish_groups()
}

fn guess(old: &[u8], certain: bool) -> Guess {
    let values = values(old).iter().flat_map(|value| value.0[..GUESS_LEN].to_vec()).collect();
    Guess { from: 0, group: GROUP, values, certain }
}

/// What of the file `now` was `hashed` ahead.
fn source(now: Vec<u8>, hashed: &[u8]) -> Source {
    let known = Some(values(hashed).into());
    Source { now, known, blocks: AtomicUsize::new(0), around: AtomicUsize::new(0) }
}

fn read(source: &Source) -> (usize, usize) {
    (source.blocks.load(Ordering::Relaxed), source.around.load(Ordering::Relaxed))
}

/// The plan for a block, which has to amount to what the file has now.
fn planned(source: &Source, guess: &Guess) -> Planned {
    let mut window = Vec::new();
    let Sought::Found(planned) = compare(source, &shape(), guess, &mut window).unwrap() else {
        panic!("it can be planned")
    };
    let (mut whole, mut at) = (content(), 0);
    for step in &planned.steps {
        let (Step::Copy { len, .. } | Step::Literal { len }) = *step;
        if let Step::Literal { .. } = step {
            whole[at..at + len as usize].copy_from_slice(&window[at..at + len as usize]);
        }
        at += len as usize;
    }
    assert!(whole == source.now && at as u64 == BLOCK_SIZE);
    assert_eq!(planned.proof, BlockProof::of_groups(&values(&source.now)));
    planned
}

#[test]
fn of_a_block_whose_groups_are_known_only_what_has_changed_is_read() {
    let same = source(content(), &content());
    assert!(planned(&same, &guess(&content(), false)).agreed && read(&same) == (0, 0));
    let now = edited(&[3, 9, 10]);
    let changed = source(now.clone(), &now);
    assert!(planned(&changed, &guess(&content(), false)).agreed);
    assert_eq!(read(&changed), (0, 3 * GROUP as usize));
}

#[test]
fn a_wrong_guess_is_found_out_without_reading_the_block() {
    let source = source(edited(&[63]), &edited(&(40..64).collect::<Vec<_>>()));
    let mut window = Vec::new();
    let sought = compare(&source, &shape(), &guess(&content(), false), &mut window).unwrap();
    assert!(matches!(sought, Sought::Early(Wanting::Judgement)) && read(&source) == (0, 0));
}

#[test]
fn a_block_that_is_not_what_was_hashed_is_read_whole() {
    let source = source(edited(&[3, 9]), &edited(&[3, 10]));
    assert!(planned(&source, &guess(&content(), true)).agreed);
    assert_eq!(read(&source).0, 1);
}

/// Pieces that amount to it would be more bytes, and then UDP carries the block as it lies in the window.
#[test]
fn of_a_block_that_copies_shorten_by_nothing_everything_is_read() {
    let shape = shape_of(BLOCK_SIZE + 4096 + 10, 1);
    let now: Vec<u8> = (0..shape.len).map(|at| (at % 251) as u8).collect();
    let mut old = now.clone();
    old[7] ^= 1;
    let values = |content: &[u8]| {
        let mut hasher = BlockHasher::in_groups(&shape, 4096).unwrap();
        hasher.update(content);
        hasher.finish_groups()
    };
    let guessed = values(&old).iter().flat_map(|value| value.0[..GUESS_LEN].to_vec()).collect();
    let guess = Guess { from: BLOCK_SIZE, group: 4096, values: guessed, certain: false };
    let known = values(&now);
    let mut window = vec![0xEE; 5000];
    // The source has this block and no other.
    let judged = Judged::of(&shape, &guess, &known);
    assert_eq!(judged.steps, [Step::Literal { len: 4096 }, Step::Copy { from: BLOCK_SIZE + 4096, len: 10 }]);
    let file = [content(), now.clone()].concat();
    let source = Source { now: file, known: None, blocks: AtomicUsize::new(0), around: AtomicUsize::new(0) };
    assert!(read_literals(&source, &shape, 4096, &judged.steps, &known, &mut window));
    assert!(window[..shape.len as usize] == now);
}
