use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use terahaul_core::{BLOCK_SIZE, Receiver};
use terahaul_store::Inbound;

use crate::decision::Rules;
use crate::failpoint::crash_after;
use crate::{Copying, Existing, FileJournal, Keep, Pieces, PublishError};

/// Files, folders and links of every kind, and a receiving folder that has some of them already.
fn plant_both(from: &Path, to: &Path) {
    plant(
        from,
        &[
            ("t/a", b"a"),
            ("t/zero", b""),
            ("t/sub/b", b"b"),
            ("t/sub/deep/c", b"c"),
            ("t/new/d", b"d"),
            ("t/empty/", b""),
        ],
    );
    symlink("../outside", from.join("t/link")).unwrap();
    symlink("c", from.join("t/sub/deep/link")).unwrap();
    fs::set_permissions(from.join("t/new"), fs::Permissions::from_mode(0o555)).unwrap();
    for (seconds, path) in
        ["t/a", "t/zero", "t/sub/deep", "t/sub", "t/new", "t/empty", "t"].iter().enumerate()
    {
        date(&from.join(path), 1_100_000_000 + seconds as i64);
    }
    plant(to, &[("t/sub/mine", b"mine"), ("t/other", b"other")]);
}

fn assert_arrived(from: &Path, to: &Path) {
    let (sent, mut arrived) = (snapshot(from), snapshot(to));
    for mine in [&b"t/sub/mine"[..], b"t/other"] {
        assert!(arrived.remove(mine).is_some());
    }
    assert_eq!(arrived, sent);
    assert!(!staging(to).exists());
}

/// What is visible at any moment is either as it was sent, or was there before.
fn assert_nothing_half_written(from: &Path, to: &Path) {
    let sent = snapshot(from);
    for (path, seen) in snapshot(to) {
        if seen.content != Content::Folder && !path.ends_with(b"mine") && !path.ends_with(b"other") {
            assert_eq!(Some(&seen), sent.get(&path), "{}", path.escape_ascii());
        }
    }
}

/// As if the file system took names that differ in case for the same one.
fn folding_receiver(folds: bool, to: &Path, sender: &Sender) -> (TreeSink, Journal) {
    let (mut sink, journal) = receiver(to, &[]);
    sink.staging.folds_names = folds;
    for entry in sender.entries() {
        sink.append(&entry).unwrap();
    }
    (sink, journal)
}

fn crash_at_every_step(folds: bool) {
    let mut crashed = 0;
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant_both(&from, &to);
        let sender = Sender::of(from.join("t"));
        let (sink, journal) = folding_receiver(folds, &to, &sender);
        deliver(&sender, &sink, &journal, &in_order(&sender));
        crash_after(Some(points));
        let first = sink.publish(Overwrite::Refuse);
        crash_after(None);
        drop((sink, journal));
        assert_nothing_half_written(&from, &to);
        if first.is_ok() {
            assert_arrived(&from, &to);
            break;
        }
        crashed += 1;
        let (sink, journal) = folding_receiver(folds, &to, &sender);
        if journal.blocks().is_empty() {
            // Only the staging folder's removal was left.
            sink.discard().unwrap();
        } else {
            sink.publish(Overwrite::Refuse).unwrap();
        }
        assert_arrived(&from, &to);
    }
    assert!(crashed > 25, "only {crashed} steps were interrupted");
}

#[test]
fn publishing_that_crashed_at_any_step_is_completed_by_the_next_run() {
    crash_at_every_step(false);
}

#[test]
fn the_same_where_the_file_system_folds_names() {
    crash_at_every_step(true);
}

