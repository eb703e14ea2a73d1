use super::*;
use std::fs;
use std::os::unix::fs::symlink;

use crate::{Verdict, verify};
use terahaul_core::{BLOCK_SIZE, ByteCount};

fn receipt(sender: &Sender, dir: &Path) -> Vec<(Entry, Option<Hash>)> {
    let hash = |entry: &Entry| {
        let bytes = fs::read(bytes_path(dir, entry.path.as_bytes())).unwrap();
        Hash(*blake3::hash(&bytes).as_bytes())
    };
    sender
        .entries()
        .into_iter()
        .map(|entry| {
            let hash = entry.file_size().map(|_| hash(&entry));
            (entry, hash)
        })
        .collect()
}

fn verdicts(dir: &Path, receipt: &[(Entry, Option<Hash>)], threads: usize) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    verify(dir, receipt.iter().cloned(), threads, |at, entry, verdict| {
        assert_eq!(entry, &receipt[at].0);
        assert!(verdicts.insert(entry.path.to_string(), verdict).is_none());
    })
    .unwrap();
    assert_eq!(verdicts.len(), receipt.len());
    verdicts
}

#[test]
fn every_difference_is_found_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let large = vec![5; 5 * BLOCK_SIZE as usize + 99];
    let huge = vec![6; 37 * BLOCK_SIZE as usize];
    plant(
        dir.path(),
        &[
            ("t/ok", b"fine"),
            ("t/zero", b""),
            ("t/large", &large),
            ("t/other-large", &large),
            ("t/huge", &huge),
            ("t/content", b"12345"),
            ("t/size", b"12345"),
            ("t/gone", b"1"),
            ("t/now-folder", b"1"),
            ("t/now-link", b"1"),
            ("t/folder/x", b"1"),
            ("t/folder-gone/", b""),
            ("t/medium", &large[..1 << 20]),
        ],
    );
    for (target, name) in [("ok", "t/link"), ("ok", "t/other-link")] {
        symlink(target, dir.path().join(name)).unwrap();
    }
    let sender = Sender::of(dir.path().join("t"));
    let receipt = receipt(&sender, dir.path());
    for threads in 0..4 {
        assert!(verdicts(dir.path(), &receipt, threads).values().all(Verdict::is_same));
    }
    let path = |name: &str| dir.path().join("t").join(name);
    fs::write(path("content"), b"12346").unwrap();
    fs::write(path("size"), b"123456").unwrap();
    for name in ["gone", "now-folder", "now-link", "other-link"] {
        fs::remove_file(path(name)).unwrap();
    }
    fs::create_dir(path("now-folder")).unwrap();
    symlink("ok", path("now-link")).unwrap();
    symlink("elsewhere", path("other-link")).unwrap();
    fs::remove_dir(path("folder-gone")).unwrap();
    fs::rename(path("folder"), path("moved")).unwrap();
    symlink("moved", path("folder")).unwrap();
    let mut changed = large.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(path("other-large"), &changed).unwrap();
    let found = verdicts(dir.path(), &receipt, 3);
    let different: BTreeMap<&str, &Verdict> = found
        .iter()
        .filter(|(_, verdict)| !verdict.is_same())
        .map(|(path, verdict)| (&path[2..], verdict))
        .collect();
    let hash = |bytes: &[u8]| Verdict::OtherContent(Hash(*blake3::hash(bytes).as_bytes()));
    assert_eq!(different["content"], &hash(b"12346"));
    assert_eq!(different["other-large"], &hash(&changed));
    assert_eq!(different["size"], &Verdict::OtherSize(ByteCount(6)));
    assert_eq!(different["gone"], &Verdict::Missing);
    assert_eq!(different["folder/x"], &Verdict::Missing);
    assert_eq!(different["now-folder"], &Verdict::OtherKind("a folder"));
    assert_eq!(different["now-link"], &Verdict::OtherKind("a symbolic link"));
    assert_eq!(different["other-link"], &Verdict::OtherTarget((*b"elsewhere").into()));
    assert_eq!(different["folder-gone"], &Verdict::Missing);
    assert_eq!(different["folder"], &Verdict::OtherKind("a symbolic link"));
    assert!(!different["folder/x"].is_same(), "a linked folder is not followed");
    assert_eq!(different.len(), 10, "{different:?}");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let none = std::iter::empty::<(Entry, Option<Hash>)>();
    assert!(verify(Path::new("/nonexistent/folder"), none, 1, |_, _, _| {}).is_err());
}
