//! Manifests that no honest sender sends, and a sender that goes on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use terahaul_core::{
    BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, EntryKind, EntryPath, Extra, FailureCause, Mtime,
};
use terahaul_net::channel::{Outbound, Placement};
use terahaul_store::{BasisError, InboundError};
use terahaul_wire::Message;

use super::*;
use crate::rules::{Compare, Kept, Selection};

fn entry(path: &str, kind: EntryKind) -> Entry {
    let path = EntryPath::new(path.as_bytes()).unwrap();
    Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None }
}

fn file(path: &str) -> Entry {
    entry(path, EntryKind::File { size: ByteCount(5) })
}

fn batch(first: u32, entries: Vec<Entry>, seal: bool) -> Batch {
    Batch { first: EntryIndex(first), entries, seal }
}

fn landing(folder: &Path, names: &[&str], rename: Option<&str>) -> Landing {
    landing_by(&Rules::default(), folder, names, rename)
}

fn landing_by(rules: &Rules, folder: &Path, names: &[&str], rename: Option<&str>) -> Landing {
    let rename = rename.map(|name| EntryPath::new(name.as_bytes()).unwrap());
    let names = names.iter().map(|name| Name(name.as_bytes().to_vec())).collect();
    let base = Base { folder: folder.to_owned(), rename };
    Landing::open(
        base,
        Asked { names, patterns: Vec::new(), top: None },
        [1; 16],
        rules,
        &Selection::default(),
    )
    .unwrap()
}

/// The receiving end of a copy of what is in a folder with these permission bits.
fn landing_for(folder: &Path, mode: u32) -> Landing {
    let base = Base { folder: folder.to_owned(), rename: None };
    let top = Some(Top { mode, mtime: Mtime::default(), extra: None });
    let asked = Asked { names: Vec::new(), patterns: Vec::new(), top };
    Landing::open(base, asked, [1; 16], &Rules::default(), &Selection::default()).unwrap()
}

fn mode_of(folder: &Path) -> u32 {
    folder.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_destination_that_is_made_in_a_set_group_id_folder_is_one_too() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o2775)).unwrap();
    let made = dir.path().join("made");
    let landing = landing_for(&made, 0o755);
    landing.take(batch(0, Vec::new(), true)).unwrap();
    landing.finish().unwrap();
    assert_eq!(mode_of(&made), 0o2755);
}

/// Only the run that makes it knows that it was made.
#[test]
fn a_destination_that_an_interrupted_run_has_made_has_the_sources_permission_bits() {
    for (mode, becomes) in [(0o777, 0o777), (0o2770, 0o770)] {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        landing_for(&made, mode).close();
        let landing = landing_for(&made, mode);
        landing.take(batch(0, Vec::new(), true)).unwrap();
        landing.finish().unwrap();
        assert_eq!(mode_of(&made), becomes);
    }
}

#[test]
fn what_was_not_asked_for_is_refused_and_ends_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    for bad in [file("other"), file("asked-not"), entry(".ssh", EntryKind::Directory), file("other/asked")] {
        let landing = landing(dir.path(), &["asked"], None);
        let refused = landing.take(batch(0, vec![file("asked"), bad.clone()], true));
        assert!(matches!(refused, Err(CopyError::NotAskedFor(_))), "{bad:?}");
    }
    let landing = landing(dir.path(), &["asked"], None);
    assert!(
        landing.take(batch(0, vec![entry("asked", EntryKind::Directory), file("asked/x")], true)).is_ok()
    );
}

/// On a file system that takes both for one, the first would not be declared, and what comes for the second would take its place.
#[test]
fn where_names_that_differ_are_one_no_sender_is_told_what_is_alike() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("Asked")).unwrap();
    let folds_names = dir.path().join("asked").exists();
    let landing = landing(dir.path(), &["Asked"], None);
    assert_eq!(landing.may_have_some(), !folds_names);
}