#[test]
fn publishing_that_crashes_again_and_again_still_completes() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant_both(&from, &to);
    let sender = Sender::of(from.join("t"));
    let (sink, journal) = receiver(&to, &sender.entries());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    drop((sink, journal));
    for points in 0.. {
        let (sink, journal) = receiver(&to, &sender.entries());
        if journal.blocks().is_empty() {
            sink.discard().unwrap();
            break;
        }
        crash_after(Some(points));
        let published = sink.publish(Overwrite::Refuse);
        crash_after(None);
        assert_nothing_half_written(&from, &to);
        if published.is_ok() {
            break;
        }
    }
    assert_arrived(&from, &to);
}

#[test]
fn a_receiver_that_dies_after_any_block_loses_only_what_was_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    let large = vec![3; 9 << 20];
    plant(
        &from,
        &[("t/large", &large), ("t/a", &vec![1; 3 << 20]), ("t/b", &vec![2; 3 << 20]), ("t/c", b"c")],
    );
    let sender = Sender::of(from.join("t"));
    let blocks = sender.shapes().len();
    for durable in 0..=blocks {
        for unrecorded in 0..=blocks - durable {
            let to = dir.path().join(format!("to-{durable}-{unrecorded}"));
            let (sink, journal) = receiver(&to, &sender.entries());
            let order = in_order(&sender);
            deliver(&sender, &sink, &journal, &order[..durable]);
            for shape in &sender.shapes()[durable..durable + unrecorded] {
                // Written, or half written, and never recorded.
                let (bytes, _) = sender.read(shape, 1 << 16);
                let mut writer = sink.begin(shape).unwrap();
                writer.write(&[IoSlice::new(&bytes[..bytes.len() / 2])]).unwrap();
            }
            drop((sink, journal));
            let (sink, journal) = receiver(&to, &sender.entries());
            assert_eq!(journal.blocks().len(), durable as u64);
            deliver(&sender, &sink, &journal, &order);
            sink.publish(Overwrite::Refuse).unwrap();
            assert_eq!(snapshot(&to), snapshot(&from));
        }
    }
}

#[test]
fn entries_appended_after_an_interrupted_publishing_are_published_too() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("t/a", b"a"), ("t/b", b"b"), ("t/sub/c", b"c")]);
    let sender = Sender::of(from.join("t"));
    for points in 0..20 {
        let _ = fs::remove_dir_all(&to);
        let (sink, journal) = receiver(&to, &sender.entries());
        deliver(&sender, &sink, &journal, &in_order(&sender));
        crash_after(Some(points));
        let published = sink.publish(Overwrite::Refuse);
        crash_after(None);
        drop((sink, journal));
        if published.is_ok() {
            return;
        }
        let mut entries = sender.entries();
        entries.push(file_entry(b"t/sub/later", 0));
        entries.push(file_entry(b"u/later", 0));
        let (sink, journal) = receiver(&to, &entries);
        if journal.blocks().is_empty() {
            sink.discard().unwrap();
            continue;
        }
        sink.publish(Overwrite::Refuse).unwrap();
        let paths: Vec<_> = snapshot(&to).into_keys().map(|path| String::from_utf8(path).unwrap()).collect();
        assert_eq!(paths, ["t", "t/a", "t/b", "t/sub", "t/sub/c", "t/sub/later", "u", "u/later"], "{points}");
    }
}

/// At the sender a folder became a link while the transfer was under way, so what was in it failed, and the link came behind it.
#[test]
fn publishing_is_completed_where_a_link_is_staged_in_the_place_of_a_folder_that_failed() {
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("t/a", b"a")]);
        let sender = Sender::of(from.join("t"));
        let open = || {
            let (sink, journal) = receiver(&to, &sender.entries());
            let of_kind = |path: &[u8], kind| Entry { kind, ..file_entry(path, 0) };
            for entry in [of_kind(b"t/x", EntryKind::Directory), file_entry(b"t/x/gone", 5)] {
                sink.fail(sink.append(&entry).unwrap());
            }
            sink.append(&of_kind(b"t/x", EntryKind::Symlink { target: Box::from(*b"a") })).unwrap();
            (sink, journal)
        };
        let (sink, journal) = open();
        deliver(&sender, &sink, &journal, &in_order(&sender));
        crash_after(Some(points));
        let published = sink.publish(Overwrite::Refuse);
        crash_after(None);
        drop((sink, journal));
        let is_last = published.is_ok();
        if !is_last {
            let (sink, journal) = open();
            if journal.blocks().is_empty() {
                sink.discard().unwrap();
            } else {
                sink.publish(Overwrite::Refuse).unwrap();
            }
        }
        assert_eq!(snapshot(&to)[&b"t/x"[..]].content, Content::Link(b"a".to_vec()), "{points}");
        if is_last {
            return;
        }
    }
}

