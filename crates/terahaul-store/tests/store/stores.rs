//! Every store passes the suite; the directory store besides keeps its promises about the file system.

use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_core::{Address, ByteCount, Extent, TransferId};
use terahaul_store::power_cut::PowerCutDisk;
use terahaul_store::{DirectoryStore, MemoryStore, Store, StoreError, StorePlace, conformance};

const ID: TransferId = TransferId([5; 16]);

#[test]
fn memory_keeps_a_stores_promises() {
    conformance::suite(MemoryStore::new);
}

#[test]
fn a_directory_keeps_a_stores_promises() {
    let root = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    conformance::suite(|| {
        number.set(number.get() + 1);
        DirectoryStore::open(root.path().join(number.get().to_string())).unwrap()
    });
}

#[test]
fn a_directory_on_tmpfs_keeps_a_stores_promises() {
    let Ok(root) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm here");
        return;
    };
    let number = std::cell::Cell::new(0);
    conformance::suite(|| {
        number.set(number.get() + 1);
        DirectoryStore::open(root.path().join(number.get().to_string())).unwrap()
    });
    let store = DirectoryStore::open(root.path().join("sparse")).unwrap();
    let transfer = store.create(ID).unwrap();
    transfer.reserve(Extent { address: Address(0), size: ByteCount(1 << 40) }).unwrap();
    let file = root.path().join("sparse/incoming").join(format!("{ID}.data")).metadata().unwrap();
    assert_eq!(file.len(), 1 << 40);
    assert!(file.blocks() * 512 < 1 << 20, "a declared terabyte takes no memory");
}

#[test]
fn a_disk_that_may_lose_power_keeps_a_stores_promises_while_it_does_not() {
    conformance::suite(|| DirectoryStore::over(PowerCutDisk::new()));
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_is_stored_survives_a_restart_and_is_the_owners_alone() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("depot/blobs");
    let store = DirectoryStore::open(&root).unwrap();
    let transfer = store.create(ID).unwrap();
    transfer.write_at(Address(0), &[IoSlice::new(b"secret")]).unwrap();
    transfer.sync().unwrap();
    let data = root.join("incoming").join(format!("{ID}.data"));
    assert_eq!(mode(&data), 0o600);
    std::fs::set_permissions(root.join("incoming"), PermissionsExt::from_mode(0o755)).unwrap();
    drop((store, transfer));

    let store = DirectoryStore::open(&root).unwrap();
    for folder in [&root, &root.join("incoming"), &root.join("published")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    std::fs::write(root.join("incoming/notes.txt"), "not a transfer").unwrap();
    assert_eq!(store.list().unwrap(), [(ID, StorePlace::Incoming)]);
    store.publish(ID).unwrap();
    assert!(!data.exists());
    assert_eq!(std::fs::read(root.join("published").join(format!("{ID}.data"))).unwrap(), b"secret");
    assert!(store.free_space().unwrap().unwrap().0 > 0);
}

#[test]
fn a_symbolic_link_in_the_store_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    std::fs::write(&outside, "untouched").unwrap();
    let store = DirectoryStore::open(root.path().join("store")).unwrap();
    symlink(&outside, root.path().join("store/incoming").join(format!("{ID}.data"))).unwrap();
    assert!(matches!(store.open(ID), Err(StoreError::Io(_))));
    assert!(matches!(store.create(ID), Err(StoreError::Io(_))));
    store.remove(ID).unwrap();
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "untouched");

    let elsewhere = root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::create_dir(root.path().join("trap")).unwrap();
    symlink(&elsewhere, root.path().join("trap/incoming")).unwrap();
    assert!(DirectoryStore::open(root.path().join("trap")).is_err());
}

#[test]
fn a_folder_or_pipe_under_a_transfers_name_is_an_error_not_a_hang() {
    let root = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(root.path()).unwrap();
    let path = root.path().join("incoming").join(format!("{ID}.data"));
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    assert!(matches!(store.open(ID), Err(StoreError::Io(_))));
}

#[test]
fn more_than_the_disk_holds_is_refused_as_full() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = DirectoryStore::open(root.path()).unwrap();
    let transfer = store.create(ID).unwrap();
    let result = transfer.reserve(Extent { address: Address(0), size: ByteCount(1 << 43) });
    if let Err(error) = result {
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    } else {
        assert!(store.free_space().unwrap().unwrap().0 > 1 << 40, "only a huge disk takes this");
    }
    store.remove(ID).unwrap();
}

#[test]
fn others_can_write_while_more_than_the_disk_holds_is_refused() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = DirectoryStore::open(root.path()).unwrap();
    let transfer = store.create(ID).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| {
            for _ in 0..20 {
                let _ = transfer.reserve(Extent { address: Address(0), size: ByteCount(1 << 43) });
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            std::fs::write(root.path().join("other"), [1; 8192]).expect("room for others");
        }
        refused.join().unwrap();
    });
}

#[test]
fn a_memory_store_is_full_at_its_limit_and_has_room_again_after_a_removal() {
    let store = MemoryStore::with_limit(ByteCount(1000));
    let transfer = store.create(ID).unwrap();
    transfer.reserve(Extent { address: Address(1 << 40), size: ByteCount(600) }).unwrap();
    transfer.write_at(Address(1 << 40), &[IoSlice::new(&[1; 600])]).unwrap();
    assert_eq!(store.free_space().unwrap(), Some(ByteCount(400)), "reserved space is paid for once");
    assert!(matches!(transfer.write_at(Address(0), &[IoSlice::new(&[1; 401])]), Err(StoreError::Full(_))));
    transfer.write_at(Address(0), &[IoSlice::new(&[1; 400])]).unwrap();
    drop(transfer);
    store.remove(ID).unwrap();
    assert_eq!(store.free_space().unwrap(), Some(ByteCount(1000)));
}