/// Were all names compared with each entry's, this would take minutes.
#[test]
fn very_many_sources_are_taken_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..100_000).map(|at| at.to_string()).collect();
    let asked: Vec<_> = names.iter().rev().map(String::as_str).collect();
    let landing = landing(dir.path(), &asked, None);
    let begun = std::time::Instant::now();
    assert!(names.iter().all(|name| landing.admit(file(name)).is_ok()));
    assert!(landing.admit(file("100000")).is_err());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn one_file_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    for several in [
        vec![entry("asked", EntryKind::Directory)],
        vec![file("asked/below")],
        vec![file("asked"), file("asked")],
    ] {
        let landing = landing(dir.path(), &["asked"], Some("new"));
        assert!(landing.take(batch(0, several, true)).is_err());
    }
}

#[test]
fn a_manifest_with_a_gap_a_file_twice_or_a_file_as_a_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gap = landing(dir.path(), &[], None);
    assert!(gap.take(batch(1, vec![file("a")], false)).is_err());
    assert!(gap.take(batch(0, vec![file("a"), file("b")], false)).is_ok());
    drop(gap);
    for bad in [vec![file("a"), file("a")], vec![file("a"), file("a/b")]] {
        assert!(landing(dir.path(), &[], None).take(batch(0, bad, true)).is_err());
    }
}

/// A connection that was lost brought what was found until then, and the next one's first batch is larger.
#[test]
fn of_a_batch_that_is_known_in_part_the_rest_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("folder")).unwrap();
    std::fs::write(dir.path().join("folder/x"), "in the way").unwrap();
    let landing = landing(dir.path(), &[], None);
    let known = landing.take(batch(0, vec![file("a"), file("folder")], false)).unwrap();
    let all = landing.take(batch(0, vec![file("a"), file("folder"), file("b")], true)).unwrap();
    assert_eq!((all.declined, all.failed), (known.declined, known.failed));
    // One without entries that begins in the midst of what is known says nothing.
    assert!(landing.take(batch(1, Vec::new(), true)).unwrap().declined.is_empty());
    landing.inbound().with(|receiver| {
        assert_eq!((receiver.layout().entry_count(), receiver.layout().open_block()), (3, None));
    });
}

#[test]
fn of_what_was_not_offered_nothing_fails() {
    let dir = tempfile::tempdir().unwrap();
    let landing = landing(dir.path(), &[], None);
    landing.take(batch(0, vec![file("a"), file("b")], true)).unwrap();
    let failure = |entry| EntryFailure {
        entry: EntryIndex(entry),
        cause: FailureCause::Vanished,
        detail: String::new(),
    };
    landing.fail([1, 2, 1_000_000, u32::MAX].map(failure).into());
    let named: Vec<_> = landing.failures().listed.into_iter().map(|failure| failure.path).collect();
    assert_eq!(named, [b"b"]);
}

#[test]
fn a_repeated_batch_is_answered_as_before() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    std::fs::write(dir.path().join("folder/x"), "in the way").unwrap();
    let landing = landing(dir.path(), &[], None);
    let take = || landing.take(batch(0, vec![file("a"), file("folder"), file("b")], false)).unwrap();
    let (first, again) = (take(), take());
    assert_eq!(first.declined, [EntryIndex(1)]);
    assert_eq!(again.declined, first.declined);
    assert_eq!(again.failed, first.failed);
    assert_eq!(landing.inbound().with(|receiver| receiver.layout().entry_count()), 3);
}

/// The first time the walk had not come to its end.
#[test]
fn a_repeated_batch_that_ends_the_manifest_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let landing = landing(dir.path(), &[], None);
    let open = || landing.inbound().with(|receiver| receiver.layout().open_block());
    landing.take(batch(0, vec![file("a"), file("b")], false)).unwrap();
    landing.take(batch(0, vec![file("a")], true)).unwrap();
    assert!(open().is_some(), "more is known than that");
    landing.take(batch(0, vec![file("a"), file("b")], true)).unwrap();
    assert_eq!(open(), None);
}

fn arrive(landing: &Landing, block: u32) {
    arrive_with(landing, block, BLOCK_SIZE);
}