/// One run of `receive`, which wants what `wants` says and is not there already; publishing it stops after `points` steps.
fn run(sender: &Sender, to: &Path, wants: impl Fn(&EntryPath) -> bool, points: Option<u32>) -> bool {
    let (sink, journal) = receiver(to, &sender.entries());
    for (index, entry) in (0..).map(EntryIndex).zip(sender.entries()) {
        let is_folder = entry.kind == EntryKind::Directory;
        if !wants(&entry.path) || !is_folder && sink.existing(index).unwrap() == Some(Existing::Same) {
            sink.decline(index);
        }
    }
    deliver(sender, &sink, &journal, &in_order(sender));
    crash_after(points);
    let published = sink.publish(Overwrite::Refuse);
    crash_after(None);
    if points.is_none() {
        published.unwrap();
        return true;
    }
    published.is_ok()
}

fn below_sub(path: &EntryPath) -> bool {
    path.as_bytes().starts_with(b"t/sub")
}

/// A run that wants what `wants` says, stopped at each step of its publishing in turn; `then` does what comes after it.
fn after_each_interruption(wants: impl Fn(&EntryPath) -> bool, then: impl Fn(&Sender, &Path, &Path)) {
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant_both(&from, &to);
        let sender = Sender::of(from.join("t"));
        let is_last = run(&sender, &to, &wants, Some(points));
        then(&sender, &from, &to);
        if is_last {
            return;
        }
    }
}

#[test]
fn a_run_that_wants_more_than_the_interrupted_one_before_gets_all_of_it() {
    after_each_interruption(
        |path| !below_sub(path),
        |sender, from, to| {
            run(sender, to, |_| true, None);
            assert_arrived(from, to);
        },
    );
}

#[test]
fn a_run_that_wants_less_than_the_interrupted_one_before_places_no_more() {
    after_each_interruption(
        |_| true,
        |sender, _, to| {
            let before = snapshot(to);
            run(sender, to, |path| !below_sub(path), None);
            let is_file = |seen: &Seen| seen.content != Content::Folder;
            for (path, _) in
                snapshot(to).iter().filter(|(path, seen)| path.starts_with(b"t/sub") && is_file(seen))
            {
                assert!(before.contains_key(path), "{}", path.escape_ascii());
            }
            assert!(to.join("t/new/d").exists() && !staging(to).exists());
        },
    );
}

/// Removes what has got its name.
fn remove_all_sent(to: &Path) {
    for (path, _) in snapshot(to).iter().filter(|(_, seen)| seen.content != Content::Folder) {
        if !path.ends_with(b"mine") && !path.ends_with(b"other") {
            fs::remove_file(bytes_path(to, path)).unwrap();
        }
    }
}

#[test]
fn what_an_interrupted_run_has_placed_and_its_user_has_removed_comes_once_more() {
    after_each_interruption(
        |_| true,
        |sender, from, to| {
            remove_all_sent(to);
            run(sender, to, |_| true, None);
            assert_arrived(from, to);
        },
    );
}

