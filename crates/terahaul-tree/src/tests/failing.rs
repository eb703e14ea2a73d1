//! Files that fail at the sender while they are written: nothing else fails with them.

use super::*;
use crate::{Keep, Permissions};

fn keeping_attributes() -> Keep {
    Keep { permissions: Permissions::Basic, xattrs: true, acls: true, ..Keep::default() }
}

/// A copy's sink with these files, and the one block that they are packed into.
fn packed(to: &Path, files: &[(&[u8], u64)]) -> (TreeSink, BlockShape) {
    let (sink, _) = TreeSink::open_copy(to, None, transfer(), keeping_attributes()).unwrap();
    let mut layout = Layout::new();
    for &(path, size) in files {
        let entry = file_entry(path, size);
        layout.append(entry.file_size()).unwrap();
        sink.append(&entry).unwrap();
    }
    layout.seal();
    (sink, layout.shape(BlockNumber(0)).unwrap())
}

/// What is staged of it goes at once, by another thread than the one that still writes what stands for its bytes.
#[test]
fn a_small_file_that_fails_before_its_last_byte_is_here_fails_alone() {
    let to = tempfile::tempdir().unwrap();
    let (sink, block) = packed(to.path(), &[(b"before", 10), (b"fails", 100), (b"in/behind", 10)]);
    let mut writer = sink.begin(&block).unwrap();
    writer.write(&[IoSlice::new(&[1; 60])]).unwrap();
    sink.fail(EntryIndex(1));
    writer.write(&[IoSlice::new(&[2; 60])]).unwrap();
    writer.finish().unwrap();
    let rules = crate::decision::Rules::default();
    let copying = crate::Copying { rules, filter: &Filter::default(), most: None };
    let published = sink.publish_copy(copying, &mut |_| {}).unwrap();
    sink.conclude_copy(&rules).unwrap();
    assert_eq!(published.files, 2);
    assert_eq!(snapshot(to.path()).into_keys().collect::<Vec<_>>(), [&b"before"[..], b"in", b"in/behind"]);
}