fn arrive_with(landing: &Landing, block: u32, len: u64) {
    let mut arrival = landing.inbound().begin(BlockNumber(block), len).unwrap();
    arrival.write(&[io::IoSlice::new(&vec![7; len as usize])]).unwrap();
    arrival.finish(None).unwrap();
    landing.inbound().flush().unwrap();
}

/// The sender's word that files have failed, and its last one, go another way than their blocks, and may be there first. The next
/// file of such a block was made in its folder, which had been given its name meanwhile: torn, and dated as if it were whole.
#[test]
fn nothing_of_a_block_that_failed_on_its_way_gets_into_the_destination() {
    let dir = tempfile::tempdir().unwrap();
    let landing = landing(dir.path(), &[], None);
    let folder = entry("d", EntryKind::Directory);
    landing.take(batch(0, vec![folder, file("d/a"), file("d/b")], true)).unwrap();
    let mut arrival = landing.inbound().begin(BlockNumber(0), 10).unwrap();
    arrival.write(&[io::IoSlice::new(&[7; 5])]).unwrap();
    let failed = |entry| EntryFailure {
        entry: EntryIndex(entry),
        cause: FailureCause::Changed,
        detail: String::new(),
    };
    landing.fail(vec![failed(1), failed(2)]);
    landing.finish().unwrap();
    assert!(matches!(arrival.write(&[io::IoSlice::new(&[7; 5])]), Err(InboundError::Closed)));
    assert_eq!(std::fs::read_dir(dir.path().join("d")).unwrap().count(), 0);
}

/// What was staged in the first run is gone, as it is once a file has failed or has got its name.
#[test]
fn what_was_recorded_of_a_file_that_is_staged_no_more_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let large = || vec![entry("large", EntryKind::File { size: ByteCount(3 * BLOCK_SIZE) })];
    let first = landing(dir.path(), &[], None);
    first.take(batch(0, large(), true)).unwrap();
    arrive(&first, 0);
    first.fail(vec![EntryFailure {
        entry: EntryIndex(0),
        cause: FailureCause::Unreadable,
        detail: String::new(),
    }]);
    drop(first);
    let second = landing(dir.path(), &[], None);
    assert_eq!(second.take(batch(0, large(), true)).unwrap().durable, []);
    arrive(&second, 2);
    drop(second);
    let third = landing(dir.path(), &[], None);
    let durable = third.take(batch(0, large(), true)).unwrap().durable;
    assert_eq!(durable, [BlockRun { first: BlockNumber(2), count: 1 }], "the first block is a hole");
}

/// A crash before the zeros that stood for it were removed: they have its size and its time.
#[test]
fn what_stands_for_a_file_that_failed_is_not_recorded_as_that_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = || vec![file("a"), file("b")];
    let first = landing(dir.path(), &[], None);
    first.take(batch(0, files(), true)).unwrap();
    let cause = FailureCause::Unreadable;
    first.fail(vec![EntryFailure { entry: EntryIndex(0), cause, detail: String::new() }]);
    arrive_with(&first, 0, 10);
    drop(first);
    let staged = std::fs::File::create(journal_in(dir.path()).with_file_name("tree").join("a")).unwrap();
    staged.set_len(5).unwrap();
    staged.set_modified(std::time::UNIX_EPOCH).unwrap();
    let second = landing(dir.path(), &[], None);
    assert_eq!(
        second.take(batch(0, files(), true)).unwrap().declined,
        [EntryIndex(1)],
        "the other one is here"
    );
}

/// With `-I` neither says that a file is the same: half of an earlier version and half of this one became one file.
#[test]
fn what_an_interrupted_copy_has_left_is_believed_only_where_size_and_time_are() {
    for (compare, believed) in [(Compare::default(), true), (Compare::Never, false)] {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules { compare, ..Rules::default() };
        let open = || landing_by(&rules, dir.path(), &[], None);
        let entries = || vec![large("large", 2), file("small")];
        let first = open();
        first.take(batch(0, entries(), true)).unwrap();
        arrive(&first, 0);
        arrive_with(&first, 2, 5);
        drop(first);
        let second = open();
        let made = second.take(batch(0, entries(), true)).unwrap();
        assert_eq!((made.durable.len(), made.declined.len()), (usize::from(believed), usize::from(believed)));
        // Nor by the next run, of which the user may think otherwise.
        drop(second);
        let made = landing(dir.path(), &[], None).take(batch(0, entries(), true)).unwrap();
        assert_eq!(made.durable.len(), usize::from(believed));
    }
}

