use super::*;
use std::fs;

use rustix::io::Errno;

use crate::decision::{Changes, Decision, Reason, Rules};
use crate::failpoint::{Lacking, lack};
use crate::{Copying, Keep};

#[test]
fn unusual_names_arrive_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let names: Vec<Vec<u8>> = vec![
        vec![b'n'; 255],
        b"not utf-8 \xff\xfe".to_vec(),
        b"new\nline".to_vec(),
        b"back\\slash".to_vec(),
        b"CON".to_vec(),
        b"aux.txt".to_vec(),
        b"trailing dot.".to_vec(),
        b" ".to_vec(),
        b"...".to_vec(),
        b"-rf".to_vec(),
        b"*?<>|:\"".to_vec(),
        b"\x1b[2J".to_vec(),
        b"Case".to_vec(),
        b"case".to_vec(),
        "caf\u{e9}".as_bytes().to_vec(),
        "cafe\u{301}".as_bytes().to_vec(),
    ];
    for (at, name) in names.iter().enumerate() {
        let folder = bytes_path(&from, name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(bytes_path(&folder, name), vec![at as u8; at]).unwrap();
    }
    transfer_all(&from, &to);
    assert_eq!(snapshot(&to.join("from")), snapshot(&from));
    assert_eq!(snapshot(&to).len(), 1 + 2 * names.len());
}

/// Whoever had a disk with one bad place was told neither where it is nor at which end.
#[test]
fn an_error_of_the_disk_at_one_place_names_it() {
    let dir = tempfile::tempdir().unwrap();
    plant(&dir.path().join("from"), &[("t/good", b"1"), ("t/in/bad~", b"2")]);
    let sender = Sender::of(dir.path().join("from/t"));
    let bad = || lack(Lacking { byte: Some((b'~', Errno::IO)), ..Lacking::default() });
    let said = |failed: &dyn std::fmt::Display| {
        let said = failed.to_string();
        assert!(said.starts_with("t/in/bad~ ") && said.contains("the disk that receives"), "{said}");
    };
    let (sink, journal) = receiver(&dir.path().join("to"), &sender.entries());
    let shape = &sender.shapes()[0];
    bad();
    let written = write_block(&sink, shape, b"12").map(drop);
    lack(Lacking::default());
    said(&written.unwrap_err());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    // A folder that is there, so that the file gets its name by itself.
    plant(&dir.path().join("to"), &[("t/in/", b"")]);
    bad();
    let published = sink.publish(Overwrite::Refuse).map(drop);
    lack(Lacking::default());
    said(&published.unwrap_err());
}

#[test]
fn a_path_twice_in_a_manifest_is_refused_until_the_first_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (sink, _journal) = receiver(dir.path(), &[file_entry(b"a/b", 1)]);
    assert!(matches!(sink.append(&file_entry(b"a/b", 1)), Err(crate::AppendError::Duplicate(_))));
    sink.fail(EntryIndex(0));
    assert!(sink.append(&file_entry(b"a/b", 1)).is_ok());
}

#[test]
fn a_manifest_with_a_file_in_a_file_is_refused() {
    for paths in [[&b"a"[..], b"a/b"], [b"a/b", b"a"], [b"x/a/b/c", b"x/a"]] {
        let dir = tempfile::tempdir().unwrap();
        let (sink, _journal) = receiver(dir.path(), &[file_entry(paths[0], 1)]);
        let second = sink.append(&file_entry(paths[1], 1));
        assert!(matches!(second, Err(crate::AppendError::FileAndFolder(_))), "{second:?}");
    }
}

#[test]
fn a_name_that_the_file_system_does_not_take_is_refused_and_the_rest_arrives() {
    // Link texts are as restricted as names everywhere: no file system takes an empty one, or one of 5,000 bytes.
    let dir = tempfile::tempdir().unwrap();
    let link = |name: &str, target: &[u8]| Entry {
        path: EntryPath::new(name.as_bytes()).unwrap(),
        kind: EntryKind::Symlink { target: target.into() },
        mtime: Mtime::default(),
        mode: 0o777,
        extra: None,
    };
    let entries = [link("empty", b""), link("long", &[b'x'; 5000]), link("fine", b"x"), link("nul", b"a\0b")];
    let (sink, _journal) = receiver(dir.path(), &entries);
    let published = sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!(published.links, 1);
    let refused: Vec<_> = sink.refusals().into_iter().map(|refusal| refusal.entry.0).collect();
    assert_eq!(refused, [0, 1, 3]);
    assert_eq!(snapshot(dir.path()).len(), 1);
}

