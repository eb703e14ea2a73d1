use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use terahaul_core::{Entry, EntryIndex, EntryKind};
use terahaul_net::server::Manifest;
use terahaul_tree::Fingerprinter;
use terahaul_wire::Batch;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::greeting::{self, Name};
use crate::landing::{Asked as Expected, Landing};
use crate::naming::Base;
use crate::offer::{Offer, OfferManifest};
use crate::rules::{Compare, Kept, Pattern, Rules, Selection};

const KEY: [u8; 32] = [7; 32];

/// Something in a tree, and what it is at the source and at the destination: nothing, or one of a few kinds, contents and times.
#[derive(Clone, Debug)]
struct Thing {
    path: String,
    there: [Option<u8>; 2],
}

fn things() -> impl Strategy<Value = Vec<Thing>> {
    let path = prop::collection::vec("[ab]", 1..4).prop_map(|names| names.join("/"));
    // Most are the same at both ends.
    let there = prop_oneof![
        4 => (0..8u8).prop_map(|it| [Some(it), Some(it)]),
        1 => (0..8u8, 0..8u8).prop_map(|(a, b)| [Some(a), Some(b)]),
        1 => (0..8u8).prop_map(|it| [Some(it), None]),
        1 => (0..8u8).prop_map(|it| [None, Some(it)]),
    ];
    prop::collection::vec((path, there).prop_map(|(path, there)| Thing { path, there }), 0..24)
}

/// Makes one end's tree, as far as its things are not in each other's way.
fn make(dir: &Path, things: &[Thing], end: usize) {
    fs::create_dir_all(dir).unwrap();
    for Thing { path, there } in things {
        let Some(it) = there[end] else { continue };
        let path = dir.join(path);
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match it {
            0 => fs::create_dir(&path).unwrap(),
            1 | 2 => symlink(["x", "y"][usize::from(it) - 1], &path).unwrap(),
            _ => {
                fs::write(&path, vec![0; usize::from(it & 1)]).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode([0o644, 0o600][usize::from(it == 7)]))
                    .unwrap();
            }
        }
    }
    date(dir);
}

/// Both ends' trees; the source stands for its content.
fn make_both(dir: &Path, things: &[Thing]) -> [PathBuf; 2] {
    let [source, there] = ["src", "there"].map(|name| dir.join(name));
    make(&source, things, 0);
    make(&there, things, 1);
    [source.join(""), there]
}

/// Gives everything a time, from the leaves up, by what it is.
fn date(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => date(&path),
            false => set_time(&path),
        }
    }
    set_time(dir);
}

