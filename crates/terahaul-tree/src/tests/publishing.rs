use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::{Existing, PublishError};

fn collisions(result: Result<impl Sized, PublishError>) -> Vec<String> {
    let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
    match result {
        Err(PublishError::Collisions(collisions)) => {
            collisions.into_iter().map(|found| text(found.path)).collect()
        }
        Err(other) => panic!("{other}"),
        Ok(_) => vec![],
    }
}

/// A sender's tree `t` and a receiver with all of it staged.
fn staged(dir: &Path) -> (Sender, TreeSink, Journal) {
    plant(
        &dir.join("from"),
        &[("t/a", b"new a"), ("t/sub/b", b"new b"), ("t/sub/c", b"new c"), ("t/empty/", b"")],
    );
    let sender = Sender::of(dir.join("from/t"));
    let (sink, journal) = receiver(&dir.join("to"), &sender.entries());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    (sender, sink, journal)
}

/// It was said to be in the folder of that name, which was another.
#[test]
fn a_folder_that_was_moved_away_gets_nothing_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (_sender, sink, _journal) = staged(dir.path());
    let [to, moved] = ["to", "moved"].map(|name| dir.path().join(name));
    fs::rename(&to, &moved).unwrap();
    for stand_in in [|_: &Path| (), |to: &Path| fs::create_dir(to).unwrap()] {
        stand_in(&to);
        let refused = sink.publish(Overwrite::Refuse);
        assert!(matches!(refused, Err(PublishError::Moved(named)) if named == to));
        assert_eq!(snapshot(&moved).len(), 0);
    }
    fs::remove_dir(&to).unwrap();
    fs::rename(&moved, &to).unwrap();
    sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!(snapshot(&to), snapshot(&dir.path().join("from")));
}

#[test]
fn nothing_is_visible_before_and_everything_after() {
    let dir = tempfile::tempdir().unwrap();
    let (_sender, sink, _journal) = staged(dir.path());
    assert_eq!(snapshot(&dir.path().join("to")).len(), 0);
    let published = sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!((published.files, published.folders, published.links), (3, 3, 0));
    assert_eq!(snapshot(&dir.path().join("to")), snapshot(&dir.path().join("from")));
    assert!(!staging(&dir.path().join("to")).exists());
}

#[test]
fn a_file_that_exists_stops_everything_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_sender, sink, _journal) = staged(dir.path());
    plant(&dir.path().join("to"), &[("t/sub/b", b"old"), ("t/sub/other", b"mine")]);
    let before = snapshot(&dir.path().join("to"));
    assert_eq!(collisions(sink.publish(Overwrite::Refuse)), ["t/sub/b"]);
    assert_eq!(snapshot(&dir.path().join("to")), before, "nothing was touched");
    fs::remove_file(dir.path().join("to/t/sub/b")).unwrap();
    sink.publish(Overwrite::Refuse).unwrap();
    let after = snapshot(&dir.path().join("to"));
    assert_eq!(after[&b"t/sub/b"[..]].content, Content::File(b"new b".to_vec()));
    assert_eq!(after[&b"t/sub/other"[..]].content, Content::File(b"mine".to_vec()));
}

#[test]
fn replacing_takes_files_and_links_but_never_folders() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let (_sender, sink, _journal) = staged(dir.path());
    plant(&to, &[("t/sub/b", b"old"), ("t/a/inner", b"old"), ("precious", b"old")]);
    symlink("../../precious", to.join("t/sub/c")).unwrap();
    assert_eq!(collisions(sink.publish(Overwrite::Replace)), ["t/a"]);
    fs::remove_dir_all(to.join("t/a")).unwrap();
    sink.publish(Overwrite::Replace).unwrap();
    let after = snapshot(&to);
    for (path, content) in
        [(&b"t/a"[..], "new a"), (b"t/sub/b", "new b"), (b"t/sub/c", "new c"), (b"precious", "old")]
    {
        assert_eq!(after[path].content, Content::File(content.into()), "{}", path.escape_ascii());
    }
}

