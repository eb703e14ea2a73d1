//! Writing to and reading from a folder.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, statvfs};

use super::noise::Noise;
use super::{Limit, repeat};
use crate::LabError;

/// As large as the pieces that channels read and write.
const PIECE: usize = 256 << 10;
/// Bytes in one repetition, where the folder has room for several times as many.
const MOST: u64 = 256 << 20;

pub(super) fn measure(folder: &Path, time: Duration, keep: &mut dyn FnMut(Limit)) -> Result<(), LabError> {
    let failed = |source| LabError::Folder { path: folder.to_owned(), source };
    let pieces = pieces(folder).map_err(failed)?;
    // Has no name, so nothing is left of it however this ends.
    let file = tempfile::tempfile_in(folder).map_err(failed)?;
    let mut noise = Noise::new();
    let written = repeat(time, || write(&file, &mut noise, 0..pieces)).map_err(failed)?;
    keep(Limit::of_folder("write", "write to", folder, written));
    let synced = repeat(time, || write_synced(&file, &mut noise, 0..pieces));
    keep(Limit::of_folder("write-synced", "write and sync to", folder, synced.map_err(failed)?));
    let read = repeat(time, || read(&file, pieces)).map_err(failed)?;
    keep(Limit::of_folder("read", "read from", folder, read));
    Ok(())
}

/// Bytes that are written and synced before the clock is looked at.
const SIP: u64 = 16 << 20;
/// How long each way is tasted.
const TASTE: Duration = Duration::from_secs(1);

/// Writes with syncs, and reads, in bytes a second.
pub(super) fn taste(folder: &Path) -> Result<(f64, f64), LabError> {
    let failed = |source| LabError::Folder { path: folder.to_owned(), source };
    let pieces = pieces(folder).map_err(failed)?;
    let file = tempfile::tempfile_in(folder).map_err(failed)?;
    let mut noise = Noise::new();
    let begun = Instant::now();
    let mut written = 0;
    while written < pieces && (written == 0 || begun.elapsed() < TASTE) {
        let sip = (SIP / PIECE as u64).min(pieces - written);
        write_synced(&file, &mut noise, written..written + sip).map_err(failed)?;
        written += sip;
    }
    let write = (written * PIECE as u64) as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    let begun = Instant::now();
    let read = read(&file, written).map_err(failed)? as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    Ok((write, read))
}

/// At most a quarter of what is free, so that nobody else runs out of room.
fn pieces(folder: &Path) -> io::Result<u64> {
    let space = statvfs(folder)?;
    let bytes = MOST.min(space.f_bavail.saturating_mul(space.f_frsize) / 4);
    match bytes / PIECE as u64 {
        0 => Err(io::ErrorKind::StorageFull.into()),
        pieces => Ok(pieces),
    }
}

fn write(file: &File, noise: &mut Noise, pieces: Range<u64>) -> io::Result<u64> {
    for at in pieces.clone() {
        file.write_all_at(noise.piece(at, PIECE), at * PIECE as u64)?;
    }
    Ok((pieces.end - pieces.start) * PIECE as u64)
}

fn write_synced(file: &File, noise: &mut Noise, pieces: Range<u64>) -> io::Result<u64> {
    let bytes = write(file, noise, pieces)?;
    file.sync_data()?;
    Ok(bytes)
}

fn read(file: &File, pieces: u64) -> io::Result<u64> {
    // The disk is meant, not the kernel's copy of it. A file system in memory has nothing to forget.
    fadvise(file, 0, None, Advice::DontNeed)?;
    let mut piece = vec![0; PIECE];
    for at in 0..pieces {
        file.read_exact_at(&mut piece, at * PIECE as u64)?;
    }
    std::hint::black_box(&piece);
    Ok(pieces * PIECE as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A file system that compresses, or keeps once what comes twice, would be measured as faster than it is.
    #[test]
    fn what_is_written_can_neither_be_compressed_nor_be_kept_once() {
        const RECORD: usize = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        let (mut noise, pieces) = (Noise::new(), (2 * RECORD / PIECE) as u64);
        let mut blocks = HashSet::new();
        for _ in 0..2 {
            let mut bytes = vec![0; 2 * RECORD];
            assert_eq!(write(&file, &mut noise, 0..pieces).unwrap(), bytes.len() as u64);
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes.chunks(4 << 10).all(|block| blocks.insert(block.to_vec())), "a block comes twice");
            for record in bytes.chunks(RECORD) {
                let words: HashSet<&[u8]> = record.chunks(8).collect();
                assert_eq!(words.len(), RECORD / 8, "a word comes twice");
            }
        }
    }
}
