//! Large files that are hashed before anybody asks.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use terahaul_core::delta::chunk_len;
use terahaul_core::{BLOCK_SIZE, ByteCount};

use super::*;
use crate::LargeFile;
use crate::listing::is_settled;

const SIZE: u64 = 3 * BLOCK_SIZE + 5;

struct Rig {
    sender: Sender,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Rig {
    /// One large file below a folder, with this done to it before it is walked.
    fn new(before: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..SIZE).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        plant(dir.path(), &[("t/d/large", &content)]);
        let path = dir.path().join("t/d/large");
        before(&path);
        settle(&path);
        Self { sender: Sender::of(dir.path().join("t")), path, _dir: dir }
    }

    fn file(&self) -> LargeFile {
        let entry = self.sender.source.entry(self.sender.find("t/d/large")).unwrap();
        let EntryKind::File { size: ByteCount(size) } = entry.kind else { panic!("it is a file") };
        LargeFile { mtime: entry.mtime, path: entry.path, size }
    }

    fn hash(&self) {
        self.sender.source.hash_ahead(&[self.file()], &|| true);
    }

    fn known(&self, group: u32) -> Vec<Option<Arc<[Hash]>>> {
        self.sender.shapes().iter().map(|shape| self.sender.source.known_groups(shape, group)).collect()
    }

    fn is_known(&self) -> bool {
        self.known(group()).iter().any(Option::is_some)
    }
}

/// Waits until a change of the file would have another time.
fn settle(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_settled(&rustix::fs::stat(path).unwrap()) {
        assert!(Instant::now() < deadline, "it was changed just now, after a minute");
        std::thread::yield_now();
    }
}

fn group() -> u32 {
    chunk_len(SIZE).unwrap()
}

#[test]
fn what_was_hashed_ahead_is_what_the_blocks_hold() {
    let rig = Rig::new(|_| ());
    assert!(!rig.is_known());
    rig.hash();
    let read = |shape: &BlockShape| {
        let mut hasher = BlockHasher::in_groups(shape, group()).unwrap();
        hasher.update(&rig.sender.read(shape, 1 << 16).0);
        Some(Arc::from(hasher.finish_groups()))
    };
    assert_eq!(rig.known(group()), rig.sender.shapes().iter().map(read).collect::<Vec<_>>());
    assert!(rig.known(2 * group()).iter().all(Option::is_none));
}

#[test]
fn of_a_file_that_has_changed_since_nothing_is_known() {
    let rig = Rig::new(|_| ());
    rig.hash();
    assert!(rig.is_known());
    date(&rig.path, 5);
    assert!(!rig.is_known());
    let changed_before = Rig::new(|_| ());
    let file = changed_before.file();
    date(&changed_before.path, 5);
    settle(&changed_before.path);
    changed_before.sender.source.hash_ahead(&[file], &|| true);
    assert!(!changed_before.is_known());
}

#[test]
fn of_another_file_of_the_same_time_nothing_is_known() {
    let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let written = |path: &Path, content: &[u8], as_of| {
        let file = fs::File::options().write(true).create(true).truncate(false).open(path).unwrap();
        file.write_all_at(content, 0).unwrap();
        file.set_modified(as_of).unwrap();
    };
    let edited = Rig::new(|_| ());
    edited.hash();
    written(&edited.path, b"changed", time(&edited.path));
    assert!(!edited.is_known(), "it was written to and dated back");
    let replaced = Rig::new(|_| ());
    replaced.hash();
    let other = replaced.path.with_file_name("other");
    written(&other, &vec![7; SIZE as usize], time(&replaced.path));
    fs::rename(&other, &replaced.path).unwrap();
    assert!(!replaced.is_known(), "another has taken its name");
}

#[test]
fn nothing_is_read_ahead_that_is_not_on_the_disk_or_not_there_or_longer_than_wanted() {
    let hollow = |path: &Path| {
        let file = fs::File::create(path).unwrap();
        file.set_len(SIZE).unwrap();
    };
    let rig = Rig::new(hollow);
    rig.hash();
    assert!(!rig.is_known());
    let rig = Rig::new(|_| ());
    rig.sender.source.hash_ahead(&[rig.file()], &|| false);
    assert!(!rig.is_known());
    let gone = LargeFile { path: EntryPath::new(&b"t/d/gone"[..]).unwrap(), ..rig.file() };
    rig.sender.source.hash_ahead(&[gone, rig.file()], &|| true);
    assert!(rig.is_known());
}

#[test]
fn reading_ahead_leaves_access_times_as_they_were() {
    let long_ago = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
    let rig = Rig::new(|path| {
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
    });
    rig.hash();
    assert!(rig.is_known());
    assert_eq!(rig.path.metadata().unwrap().atime(), 1_000_000);
}
