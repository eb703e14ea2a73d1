use super::*;
use std::os::unix::fs::symlink;

use terahaul_core::Extra;

use crate::decision::{Compare, Decision, MakeWay, Reason, Refused, Rules};
use crate::{Keep, Permissions, Reading, Survey, walk_reading};

/// What a walk of `from` would be told by a receiver in `to`, by path.
fn judged(from: &Path, to: &Path, rules: Rules, keep: Keep, threads: usize) -> Vec<(String, Decision)> {
    let roots = Roots::open(&[from.join("")]).unwrap();
    let survey = Survey::open(to, rules, keep, threads).unwrap();
    let mut all = Vec::new();
    let reading = Reading { keep, content: rules.compare == Compare::Content, changes: true };
    walk_reading(&roots, &Filter::default(), reading, 0, |batch| {
        let decisions = survey.decide(&batch.found, survey.look(&batch.found));
        let paths = batch.found.iter().map(|entry| entry.path.to_string());
        all.extend(paths.zip(decisions.into_iter().map(Result::unwrap)));
        ControlFlow::Continue(())
    });
    all
}

fn of<'a>(judged: &'a [(String, Decision)], path: &str) -> &'a Decision {
    &judged.iter().find(|(found, _)| found == path).unwrap().1
}

#[test]
fn a_copy_is_the_same_and_what_changed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"1"), ("s/b", b"22"), ("s/c", b"333"), ("empty/", b"")]);
    symlink("a", from.join("link")).unwrap();
    transfer_all(&from.join(""), &to);
    for threads in [1, 4] {
        let all = judged(&from, &to, Rules::default(), Keep::default(), threads);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|(_, decision)| *decision == Decision::Skip(Reason::Same)), "{all:?}");
    }
    date(&from.join("s/b"), 5);
    std::fs::remove_file(to.join("s/c")).unwrap();
    std::fs::remove_file(to.join("link")).unwrap();
    symlink("b", to.join("link")).unwrap();
    let all = judged(&from, &to, Rules::default(), Keep::default(), 2);
    assert!(matches!(of(&all, "s/b"), Decision::Write(changes) if changes.time));
    assert!(matches!(of(&all, "s/c"), Decision::Write(changes) if changes.new));
    assert!(matches!(of(&all, "link"), Decision::Write(changes) if changes.content));
    assert_eq!(of(&all, "a"), &Decision::Skip(Reason::Same));
    let nowhere = judged(&from, &dir.path().join("none"), Rules::default(), Keep::default(), 2);
    assert!(nowhere.iter().all(|(_, decision)| matches!(decision, Decision::Write(changes) if changes.new)));
}

#[test]
fn what_is_in_a_folder_follows_what_becomes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("x/inner/deep", b"1"), ("y", b"1")]);
    plant(&to, &[("x", b"in the way"), ("y/something", b"here")]);
    let with = |rules| judged(&from, &to, rules, Keep::default(), 2);
    let all = with(Rules::default());
    for path in ["x", "x/inner", "x/inner/deep"] {
        assert!(matches!(of(&all, path), Decision::Write(_)), "a file makes way for a folder");
    }
    assert_eq!(of(&all, "y"), &Decision::Refuse(Refused::FolderInTheWay));
    let all = with(Rules { make_way: MakeWay::Whole, ..Rules::default() });
    assert!(matches!(of(&all, "y"), Decision::Write(_)));
    let all = with(Rules { only_new: true, ..Rules::default() });
    assert_eq!(of(&all, "x"), &Decision::Refuse(Refused::InPlaceOfFolder));
    for path in ["x/inner", "x/inner/deep", "y"] {
        assert_eq!(of(&all, path), &Decision::Skip(Reason::Exists), "{path}");
    }
    std::fs::remove_file(to.join("x")).unwrap();
    let all = with(Rules { only_existing: true, ..Rules::default() });
    assert_eq!(of(&all, "x/inner/deep"), &Decision::Skip(Reason::Missing));
}

