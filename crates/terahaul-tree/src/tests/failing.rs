//! Files that fail at the sender while they are written: nothing else fails with them.

use super::*;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failpoint::{Lacking, lack};
use crate::{Keep, Permissions};
use rustix::io::Errno;
use terahaul_core::BLOCK_SIZE;

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

/// It was staged with the length that it was to have: once its block was recorded, the next run took it for what was sent, never asked for it
/// again, and found in the end that it was not what the depot had signed.
#[test]
fn what_is_made_of_a_file_after_it_failed_does_not_outlast_its_block() {
    let dir = tempfile::tempdir().unwrap();
    let files: [(&[u8], u64); 2] = [(b"stays", 10), (b"fails", 100)];
    let entries = files.map(|(path, size)| file_entry(path, size));
    let (sink, journal) = receiver(dir.path(), &entries);
    let mut layout = Layout::new();
    for entry in &entries {
        layout.append(entry.file_size()).unwrap();
    }
    layout.seal();
    let block = layout.shape(BlockNumber(0)).unwrap();
    // The first arrival has begun before that is heard, and is refused when it has ended.
    let mut refused = sink.begin(&block).unwrap();
    refused.write(&[IoSlice::new(&[1; 10])]).unwrap();
    sink.fail(EntryIndex(1));
    refused.write(&[IoSlice::new(&[0; 100])]).unwrap();
    drop(refused);
    let proof = write_block(&sink, &block, &[1; 110]).unwrap();
    sink.sync().unwrap();
    journal.record(&[(block.number, proof)]).unwrap();
    drop((sink, journal));

    let (sink, journal) = receiver(dir.path(), &entries);
    assert!(journal.blocks().contains(block.number));
    assert!(sink.restore(&journal, &[block]).unwrap().is_empty(), "its file is to be asked for again");
}

/// What the file system had not written by then was missing in a file that was called whole.
#[test]
fn what_a_file_system_says_when_a_file_is_closed_is_heard() {
    let to = tempfile::tempdir().unwrap();
    let (mut sink, _) = TreeSink::open_copy(to.path(), None, transfer(), Keep::default()).unwrap();
    sink.staging.answers_by_file = true;
    let mut layout = Layout::new();
    for (path, size) in [(b"small", 10), (b"large", 2 * BLOCK_SIZE)] {
        let entry = file_entry(path, size);
        layout.append(entry.file_size()).unwrap();
        sink.append(&entry).unwrap();
    }
    layout.seal();
    let write = |block, bytes: &[u8]| {
        let mut writer = sink.begin(&layout.shape(BlockNumber(block)).unwrap()).unwrap();
        writer.write(&[IoSlice::new(bytes)]).and_then(|()| writer.finish())
    };
    let closing = |closed| lack(Lacking { closed, ..Lacking::default() });
    closing(Some(Errno::NOSPC));
    let small = write(0, &[1; 10]);
    let large = write(1, b"begins").and_then(|()| sink.sync());
    closing(None);
    assert!(small.unwrap_err().is_full() && large.unwrap_err().is_full());
    write(0, &[1; 10]).unwrap();
    write(1, b"begins").unwrap();
    sink.sync().unwrap();
}

/// Its other blocks were taken for those of a file that somebody had replaced, which ended the whole copy, or it was made anew and got its name.
#[test]
fn a_large_file_that_is_too_long_is_refused_alone_while_others_write_its_blocks() {
    const FILES: u32 = 2000;
    let to = tempfile::tempdir().unwrap();
    let (sink, _) = TreeSink::open_copy(to.path(), None, transfer(), Keep::default()).unwrap();
    let mut layout = Layout::new();
    for file in 0..FILES {
        let entry = file_entry(file.to_string().as_bytes(), 2 * BLOCK_SIZE);
        layout.append(entry.file_size()).unwrap();
        sink.append(&entry).unwrap();
    }
    layout.seal();
    let blocks = |of: u32| {
        (0..FILES).map(|file| layout.shape(BlockNumber(2 * file + of)).unwrap()).collect::<Vec<_>>()
    };
    let (first, second) = (blocks(0), blocks(1));
    // Each file is met by both at once, and by the second at another moment each time.
    let turn = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (file, block) in first.iter().enumerate() {
                let mut writer = sink.begin(block).unwrap();
                writer.write(&[IoSlice::new(b"begins")]).unwrap();
                while turn.load(Ordering::Acquire) != 2 * file {
                    std::hint::spin_loop();
                }
                turn.store(2 * file + 1, Ordering::Release);
                let too_long = io::Error::from(Errno::FBIG).into();
                sink.refuse_length(EntryIndex(file as u32), too_long).unwrap();
            }
        });
        scope.spawn(|| {
            for (file, block) in second.iter().enumerate() {
                while turn.load(Ordering::Acquire) != 2 * file + 1 {
                    std::hint::spin_loop();
                }
                (0..file % 100 * 10).for_each(|_| std::hint::spin_loop());
                let begun = sink.begin(block);
                turn.store(2 * file + 2, Ordering::Release);
                let mut writer = begun.unwrap();
                writer.write(&[IoSlice::new(b"goes on")]).unwrap();
                writer.finish().unwrap();
            }
        });
    });
    assert_eq!(sink.refusals().len(), FILES as usize);
    assert_eq!(std::fs::read_dir(staging(to.path()).join("tree")).unwrap().count(), 0);
}

/// The file was gone, and nothing was in its place.
#[test]
fn what_a_folder_would_replace_stays_where_no_further_folder_fits() {
    use super::copying::copy;
    use crate::decision::Rules;
    use crate::failpoint::{Lacking, lack};
    use crate::{Filter, Keep};
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("t/file/new", b"new"), ("t/other", b"new")]);
    plant(&to, &[("t/file", b"old")]);
    let copied =
        || copy(&from.join("t"), &to, Rules::default(), Keep::default(), &Filter::default(), false).refused;
    lack(Lacking { folders: Some(rustix::io::Errno::MLINK), ..Lacking::default() });
    let refused = copied();
    lack(Lacking::default());
    assert!(matches!(&refused[..], [one] if one == "t/file"), "{refused:?}");
    assert_eq!(std::fs::read(to.join("t/file")).unwrap(), b"old");
    assert_eq!(std::fs::read(to.join("t/other")).unwrap(), b"new");
    assert_eq!(copied(), Vec::<String>::new());
    assert_eq!(snapshot(&to), snapshot(&from));
}