/// As on FAT, and on a share of Windows: all had arrived, and then nothing got its name.
#[test]
fn links_on_a_file_system_without_any_are_refused_and_the_rest_arrives() {
    for errno in [Errno::PERM, Errno::ACCESS, Errno::NOTSUP, Errno::NOSYS] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("d/file", b"content")]);
        std::os::unix::fs::symlink("file", from.join("d/link")).unwrap();
        let sender = Sender::of(from.join(""));
        let (sink, journal) = receiver(&to, &sender.entries());
        deliver(&sender, &sink, &journal, &in_order(&sender));
        lack(Lacking { links: Some(errno), ..Lacking::default() });
        let published = sink.publish(Overwrite::Refuse);
        lack(Lacking::default());
        assert_eq!(published.unwrap().files, 1, "{errno}");
        let refused: Vec<_> = sink.refusals().into_iter().map(|refusal| refusal.entry).collect();
        assert_eq!(refused, [sender.find("d/link")]);
        assert_eq!(fs::read(to.join("d/file")).unwrap(), b"content");
    }
}

#[test]
fn a_file_that_is_known_to_be_too_long_is_not_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (mut sink, _journal) = TreeSink::open_copy(dir.path(), None, transfer(), Keep::default()).unwrap();
    sink.longest = terahaul_core::ByteCount(4);
    let changes = Changes { new: true, ..Changes::default() };
    let asked_for = [4, 5].map(|size| {
        let index = sink.append(&file_entry(format!("{size}").as_bytes(), size)).unwrap();
        sink.carry_out(index, Decision::Write(changes))
    });
    assert_eq!(asked_for, [true, false]);
    assert_eq!(sink.refusals().len(), 1);
}

/// What is in such a folder stayed wanted, and nothing got its name; and where the system says that such a name is not there, as of
/// shares of Windows and of exFAT in user space, a file counted as moved that was not.
#[test]
fn what_has_a_name_that_the_file_system_does_not_take_is_refused_with_what_is_in_it() {
    let files: [(&str, &[u8]); 7] = [
        ("run 12:30/file", b"content"),
        ("run 12:30/empty", b""),
        ("run 12:30/deep/file", b"content"),
        ("run 12:30/deep/folder/", b""),
        ("12:31/", b""),
        ("fine/12:32", b"content"),
        ("fine/file", b"content"),
    ];
    // Folders come before what is in them, behind it, or not at all.
    type Order = fn(Vec<Entry>) -> Vec<Entry>;
    let before: Order = |entries| entries;
    let behind: Order = |entries| entries.into_iter().rev().collect();
    let absent: Order =
        |entries| entries.into_iter().filter(|entry| entry.kind != EntryKind::Directory).collect();
    for (errno, folds, order) in [
        (Errno::INVAL, false, before),
        (Errno::NOENT, true, before),
        (Errno::INVAL, true, behind),
        (Errno::NOENT, false, absent),
        (Errno::INVAL, true, absent),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &files);
        std::os::unix::fs::symlink("file", from.join("run 12:30/link")).unwrap();
        let entries = order(Sender::of(from.join("")).entries());
        let (mut sink, _journal) = receiver(&to, &[]);
        sink.staging.folds_names = folds;
        let mut layout = Layout::new();
        for entry in &entries {
            sink.append(entry).unwrap();
            layout.append(entry.file_size()).unwrap();
        }
        layout.seal();
        let shape = layout.shape(BlockNumber(0)).unwrap();
        lack(Lacking { byte: Some((b':', errno)), ..Lacking::default() });
        write_block(&sink, &shape, &vec![b'x'; shape.len as usize]).unwrap();
        let published = sink.publish(Overwrite::Refuse);
        lack(Lacking::default());
        assert_eq!(published.unwrap().files, 1, "{errno}, {folds}");
        let arrived: Vec<_> = snapshot(&to).into_keys().collect();
        assert_eq!(arrived, [&b"fine"[..], b"fine/file"]);
        let has_colon = |path: &EntryPath| path.as_bytes().contains(&b':');
        let refusals = sink.refusals();
        let named = refusals.iter().map(|refusal| sink.entry(refusal.entry).unwrap().path);
        assert!(named.into_iter().all(|path| has_colon(&path)));
        let lost = sink.manifest().marks.iter().filter(|mark| mark.lost).count();
        assert_eq!(lost, entries.iter().filter(|entry| has_colon(&entry.path)).count());
    }
}

