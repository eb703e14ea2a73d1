use super::copying::list_of;
use super::sending::without_privileges;
use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::OpenError;
use terahaul_core::{BLOCK_SIZE, ByteCount};

fn two_folders() -> (Vec<Entry>, Vec<BlockShape>) {
    let entries = vec![
        file_entry(b"d/one", 4),
        file_entry(b"d/large", BLOCK_SIZE + 4),
        file_entry(b"d/two", BLOCK_SIZE - 4),
        file_entry(b"d/e/three", 4),
        file_entry(b"d/four", 4),
    ];
    let mut layout = Layout::new();
    for entry in &entries {
        layout.append(entry.file_size()).unwrap();
    }
    layout.seal();
    let shapes =
        (0..layout.block_count() as u32).map(|block| layout.shape(BlockNumber(block)).unwrap()).collect();
    (entries, shapes)
}

fn write_zeros(sink: &TreeSink, shape: &BlockShape) -> Result<BlockProof, SinkError> {
    write_block(sink, shape, &vec![b'z'; shape.len as usize])
}

#[test]
fn a_staged_folder_swapped_for_a_link_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    let (entries, shapes) = two_folders();
    let tree = staging(&to).join("tree");
    for swap_after in 0..shapes.len() {
        let _ = fs::remove_dir_all(&to);
        let (sink, journal) = receiver(&to, &entries);
        for shape in &shapes[..swap_after] {
            write_zeros(&sink, shape).unwrap();
        }
        // A new process has no folder open any more, so it has to go through the link, or notice it.
        drop((sink, journal));
        fs::create_dir_all(tree.join("d")).unwrap();
        fs::rename(tree.join("d"), to.join("moved")).unwrap();
        symlink(&outside, tree.join("d")).unwrap();
        let (sink, _journal) = receiver(&to, &entries);
        for shape in &shapes[swap_after..] {
            assert!(
                matches!(write_zeros(&sink, shape), Err(SinkError::Tampered { .. })),
                "block {}",
                shape.number
            );
        }
        assert!(sink.publish(Overwrite::Replace).is_err());
        assert_eq!(snapshot(&outside).len(), 0, "swapped after {swap_after}");
    }
}

#[test]
fn a_staged_file_swapped_for_a_link_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let (entries, shapes) = two_folders();
    for name in ["one", "large", "two", "four"] {
        let _ = fs::remove_dir_all(&to);
        let (sink, _journal) = receiver(&to, &entries);
        fs::create_dir_all(staging(&to).join("tree/d")).unwrap();
        symlink(&victim, staging(&to).join("tree/d").join(name)).unwrap();
        // A small file takes the link's place; a large one, which several blocks share, is refused.
        let results: Vec<_> = shapes.iter().map(|shape| write_zeros(&sink, shape).is_ok()).collect();
        assert_eq!(results.contains(&false), name == "large", "{name}: {results:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
}

#[test]
fn a_large_file_with_a_second_name_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (to, victim) = (dir.path().join("to"), dir.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    let (entries, shapes) = two_folders();
    let (sink, _journal) = receiver(&to, &entries);
    fs::create_dir_all(staging(&to).join("tree/d")).unwrap();
    fs::hard_link(&victim, staging(&to).join("tree/d/large")).unwrap();
    let large =
        shapes.iter().find(|shape| matches!(shape.content, terahaul_core::BlockContent::Piece { .. }));
    assert!(matches!(write_zeros(&sink, large.unwrap()), Err(SinkError::Tampered { .. })));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_staging_folder_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = || TreeSink::open(dir.path(), transfer(), Hash([1; 32])).map(|_| ());
    fs::create_dir(staging(dir.path())).unwrap();
    fs::set_permissions(staging(dir.path()), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(open(), Err(OpenError::NotOurs(_))), "others may write to it");
    fs::remove_dir(staging(dir.path())).unwrap();
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    symlink("elsewhere", staging(dir.path())).unwrap();
    assert!(matches!(open(), Err(OpenError::NotOurs(_))), "a link");
    fs::remove_file(staging(dir.path())).unwrap();
    assert!(open().is_ok());
}

#[test]
fn one_process_at_a_time_receives_a_transfer_into_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let open = |seed: u8| TreeSink::open(dir.path(), TransferId([seed; 16]), Hash([1; 32]));
    let first = open(1).unwrap();
    assert!(matches!(open(1), Err(OpenError::Busy(_))));
    assert!(open(2).is_ok(), "another transfer is not in the way");
    drop(first);
    assert!(open(1).is_ok());
}

#[test]
fn staged_blocks_of_something_else_are_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let open = |bound: u8| TreeSink::open(dir.path(), transfer(), Hash([bound; 32]));
    drop(open(1).unwrap());
    assert!(matches!(open(2), Err(OpenError::Stale(_))));
    let (sink, _journal) = open(1).unwrap();
    sink.discard().unwrap();
    assert!(open(2).is_ok());
}

#[test]
fn what_was_staged_without_a_journal_is_thrown_away() {
    let dir = tempfile::tempdir().unwrap();
    drop(receiver(dir.path(), &[]));
    fs::write(staging(dir.path()).join("tree/stray"), "x").unwrap();
    fs::write(staging(dir.path()).join("ready"), "9").unwrap();
    fs::remove_file(staging(dir.path()).join("journal")).unwrap();
    let (sink, journal) = receiver(dir.path(), &[]);
    assert!(journal.blocks().is_empty());
    sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!(snapshot(dir.path()).len(), 0);
}

