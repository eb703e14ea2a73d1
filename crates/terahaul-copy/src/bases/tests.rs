use std::time::{Duration, Instant};

use terahaul_core::delta::Basis;
use terahaul_core::{
    BLOCK_SIZE, ByteCount, Entry, EntryKind, EntryPath, Layout, Mtime, Receiver as CoreReceiver, TransferId,
};
use terahaul_store::Inbound;
use terahaul_tree::Keep;
use terahaul_wire::{GUESS_LEN, Guessed};

use super::offers::MOST_OPEN;
use super::*;

const MIB: u64 = 1 << 20;
/// Of one large file.
const BLOCKS: u32 = 30;

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

    /// In a session, one file is replaced, which is as long as it was and has more blocks than are guessed at first.
    fn guessing() -> (Self, Telling) {
        let mut rig = Self::start();
        let heard = rig.bases.start();
        let size = u64::from(BLOCKS) * BLOCK_SIZE;
        rig.replace(size, size);
        rig.held();
        (rig, heard)
    }

    /// Names all entries that the session has not heard of.
    fn held(&self) -> Vec<EntryIndex> {
        self.bases.held(EntryIndex(self.count))
    }

    /// Entries whose old files somebody may still want to hear of.
    fn offered(&self) -> Vec<EntryIndex> {
        self.bases.0.state().offers.entries()
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

/// What was told of an entry.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The sums of all of its old file.
    Sums(u32),
    /// That it has none.
    Nothing(u32),
    /// The first blocks, and how many groups of each.
    Guesses(u32, Vec<(u32, usize)>),
}

