//! Every store passes the suite; the directory store besides keeps its promises about the file system.

use std::io::{self, IoSlice};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use terahaul_core::{Address, ByteCount, TransferId};
use terahaul_store::power_cut::PowerCutDisk;
use terahaul_store::{DirectoryStore, MemoryStore, SinkError, Store, StoreError, StorePlace, conformance};

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

/// The store was opened, and each transfer failed when it was finished, as a disk that is to be checked.
#[test]
fn folders_of_two_file_systems_are_no_store() {
    let [root, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    std::fs::create_dir(root.path().join("incoming")).unwrap();
    symlink(other.path(), root.path().join("published")).unwrap();
    let refused = DirectoryStore::open(root.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Apart(_)) && refused.to_string().contains("one file system"));
    let moved = StoreError::from(std::io::Error::from(std::io::ErrorKind::CrossesDevices));
    assert!(matches!(moved, StoreError::Apart(_)) && !moved.to_string().contains("check its disk"));
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
fn a_file_system_that_takes_no_file_so_long_is_not_called_a_full_disk() {
    let too_long = || io::Error::from(io::ErrorKind::FileTooLarge);
    let errors = [StoreError::from(too_long()).to_string(), SinkError::from(too_long()).to_string()];
    let through_a_sink = SinkError::from(StoreError::from(too_long()));
    assert!(!through_a_sink.is_full());
    for error in errors.into_iter().chain([through_a_sink.to_string()]) {
        assert!(error.contains("no file that long") && !error.contains("full"), "{error}");
    }
}

/// Asked of the file system itself, whichever the tests run on.
#[test]
fn a_directory_takes_what_its_file_system_takes_in_one_file() {
    for root in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")].into_iter().flatten() {
        let store = DirectoryStore::open(root.path()).unwrap();
        let transfer = store.create(ID).unwrap();
        transfer.write_at(Address(0), &[IoSlice::new(b"kept")]).unwrap();
        let other = tempfile::tempfile_in(root.path()).unwrap();
        // The last two are on both sides of what ext4 takes.
        for len in [1, 1 << 40, 1 << 50, i64::MAX as u64, (1 << 44) - 4096, 1 << 44] {
            let taken = other.set_len(len).is_ok();
            assert_eq!(transfer.takes(ByteCount(len)), taken, "{len} bytes in {}", root.path().display());
        }
        assert!(!transfer.takes(ByteCount(u64::MAX)));
        let found = std::fs::read(root.path().join(format!("incoming/{ID}.data"))).unwrap();
        assert_eq!(found, b"kept");
    }
}

#[test]
fn a_memory_store_takes_no_object_that_is_longer_than_its_longest() {
    let store = MemoryStore::with_longest(ByteCount(10));
    let transfer = store.create(ID).unwrap();
    assert!(transfer.takes(ByteCount(10)) && !transfer.takes(ByteCount(11)));
    transfer.write_at(Address(5), &[IoSlice::new(b"12345")]).unwrap();
    let beyond = transfer.write_at(Address(6), &[IoSlice::new(b"12345")]);
    assert!(matches!(beyond, Err(StoreError::TooLong(_))), "{beyond:?}");
}

#[test]
fn a_move_that_a_power_cut_stopped_half_way_is_finished_by_the_next() {
    for (from, to) in [("incoming", "published"), ("published", "incoming")] {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path()).unwrap();
        let transfer = store.create(ID).unwrap();
        transfer.write_at(Address(0), &[IoSlice::new(b"kept")]).unwrap();
        let [old, new] = [from, to].map(|folder| root.path().join(folder).join(format!("{ID}.data")));
        if from == "published" {
            store.publish(ID).unwrap();
        }
        std::fs::hard_link(&old, &new).unwrap();
        let moved = if to == "published" { store.publish(ID) } else { store.reopen(ID) };
        moved.unwrap();
        assert!(!old.exists());
        assert_eq!(std::fs::read(new).unwrap(), b"kept");
    }
}

#[test]
fn another_file_under_a_published_name_is_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(root.path()).unwrap();
    store.create(ID).unwrap();
    let other = root.path().join("published").join(format!("{ID}.data"));
    std::fs::write(&other, "another's").unwrap();
    assert!(matches!(store.publish(ID), Err(StoreError::Exists(_))));
    assert_eq!(std::fs::read_to_string(other).unwrap(), "another's");
}

#[test]
fn of_two_files_of_a_transfer_one_is_set_aside_and_not_of_one_with_two_names() {
    let name = format!("{ID}.data");
    for kept in [StorePlace::Incoming, StorePlace::Published] {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path()).unwrap();
        let [incoming, published] =
            ["incoming", "published"].map(|folder| root.path().join(folder).join(&name));
        assert!(!store.set_aside(ID, kept).unwrap());
        store.create(ID).unwrap();
        assert!(!store.set_aside(ID, kept).unwrap());
        std::fs::hard_link(&incoming, &published).unwrap();
        assert!(!store.set_aside(ID, kept).unwrap());
        std::fs::remove_file(&published).unwrap();
        std::fs::write(&published, "another's").unwrap();
        assert!(store.set_aside(ID, kept).unwrap());
        assert_eq!(store.list().unwrap(), [(ID, kept)]);
        let other = if kept == StorePlace::Incoming { published } else { incoming };
        assert!(other.with_extension("data.aside").exists());
    }
}

#[test]
fn a_memory_store_is_full_at_its_limit_and_has_room_again_after_a_removal() {
    let store = MemoryStore::with_limit(ByteCount(1000));
    let transfer = store.create(ID).unwrap();
    for _ in 0..2 {
        transfer.write_at(Address(1 << 40), &[IoSlice::new(&[1; 600])]).unwrap();
    }
    assert_eq!(store.free_space().unwrap(), Some(ByteCount(400)), "a byte is paid for once");
    assert!(matches!(transfer.write_at(Address(0), &[IoSlice::new(&[1; 401])]), Err(StoreError::Full(_))));
    transfer.write_at(Address(0), &[IoSlice::new(&[1; 400])]).unwrap();
    drop(transfer);
    store.remove(ID).unwrap();
    assert_eq!(store.free_space().unwrap(), Some(ByteCount(1000)));
}
