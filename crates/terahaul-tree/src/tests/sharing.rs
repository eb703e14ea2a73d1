//! New files that share with the old ones in their places what stays the same.
//!
//! Where the file system cannot do that the kernel copies instead, and what is asserted here holds as well.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::*;
use crate::Keep;
use terahaul_core::{BLOCK_SIZE, ByteCount};

const PIECE: usize = 256 << 10;
const SIZE: u64 = BLOCK_SIZE + 100_001;

struct Replacing {
    dir: tempfile::TempDir,
    old: Vec<u8>,
    sink: TreeSink,
    shapes: Vec<BlockShape>,
}

impl Replacing {
    /// An old file, which nobody has changed for a while, and a sink for a new one of the same length.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let old: Vec<u8> = (0..SIZE).map(|at| (at * 31 / 7) as u8).collect();
        std::fs::write(dir.path().join("f"), &old).unwrap();
        let (sink, _) = TreeSink::open_copy(dir.path(), None, transfer(), Keep::default()).unwrap();
        let size = ByteCount(SIZE);
        let path = EntryPath::new(*b"f").unwrap();
        let mtime = Mtime { seconds: 1, nanos: 0 };
        let entry = Entry { path, kind: EntryKind::File { size }, mtime, mode: 0o644, extra: None };
        let index = sink.append(&entry).unwrap();
        sink.shares.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !sink.open_basis(index).unwrap().is_settled() {
            assert!(Instant::now() < deadline, "it was changed just now, after a minute");
        }
        let mut layout = Layout::new();
        layout.append(Some(size)).unwrap();
        layout.seal();
        let shapes = (0..2).map(|block| layout.shape(BlockNumber(block)).unwrap()).collect();
        Self { dir, old, sink, shapes }
    }

    fn staged(&self) -> Vec<u8> {
        std::fs::read(staging(self.dir.path()).join("tree/f")).unwrap()
    }
}

#[test]
fn what_is_shared_is_what_is_told() {
    let rig = Replacing::new();
    let mut told = Vec::new();
    for shape in &rig.shapes {
        let mut writer = rig.sink.begin(shape).unwrap();
        let mut at = u64::from(shape.number.0) * BLOCK_SIZE;
        let end = at + u64::from(shape.len);
        while at < end {
            let mut piece = vec![0; PIECE.min((end - at) as usize)];
            // The file's end is no multiple of what file systems share.
            let is_even = piece.len() == PIECE;
            assert_eq!(writer.share(at, &mut piece).unwrap(), is_even);
            if !is_even {
                piece.copy_from_slice(&rig.old[at as usize..end as usize]);
                writer.write(&[IoSlice::new(&piece)]).unwrap();
            }
            at += piece.len() as u64;
            told.extend(piece);
        }
        writer.finish().unwrap();
    }
    assert!(told == rig.old && rig.staged() == rig.old);
}

#[test]
fn what_is_written_over_what_was_shared_stays_out_of_the_old_file() {
    let rig = Replacing::new();
    let mut writer = rig.sink.begin(&rig.shapes[0]).unwrap();
    assert!(writer.share(0, &mut vec![0; PIECE]).unwrap());
    drop(writer);
    let mut writer = rig.sink.begin(&rig.shapes[0]).unwrap();
    writer.write(&[IoSlice::new(&[9; PIECE])]).unwrap();
    drop(writer);
    assert_eq!(rig.staged()[..PIECE], [9; PIECE]);
    assert!(std::fs::read(rig.dir.path().join("f")).unwrap() == rig.old);
}

#[test]
fn nothing_is_shared_with_a_file_that_somebody_changes_or_across_its_end() {
    let rig = Replacing::new();
    let mut writer = rig.sink.begin(&rig.shapes[0]).unwrap();
    let mut piece = vec![0; PIECE];
    assert!(!writer.share(1, &mut piece).unwrap(), "not where file systems begin to share");
    assert!(!writer.share(SIZE - SIZE % 4096, &mut piece).unwrap(), "the old file ends");
    assert!(writer.share(0, &mut piece).unwrap());
    let file = std::fs::File::options().write(true).open(rig.dir.path().join("f")).unwrap();
    file.write_all_at(&[7; 100], SIZE / 2).unwrap();
    assert!(!writer.share(PIECE as u64, &mut piece).unwrap());
    // It is written instead, where the last one that was shared has ended.
    writer.write(&[IoSlice::new(&[9; PIECE])]).unwrap();
    assert_eq!(rig.staged()[PIECE..2 * PIECE], [9; PIECE]);
}
