use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use terahaul_core::{BLOCK_SIZE, FailureCause};

use rustix::io::Errno;

use crate::Keep;
use crate::failpoint::{Lacking, lack};

/// A small and a large file, each with a neighbour that must not suffer; `change` is done to both after the walk.
fn after_walk(change: fn(&Path)) -> (tempfile::TempDir, Vec<EntryFailure>, Sender) {
    let dir = tempfile::tempdir().unwrap();
    let large = vec![7; 2 * BLOCK_SIZE as usize + 5];
    plant(dir.path(), &[("t/a", b"before"), ("t/b", b"small"), ("t/c", b"after"), ("t/d/large", &large)]);
    let sender = Sender::of(dir.path().join("t"));
    change(&dir.path().join("t/b"));
    change(&dir.path().join("t/d/large"));
    let failures = sender.failures();
    (dir, failures, sender)
}

fn assert_both_failed(change: fn(&Path), cause: FailureCause, word: &str) {
    let (_dir, failures, sender) = after_walk(change);
    let failed = |path: &str| failures.iter().filter(|failure| failure.entry == sender.find(path)).count();
    assert_eq!((failed("t/a"), failed("t/b"), failed("t/c")), (0, 1, 0), "{failures:?}");
    assert!(failed("t/d/large") >= 1, "{failures:?}");
    for failure in &failures {
        assert_eq!(failure.cause, cause, "{failure:?}");
        assert!(failure.detail.contains(word), "{failure:?}");
    }
    let (bytes, _) = sender.read(&sender.shapes()[0], 7);
    assert!(bytes.starts_with(b"before") && bytes.ends_with(b"after"), "the neighbours' bytes are right");
}

#[test]
fn a_deleted_file_fails_alone() {
    assert_both_failed(|path| fs::remove_file(path).unwrap(), FailureCause::Vanished, "No such file");
}

#[test]
fn a_truncated_file_fails_alone() {
    let truncate = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(2).unwrap();
    assert_both_failed(truncate, FailureCause::Changed, "to 2 bytes");
}

#[test]
fn a_grown_file_fails_alone() {
    let grow = |path: &Path| {
        let size = path.metadata().unwrap().len();
        fs::File::options().write(true).open(path).unwrap().set_len(size + 1).unwrap();
    };
    assert_both_failed(grow, FailureCause::Changed, "its size went from");
}

#[test]
fn a_rewritten_file_fails_alone() {
    let rewrite = |path: &Path| {
        let size = path.metadata().unwrap().len();
        fs::write(path, vec![9; size as usize]).unwrap();
        date(path, 5);
    };
    assert_both_failed(rewrite, FailureCause::Changed, "modification time");
}

/// Half of the one and half of the other were sent as one file, which is proven to be what was sent.
#[test]
fn a_file_that_another_of_its_size_and_time_replaces_while_it_is_sent_fails() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("t/0"), dir.path().join("other"));
    plant(dir.path(), &[("t/0", b""), ("other", b"")]);
    let long = |path: &Path, len: u64| {
        fs::File::create(path).unwrap().set_len(len).unwrap();
        date(path, 5);
    };
    long(&path, 2 * BLOCK_SIZE);
    long(&other, 2 * BLOCK_SIZE);
    // More than are kept open.
    (1..=40).for_each(|number| long(&dir.path().join(format!("t/{number}")), BLOCK_SIZE));
    let sender = Sender::of(dir.path().join("t"));
    let (first, shapes) = (sender.find("t/0"), sender.shapes());
    let (of_first, others): (Vec<_>, Vec<_>) =
        shapes.iter().partition(|shape| shape.entries().any(|entry| entry == first));
    let failures = |shape: &BlockShape| sender.read(shape, 1 << 16).1;
    assert_eq!(failures(of_first[0]), []);
    fs::rename(&other, &path).unwrap();
    others.into_iter().for_each(|shape| assert_eq!(failures(shape), []));
    let [failed] = &failures(of_first[1])[..] else { panic!("it is taken for the same file") };
    assert_eq!((failed.entry, failed.cause), (first, FailureCause::Changed));
}

#[test]
fn a_file_replaced_by_a_link_is_not_followed() {
    let relink = |path: &Path| {
        let copy = path.with_extension("copy");
        fs::rename(path, &copy).unwrap();
        symlink(copy, path).unwrap();
    };
    assert_both_failed(relink, FailureCause::Changed, "symbolic link");
}

#[test]
fn a_file_replaced_by_a_folder_or_a_fifo_fails_and_does_not_block() {
    let folder = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    assert_both_failed(folder, FailureCause::Changed, "not a regular file any more");
    let fifo = |path: &Path| {
        fs::remove_file(path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    };
    assert_both_failed(fifo, FailureCause::Changed, "not a regular file any more");
}

#[test]
fn a_folder_swapped_for_a_link_is_not_entered() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/d/file", b"mine!"), ("secret/file", b"other")]);
    let sender = Sender::of(dir.path().join("t"));
    let mtime = dir.path().join("t/d/file").metadata().unwrap().modified().unwrap();
    fs::File::open(dir.path().join("secret/file")).unwrap().set_modified(mtime).unwrap();
    fs::remove_dir_all(dir.path().join("t/d")).unwrap();
    symlink("../secret", dir.path().join("t/d")).unwrap();
    let (bytes, failures) = sender.read(&sender.shapes()[0], 100);
    assert_eq!(bytes, [0; 5]);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].cause, FailureCause::Changed);
}

