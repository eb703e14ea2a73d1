use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use terahaul_core::BLOCK_SIZE;

#[derive(Clone, Debug)]
enum Planted {
    File { size: usize, mode: u32 },
    Folder { mode: u32 },
    Link { target: String },
}

fn planted() -> impl Strategy<Value = Planted> {
    let size = prop_oneof![
        Just(0usize),
        Just(1),
        2usize..5000,
        60_000usize..300_000,
        Just(BLOCK_SIZE as usize),
        BLOCK_SIZE as usize..3 * BLOCK_SIZE as usize,
    ];
    let file_mode = prop_oneof![Just(0o644u32), Just(0o755), Just(0o400), Just(0o666), Just(0o600)];
    prop_oneof![
        6 => (size, file_mode).prop_map(|(size, mode)| Planted::File { size, mode }),
        2 => prop_oneof![Just(0o755u32), Just(0o700), Just(0o555), Just(0o777)].prop_map(|mode| Planted::Folder { mode }),
        1 => "[a-z./]{1,12}".prop_map(|target| Planted::Link { target }),
    ]
}

/// Paths that are all different and never lie in one another except through folders `d…`.
fn tree() -> impl Strategy<Value = BTreeMap<Vec<String>, Planted>> {
    let path = (proptest::collection::vec("d[ab]", 0..4), "[x-z][0-9]").prop_map(|(mut folders, name)| {
        folders.push(name);
        folders
    });
    proptest::collection::btree_map(path, planted(), 0..25)
}

fn grow(dir: &Path, tree: &BTreeMap<Vec<String>, Planted>) {
    for (seed, (names, planted)) in tree.iter().enumerate() {
        let path = dir.join(names.join("/"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match planted {
            Planted::File { size, mode } => {
                let bytes: Vec<u8> = (0..*size).map(|at| ((at * 31 + seed * 7) >> 3) as u8).collect();
                fs::write(&path, bytes).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            Planted::Folder { .. } => fs::create_dir_all(&path).unwrap(),
            Planted::Link { target } => symlink(target, &path).unwrap(),
        }
        date(&path, 1_000_000_000 + seed as i64);
    }
    for (names, planted) in tree.iter().rev() {
        if let Planted::Folder { mode } = planted {
            fs::set_permissions(dir.join(names.join("/")), fs::Permissions::from_mode(*mode)).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_arrives_as_it_was_whatever_the_order_of_its_blocks(
        tree in tree(),
        order in proptest::collection::vec(0usize..1000, 0..60),
        restart in 0usize..40,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(&from).unwrap();
        grow(&from, &tree);
        let sender = Sender::of(from.join(""));
        if !sender.shapes().is_empty() {
            let (sink, journal) = receiver(&to, &sender.entries());
            deliver(&sender, &sink, &journal, &order[..restart.min(order.len())]);
        }
        // Another process goes on.
        let (sink, journal) = receiver(&to, &sender.entries());
        if !sender.shapes().is_empty() {
            deliver(&sender, &sink, &journal, &order);
            deliver(&sender, &sink, &journal, &in_order(&sender));
        }
        sink.publish(Overwrite::Refuse).unwrap();
        prop_assert_eq!(snapshot(&to), snapshot(&from));
        prop_assert!(!staging(&to).exists());
    }
}

#[test]
fn a_folder_two_hundred_deep_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let deep = ["deep"; 200].join("/");
    plant(&dir.path().join("from"), &[(&format!("{deep}/file"), b"x"), (&format!("{deep}/empty/"), b"")]);
    transfer_all(&dir.path().join("from/deep"), &dir.path().join("to"));
    assert_eq!(snapshot(&dir.path().join("to")), snapshot(&dir.path().join("from")));
}

#[test]
fn the_longest_path_there_can_be_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let folder = vec![b'n'; 255];
    // 15 folders of 255 bytes, a short one, and a name that fills the rest: 4,096 bytes with the slashes.
    let mut path = [folder.as_slice(); 15].join(&b'/');
    path.extend(b"/short/");
    path.extend(vec![b'm'; 4096 - path.len()]);
    let (sink, journal) = receiver(dir.path(), &[file_entry(&path, 3)]);
    let mut layout = Layout::new();
    layout.append(Some(terahaul_core::ByteCount(3))).unwrap();
    layout.seal();
    let shape = layout.shape(BlockNumber(0)).unwrap();
    let proof = write_block(&sink, &shape, b"abc").unwrap();
    sink.sync().unwrap();
    journal.record(&[(shape.number, proof)]).unwrap();
    sink.publish(Overwrite::Refuse).unwrap();
    let sender = Sender::of(dir.path().join(OsStr::from_bytes(&folder)));
    assert_eq!(sender.entries().last().unwrap().path.as_bytes(), path);
    assert_eq!(sender.read(&sender.shapes()[0], 10).0, b"abc");
    assert_eq!(sender.failures(), []);
}

#[test]
fn several_channels_read_and_write_at_once_while_the_manifest_grows() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let large = vec![8; 3 * BLOCK_SIZE as usize + 1];
    plant(&from, &[("t/large", &large)]);
    for file in 0..600 {
        plant(&from, &[(&format!("t/{}/{}/{file}", file % 9, file % 5), &vec![file as u8; 40_000])]);
    }
    let sender = Sender::of(from.join("t"));
    let (sink, journal) = receiver(&to, &sender.entries());
    let shapes = sender.shapes();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(shape) = shapes.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let (bytes, failures) = sender.read(shape, 1 << 16);
                    assert_eq!(failures, []);
                    let proof = write_block(&sink, shape, &bytes).unwrap();
                    sink.sync().unwrap();
                    journal.record(&[(shape.number, proof)]).unwrap();
                }
            });
        }
        for late in 0..500 {
            sink.append(&file_entry(format!("late/{late}").as_bytes(), 0)).unwrap();
        }
    });
    assert_eq!(journal.blocks().len(), shapes.len() as u64);
    sink.publish(Overwrite::Refuse).unwrap();
    assert_eq!(snapshot(&to.join("t")), snapshot(&from.join("t")));
    assert_eq!(snapshot(&to.join("late")).len(), 500);
}
