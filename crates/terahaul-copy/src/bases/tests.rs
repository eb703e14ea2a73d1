use std::time::{Duration, Instant};

use terahaul_core::delta::Basis;
use terahaul_core::{
    ByteCount, Entry, EntryKind, EntryPath, Layout, Mtime, Receiver as CoreReceiver, TransferId,
};
use terahaul_store::Inbound;
use terahaul_tree::Keep;

use super::*;

const MIB: u64 = 1 << 20;

struct Rig {
    inbound: Arc<Inbound>,
    bases: Bases,
    count: u32,
    dir: tempfile::TempDir,
}

impl Rig {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (sink, journal) =
            TreeSink::open_copy(dir.path(), None, TransferId([1; 16]), Keep::default()).unwrap();
        let (sink, journal) = (Arc::new(sink), Arc::new(journal));
        let receiver = CoreReceiver::resuming(Layout::new(), Default::default(), []);
        let inbound = Arc::new(Inbound::start(receiver, sink.clone(), journal.clone()).unwrap());
        journal.bind(&inbound, &sink);
        let bases = Bases::new(&sink, &inbound);
        Self { inbound, bases, count: 0, dir }
    }

    /// A file of so many bytes replaces one of `old` bytes.
    fn replace(&mut self, size: u64, old: u64) -> EntryIndex {
        let name = format!("file-{}", self.count);
        let file = std::fs::File::create(self.dir.path().join(&name)).unwrap();
        file.set_len(old).unwrap();
        let path = EntryPath::new(name.into_bytes()).unwrap();
        let kind = EntryKind::File { size: ByteCount(size) };
        let entry = Entry { path, kind, mtime: Mtime { seconds: 1, nanos: 0 }, mode: 0o644, extra: None };
        let index = self.bases.0.sink.append(&entry).unwrap();
        self.inbound.with(|receiver| receiver.append(Some(ByteCount(size))).unwrap());
        self.count += 1;
        self.bases.offer(index);
        index
    }

    fn arrive(&self, entry: EntryIndex) {
        let (first, count) = self.inbound.with(|receiver| receiver.layout().blocks_of_large(entry)).unwrap();
        for block in first.0..first.0 + count {
            let block = terahaul_core::BlockNumber(block);
            let len = self.inbound.with(|receiver| receiver.layout().shape(block)).unwrap().len;
            let mut arrival = self.inbound.begin(block, u64::from(len)).unwrap();
            arrival.write(&[io::IoSlice::new(&vec![0; len as usize])]).unwrap();
            arrival.finish(None).unwrap();
        }
        self.inbound.flush().unwrap();
    }
}

/// The next whole file's sums: its entry, and whether there is a basis.
fn next(heard: &mut Receiver<Sums>) -> (u32, bool) {
    let mut basis: Option<Basis> = None;
    loop {
        let sums = heard.blocking_recv().unwrap();
        if sums.size == 0 {
            return (sums.entry, false);
        }
        let basis = basis.get_or_insert_with(|| Basis::new(sums.size, sums.chunk).unwrap());
        if basis.handle_sums(sums.first, &sums.sums).unwrap() {
            return (sums.entry, true);
        }
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn without_a_session_that_listens_nothing_is_held() {
    let mut rig = Rig::start();
    rig.replace(8 * MIB, 8 * MIB);
    assert_eq!(rig.bases.held(EntryIndex(0), EntryIndex(9)), []);
}

#[test]
fn sums_come_file_by_file_and_what_is_of_no_use_is_said_so() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries = [(8 * MIB, 70 * MIB + 5), (8 * MIB, 100), (9 * MIB, 5 * MIB)]
        .map(|(size, old)| rig.replace(size, old));
    assert_eq!(rig.bases.held(EntryIndex(0), EntryIndex(2)), entries[..2]);
    assert_eq!([next(&mut heard), next(&mut heard), next(&mut heard)], [(0, true), (1, false), (2, true)]);
    wait_until(|| rig.bases.held(EntryIndex(0), EntryIndex(9)) == [entries[0], entries[2]]);
    rig.arrive(entries[0]);
    wait_until(|| rig.bases.held(EntryIndex(0), EntryIndex(9)) == [entries[2]]);
    rig.bases.remove(entries[2]);
    assert_eq!(rig.bases.held(EntryIndex(0), EntryIndex(9)), []);
}

#[test]
fn a_new_session_hears_all_that_is_not_done_again() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries = [4, 5, 6].map(|mib| rig.replace(mib * MIB, mib * MIB));
    assert_eq!(next(&mut heard), (0, true));
    rig.arrive(entries[0]);
    wait_until(|| rig.bases.held(EntryIndex(0), EntryIndex(9)).len() == 2);
    let mut again = rig.bases.start();
    assert_eq!([next(&mut again), next(&mut again)], [(1, true), (2, true)]);
}

#[test]
fn old_files_wait_for_their_turn_when_many_are_open() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries: Vec<_> = (0..MOST_OPEN + 2).map(|_| rig.replace(4 * MIB, 4 * MIB)).collect();
    for entry in &entries[..MOST_OPEN] {
        assert_eq!(next(&mut heard), (entry.0, true));
    }
    assert!(heard.try_recv().is_err(), "no room until one is done");
    rig.arrive(entries[5]);
    assert_eq!(next(&mut heard), (entries[MOST_OPEN].0, true));
}