fn large(path: &str, blocks: u64) -> Entry {
    entry(path, EntryKind::File { size: ByteCount(blocks * BLOCK_SIZE) })
}

fn empty(path: &str) -> Entry {
    entry(path, EntryKind::File { size: ByteCount(0) })
}

fn journal_in(folder: &Path) -> PathBuf {
    let mut found = std::fs::read_dir(folder).unwrap().map(|found| found.unwrap().path().join("journal"));
    found.find(|journal| journal.exists()).unwrap()
}

/// As if the run had been killed before it had recorded anything: only a header is left.
fn lose_records(folder: &Path) {
    std::fs::File::options().write(true).open(journal_in(folder)).unwrap().set_len(16).unwrap();
}

/// Each record waits for the disk.
#[test]
fn what_does_not_count_any_more_is_recorded_a_batch_at_a_time_and_before_anything_can_come() {
    let dir = tempfile::tempdir().unwrap();
    let files = |seconds| -> Vec<Entry> {
        let mtime = Mtime { seconds, nanos: 0 };
        (0..100).map(|at| Entry { mtime, ..file(&format!("{at:02}")) }).collect()
    };
    let first = landing(dir.path(), &[], None);
    first.take(batch(0, files(1), true)).unwrap();
    arrive_with(&first, 0, 500);
    drop(first);
    let recorded = || journal_in(dir.path()).metadata().unwrap().len();
    let before = recorded();
    let second = landing(dir.path(), &[], None);
    second.take(batch(0, files(2), true)).unwrap();
    // One frame: its length, a kind and a key for each path, its check value.
    assert_eq!(recorded() - before, 4 + 100 * 17 + 8);
    drop(second);
    let third = landing(dir.path(), &[], None);
    assert_eq!(third.take(batch(0, files(1), true)).unwrap().declined, [], "none of them is here");
}

/// Whatever becomes of it between the two runs.
#[test]
fn half_a_file_that_an_interrupted_copy_has_left_never_replaces_a_whole_one() {
    let newer = Rules { update: true, ..Rules::default() };
    let folder = || entry("d", EntryKind::Directory);
    let stays: [(&Rules, Vec<Entry>); 3] = [
        (&newer, vec![folder(), large("d/x", 3), empty("new")]),
        (&Rules::default(), vec![folder(), empty("new")]),
        (&Rules::default(), vec![folder(), entry("d/e", EntryKind::Directory), empty("d/e/new")]),
    ];
    for (number, (rules, entries)) in stays.into_iter().enumerate() {
        for recorded in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let first = landing(dir.path(), &[], None);
            first.take(batch(0, vec![folder(), large("d/x", 3)], true)).unwrap();
            arrive(&first, 0);
            drop(first);
            if !recorded {
                lose_records(dir.path());
            }
            std::fs::create_dir(dir.path().join("d")).unwrap();
            std::fs::write(dir.path().join("d/x"), "whole").unwrap();
            let second = landing_by(rules, dir.path(), &[], None);
            let made = entries.last().unwrap().path.to_string();
            second.take(batch(0, entries.clone(), true)).unwrap();
            second.finish().unwrap();
            assert_eq!(std::fs::read(dir.path().join("d/x")).unwrap(), b"whole", "{number}, {recorded}");
            assert!(dir.path().join(made).exists(), "{number}, {recorded}");
        }
    }
}