fn set_time(path: &Path) {
    let time =
        Timespec { tv_sec: 1_000_000 + (path.symlink_metadata().unwrap().len() % 2) as i64, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// What is declared of `source` where the destination is `folder`; of the answers so many bytes arrive.
async fn declared(
    source: &Path,
    folder: &Path,
    names: &[&str],
    rules: &Rules,
    selection: &Selection,
    answered: u64,
) -> (Vec<Entry>, Arc<Landing>) {
    let offer = Offer::open(&[source], selection, Kept::default(), Compare::default()).unwrap();
    let offer = Arc::new(offer.asking_first(Some(KEY)));
    let walking = Arc::clone(&offer);
    let walk = std::thread::spawn(move || walking.walk_ahead());
    let names = names.iter().map(|name| Name(name.as_bytes().to_vec())).collect();
    let base = Base { folder: folder.to_owned(), rename: None };
    let expected = Expected { names, patterns: Vec::new(), top: None };
    let landing = Arc::new(Landing::open(base, expected, [1; 16], rules, selection).unwrap());
    let (near, far) = cut(answered);
    let far = landing.may_have_some().then_some(far);
    let answering = async {
        if let Some(far) = far {
            answer(far, &landing, KEY).await;
        }
    };
    let manifest = async {
        let mut entries = Vec::new();
        let mut manifest = OfferManifest::new(Arc::clone(&offer));
        while let Some(batch) = manifest.next().await.unwrap() {
            assert_eq!(batch.first, EntryIndex(entries.len() as u32));
            entries.extend(batch.entries);
        }
        entries
    };
    let ((), (), entries) = tokio::join!(ask(Some(near), &offer), answering, manifest);
    walk.join().unwrap();
    (entries, landing)
}

/// As [`declared`], with nothing but the content of a folder asked for.
fn ask_about_content(source: &Path, there: &Path, answered: u64) -> (Vec<Entry>, Arc<Landing>) {
    run(declared(source, there, &[], &Rules::default(), &Selection::default(), answered))
}

/// Two ends of a stream of which one hears so many bytes.
fn cut(answered: u64) -> (DuplexStream, DuplexStream) {
    let (near, between) = tokio::io::duplex(4096);
    let (beyond, far) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let (mut from_near, mut to_near) = tokio::io::split(between);
        let (from_far, mut to_far) = tokio::io::split(beyond);
        let questions = async {
            let _ = tokio::io::copy(&mut from_near, &mut to_far).await;
            let _ = to_far.shutdown().await;
        };
        let answers = async {
            let _ = tokio::io::copy(&mut from_far.take(answered), &mut to_near).await;
            let _ = to_near.shutdown().await;
        };
        tokio::join!(questions, answers);
    });
    (near, far)
}

/// By its path, what an entry is.
fn look(dir: &Path, path: &str) -> Option<(u32, u64, SystemTime, Option<PathBuf>)> {
    let path = dir.join(path);
    let found = path.symlink_metadata().ok()?;
    Some((found.permissions().mode(), found.len(), found.modified().unwrap(), fs::read_link(&path).ok()))
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(work)
}

fn is_leaf(entry: &Entry) -> bool {
    entry.kind != EntryKind::Directory
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_differs_is_declared_with_the_folders_above_it_and_nothing_else(things in things()) {
        let dir = tempfile::tempdir().unwrap();
        let [source, there] = make_both(dir.path(), &things);
        let ask = |answered| ask_about_content(&source, &there, answered);
        let all = ask(0).0;
        let (entries, landing) = ask(u64::MAX);
        let mut alike = 0;
        for entry in &all {
            let path = entry.path.to_string();
            let is_declared = entries.iter().any(|declared| declared == entry);
            let same = look(&source, &path) == look(&there, &path);
            if is_leaf(entry) {
                prop_assert_eq!(!same, is_declared, "{}", path);
                alike += u64::from(same);
            } else {
                prop_assert!(same || is_declared, "{}", path);
                let within = format!("{path}/");
                let first = entries.iter().position(|entry| entry.path.to_string().starts_with(&within));
                let at = entries.iter().position(|declared| declared == entry);
                prop_assert!(first.is_none() || at < first && at.is_some(), "{} is above what is declared", path);
                prop_assert!(!same || at.is_none() || first.is_some(), "{} is declared for nothing", path);
            }
        }
        prop_assert_eq!(entries.len(), entries.iter().filter(|entry| all.contains(entry)).count());
        prop_assert_eq!(landing.landed().unchanged, alike);
        // The receiver takes it as any manifest.
        landing.take(Batch { first: EntryIndex(0), entries, seal: true }).unwrap();
    }

    #[test]
    fn what_is_not_answered_is_declared(things in things(), answered in 0..200u64) {
        let dir = tempfile::tempdir().unwrap();
        let [source, there] = make_both(dir.path(), &things);
        let ask = |answered| ask_about_content(&source, &there, answered);
        let all = ask(0).0;
        let entries = ask(answered).0;
        for entry in all.iter().filter(|entry| !entries.contains(entry)) {
            let path = entry.path.to_string();
            prop_assert_eq!(look(&source, &path), look(&there, &path));
        }
    }

    #[test]
    fn answers_read_back(alike in prop::collection::vec(any::<bool>(), 0..40)) {
        let answer = Answer::new(alike.iter().copied());
        let read: Vec<_> = (0..alike.len() + 20).map(|at| answer.is_alike(at)).collect();
        prop_assert_eq!(&read[..alike.len()], &alike);
        prop_assert!(!read[alike.len()..].contains(&true));
    }

    #[test]
    fn any_bytes_are_a_question_or_not(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(question) = minicbor::decode::<Question>(&bytes) {
            let _: Vec<_> = question.folders.into_iter().map(Asked::read).collect();
        }
    }
}

