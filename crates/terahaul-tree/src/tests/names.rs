use super::*;
use std::fs;

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