#[test]
fn a_file_that_shrank_or_became_a_folder_arrives_though_nothing_was_recorded_of_what_is_staged() {
    for (entries, blocks) in [
        (vec![large("x", 1)], 1),
        (vec![entry("x", EntryKind::Directory), large("x/y", 1)], 1),
        (vec![entry("x", EntryKind::Directory), empty("x/y")], 0),
    ] {
        for is_there in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let first = landing(dir.path(), &[], None);
            first.take(batch(0, vec![large("x", 3)], true)).unwrap();
            arrive(&first, 2);
            drop(first);
            lose_records(dir.path());
            if is_there && entries.len() > 1 {
                std::fs::create_dir(dir.path().join("x")).unwrap();
            }
            let second = landing(dir.path(), &[], None);
            second.take(batch(0, entries.clone(), true)).unwrap();
            (0..blocks).for_each(|block| arrive(&second, block));
            second.finish().unwrap();
            let last = dir.path().join(entries.last().unwrap().path.to_string());
            assert_eq!(last.metadata().unwrap().len(), u64::from(blocks) * BLOCK_SIZE);
        }
    }
}

/// The user's own file is not at fault.
#[test]
fn what_has_to_be_removed_is_named_where_it_is_staged() {
    let dir = tempfile::tempdir().unwrap();
    let landing = landing(dir.path(), &[], None);
    landing.take(batch(0, vec![large("x", 1)], true)).unwrap();
    let staging = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let staged = staging.join("tree/x");
    std::fs::File::create(&staged).unwrap().set_len(2 * BLOCK_SIZE).unwrap();
    let Err(error) = landing.inbound().begin(BlockNumber(0), BLOCK_SIZE) else { panic!("it is too long") };
    assert!(error.to_string().contains(&staged.display().to_string()), "{error}");
}

/// It is not sent again, and has what the first run gave it.
#[test]
fn what_is_salvaged_gets_the_permissions_and_attributes_that_are_asked_for_now() {
    use std::os::unix::fs::PermissionsExt;
    use terahaul_core::{Extra, Xattr};

    for (path, len) in [("small", 5), ("large", BLOCK_SIZE)] {
        let dir = tempfile::tempdir().unwrap();
        let mut secret = entry(path, EntryKind::File { size: ByteCount(len) });
        let first = landing(dir.path(), &[], None);
        first.take(batch(0, vec![secret.clone()], true)).unwrap();
        arrive_with(&first, 0, len);
        drop(first);
        let xattr = Xattr { name: (*b"user.a").into(), value: (*b"1").into() };
        let extra = Extra { xattrs: vec![xattr], ..Extra::default() };
        (secret.mode, secret.extra) = (0o600, extra.into_option());
        let kept = Kept { xattrs: true, ..Kept::default() };
        let second = landing_by(&Rules { kept, ..Rules::default() }, dir.path(), &[], None);
        second.take(batch(0, vec![secret], true)).unwrap();
        let landed = second.finish().expect("nothing is to be sent");
        assert!(landed.resumed);
        let there = dir.path().join(path);
        assert_eq!(there.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{path}");
        let mut value = [0; 9];
        let has = rustix::fs::lgetxattr(&there, "user.a", &mut value[..]).is_ok_and(|len| len == 1);
        // Where the file system has no attributes, that is said.
        assert!(has || second.failures().count() > 0, "{path}");
    }
}

/// It got its name with what the run before was to keep, and nobody had asked for.
#[test]
fn what_was_staged_with_more_than_is_asked_for_now_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let small = entry("small", EntryKind::File { size: ByteCount(5) });
    let kept = Kept { xattrs: true, ..Kept::default() };
    let first = landing_by(&Rules { kept, ..Rules::default() }, dir.path(), &[], None);
    first.take(batch(0, vec![small.clone()], true)).unwrap();
    arrive_with(&first, 0, 5);
    drop(first);
    let second = landing(dir.path(), &[], None);
    second.take(batch(0, vec![small], true)).unwrap();
    assert!(second.finish().is_err(), "it has not arrived");
    arrive_with(&second, 0, 5);
    assert_eq!(second.finish().unwrap().files, 1);
}