#[test]
fn a_linked_folder_is_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    for link in ["t", "t/sub", "t/empty"] {
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).unwrap();
        let (_sender, sink, _journal) = staged(dir.path());
        fs::create_dir_all(to.join(link).parent().unwrap()).unwrap();
        symlink(&outside, to.join(link)).unwrap();
        for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
            assert_eq!(collisions(sink.publish(overwrite)), [link]);
        }
        assert_eq!(snapshot(&outside).len(), 0);
    }
}

#[test]
fn a_target_folder_swapped_for_a_link_during_the_receive_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(to.join("t/sub")).unwrap();
    let (_sender, sink, _journal) = staged(dir.path());
    fs::remove_dir(to.join("t/sub")).unwrap();
    symlink(&outside, to.join("t/sub")).unwrap();
    // Past the check, as if the swap came after it.
    sink.prepare(0..sink.entry_count()).unwrap();
    assert_eq!(collisions(sink.move_all(crate::publish::Way::Receive(Overwrite::Replace))), ["t/sub"]);
    sink.settle().unwrap();
    assert_eq!(snapshot(&outside).len(), 0);
}

#[test]
fn existing_folders_keep_what_is_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    plant(&to, &[("t/sub/mine", b"x")]);
    fs::set_permissions(to.join("t/sub"), fs::Permissions::from_mode(0o750)).unwrap();
    let (_sender, sink, _journal) = staged(dir.path());
    sink.publish(Overwrite::Refuse).unwrap();
    let after = snapshot(&to);
    assert_eq!(after[&b"t/sub"[..]].mode, 0o750);
    assert_eq!(after[&b"t/sub"[..]].mtime, snapshot(&dir.path().join("from"))[&b"t/sub"[..]].mtime);
    assert_eq!(after[&b"t/sub/mine"[..]].content, Content::File(b"x".to_vec()));
}

#[test]
fn failed_and_declined_entries_are_not_published() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, sink, _journal) = staged(dir.path());
    sink.fail(sender.find("t/sub/b"));
    sink.decline(sender.find("t/a"));
    sink.decline(sender.find("t/empty"));
    let published = sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!((published.files, published.folders), (1, 2));
    let paths: Vec<_> = snapshot(&dir.path().join("to")).into_keys().collect();
    assert_eq!(paths, [&b"t"[..], b"t/sub", b"t/sub/c"]);
}

/// They stayed closed to all but their owner, for good: nobody gave them what is given to those that are received. Then they lost their group.
#[test]
fn folders_on_the_way_to_what_is_received_are_as_open_as_others() {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let dated = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let cases = [(true, false), (true, true), (false, false)];
    for (has_entries, were_wanted) in cases {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        plant(&at("from"), &[("t/sub/b", b"content")]);
        fs::create_dir(at("to")).unwrap();
        fs::set_permissions(at("to"), fs::Permissions::from_mode(0o2775)).unwrap();
        fs::set_permissions(at("from/t/sub"), fs::Permissions::from_mode(0o575)).unwrap();
        let mut entries = Sender::of(at("from/t")).entries();
        entries.retain(|entry| has_entries || entry.kind != EntryKind::Directory);
        let mut layout = Layout::new();
        for entry in &entries {
            layout.append(entry.file_size()).unwrap();
        }
        layout.seal();
        let write = |sink: &TreeSink| {
            write_block(sink, &layout.shape(BlockNumber(0)).unwrap(), b"content").unwrap();
        };
        if were_wanted {
            write(&receiver(&at("to"), &entries).0);
        }
        let (sink, journal) = receiver(&at("to"), &entries);
        for (index, entry) in (0..).map(EntryIndex).zip(&entries) {
            if entry.kind == EntryKind::Directory {
                sink.decline(index);
            }
        }
        write(&sink);
        drop(journal);
        sink.publish(Overwrite::Refuse).unwrap();
        fs::create_dir(at("to/made")).unwrap();
        for path in ["t", "t/sub"] {
            let (case, there) = (format!("{path}: {has_entries}, {were_wanted}"), at("to").join(path));
            if has_entries {
                let from = at("from").join(path);
                assert_eq!(mode(&there), mode(&from) | 0o2000, "{case}");
                assert_eq!(dated(&there), dated(&from), "{case}");
            } else {
                assert_eq!(mode(&there), mode(&at("to/made")), "{case}");
            }
        }
    }
}