/// Each run said that the disk had failed, and nothing behind that folder got its name.
#[test]
fn what_a_folder_that_is_there_does_not_take_is_refused_and_the_rest_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("there/12:30", b"content"), ("there/file", b"content"), ("then", b"content")]);
    plant(&to, &[("there/", b"")]);
    let sender = Sender::of(from.join(""));
    let (sink, journal) = receiver(&to, &sender.entries());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    lack(Lacking { byte: Some((b':', Errno::INVAL)), ..Lacking::default() });
    let published = sink.publish(Overwrite::Refuse);
    lack(Lacking::default());
    assert_eq!(published.unwrap().files, 2);
    assert_eq!(refused(&sink), ["there/12:30"]);
    let arrived: Vec<_> = snapshot(&to).into_keys().collect();
    assert_eq!(arrived, [&b"then"[..], b"there", b"there/file"]);
}

/// A copy into a folder of a file system that takes names that differ in case for the same one, which has this file.
fn folding_with(to: &Path, name: &str) -> TreeSink {
    plant(to, &[(name, b"content")]);
    let (mut sink, _journal) = TreeSink::open_copy(to, None, transfer(), Keep::default()).unwrap();
    sink.staging.folds_names = true;
    sink
}

/// Finds `other` of what is there as `name`, as such a file system does, which does not list it: that was done before.
fn find_as(to: &Path, name: &str, other: &str) {
    fs::hard_link(to.join(name), to.join(other)).unwrap();
}

fn refused(sink: &TreeSink) -> Vec<String> {
    sink.refusals().into_iter().map(|refusal| sink.path_text(refusal.entry)).collect()
}

/// It was called unchanged, though it is nowhere; or each run gave the first one's file the metadata of both.
#[test]
fn what_stays_under_the_name_of_another_entry_is_refused() {
    let changes = Changes { mode: true, ..Changes::default() };
    let decisions =
        [Decision::Skip(Reason::Same), Decision::Skip(Reason::Exists), Decision::Metadata(changes)];
    // Each of the last took the other's place.
    let names = [("A", "a"), ("Notes", "Notes.")];
    for ((name, again), decision) in names.into_iter().flat_map(|names| decisions.map(|it| (names, it))) {
        let dir = tempfile::tempdir().unwrap();
        let sink = folding_with(dir.path(), name);
        let (first, other) = (sink.append(&file_entry(name.as_bytes(), 7)).unwrap(), &file_entry(b"b", 7));
        sink.carry_out(first, decision);
        find_as(dir.path(), name, again);
        let second = sink.append(&file_entry(again.as_bytes(), 7)).unwrap();
        assert!(!sink.carry_out(second, decision));
        sink.carry_out(sink.append(other).unwrap(), Decision::Skip(Reason::Missing));
        assert_eq!((refused(&sink), sink.is_lost(second)), (vec![again.to_owned()], true));
        assert!(!sink.touched().contains(&second));
    }
}

/// What has the name there that a later entry has is that one's.
#[test]
fn what_stays_under_the_name_of_an_entry_that_comes_later_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sink = folding_with(dir.path(), "a");
    plant(dir.path(), &[("0", b"content")]);
    let take = |path: &[u8], decision| {
        let index = sink.append(&file_entry(path, 7)).unwrap();
        sink.carry_out(index, decision);
    };
    take(b"0", Decision::Skip(Reason::Same));
    find_as(dir.path(), "a", "A");
    take(b"A", Decision::Metadata(Changes { time: true, ..Changes::default() }));
    take(b"a", Decision::Skip(Reason::Same));
    assert_eq!(refused(&sink), Vec::<String>::new());
    let (rules, filter) = (Rules::default(), Filter::default());
    let copying = Copying { rules, filter: &filter, most: None };
    sink.publish_copy(copying, &mut |_| {}).unwrap();
    let before = snapshot(dir.path());
    sink.conclude_copy(&rules).unwrap();
    assert_eq!(refused(&sink), ["A"]);
    assert_eq!(snapshot(dir.path()), before);
}