/// What the first run had recorded counted no more once the second had recorded something under what it keeps.
#[test]
fn what_has_arrived_of_a_large_file_outlives_a_run_that_keeps_more() {
    let dir = tempfile::tempdir().unwrap();
    let large = entry("large", EntryKind::File { size: ByteCount(2 * BLOCK_SIZE) });
    let first = landing(dir.path(), &[], None);
    first.take(batch(0, vec![large.clone()], true)).unwrap();
    arrive_with(&first, 0, BLOCK_SIZE);
    drop(first);
    let kept = Kept { xattrs: true, ..Kept::default() };
    let more = Rules { kept, ..Rules::default() };
    let second = landing_by(&more, dir.path(), &[], None);
    second.take(batch(0, vec![large.clone()], true)).unwrap();
    arrive_with(&second, 1, BLOCK_SIZE);
    drop(second);
    let third = landing_by(&more, dir.path(), &[], None);
    third.take(batch(0, vec![large], true)).unwrap();
    assert_eq!(third.finish().expect("nothing is to be sent").files, 1);
}

/// The second run has given the files that were staged whole what it keeps of them, and was killed before they had their names.
#[test]
fn what_a_run_that_keeps_more_has_gone_on_from_is_not_gone_on_from_by_one_that_keeps_less() {
    let dir = tempfile::tempdir().unwrap();
    let large = entry("large", EntryKind::File { size: ByteCount(BLOCK_SIZE) });
    let entries = || batch(0, vec![large.clone(), file("small")], true);
    let first = landing(dir.path(), &[], None);
    first.take(entries()).unwrap();
    arrive_with(&first, 0, BLOCK_SIZE);
    arrive_with(&first, 1, 5);
    drop(first);
    let kept = Kept { xattrs: true, ..Kept::default() };
    let more = Rules { kept, ..Rules::default() };
    let second = landing_by(&more, dir.path(), &[], None);
    let judged = second.take(entries()).unwrap();
    assert_eq!((judged.durable.len(), judged.declined), (1, vec![EntryIndex(1)]), "all of it is here");
    drop(second);
    let third = landing(dir.path(), &[], None);
    let judged = third.take(entries()).unwrap();
    assert_eq!((judged.durable.len(), judged.declined), (0, Vec::new()), "both are sent again");
}

#[test]
fn what_was_made_or_edited_at_the_destination_during_the_copy_stays_where_the_rules_say_so() {
    let old = Mtime { seconds: 1_000, nanos: 0 };
    let only_new = Rules { only_new: true, ..Rules::default() };
    let update = Rules { update: true, ..Rules::default() };
    for (rules, before) in [(only_new, false), (update.clone(), false), (update, true)] {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("x");
        if before {
            let file = std::fs::File::create(&there).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let landing = landing_by(&rules, dir.path(), &[], None);
        let arrives = Entry { mtime: old, ..file("x") };
        landing.take(batch(0, vec![arrives, empty("y")], true)).unwrap();
        arrive_with(&landing, 0, 5);
        std::fs::write(&there, "theirs").unwrap();
        landing.finish().unwrap();
        assert_eq!(std::fs::read(&there).unwrap(), b"theirs");
        assert!(dir.path().join("y").exists());
        let [named] = &landing.failures().listed[..] else { panic!("{:?}", landing.failures()) };
        assert_eq!(named.path, b"x");
    }
}

#[test]
fn what_is_in_a_folder_that_cannot_be_placed_does_not_count_as_copied() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { only_new: true, ..Rules::default() };
    let landing = landing_by(&rules, dir.path(), &[], None);
    let folder = |path| entry(path, EntryKind::Directory);
    let below = [file("d/x"), folder("d/e"), file("d/e/y"), empty("d/e/z")];
    landing.take(batch(0, [&[folder("d")][..], &below, &[empty("last")]].concat(), true)).unwrap();
    arrive_with(&landing, 0, 10);
    std::fs::write(dir.path().join("d"), "theirs").unwrap();
    let landed = landing.finish().unwrap();
    assert_eq!((landed.files, landed.folders), (1, 0), "of all only the last");
    assert_eq!(std::fs::read(dir.path().join("d")).unwrap(), b"theirs");
    let [named] = &landing.failures().listed[..] else { panic!("{:?}", landing.failures()) };
    assert_eq!(named.path, b"d");
    assert!(named.message.ends_with("; nor can the 4 things in it)"), "{}", named.message);
}