#[test]
fn what_is_there_already_is_known_before_it_is_received() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, sink, _journal) = staged(dir.path());
    let to = dir.path().join("to");
    plant(&to, &[("t/a", b"new a"), ("t/sub/b", b"longer than the new b"), ("t/empty", b"a file")]);
    let modified = dir.path().join("from/t/a").metadata().unwrap().modified().unwrap();
    fs::File::options().write(true).open(to.join("t/a")).unwrap().set_modified(modified).unwrap();
    let existing = |path: &str| sink.existing(sender.find(path)).unwrap();
    assert_eq!(existing("t"), Some(Existing::Same));
    assert_eq!(existing("t/a"), Some(Existing::Same));
    assert_eq!(existing("t/sub/b"), Some(Existing::Other("a file")));
    assert_eq!(existing("t/sub/c"), Some(Existing::Absent));
    assert_eq!(existing("t/empty"), Some(Existing::Other("a file")));
    assert_eq!(sink.existing(EntryIndex(99)).unwrap(), None);
}

#[test]
fn a_changed_file_that_was_sent_again_arrives_as_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let (sender, sink, journal) = staged(dir.path());
    let old = sender.find("t/a");
    drop((sink, journal));
    // The next run finds the file changed: the old entry fails, a new one is appended.
    for attempt in 0..2 {
        let mut entries = sender.entries();
        let changed = file_entry(b"t/a", 8);
        let (sink, journal) = receiver(&to, &entries);
        sink.fail(old);
        let new = sink.append(&changed).unwrap();
        entries.push(changed);
        let mut layout = Layout::new();
        for entry in &entries[..entries.len() - 1] {
            layout.append(entry.file_size()).unwrap();
        }
        layout.seal();
        layout.append(Some(terahaul_core::ByteCount(8))).unwrap();
        layout.seal();
        let shape = layout.shape(BlockNumber(layout.block_count() as u32 - 1)).unwrap();
        assert_eq!(shape.entries().collect::<Vec<_>>(), [new]);
        if attempt == 0 {
            let proof = write_block(&sink, &shape, b"the newer"[..8].as_ref()).unwrap();
            sink.sync().unwrap();
            journal.record(&[(shape.number, proof)]).unwrap();
        } else {
            assert!(journal.blocks().contains(shape.number));
            sink.publish(Overwrite::Refuse).unwrap();
        }
    }
    let after = snapshot(&to);
    assert_eq!(after[&b"t/a"[..]].content, Content::File(b"the newe".to_vec()));
    assert_eq!(after[&b"t/a"[..]].mtime.0, 1_600_000_000);
    assert_eq!(after[&b"t"[..]].mtime, snapshot(&dir.path().join("from"))[&b"t"[..]].mtime);
}

#[test]
fn special_bits_are_not_applied() {
    let dir = tempfile::tempdir().unwrap();
    let mut entry = file_entry(b"tool", 0);
    entry.mode = 0o6755;
    let (sink, _journal) = receiver(dir.path(), &[entry]);
    sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!(snapshot(dir.path())[&b"tool"[..]].mode, 0o755);
}