/// It was called received and verified, and was nowhere.
#[test]
fn what_its_user_removes_while_the_next_run_receives_the_rest_is_said_to_be_missing_and_comes_once_more() {
    after_each_interruption(
        |_| true,
        |sender, from, to| {
            let (sink, journal) = receiver(to, &sender.entries());
            deliver(sender, &sink, &journal, &in_order(sender));
            remove_all_sent(to);
            if let Err(error) = sink.publish(Overwrite::Refuse) {
                assert!(matches!(error, PublishError::Incomplete { .. }), "{error}");
                drop((sink, journal));
                run(sender, to, |_| true, None);
            }
            assert_arrived(from, to);
        },
    );
}

/// Its later blocks made it as long as the record of the first run said, and what lay before them were holes.
#[test]
fn what_was_removed_and_came_in_part_once_more_is_not_taken_for_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let content = vec![7; 3 * BLOCK_SIZE as usize];
    plant(&from, &[("t/large", &content), ("t/small", b"x")]);
    let sender = Sender::of(from.join("t"));
    let (sink, journal) = receiver(&to, &sender.entries());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    drop((sink, journal));
    fs::remove_file(staging(&to).join("tree/t/large")).unwrap();
    let last = sender.shapes().iter().rposition(|shape| u64::from(shape.len) == BLOCK_SIZE).unwrap();
    for order in [vec![last], in_order(&sender)] {
        let (sink, journal) = receiver(&to, &sender.entries());
        deliver(&sender, &sink, &journal, &order);
        if order.len() > 1 {
            sink.publish(Overwrite::Refuse).unwrap();
        }
    }
    assert!(fs::read(to.join("t/large")).unwrap() == content);
}

/// A copy into a folder of a file system that takes names that differ in case for the same one.
struct Folding {
    sink: Arc<TreeSink>,
    journal: Arc<FileJournal>,
    inbound: Arc<Inbound>,
}

impl Folding {
    fn open(to: &Path) -> Self {
        Self::open_on(to, false)
    }

    /// As FAT does, it may keep `even_seconds` alone.
    fn open_on(to: &Path, even_seconds: bool) -> Self {
        let (mut sink, journal) = TreeSink::open_copy(to, None, transfer(), Keep::default()).unwrap();
        (sink.staging.folds_names, sink.even_seconds) = (true, even_seconds);
        let (sink, journal) = (Arc::new(sink), Arc::new(journal));
        let receiver = Receiver::resuming(Layout::new(), Default::default(), []);
        let inbound = Arc::new(Inbound::start(receiver, sink.clone(), journal.clone()).unwrap());
        journal.bind(&inbound, &sink);
        Self { sink, journal, inbound }
    }

    /// Takes in a manifest; what of each entry is here.
    fn take(&self, entries: &[Entry]) -> Vec<Option<Pieces>> {
        let mut found = Vec::new();
        for entry in entries {
            let index = self.sink.append(entry).unwrap();
            found.push(self.sink.salvage(index, entry, &self.journal).unwrap());
        }
        self.journal.settle().unwrap();
        let lacking = |(entry, found): (&Entry, &Option<Pieces>)| {
            entry.file_size().filter(|_| *found != Some(Pieces::Whole))
        };
        let sizes = entries.iter().zip(&found).map(lacking);
        self.inbound.with(|receiver| receiver.append_batch(sizes, true)).unwrap();
        found
    }

    fn arrive(&self, block: u32, bytes: &[u8]) {
        let mut arrival = self.inbound.begin(BlockNumber(block), bytes.len() as u64).unwrap();
        arrival.write(&[IoSlice::new(bytes)]).unwrap();
        arrival.finish(None).unwrap();
        self.inbound.flush().unwrap();
    }
}