/// They were called refused, and the command had failed for more than what had vanished.
#[test]
fn other_names_of_a_file_that_has_vanished_have_vanished_with_it() {
    for (cause, as_other_name) in
        [(FailureCause::Vanished, FailureCause::Vanished), (FailureCause::Unreadable, FailureCause::Refused)]
    {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept { hard_links: true, ..Kept::default() };
        let landing = landing_by(&Rules { kept, ..Rules::default() }, dir.path(), &[], None);
        let same_as = Some(EntryPath::new(&b"x"[..]).unwrap());
        let extra = Extra { same_as, ..Extra::default() }.into_option();
        landing.take(batch(0, vec![file("x"), Entry { extra, ..empty("y") }], true)).unwrap();
        landing.fail(vec![EntryFailure { entry: EntryIndex(0), cause, detail: String::new() }]);
        landing.finish().unwrap();
        let late = landing.late_failures().listed;
        let [named] = &late[..] else { panic!("{late:?}") };
        assert_eq!((&named.path[..], named.cause), (&b"y"[..], as_other_name));
        assert!(named.message.contains("run the same command again"), "{}", named.message);
    }
}

/// With the sender's time it would count as the sender's file in every run to come.
#[test]
fn a_file_edited_during_the_copy_does_not_get_the_senders_time() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("x");
    std::fs::write(&there, "12345").unwrap();
    std::fs::File::options().write(true).open(&there).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let kept = Kept { permissions: true, ..Kept::default() };
    let landing = landing_by(&Rules { kept, ..Rules::default() }, dir.path(), &[], None);
    landing.take(batch(0, vec![Entry { mode: 0o600, ..file("x") }], true)).unwrap();
    std::fs::write(&there, "edits").unwrap();
    landing.finish().unwrap();
    assert_ne!(there.metadata().unwrap().modified().unwrap(), std::time::UNIX_EPOCH);
}

/// Its blocks go another way than word of its failure.
#[tokio::test]
async fn a_block_that_copies_from_the_old_file_of_one_that_has_failed_is_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("large"), vec![7; BLOCK_SIZE as usize]).unwrap();
    let landing = landing(dir.path(), &[], None);
    let _told = landing.tell_bases().unwrap();
    let large = entry("large", EntryKind::File { size: ByteCount(2 * BLOCK_SIZE) });
    landing.take(batch(0, vec![large], true)).unwrap();
    landing.fail(vec![EntryFailure {
        entry: EntryIndex(0),
        cause: FailureCause::Changed,
        detail: String::new(),
    }]);
    let mut arrival = landing.inbound().begin(BlockNumber(0), BLOCK_SIZE).unwrap();
    let copied = arrival.copy(0, BLOCK_SIZE as u32, &mut vec![0; 1 << 16]);
    assert!(matches!(copied, Err(InboundError::Basis(BasisError::Lost(_)))), "{copied:?}");
}

/// As a sender does that has lost its connection and heard of neither.
#[test]
fn several_batches_that_are_repeated_are_answered_as_before() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    std::fs::write(dir.path().join("folder/x"), "in the way").unwrap();
    let landing = landing(dir.path(), &[], None);
    let batches =
        [(0, vec![file("a"), file("folder")]), (2, vec![entry("d", EntryKind::Directory), file("d/b")])];
    let append = || {
        batches
            .clone()
            .map(|(first, entries)| landing.take(batch(first, entries, first > 0)).unwrap().declined)
    };
    let first = append();
    assert_eq!(first[0], [EntryIndex(1)]);
    assert_eq!(append(), first);
    assert_eq!(landing.inbound().with(|receiver| receiver.layout().entry_count()), 4);
}