#[test]
fn a_linked_folder_is_replaced_and_never_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("x/file", b"1")]);
    plant(&dir.path().join("outside"), &[("file", b"1")]);
    date(&from.join("x/file"), 77);
    date(&dir.path().join("outside/file"), 77);
    std::fs::create_dir(&to).unwrap();
    symlink("../outside", to.join("x")).unwrap();
    let all = judged(&from, &to, Rules::default(), Keep::default(), 1);
    assert!(matches!(of(&all, "x"), Decision::Write(changes) if changes.kind));
    assert!(matches!(of(&all, "x/file"), Decision::Write(changes) if changes.new));
}

#[test]
fn names_of_one_file_are_known_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a/first", b"12345"), ("other", b"1")]);
    plant(&to, &[("a/first", b"12345"), ("b", b"12345")]);
    std::fs::hard_link(from.join("a/first"), from.join("b")).unwrap();
    std::fs::hard_link(from.join("a/first"), from.join("c")).unwrap();
    std::fs::hard_link(to.join("a/first"), to.join("c")).unwrap();
    date(&from.join("b"), 9);
    date(&to.join("c"), 9);
    let keep = Keep { hard_links: true, ..Keep::default() };
    let roots = Roots::open(&[from.join("")]).unwrap();
    let mut entries = Vec::new();
    walk_reading(&roots, &Filter::default(), Reading { keep, ..Reading::default() }, 2, |batch| {
        entries.extend(batch.found);
        ControlFlow::Continue(())
    });
    let same_as = |path: &str| {
        let entry = entries.iter().find(|entry| entry.path.to_string() == path).unwrap();
        let first = entry.extra.as_ref().and_then(|extra| extra.same_as.as_ref()).map(ToString::to_string);
        (first, entry.file_size().unwrap().0)
    };
    // In the order of the walk a folder's files come before what is in folders.
    assert_eq!(same_as("b"), (None, 5));
    assert_eq!((same_as("c"), same_as("a/first")), ((Some("b".into()), 0), (Some("b".into()), 0)));
    assert_eq!(same_as("other"), (None, 1));
    let all = judged(&from, &to, Rules::default(), keep, 1);
    assert!(matches!(of(&all, "c"), Decision::Write(_)), "it is not the file that b is");
    std::fs::remove_file(to.join("b")).unwrap();
    std::fs::hard_link(to.join("c"), to.join("b")).unwrap();
    let all = judged(&from, &to, Rules::default(), keep, 1);
    assert!(
        ["a/first", "b", "c"].iter().all(|path| *of(&all, path) == Decision::Skip(Reason::Same)),
        "{all:?}"
    );
}

#[test]
fn names_linked_already_are_written_where_the_file_that_they_name_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for (folder, content) in [(&from, &b"three"[..]), (&to, b"one")] {
        plant(folder, &[("a", content), ("same", b"1")]);
        date(&folder.join("same"), 9);
        for (name, other) in [("a", "b"), ("a", "c"), ("same", "still")] {
            std::fs::hard_link(folder.join(name), folder.join(other)).unwrap();
        }
    }
    let keep = Keep { hard_links: true, ..Keep::default() };
    let all = judged(&from, &to, Rules::default(), keep, 1);
    for name in ["a", "b", "c"] {
        assert!(matches!(of(&all, name), Decision::Write(changes) if changes.content), "{name}: {all:?}");
    }
    assert_eq!(of(&all, "still"), &Decision::Skip(Reason::Same));
}

#[test]
fn contents_are_compared_where_asked_whatever_the_times() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("same", b"12345"), ("other", b"12345"), ("empty", b"")]);
    plant(&to, &[("same", b"12345"), ("other", b"12346"), ("empty", b"")]);
    for name in ["same", "other", "empty"] {
        date(&from.join(name), 1);
        date(&to.join(name), if name == "other" { 1 } else { 2 });
    }
    let rules = Rules { compare: Compare::Content, ..Rules::default() };
    let all = judged(&from, &to, rules, Keep::default(), 2);
    assert!(matches!(of(&all, "same"), Decision::Metadata(changes) if changes.time && !changes.content));
    assert!(matches!(of(&all, "empty"), Decision::Metadata(_)));
    assert!(matches!(of(&all, "other"), Decision::Write(changes) if changes.content && !changes.time));
}

