//! Summing the chunks of an old file.

use std::io;
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use terahaul_core::BLOCK_SIZE;
use terahaul_core::delta::{SUM_LEN, Sum};
use terahaul_tree::OpenBasis;

use super::{READ_AT_ONCE, threads_for};

/// Sums in a message: few, because the sender begins with those that it has.
const SUMS_AT_ONCE: usize = 1024;

/// Sums a file's chunks, from `first` on, by several threads, and gives the sums in order to `take`, which may end it. What it was
/// given ends where a `first` may be, or with the file.
pub(super) fn sum(
    basis: &OpenBasis,
    chunk: u32,
    chunks: Range<u32>,
    take: &mut dyn FnMut(u32, Vec<u8>) -> bool,
) -> io::Result<()> {
    // Each thread sums every n-th part of the file.
    let a_part = (BLOCK_SIZE / u64::from(chunk)) as u32;
    let (mut first, chunks) = (chunks.start, chunks.end);
    let begin = first / a_part;
    let parts = chunks.div_ceil(a_part);
    let threads = threads_for(basis.size());
    std::thread::scope(|scope| {
        let summed: Vec<_> = (0..threads)
            .map(|thread| {
                let (summed, results) = sync_channel(2);
                let sum_some = move || {
                    let mut buffer = vec![0; READ_AT_ONCE.max(chunk as usize)];
                    for part in (begin + thread as u32..parts).step_by(threads) {
                        let first = part * a_part;
                        let sums = sum_part(basis, chunk, first..chunks.min(first + a_part), &mut buffer);
                        if summed.send(sums).is_err() {
                            return;
                        }
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, sum_some)?;
                Ok(results)
            })
            .collect::<io::Result<_>>()?;
        let mut sums = Vec::new();
        for part in begin..parts {
            let gone = || io::Error::other("a thread that sums it ended");
            sums.append(&mut summed[(part - begin) as usize % threads].recv().map_err(|_| gone())??);
            let last = part + 1 == parts;
            if last || sums.len() >= SUMS_AT_ONCE * SUM_LEN {
                let count = (sums.len() / SUM_LEN) as u32;
                if !take(first, std::mem::take(&mut sums)) {
                    break;
                }
                first += count;
            }
        }
        Ok(())
    })
}

fn sum_part(basis: &OpenBasis, chunk: u32, chunks: Range<u32>, buffer: &mut [u8]) -> io::Result<Vec<u8>> {
    let mut sums = Vec::with_capacity(chunks.len() * SUM_LEN);
    let (mut at, end) =
        (u64::from(chunks.start) * u64::from(chunk), u64::from(chunks.end) * u64::from(chunk));
    while at < end {
        let some = buffer.len().min((end - at) as usize);
        basis.read(at, &mut buffer[..some])?;
        buffer[..some].chunks_exact(chunk as usize).for_each(|chunk| sums.extend(Sum::of(chunk).encode()));
        at += some as u64;
    }
    Ok(sums)
}