#[test]
fn a_journal_torn_at_any_byte_gives_the_records_before_the_tear() {
    let dir = tempfile::tempdir().unwrap();
    let (entries, shapes) = two_folders();
    let (sink, journal) = receiver(dir.path(), &entries);
    let file = staging(dir.path()).join("journal");
    let mut ends = vec![fs::metadata(&file).unwrap().len()];
    let mut proofs = Vec::new();
    for shape in &shapes {
        let proof = write_zeros(&sink, shape).unwrap();
        journal.record(&[(shape.number, proof.clone())]).unwrap();
        assert_eq!(journal.proof(shape).unwrap().as_ref(), Some(&proof));
        proofs.push(proof);
        ends.push(fs::metadata(&file).unwrap().len());
    }
    drop((sink, journal));
    let whole = fs::read(&file).unwrap();
    for cut in ends[0] as usize..=whole.len() {
        for garbage in [&b""[..], b"\x01\x00\x00\x00\x20\x00\x00\x00 not a record"] {
            fs::write(&file, [&whole[..cut], garbage].concat()).unwrap();
            let (_sink, journal) = receiver(dir.path(), &entries);
            let intact = ends.iter().filter(|&&end| end as usize <= cut).count() - 1;
            assert_eq!(journal.blocks().len(), intact as u64, "cut at {cut}");
            for (shape, proof) in shapes.iter().zip(&proofs).take(intact) {
                assert_eq!(journal.proof(shape).unwrap().as_ref(), Some(proof));
            }
            if let (Some(shape), Some(proof)) = (shapes.get(intact), proofs.get(intact)) {
                assert_eq!(journal.proof(shape).unwrap(), None);
                journal.record(&[(shape.number, proof.clone())]).unwrap();
                assert_eq!(journal.proof(shape).unwrap().as_ref(), Some(proof), "it goes on after the tear");
            }
        }
    }
    for cut in 0..ends[0] as usize {
        fs::write(&file, &whole[..cut]).unwrap();
        assert!(TreeSink::open(dir.path(), transfer(), Hash([1; 32])).is_err(), "no header: cut at {cut}");
    }
}

#[test]
fn a_damaged_record_and_all_after_it_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (entries, shapes) = two_folders();
    let (sink, journal) = receiver(dir.path(), &entries);
    for shape in &shapes {
        let proof = write_zeros(&sink, shape).unwrap();
        journal.record(&[(shape.number, proof)]).unwrap();
    }
    drop((sink, journal));
    let file = staging(dir.path()).join("journal");
    let whole = fs::read(&file).unwrap();
    for at in 64..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, damaged).unwrap();
        let (_sink, journal) = receiver(dir.path(), &entries);
        assert!(journal.blocks().len() < shapes.len() as u64, "byte {at}");
    }
}

#[test]
fn a_block_that_arrives_again_replaces_what_an_unfinished_writer_left() {
    let dir = tempfile::tempdir().unwrap();
    let (entries, shapes) = two_folders();
    let (sink, journal) = receiver(dir.path(), &entries);
    for shape in &shapes {
        let mut writer = sink.begin(shape).unwrap();
        writer.write(&[IoSlice::new(&vec![b'?'; shape.len as usize / 2])]).unwrap();
        drop(writer);
        let proof = write_zeros(&sink, shape).unwrap();
        journal.record(&[(shape.number, proof)]).unwrap();
    }
    sink.sync().unwrap();
    sink.publish(Overwrite::Refuse).unwrap();
    for (path, seen) in snapshot(dir.path()) {
        let Content::File(bytes) = seen.content else { continue };
        assert!(bytes.iter().all(|&b| b == b'z'), "{}", path.escape_ascii());
    }
}

#[test]
fn more_or_fewer_bytes_than_a_block_has_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut layout = Layout::new();
    layout.append(Some(ByteCount(4))).unwrap();
    layout.seal();
    let shape = layout.shape(BlockNumber(0)).unwrap();
    let (sink, _journal) = receiver(dir.path(), &[file_entry(b"a", 4)]);
    assert!(sink.begin(&shape).unwrap().write(&[IoSlice::new(b"12345")]).is_err());
    let mut writer = sink.begin(&shape).unwrap();
    writer.write(&[IoSlice::new(b"123")]).unwrap();
    assert!(writer.finish().is_err());
}

/// It could be received into once: what the program had made there for itself was closed to it, too.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_hands_on_no_right_to_write_is_received_into_like_any_other() {
    for owner in [5, 0] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("t/large", &vec![7; 3 * BLOCK_SIZE as usize]), ("t/small", b"small")]);
        fs::create_dir(&to).unwrap();
        let opened = fs::File::open(&to).unwrap();
        let list = list_of(&[(1, owner, u32::MAX), (4, 5, u32::MAX), (32, 5, u32::MAX)]);
        if crate::xattrs::set_default_list(std::os::fd::AsFd::as_fd(&opened), Some(&list)).is_err() {
            return;
        }
        without_privileges(|| {
            let sender = Sender::of(from.join("t"));
            let (sink, journal) = receiver(&to, &sender.entries());
            let order = in_order(&sender);
            deliver(&sender, &sink, &journal, &order[..1]);
            drop((sink, journal));
            let (sink, journal) = receiver(&to, &sender.entries());
            deliver(&sender, &sink, &journal, &order[..2]);
            drop((sink, journal));
            // As they are for a moment, in which another channel may open them, or the process be killed.
            for made in ["journal", "lock", "probe", "tree/t/large"] {
                let closed = fs::Permissions::from_mode(u32::from(owner) << 6 & 0o400);
                fs::set_permissions(staging(&to).join(made), closed).unwrap();
            }
            let (sink, journal) = receiver(&to, &sender.entries());
            assert_eq!(journal.blocks().len(), 2);
            deliver(&sender, &sink, &journal, &order);
            sink.publish(Overwrite::Refuse).unwrap();
        });
        assert_eq!(snapshot(&to), snapshot(&from));
    }
}
