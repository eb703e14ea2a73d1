use proptest::prelude::*;

use super::super::Sum;
use super::*;

const CHUNK: usize = 4096;

/// Bytes that are like no others.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn basis_of(bytes: &[u8]) -> Basis {
    let mut basis = Basis::new(bytes.len() as u64, CHUNK as u32).unwrap();
    assert!(basis.handle_sums(0, &sums_of(bytes)).unwrap());
    basis
}

fn sums_of(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(CHUNK).flat_map(|chunk| Sum::of(chunk).encode()).collect()
}

/// Plans `new` block by block, puts it together again, and returns how many bytes were sent.
fn sent_for(old: &[u8], new: &[u8], block: usize) -> usize {
    let basis = basis_of(old);
    let (mut made, mut sent, mut shift) = (Vec::new(), 0, 0);
    for start in (0..new.len()).step_by(block) {
        let end = new.len().min(start + block);
        let window = start.saturating_sub(CHUNK - 1)..new.len().min(end + CHUNK - 1);
        let inner = start - window.start..end - window.start;
        let (bytes, first) = (&new[window.clone()], window.start as u64);
        let steps = plan(&basis, &Window { bytes, start: first, block: inner }, &mut shift);
        for step in steps {
            match step {
                Step::Copy { from, len } => {
                    assert!(from + u64::from(len) <= basis.size(), "outside the basis");
                    made.extend_from_slice(&old[from as usize..][..len as usize]);
                }
                Step::Literal { len } => {
                    let at = made.len();
                    made.extend_from_slice(&new[at..at + len as usize]);
                    sent += len as usize;
                }
            }
        }
        assert_eq!(made.len(), end, "a block's steps amount to the block");
    }
    assert!(made == new);
    sent
}

#[test]
fn the_same_file_is_copied_but_for_its_last_part_of_a_chunk() {
    let old = noise(40 * CHUNK + 777, 1);
    assert_eq!(sent_for(&old, &old, 16 * CHUNK), 777);
}

#[test]
fn what_changed_in_place_costs_the_chunks_that_it_touches() {
    let old = noise(64 * CHUNK, 1);
    let mut new = old.clone();
    new[5 * CHUNK + 9] ^= 1;
    new[20 * CHUNK..21 * CHUNK].fill(3);
    new[33 * CHUNK - 1] ^= 1;
    new[33 * CHUNK] ^= 1;
    assert_eq!(sent_for(&old, &new, 16 * CHUNK), 4 * CHUNK);
}

#[test]
fn what_is_inserted_costs_itself_and_the_chunk_that_it_cuts() {
    let old = noise(64 * CHUNK, 1);
    let front = [&noise(1000, 2)[..], &old].concat();
    assert_eq!(sent_for(&old, &front, 16 * CHUNK), 1000);
    let (before, behind) = old.split_at(30 * CHUNK + 50);
    let middle = [before, &noise(12_345, 3)[..], behind].concat();
    let sent = sent_for(&old, &middle, 16 * CHUNK);
    assert!((12_345..12_345 + CHUNK + 2 * LEAST_COPIED).contains(&sent), "{sent}");
    let removed = [&old[..10 * CHUNK], &old[50 * CHUNK + 3..]].concat();
    assert!(sent_for(&old, &removed, 16 * CHUNK) < 2 * CHUNK);
}

#[test]
fn repeated_content_is_copied_from_wherever_it_is() {
    let zeros = vec![0; 50 * CHUNK];
    assert!(sent_for(&zeros[..3 * CHUNK], &zeros, 16 * CHUNK) < 2 * CHUNK, "what is no whole chunk");
    let old = noise(8 * CHUNK, 1);
    let new = [&old[4 * CHUNK..], &old[..4 * CHUNK]].concat();
    assert_eq!(sent_for(&old, &new, 16 * CHUNK), 0, "two halves in the other order");
}

#[test]
fn another_file_is_sent_whole() {
    assert_eq!(sent_for(&noise(9 * CHUNK, 1), &noise(70_000, 2), 16 * CHUNK), 70_000);
    assert_eq!(sent_for(&noise(CHUNK, 1), &[1], 16 * CHUNK), 1);
}