/// A file at the top and one in a folder, the same at both ends.
fn two_files(dir: &Path) -> [PathBuf; 2] {
    let ends = ["src", "there/src"].map(|name| dir.join(name));
    for end in &ends {
        fs::create_dir_all(end.join("sub")).unwrap();
        fs::write(end.join("file"), "1").unwrap();
        fs::write(end.join("sub/file"), "22").unwrap();
        date(end);
    }
    ends
}

fn paths(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

#[test]
fn of_a_folder_that_is_named_all_is_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let [source, there] = two_files(dir.path());
    let (rules, selection) = (Rules::default(), Selection::default());
    let above = there.parent().unwrap();
    let asked = || declared(&source, above, &["src"], &rules, &selection, u64::MAX);
    let (entries, landing) = run(asked());
    assert_eq!((paths(&entries), landing.landed().unchanged), (vec![], 2));
    drop(landing);
    fs::write(there.join("sub/file"), "333").unwrap();
    let (entries, landing) = run(asked());
    assert_eq!(
        (paths(&entries), landing.landed().unchanged),
        (vec!["src".into(), "src/sub".into(), "src/sub/file".into()], 1)
    );
}

/// Names of one file refer to each other; contents and attributes are not in a fingerprint.
#[test]
fn by_rules_that_look_at_more_nothing_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let [source, there] = two_files(dir.path());
    let selection = Selection::default();
    let kept = |kept: Kept| Rules { kept, ..Rules::default() };
    for rules in [
        Rules { compare: Compare::Content, ..Rules::default() },
        Rules { compare: Compare::Never, ..Rules::default() },
        kept(Kept { hard_links: true, ..Kept::default() }),
        kept(Kept { xattrs: true, ..Kept::default() }),
        kept(Kept { acls: true, ..Kept::default() }),
    ] {
        let asked = declared(&source, there.parent().unwrap(), &["src"], &rules, &selection, u64::MAX);
        assert_eq!(run(asked).0.len(), 4, "{rules:?}");
        let job = Job { rules, ..Job::default() };
        assert_eq!(key(&job).unwrap(), None);
    }
    assert!(key(&Job::default()).unwrap().is_some());
}

#[test]
fn what_a_rule_leaves_out_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let [source, there] = two_files(dir.path());
    let selection = Selection {
        rules: vec![Pattern { include: false, pattern: b"/src/sub".to_vec() }],
        ..Selection::default()
    };
    let above = there.parent().unwrap();
    let rules = Rules::default();
    let asked = declared(&source, above, &["src"], &rules, &selection, u64::MAX);
    let (entries, landing) = run(asked);
    assert_eq!((paths(&entries), landing.landed().unchanged), (vec![], 1));
    // Another sender asks about it all the same.
    let of = |path: &Path| {
        let offer = Offer::open(&[path], &Selection::default(), Kept::default(), Compare::default()).unwrap();
        let mut found = Vec::new();
        let take = |batch: Batch| {
            found.extend(batch.entries);
            Ok(())
        };
        offer.walk(take).unwrap();
        found
    };
    let mut maker = Fingerprinter::new(KEY);
    let prints = |maker: &mut Fingerprinter, path: &str, entries: &[Entry]| FolderPrints {
        path: path.as_bytes().into(),
        own: None,
        found: entries.iter().filter(|entry| is_leaf(entry)).map(|entry| maker.of(entry)).collect(),
    };
    let in_sub = prints(&mut maker, "src/sub", &of(&source.join("sub/")));
    assert_eq!(in_sub.found.len(), 1);
    assert_eq!(landing.alike(&maker, std::slice::from_ref(&in_sub)).unwrap(), [false]);
    let staging = format!("src/.terahaul-{}", terahaul_core::TransferId([2; 16]));
    symlink("sub", there.join("link")).unwrap();
    fs::rename(there.join("sub"), above.join(&staging)).unwrap();
    for elsewhere in ["src/link", &staging] {
        let prints = FolderPrints { path: elsewhere.as_bytes().into(), ..in_sub.clone() };
        assert_eq!(landing.alike(&maker, &[prints]).unwrap(), [false], "{elsewhere}");
    }
}