#[test]
fn a_manifest_entry_outside_the_roots_is_never_read() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/file", b"mine!"), ("secret", b"other")]);
    let source = TreeSource::new(Arc::new(Roots::open(&[dir.path().join("t")]).unwrap()));
    source.append(&[file_entry(b"secret", 5)]).unwrap();
    let mut layout = Layout::new();
    layout.append(Some(terahaul_core::ByteCount(5))).unwrap();
    layout.seal();
    let sender = Sender { source, layout, skipped: vec![] };
    let (bytes, failures) = sender.read(&sender.shapes()[0], 100);
    assert_eq!(bytes, [0; 5]);
    assert_eq!(failures[0].cause, FailureCause::Vanished);
}

/// Runs `act` as somebody whom permissions bind, although root runs the tests.
pub(super) fn without_privileges<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let confined = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -=
            CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
        set_capabilities(None, sets).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(confined).join().unwrap())
}

#[test]
fn an_unreadable_file_fails_alone_and_an_unreadable_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/a", b"1"), ("t/b", b"2"), ("t/c", b"3"), ("t/closed/x", b"4")]);
    for closed in ["t/b", "t/closed"] {
        fs::set_permissions(dir.path().join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    without_privileges(|| {
        let sender = Sender::of(dir.path().join("t"));
        assert_eq!(sender.paths(), ["t", "t/a", "t/b", "t/c", "t/closed"]);
        assert_eq!(sender.skipped.len(), 1);
        assert_eq!(sender.skipped[0].path, dir.path().join("t/closed"));
        assert_eq!(sender.skipped[0].cause, FailureCause::Unreadable);
        let (bytes, failures) = sender.read(&sender.shapes()[0], 100);
        assert_eq!(bytes, b"1\x003");
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].entry, failures[0].cause), (sender.find("t/b"), FailureCause::Unreadable));
    });
    fs::set_permissions(dir.path().join("t/closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn an_error_of_the_channel_ends_the_block() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t", &[1; 5000])]);
    let sender = Sender::of(dir.path().join("t"));
    let mut calls = 0;
    let result = sender.source.read_block(&sender.shapes()[0], &mut [0; 1000], &mut |_| {
        calls += 1;
        if calls == 2 { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    });
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(calls, 2);
}

/// Those of `/sys` say that they have a page.
#[cfg(target_os = "linux")]
#[test]
fn of_a_file_that_is_always_shorter_than_it_says_the_remedy_is_said() {
    let path = Path::new("/sys/kernel/uevent_seqnum");
    if !path.exists() {
        return;
    }
    let sender = Sender::of(path);
    let failures = sender.failures();
    let [failure] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!(failure.cause, FailureCause::Changed);
    assert!(failure.detail.contains("bytes early") && failure.detail.contains("'cat'"), "{failure:?}");
}

/// The status of what is in a renamed folder does not change: half of one file and half of another were sent as one.
#[test]
fn that_a_file_came_with_a_renamed_folder_is_seen() {
    for (named, path) in [("t", "t/outer/inner/large"), ("t/", "outer/inner/large")] {
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path(), &[("t/outer/inner/large", &vec![7; BLOCK_SIZE as usize])]);
        let sender = Sender::of(dir.path().join(named));
        let changed = || sender.source.place_changed(sender.find(path)).unwrap();
        let mut before = changed();
        let above = dir.path().file_name().unwrap().to_str().unwrap();
        let renamings = [("t/outer", dir.path()), ("t", dir.path()), (above, dir.path().parent().unwrap())];
        for (renamed, beside) in renamings {
            let [here, away] = [beside.join(renamed), beside.join(format!("{above} away"))];
            // As often as it takes: file systems stamp by a coarse clock.
            while changed() == before {
                fs::rename(&here, &away).unwrap();
                fs::rename(&away, &here).unwrap();
            }
            assert!(changed() > before, "{named}, {renamed}");
            before = changed();
        }
    }
}

/// It was taken for the file of which a part had been sent; once it could be read again, the rest of another one went with that part.
#[test]
fn whether_a_file_that_cannot_be_read_just_now_came_into_its_place_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/large", &vec![7; BLOCK_SIZE as usize])]);
    let sender = Sender::of(dir.path().join("t"));
    let large = sender.find("t/large");
    for (says, cause) in [(Errno::ACCESS, FailureCause::Unreadable), (Errno::NOENT, FailureCause::Vanished)] {
        lack(Lacking { opened: Some(says), ..Lacking::default() });
        let looked = sender.source.place_changed(large);
        lack(Lacking::default());
        assert_eq!(looked.unwrap_err().cause, cause);
    }
    assert!(sender.source.place_changed(large).is_ok());
}

/// None of its names was copied, though it was there under all the others.
#[test]
fn a_file_that_is_gone_under_its_first_name_is_read_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join("t").join(path);
    let large = vec![7; 2 * BLOCK_SIZE as usize + 5];
    plant(dir.path(), &[("t/a", b"small"), ("t/other", b"other"), ("t/u/large", &large), ("t/x", b"gone")]);
    fs::create_dir(at("z")).unwrap();
    for (name, other) in [("a", "b"), ("a", "z/c"), ("u/large", "z/large"), ("x", "y")] {
        fs::hard_link(at(name), at(other)).unwrap();
    }
    let keep = Keep { hard_links: true, ..Keep::default() };
    let reading = Reading { keep, changes: true, ..Reading::default() };
    let sender = Sender::reading(&[dir.path().join("t")], &Filter::default(), reading, 2);
    ["a", "b", "x", "y"].iter().for_each(|name| fs::remove_file(at(name)).unwrap());
    fs::write(at("b"), "another file").unwrap();
    fs::remove_dir_all(at("u")).unwrap();
    let failed: Vec<_> = sender.failures().iter().map(|failure| (failure.entry, failure.cause)).collect();
    assert_eq!(failed, [(sender.find("t/x"), FailureCause::Vanished)]);
    let (bytes, _) = sender.read(&sender.shapes()[0], 7);
    assert!(bytes.starts_with(b"smallother"));
}