#[derive(Clone, Debug)]
enum Edit {
    Overwrite(usize, usize, u64),
    Insert(usize, usize, u64),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let (at, len) = (0usize..150_000, prop_oneof![1usize..40, 1usize..20_000]);
    prop_oneof![
        (at.clone(), len.clone(), any::<u64>()).prop_map(|(at, len, seed)| Edit::Overwrite(at, len, seed)),
        (at.clone(), len.clone(), any::<u64>()).prop_map(|(at, len, seed)| Edit::Insert(at, len, seed)),
        (at.clone(), len.clone()).prop_map(|(at, len)| Edit::Remove(at, len)),
        (at.clone(), at, len).prop_map(|(to, from, len)| Edit::Repeat(to, from, len)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: Edit) {
    let clip = |at: usize, len: usize, all: usize| at.min(all)..(at + len).min(all);
    match edit {
        Edit::Overwrite(at, len, seed) => {
            let range = clip(at, len, bytes.len());
            let new = noise(range.len(), seed);
            bytes[range].copy_from_slice(&new);
        }
        Edit::Insert(at, len, seed) => {
            let at = at.min(bytes.len());
            bytes.splice(at..at, noise(len, seed));
        }
        Edit::Remove(at, len) => drop(bytes.drain(clip(at, len, bytes.len()))),
        Edit::Repeat(to, from, len) => {
            let part = bytes[clip(from, len, bytes.len())].to_vec();
            let to = to.min(bytes.len());
            bytes.splice(to..to, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However a file was edited, what is put together is the new file, and what is sent is about what was changed.
    #[test]
    fn any_edits_arrive_and_cost_about_what_they_changed(
        len in CHUNK..160_000,
        edits in proptest::collection::vec(edit(), 0..5),
        block in 1usize..20,
    ) {
        let old = noise(len, 7);
        let mut new = old.clone();
        let mut most = CHUNK;
        for edit in edits {
            most += 4 * CHUNK + match edit {
                Edit::Overwrite(_, len, _) | Edit::Insert(_, len, _) | Edit::Repeat(_, _, len) => len,
                Edit::Remove(..) => 0,
            };
            apply(&mut new, edit);
        }
        let blocks = new.len().div_ceil(block * CHUNK);
        let sent = sent_for(&old, &new, block * CHUNK);
        prop_assert!(sent <= most + blocks * LEAST_COPIED, "{sent} of {} bytes, {most} at most", new.len());
    }

    /// While sums are still arriving, what is planned is right too, and is copied only from what is known.
    #[test]
    fn with_some_of_the_sums_only_what_they_cover_is_copied(
        len in 4 * CHUNK..100_000,
        edit in edit(),
        known in 0usize..30,
        start in 0usize..60_000,
    ) {
        let old = noise(len, 7);
        let mut new = old.clone();
        apply(&mut new, edit);
        let mut basis = Basis::new(old.len() as u64, CHUNK as u32).unwrap();
        let sums = sums_of(&old);
        basis.handle_sums(0, &sums[..(known * 8).min(sums.len())]).unwrap();
        let start = start.min(new.len().saturating_sub(1));
        prop_assume!(!new.is_empty());
        let (mut shift, mut made) = (0, Vec::new());
        let window = Window { bytes: &new, start: 0, block: start..new.len() };
        for step in plan(&basis, &window, &mut shift) {
            match step {
                Step::Copy { from, len } => {
                    prop_assert!(from + u64::from(len) <= basis.known());
                    made.extend_from_slice(&old[from as usize..][..len as usize]);
                }
                Step::Literal { len } => {
                    let at = start + made.len();
                    made.extend_from_slice(&new[at..at + len as usize]);
                }
            }
        }
        prop_assert!(made == new[start..]);
    }
}

#[test]
fn sums_that_fit_everywhere_and_are_no_chunks_do_not_stall_the_sender() {
    // Of zeros every weak sum is 0; the strong one is not theirs.
    let chunk = BLOCK_SIZE as usize;
    let mut basis = Basis::new(BLOCK_SIZE, BLOCK_SIZE as u32).unwrap();
    basis.handle_sums(0, &Sum::decode([0; 8]).encode()).unwrap();
    let zeros = vec![0; 2 * chunk - 1];
    assert_eq!(Sum::of(&zeros[..chunk]).encode()[..4], [0; 4]);
    let window = Window { bytes: &zeros, start: 0, block: 0..chunk };
    let mut finder = Finder { basis: &basis, window: &window, found: Vec::new(), in_vain: 0 };
    assert_eq!(finder.roll(0), chunk);
    assert_eq!(finder.in_vain, MOST_IN_VAIN + BLOCK_SIZE);
    assert_eq!(plan(&basis, &window, &mut 0), [Step::Literal { len: chunk as u32 }]);
}