/// It ends the stream, as it ends the copy when it is declared.
#[test]
fn what_was_not_asked_for_is_not_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let [_, there] = two_files(dir.path());
    let base = Base { folder: there.parent().unwrap().to_owned(), rename: None };
    let expected = Expected { names: vec![Name(b"other".to_vec())], ..Expected::default() };
    let opened = Landing::open(base, expected, [1; 16], &Rules::default(), &Selection::default());
    let landing = Arc::new(opened.unwrap());
    let answered = |path: &[u8]| {
        let question = Question { folders: vec![Asked::new(path, Some(Fingerprint(1)))] };
        let (mut near, far) = tokio::io::duplex(4096);
        run(async {
            let asking = async {
                near.write_u8(BEGIN).await.unwrap();
                greeting::write(&mut near, &question).await.unwrap();
                assert_eq!(near.read_u8().await.unwrap(), BEGIN);
                let read = greeting::read::<_, Answer>(&mut near).await.ok();
                drop(near);
                read
            };
            tokio::join!(answer(far, &landing, KEY), asking).1
        })
    };
    assert_eq!(answered(b"other/sub"), Some(Answer::new([false])));
    assert_eq!([&b"src"[..], b"src/sub", b""].map(answered), [None, None, None]);
}

/// What is beyond is declared; the receiver would take no longer message, nor one behind it.
#[test]
fn of_a_huge_folder_no_more_is_asked_than_a_message_may_hold() {
    let entry = |path: String, kind| {
        let path = EntryPath::new(path.into_bytes()).unwrap();
        Entry { path, kind, mtime: Default::default(), mode: 0, extra: None }
    };
    let file = EntryKind::File { size: terahaul_core::ByteCount(1) };
    let mut entries = vec![entry("huge".into(), EntryKind::Directory)];
    entries.extend((0..200_000).map(|at| entry(format!("huge/{at}"), file.clone())));
    entries.push(entry("next".into(), EntryKind::Directory));
    let mut found = Vec::new();
    Asker::new(KEY, false).add(entries, &mut found, Found::default());
    assert_eq!(found.len(), 2);
    for Found { question, .. } in &found {
        let message = greeting::encoded(question);
        let read = run(greeting::read::<_, Question>(&mut message.as_slice()));
        assert!(read.is_ok(), "{} bytes: {read:?}", message.len());
    }
    let left = found.swap_remove(0).sift(&Answer::new(vec![true; 300_000]), &mut Default::default());
    let asked = 200_001 - left.len();
    assert!(left[0].path.to_string() == "huge" && asked > 100_000, "{asked}");
}

#[test]
fn a_question_whose_paths_no_entry_could_have_is_none() {
    for bad in ["..", "a/..", "/a", "a//b", "a/", "./a"] {
        assert_eq!(Asked::new(bad.as_bytes(), None).read(), None, "{bad}");
    }
    let mut cut = Asked::new(b"a", None);
    cut.push(Fingerprint(1));
    cut.found.pop();
    assert_eq!(cut.read(), None);
    assert!(Asked::new(b"", None).read().is_some());
}