/// As where a disk has lost a block: it was refused in each run, though it need not be read to be replaced.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_differs() {
    // The first page of a process is nothing's.
    let rules = Rules { compare: Compare::Content, ..Rules::default() };
    let survey = Survey::open(Path::new("/proc/self"), rules, Keep::default(), 1).unwrap();
    let content = Some(Hash(*blake3::hash(b"").as_bytes()));
    let extra = Extra { content, ..Extra::default() }.into_option();
    let entry = Entry { extra, ..file_entry(b"mem", 0) };
    let decided = survey.decide(std::slice::from_ref(&entry), survey.look(std::slice::from_ref(&entry)));
    assert!(matches!(decided[..], [Ok(Decision::Write(changes))] if changes.content), "{decided:?}");
}

/// The file made way for an empty folder.
#[test]
fn where_nothing_new_is_made_no_folder_takes_the_place_of_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("x/inner/deep", b"1"), ("l/file", b"1"), ("y/file", b"1")]);
    plant(&to, &[("x", b"theirs"), ("y/file", b"other")]);
    symlink("y", to.join("l")).unwrap();
    let rules = Rules { only_existing: true, make_way: MakeWay::Whole, ..Rules::default() };
    let all = judged(&from, &to, rules, Keep::default(), 2);
    for path in ["x", "l"] {
        assert_eq!(of(&all, path), &Decision::Refuse(Refused::NewInPlaceOfFolder));
    }
    for path in ["x/inner", "x/inner/deep", "l/file"] {
        assert_eq!(of(&all, path), &Decision::Skip(Reason::Missing));
    }
    assert!(matches!(of(&all, "y/file"), Decision::Write(changes) if changes.size));
}

/// Each run gave all the names what one of them was to get, and the next run what another was to: what nobody else may read at the source
/// was anybody's to read every other time.
#[test]
fn names_that_are_linked_here_and_not_at_the_source_are_written_anew() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"1"), ("b", b"1"), ("same", b"2"), ("too", b"2"), ("x", b"3"), ("y", b"3")]);
    plant(&to, &[("a", b"1"), ("same", b"2"), ("x", b"3")]);
    std::fs::hard_link(from.join("b"), from.join("c")).unwrap();
    for (name, others) in [("a", &["b", "c"][..]), ("same", &["too"]), ("x", &["y"])] {
        others.iter().for_each(|other| std::fs::hard_link(to.join(name), to.join(other)).unwrap());
    }
    for (name, mode) in
        [("a", 0o644), ("b", 0o600), ("same", 0o644), ("too", 0o644), ("x", 0o640), ("y", 0o640)]
    {
        for folder in [&from, &to] {
            date(&folder.join(name), 9);
        }
        std::fs::set_permissions(from.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for name in ["a", "same", "x"] {
        std::fs::set_permissions(to.join(name), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let rules = Rules { permissions: Permissions::Exact, ..Rules::default() };
    let anew = |decision: &Decision| matches!(decision, Decision::Write(changes) if changes.content);
    for hard_links in [true, false] {
        let keep = Keep { permissions: Permissions::Exact, hard_links, ..Keep::default() };
        let all = judged(&from, &to, rules, keep, 1);
        assert!(*of(&all, "a") == Decision::Skip(Reason::Same) && anew(of(&all, "b")), "{all:?}");
        assert!(
            anew(of(&all, "c")),
            "it is another name of what is written anew, or a file by itself: {all:?}"
        );
        assert_eq!(anew(of(&all, "too")), hard_links, "{all:?}");
        assert!(matches!(of(&all, "x"), Decision::Metadata(_)), "{all:?}");
        match hard_links {
            true => assert!(anew(of(&all, "y")), "{all:?}"),
            false => assert!(matches!(of(&all, "y"), Decision::Metadata(_)), "both get the same: {all:?}"),
        }
        let only_new = judged(&from, &to, Rules { only_new: true, ..rules }, keep, 1);
        assert!(only_new.iter().all(|(_, decision)| matches!(decision, Decision::Skip(_))), "{only_new:?}");
    }
}