/// Files were named by their indices there, of which the next run has others, and all was sent again.
#[test]
fn a_copy_onto_a_file_system_that_folds_names_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path();
    let (large, block) = (file_entry(b"d/large", BLOCK_SIZE + 3), vec![7; BLOCK_SIZE as usize]);
    let (small, gone) = (file_entry(b"d/small", 5), file_entry(b"d/gone", 4));
    let first = Folding::open(to);
    assert_eq!(first.take(&[large.clone(), small.clone(), gone]), [None, None, None]);
    first.arrive(0, &block);
    first.arrive(2, b"smallgone");
    first.inbound.close();
    drop(first);
    let second = Folding::open(to);
    let changed = Entry { mtime: Mtime::default(), ..small.clone() };
    let found = second.take(&[file_entry(b"a", 3), changed, large.clone()]);
    assert!(matches!(&found[..], [None, None, Some(Pieces::Some(pieces))] if pieces.len() == 1), "{found:?}");
    second.arrive(0, b"newsmall");
    second.inbound.close();
    drop(second);
    let third = Folding::open(to);
    let found = third.take(&[Entry { mtime: Mtime::default(), ..small }, large, file_entry(b"a", 3)]);
    assert_eq!((&found[0], &found[2]), (&Some(Pieces::Whole), &Some(Pieces::Whole)));
    assert!(matches!(&found[1], Some(Pieces::Some(pieces)) if pieces.len() == 1), "{found:?}");
    third.arrive(1, b"end");
    let (rules, filter) = (Rules::default(), Filter::default());
    let copying = Copying { rules, filter: &filter, most: None };
    third.sink.publish_copy(copying, &mut |_| {}).unwrap();
    third.sink.conclude_copy(&rules).unwrap();
    let seen = snapshot(to);
    assert_eq!(
        seen.keys().map(|path| &path[..]).collect::<Vec<_>>(),
        [&b"a"[..], b"d", b"d/large", b"d/small"]
    );
    assert_eq!(seen[&b"d/small"[..]].content, Content::File(b"small".to_vec()));
    assert_eq!(seen[&b"d/large"[..]].content, Content::File([&block[..], b"end"].concat()));
    assert!(!staging(to).exists());
}

/// The file in which a copy has staged what there is only one of.
fn staged_again(to: &Path) -> std::path::PathBuf {
    fs::read_dir(staging(to).join("again")).unwrap().next().unwrap().unwrap().path()
}

/// One that was begun anew just before its end would have been taken for all that was recorded, and got its name with holes.
#[test]
fn a_staged_file_that_is_shorter_than_what_is_recorded_of_it_comes_once_more() {
    for len in [0, BLOCK_SIZE - 1, BLOCK_SIZE] {
        let dir = tempfile::tempdir().unwrap();
        let large = [file_entry(b"large", 2 * BLOCK_SIZE + 3)];
        let first = Folding::open(dir.path());
        assert_eq!(first.take(&large), [None]);
        first.arrive(0, &vec![7; BLOCK_SIZE as usize]);
        first.inbound.close();
        drop(first);
        fs::File::options().write(true).open(staged_again(dir.path())).unwrap().set_len(len).unwrap();
        let found = Folding::open(dir.path()).take(&large);
        assert_eq!(found[0].is_some(), len == BLOCK_SIZE, "{len}: {found:?}");
    }
}

/// Every other file was thrown away and sent again.
#[test]
fn what_was_staged_on_fat_is_known_by_its_even_second() {
    for even_seconds in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let odd = Mtime { seconds: 1_600_000_001, nanos: 7 };
        let entry = Entry { mtime: odd, ..file_entry(b"small", 5) };
        let first = Folding::open_on(dir.path(), even_seconds);
        assert_eq!(first.take(std::slice::from_ref(&entry)), [None]);
        first.arrive(0, b"small");
        first.inbound.close();
        drop(first);
        let again = staged_again(dir.path());
        let cut = crate::sink::times(Mtime { seconds: 1_600_000_000, nanos: 0 });
        rustix::fs::utimensat(rustix::fs::CWD, &again, &cut, rustix::fs::AtFlags::empty()).unwrap();
        let found = Folding::open_on(dir.path(), even_seconds).take(&[entry]);
        assert_eq!(found, [even_seconds.then_some(Pieces::Whole)]);
    }
}