/// All that is told next of one entry.
fn next(heard: &mut Telling) -> Told {
    let mut basis: Option<Basis> = None;
    let mut guesses = Vec::new();
    loop {
        match heard.messages.blocking_recv().unwrap() {
            Message::Guessed(Guessed { entry, values, .. }) if values.is_empty() => {
                guesses.sort_unstable();
                return Told::Guesses(entry, guesses);
            }
            Message::Guessed(Guessed { block, values, .. }) => {
                guesses.push((block, values.len() / GUESS_LEN))
            }
            Message::Sums(sums) if sums.size == 0 => return Told::Nothing(sums.entry),
            Message::Sums(sums) => {
                let basis = basis.get_or_insert_with(|| Basis::new(sums.size, sums.chunk).unwrap());
                if basis.handle_sums(sums.first, &sums.sums).unwrap() {
                    return Told::Sums(sums.entry);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn guessed(heard: &mut Telling) -> Guessed {
    match heard.messages.blocking_recv() {
        Some(Message::Guessed(guessed)) => guessed,
        other => panic!("{other:?}"),
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
    assert_eq!(rig.held(), []);
}

#[test]
fn blocks_are_guessed_file_by_file_as_far_as_the_old_ones_reach() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries = [(9 * MIB, 70 * MIB + 5), (8 * MIB, 100), (9 * MIB, 5 * MIB)]
        .map(|(size, old)| rig.replace(size, old));
    assert_eq!(rig.held(), entries);
    assert_eq!(next(&mut heard), Told::Guesses(0, vec![(0, 512), (1, 512), (2, 128)]));
    assert_eq!(next(&mut heard), Told::Nothing(1));
    assert_eq!(next(&mut heard), Told::Guesses(2, vec![(0, 1024), (1, 256)]));
    assert_eq!(rig.inbound.guesses(), 5);
    rig.arrive(entries[0]);
    wait_until(|| rig.offered() == entries[1..]);
    rig.bases.remove(entries[2]);
    assert_eq!(rig.offered(), entries[1..2]);
    assert_eq!(rig.inbound.guesses(), 0);
}

#[test]
fn a_sender_that_finds_guesses_wrong_gets_sums_and_then_better_guesses() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    rig.replace(16 * MIB, 70 * MIB + 5);
    rig.held();
    assert_eq!(next(&mut heard), Told::Guesses(0, [0, 1, 2, 3].map(|block| (block, 512)).to_vec()));
    (heard.advise)(Advice { entry: 0, block: 1, from: None });
    assert_eq!(rig.inbound.guesses(), 0, "they are void");
    assert_eq!(next(&mut heard), Told::Sums(0));
    (heard.advise)(Advice { entry: 0, block: 2, from: Some(62 * MIB + 5) });
    let mut better: Vec<_> = std::iter::repeat_with(|| guessed(&mut heard))
        .take_while(|guessed| !guessed.values.is_empty())
        .map(|guessed| (guessed.block, guessed.from, guessed.heard))
        .collect();
    better.sort_unstable();
    assert_eq!(better, [(2, 62 * MIB + 5, 2), (3, 66 * MIB + 5, 2)]);
    (heard.advise)(Advice { entry: 0, block: 2, from: Some(u64::MAX) });
    assert_eq!(next(&mut heard), Told::Guesses(0, vec![]), "there is nothing");
    (heard.advise)(Advice { entry: 9, block: 2, from: None });
}

#[test]
fn guesses_are_few_ahead_until_one_was_right() {
    let (rig, mut heard) = Rig::guessing();
    let some: Vec<_> = (0..guessing::AHEAD_AT_FIRST).map(|_| guessed(&mut heard).block).collect();
    assert!(rig.inbound.guesses() < guessing::AHEAD_AT_FIRST + MOST_THREADS);
    let right = some[0];
    let mut arrival = rig.inbound.begin(BlockNumber(right), BLOCK_SIZE).unwrap();
    arrival.copy(u64::from(right) * BLOCK_SIZE, BLOCK_SIZE as u32, &mut []).unwrap();
    arrival.finish(None).unwrap();
    let Told::Guesses(0, rest) = next(&mut heard) else { panic!("no guesses") };
    assert_eq!(rest.len() + some.len(), BLOCKS as usize);
}

/// With as many guesses made that nobody will judge as may ever be ahead.
#[test]
fn a_new_session_guesses_anew_whatever_the_last_one_left() {
    let (rig, mut heard) = Rig::guessing();
    for _ in 0..guessing::AHEAD_AT_FIRST {
        guessed(&mut heard);
    }
    let mut again = rig.bases.start();
    (heard.advise)(Advice { entry: 0, block: 0, from: None });
    assert!(again.messages.try_recv().is_err(), "it is not named in this session");
    rig.held();
    for _ in 0..guessing::AHEAD_AT_FIRST {
        assert_eq!(guessed(&mut again).heard, 0, "the advice was for the session before");
    }
}

#[test]
fn a_new_session_hears_all_that_is_not_done_again() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries = [4, 5, 6].map(|mib| rig.replace(mib * MIB, mib * MIB));
    rig.held();
    assert_eq!(next(&mut heard), Told::Sums(0), "its only block's value is not made of groups");
    assert_eq!(next(&mut heard), Told::Guesses(1, vec![(0, 1024), (1, 256)]));
    rig.arrive(entries[0]);
    wait_until(|| rig.offered().len() == 2);
    let mut again = rig.bases.start();
    rig.held();
    assert_eq!(next(&mut again), Told::Guesses(1, vec![(0, 1024), (1, 256)]));
    assert_eq!(next(&mut again), Told::Guesses(2, vec![(0, 1024), (1, 512)]));
}

/// A batch is repeated when its answer was lost. Whatever was told meanwhile is not told again in that session.
#[test]
fn a_session_hears_once_that_an_entry_is_held() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entry = rig.replace(4 * MIB, 100);
    assert_eq!(rig.held(), [entry]);
    assert_eq!(next(&mut heard), Told::Nothing(0));
    assert_eq!(rig.held(), []);
    let _again = rig.bases.start();
    assert_eq!(rig.held(), [entry]);
}

/// When it pulls, a new session brings the manifest again from its beginning: what is named before its turn is a violation.
#[test]
fn a_session_hears_of_no_entry_before_it_has_declared_it() {
    let mut rig = Rig::start();
    let _heard = rig.bases.start();
    let entries = [4, 5, 6].map(|mib| rig.replace(mib * MIB, mib * MIB));
    assert_eq!(rig.held(), entries);
    let _again = rig.bases.start();
    assert_eq!(rig.bases.held(entries[1]), entries[..1]);
    assert_eq!(rig.held(), entries[1..]);
}

/// It may be in a read of a disk that takes its time.
#[test]
fn a_thread_that_outlives_its_session_changes_nothing_in_the_next() {
    let mut state = State { session: 2, ..State::default() };
    state.offers.add(EntryIndex(0));
    let mut changed = |session, entry| state.change_in(session, EntryIndex(entry), |_| ()).is_some();
    assert_eq!(
        [(1, 0), (2, 0), (2, 1)].map(|(session, entry)| changed(session, entry)),
        [false, true, false]
    );

    let mut rig = Rig::start();
    let (told, messages) = channel(4);
    let (_first, _second) = (rig.bases.start(), rig.bases.start());
    let entry = rig.replace(4 * MIB, 100);
    assert!(rig.bases.0.tell_one(1, entry, &told).is_none(), "the session is over");
    assert_eq!(rig.bases.0.state().offers.find(entry).unwrap().stage, Stage::Waiting);
    assert!(messages.is_empty());
}

#[test]
fn old_files_wait_for_their_turn_when_many_are_open() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    let entries: Vec<_> = (0..MOST_OPEN + 2).map(|_| rig.replace(4 * MIB, 4 * MIB)).collect();
    rig.held();
    for entry in &entries[..MOST_OPEN] {
        assert_eq!(next(&mut heard), Told::Sums(entry.0));
    }
    assert!(heard.messages.try_recv().is_err(), "no room until one is done");
    rig.arrive(entries[5]);
    assert_eq!(next(&mut heard), Told::Sums(entries[MOST_OPEN].0));
}

#[test]
fn an_old_file_that_cannot_be_read_is_said_so() {
    let mut rig = Rig::start();
    let mut heard = rig.bases.start();
    rig.replace(4 * MIB, 100);
    rig.held();
    assert_eq!(next(&mut heard), Told::Nothing(0));
    let mut again = rig.bases.start();
    rig.held();
    assert_eq!(next(&mut again), Told::Nothing(0), "the first may not have been heard");
}
