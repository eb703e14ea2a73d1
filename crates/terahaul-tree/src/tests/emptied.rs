//! A source without a file, beside what an interrupted copy has staged.

use std::collections::BTreeSet;

use super::*;
use crate::Keep;

fn open(to: &Path) -> TreeSink {
    TreeSink::open_copy(to, None, transfer(), Keep::default()).unwrap().0
}

#[test]
fn a_staged_file_is_an_orphan_where_only_folders_come_and_staged_folders_are_not() {
    let to = tempfile::tempdir().unwrap();
    drop(open(to.path()));
    let half = staging(to.path()).join("tree/folder/half");
    std::fs::create_dir_all(half.parent().unwrap()).unwrap();
    let sink = open(to.path());
    let folder = Entry { kind: EntryKind::Directory, mode: 0o755, ..file_entry(b"folder", 0) };
    sink.append(&folder).unwrap();
    let orphan = |found| sink.orphan(found, |_| false, &BTreeSet::new()).unwrap();
    assert_eq!(orphan(false), None, "there is nothing to lose");
    std::fs::write(&half, "").unwrap();
    assert_eq!((orphan(false), orphan(true)), (Some(staging(to.path())), None));
    sink.append(&file_entry(b"folder/other", 1)).unwrap();
    assert_eq!(orphan(false), None, "the source has a file");
}

#[test]
fn a_staged_file_of_a_source_of_which_nothing_comes_is_an_orphan() {
    let to = tempfile::tempdir().unwrap();
    drop(open(to.path()));
    let tree = staging(to.path()).join("tree");
    std::fs::create_dir_all(tree.join("other/folder")).unwrap();
    let sink = open(to.path());
    sink.append(&file_entry(b"source/file", 1)).unwrap();
    // As of a disk that is not mounted.
    let folder = |path: &[u8]| Entry { kind: EntryKind::Directory, mode: 0o755, ..file_entry(path, 0) };
    sink.append(&folder(b"other")).unwrap();
    let is_source = |name: &[u8]| [&b"source"[..], b"other"].contains(&name);
    let mut alike = BTreeSet::new();
    let orphan = |alike: &BTreeSet<Vec<u8>>| sink.orphan(false, is_source, alike).unwrap();
    assert_eq!(orphan(&alike), None, "there is nothing to lose");
    std::fs::write(tree.join("other/folder/half"), "").unwrap();
    assert_eq!(orphan(&alike), Some(tree.join("other")));
    assert_eq!(sink.orphan(false, |_| false, &alike).unwrap(), None, "what is in a source may be removed");
    alike.insert(b"other".to_vec());
    assert_eq!(orphan(&alike), None, "it has been seen");
    sink.append(&file_entry(b"other/more", 1)).unwrap();
    assert_eq!(orphan(&BTreeSet::new()), None, "it has a file");
}