/// Whoever resumes the transfer of that name would believe what it finds there, be it at the top or in a folder that is
/// received into later.
#[test]
fn nobody_plants_a_staging_folder() {
    let other = format!(".terahaul-{}", TransferId([8; 16]));
    // File systems on which case or a dot at the end is nothing take these for the same name.
    let same_to_some = [other.to_ascii_uppercase(), format!("{other}."), format!("{other}.PART")];
    let names = [other.clone(), format!(".terahaul-{}", transfer()), format!("sub/{other}")];
    for name in names.into_iter().chain(same_to_some) {
        for there in [true, false] {
            // Its own is not somebody else's.
            let there = there && name.contains(&other);
            let dir = tempfile::tempdir().unwrap();
            if there {
                fs::create_dir_all(dir.path().join(&name)).unwrap();
            }
            let before = snapshot(dir.path());
            let planted = [format!("{name}/journal"), format!("{name}/tree/a"), name.clone() + "/tree"];
            for path in planted {
                let (sink, _journal) = receiver(dir.path(), &[file_entry(path.as_bytes(), 0)]);
                sink.publish(Overwrite::Replace).unwrap();
                assert_eq!(sink.refusals().len(), 1);
                assert_eq!(snapshot(dir.path()), before, "{path}");
            }
        }
    }
}

#[test]
fn publishing_too_early_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (sink, _journal) = receiver(dir.path(), &[file_entry(b"d/a", 5)]);
    assert!(
        matches!(sink.publish(Overwrite::Refuse), Err(PublishError::Incomplete { path }) if path == "d/a")
    );
    assert_eq!(snapshot(dir.path()).len(), 0);
}

#[test]
fn a_folder_that_became_a_file_and_a_file_that_became_a_folder_arrive_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let link = Entry {
        path: EntryPath::new(&b"to-link"[..]).unwrap(),
        kind: EntryKind::Symlink { target: (*b"x").into() },
        mtime: Mtime::default(),
        mode: 0o777,
        extra: None,
    };
    let before = [
        file_entry(b"to-file/old", 1),
        file_entry(b"to-link/deep/old", 1),
        file_entry(b"to-folder", 1),
        file_entry(b"stays", 1),
    ];
    let after = [file_entry(b"to-file", 1), link, file_entry(b"to-folder/new", 1)];
    let mut layout = Layout::new();
    let mut append = |entry: &Entry| {
        layout.append(entry.file_size()).unwrap();
        layout.seal();
    };
    before.iter().chain(&after).for_each(&mut append);
    let shapes: Vec<_> =
        (0..layout.block_count() as u32).map(|block| layout.shape(BlockNumber(block)).unwrap()).collect();
    let reopen = || {
        let (sink, journal) = receiver(dir.path(), &before);
        (0..3).for_each(|failed| sink.fail(EntryIndex(failed)));
        for entry in &after {
            sink.append(entry).unwrap();
        }
        (sink, journal)
    };
    let (sink, journal) = receiver(dir.path(), &before);
    for shape in &shapes[..4] {
        let proof = write_block(&sink, shape, b"o").unwrap();
        journal.record(&[(shape.number, proof)]).unwrap();
    }
    drop((sink, journal));
    let (sink, journal) = reopen();
    for shape in &shapes[4..] {
        let proof = write_block(&sink, shape, b"n").unwrap();
        journal.record(&[(shape.number, proof)]).unwrap();
    }
    drop((sink, journal));
    let (sink, _journal) = reopen();
    sink.publish(Overwrite::Refuse).unwrap();
    let found: Vec<_> = snapshot(dir.path()).into_iter().map(|(path, seen)| (path, seen.content)).collect();
    let file = |path: &str, content: &[u8]| (path.as_bytes().to_vec(), Content::File(content.to_vec()));
    assert_eq!(
        found,
        [
            file("stays", b"o"),
            file("to-file", b"n"),
            (b"to-folder".to_vec(), Content::Folder),
            file("to-folder/new", b"n"),
            (b"to-link".to_vec(), Content::Link(b"x".to_vec())),
        ]
    );
}