/// All of them are here in staging, and would replace files. More than are open at once, so that the last of them would be
/// told of once others are durable, which they were before.
#[tokio::test]
async fn a_sender_does_not_wait_for_sums_of_files_whose_pieces_are_all_here() {
    const FILES: u32 = 66;
    let dir = tempfile::tempdir().unwrap();
    let size = ByteCount(BLOCK_SIZE);
    let entries: Vec<_> =
        (0..FILES).map(|number| entry(&number.to_string(), EntryKind::File { size })).collect();
    for entry in &entries {
        let old = std::fs::File::create(dir.path().join(entry.path.to_string())).unwrap();
        old.set_len(BLOCK_SIZE - 1).unwrap();
    }
    let interrupted = landing(dir.path(), &[], None);
    interrupted.take(batch(0, entries.clone(), true)).unwrap();
    for block in 0..FILES {
        let mut arrival = interrupted.inbound().begin(BlockNumber(block), BLOCK_SIZE).unwrap();
        arrival.write(&[io::IoSlice::new(&vec![7; BLOCK_SIZE as usize])]).unwrap();
        arrival.finish(None).unwrap();
    }
    interrupted.inbound().flush().unwrap();
    drop(interrupted);

    let landing = landing(dir.path(), &[], None);
    let mut told = landing.tell_bases().unwrap();
    let Judged { durable, .. } = landing.take(batch(0, entries, true)).unwrap();
    assert_eq!(durable.len(), FILES as usize);
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    let sender = Outbound::placing(Placement::Accepted, events);
    sender.declare(vec![Some(size); FILES as usize], true).unwrap();
    sender.handle_durable(&durable);
    sender.handle_held(landing.held(EntryIndex(FILES)));
    sender.handle_accepted(FILES.into()).unwrap();
    while !sender.is_sent() {
        let heard = tokio::time::timeout(Duration::from_secs(20), told.messages.recv()).await;
        match heard.expect("the sender waits for ever").unwrap() {
            Message::Sums(sums) => sender.handle_sums(&sums).unwrap(),
            Message::Guessed(guessed) => sender.handle_guessed(guessed).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    tokio::task::spawn_blocking(move || landing.finish()).await.unwrap().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_taken_beside_what_was_asked_for(
        paths in proptest::collection::vec("[a-c]{1,2}(/[a-c]{1,2}){0,2}", 1..12),
        asked in proptest::collection::vec("[a-c]{1,2}", 1..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<&str> = asked.iter().map(String::as_str).collect();
        let landing = landing(dir.path(), &names, None);
        let entries: Vec<Entry> = paths.iter().map(|path| file(path)).collect();
        let fits = |path: &String| asked.iter().any(|name| path.split('/').next() == Some(name));
        match landing.take(batch(0, entries, true)) {
            Ok(_) => prop_assert!(paths.iter().all(fits)),
            Err(CopyError::NotAskedFor(_)) => prop_assert!(!paths.iter().all(fits)),
            Err(_) => {}
        }
    }
}

#[test]
fn of_a_copy_that_nothing_came_of_no_folder_stays_that_was_made_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { partial_dir: Some(Name(b"x/y".to_vec())), ..Rules::default() };
    let landing = landing_by(&rules, dir.path(), &["a"], None);
    assert!(dir.path().join("x/y").is_dir());
    landing.close();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// They were passed over.
#[test]
fn what_could_not_be_removed_is_counted_beyond_what_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let landing = landing(dir.path(), &[], None);
    let most = finishing::MOST_LATE as u64;
    for at in 0..most + 5 {
        let error = io::ErrorKind::PermissionDenied.into();
        landing.tell_swept(terahaul_tree::Swept::Failed { path: at.to_string().as_bytes(), error });
    }
    let failures = landing.failures();
    assert_eq!((failures.listed.len() as u64, failures.count()), (most, most + 5));
    assert_eq!(failures.unlisted, [(FailureCause::Refused, 5)]);
    assert_eq!(landing.late_failures(), failures);
}
