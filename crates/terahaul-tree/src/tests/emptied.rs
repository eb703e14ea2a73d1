//! A source without a file, beside what an interrupted copy has staged.

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
    assert_eq!(sink.orphan(false, false).unwrap(), None, "there is nothing to lose");
    std::fs::write(&half, "").unwrap();
    assert_eq!(sink.orphan(false, false).unwrap(), Some(&*staging(to.path())));
    sink.append(&file_entry(b"folder/other", 1)).unwrap();
    assert_eq!(sink.orphan(false, false).unwrap(), None, "the source has a file");
    assert_eq!(sink.orphan(false, true).unwrap(), None, "what is missing in a source may have been removed");
}

#[test]
fn a_staged_file_of_a_source_that_is_missing_is_an_orphan() {
    let to = tempfile::tempdir().unwrap();
    drop(open(to.path()));
    let tree = staging(to.path()).join("tree");
    std::fs::create_dir_all(tree.join("other/folder")).unwrap();
    let sink = open(to.path());
    sink.append(&file_entry(b"source/file", 1)).unwrap();
    assert_eq!(sink.orphan(false, true).unwrap(), None, "there is nothing to lose");
    std::fs::write(tree.join("other/folder/half"), "").unwrap();
    assert_eq!(sink.orphan(false, false).unwrap(), None, "all of the source was found: it was removed");
    assert_eq!(sink.orphan(false, true).unwrap(), Some(&*staging(to.path())));
}
