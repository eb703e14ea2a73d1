//! Sums as a receiver may claim them, and blocks planned with them: whatever they are, the steps amount to the block, and what is
//! to be copied lies within the basis that was claimed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::delta::{Basis, Step, Sum, Window, plan};

const CHUNK: usize = 4096;

fuzz_target!(|input: (u64, u32, Vec<(u8, Vec<u8>)>, Vec<u8>, (u16, u16), i32)| {
    let (size, chunk, told, pattern, (before, behind), shift) = input;
    let mut shift = i64::from(shift);
    // What any receiver may say is refused or kept to its limits.
    if let Ok(basis) = Basis::new(size, chunk) {
        assert!(u64::from(basis.count()) * u64::from(chunk) <= size);
    }
    // A small basis of some chunks of the file itself, and of sums that are lies.
    if pattern.is_empty() {
        return;
    }
    let file: Vec<u8> = (0..3 * CHUNK).map(|at| pattern[at / 7 % pattern.len()]).collect();
    let sum = |(at, lie): &(u8, Vec<u8>)| match lie.first_chunk::<8>() {
        Some(lie) => *lie,
        None => Sum::of(&file[usize::from(*at) * 16..][..CHUNK]).encode(),
    };
    let sums: Vec<u8> = told.iter().take(40).flat_map(sum).collect();
    let count = sums.len() / 8;
    let Ok(mut basis) = Basis::new((count * CHUNK + usize::from(before)) as u64, CHUNK as u32) else {
        return;
    };
    // Some may still be on their way.
    let _ = basis.handle_sums(0, &sums[..sums.len().min(usize::from(behind) / 8 * 8)]);
    let block = usize::from(before) % file.len()..file.len() - usize::from(behind) % CHUNK;
    if block.is_empty() {
        return;
    }
    let len = block.len() as u64;
    let mut left = len;
    for step in plan(&basis, &Window { bytes: &file, start: size >> 2, block }, &mut shift) {
        left -= match step {
            Step::Copy { from, len } => {
                assert!(len > 0 && from + u64::from(len) <= basis.known());
                u64::from(len)
            }
            Step::Literal { len } => {
                assert!(len > 0);
                u64::from(len)
            }
        };
    }
    assert_eq!(left, 0);
});
