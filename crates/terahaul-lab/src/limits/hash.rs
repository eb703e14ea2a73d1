//! BLAKE3, which every byte of a transfer goes through at each end.

use std::convert::Infallible;
use std::time::Duration;

use super::{Limit, Measured, on_all_threads, repeat};

/// As large as the pieces that channels hash.
const PIECE: usize = 256 << 10;
/// Pieces in one repetition.
const PIECES: usize = 256;

pub(super) fn measure(time: Duration, keep: &mut dyn FnMut(Limit)) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    keep(Limit::new("hash", "BLAKE3", 1, rate(time, 1)));
    keep(Limit::new("hash-all", "BLAKE3, every processor", threads, rate(time, threads)));
}

fn rate(time: Duration, threads: usize) -> Measured {
    let measured: Result<Measured, Infallible> = repeat(time, || Ok(on_all_threads(threads, hash)));
    measured.unwrap_or_default()
}

fn hash() -> u64 {
    let piece = vec![0x5a; PIECE];
    let mut hasher = blake3::Hasher::new();
    for _ in 0..PIECES {
        hasher.update(&piece);
    }
    std::hint::black_box(hasher.finalize());
    (PIECE * PIECES) as u64
}
