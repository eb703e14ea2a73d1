//! A transfer from the first entry to the receipt, as native sessions use the depot.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use terahaul_core::{
    Address, BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, EntryPath,
    FailureCause, Mtime, RootHasher,
};
use terahaul_depot::{
    Caller, CreateTransfer, Depot, DepotConfig, DepotError, EntryState, Identity, Live, TransferState,
};
use terahaul_store::EntryFailure;

use crate::rig::batch;

pub fn file(path: &str, size: u64) -> Entry {
    Entry {
        path: EntryPath::new(path.as_bytes()).unwrap(),
        kind: EntryKind::File { size: ByteCount(size) },
        mtime: Mtime { seconds: 1_700_000_000, nanos: 7 },
        mode: 0o644,
        extra: None,
    }
}

pub fn content(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub async fn depot(folder: &std::path::Path) -> (Depot, Identity) {
    let depot = Depot::open(DepotConfig::new(folder)).await.unwrap();
    let token = depot.owner_token().await.unwrap();
    let identity = depot.authenticate(&token).await.unwrap();
    (depot, identity)
}

pub fn named(name: &str) -> CreateTransfer {
    CreateTransfer { name: name.into(), resume_key: Some("k".into()), ..CreateTransfer::default() }
}

/// Sends `block` with `bytes`.
pub async fn send(live: &Arc<Live>, block: u32, bytes: Vec<u8>) {
    let live = Arc::clone(live);
    tokio::task::spawn_blocking(move || {
        let mut arrival = live.inbound().begin(BlockNumber(block), bytes.len() as u64).unwrap();
        arrival.write(&[IoSlice::new(&bytes)]).unwrap();
        arrival.finish(None).unwrap();
    })
    .await
    .unwrap();
}

pub fn failure(entry: u32) -> EntryFailure {
    EntryFailure { entry: EntryIndex(entry), cause: FailureCause::Changed, detail: "it grew".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_survives_a_restart_at_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    let large = content(1, BLOCK_SIZE + 5);
    let small = content(2, 1000);

    let (first, identity) = depot(folder.path()).await;
    let created = first.create_transfer(&identity, named("run 7")).await.unwrap();
    assert!(!created.resumed);
    let id = created.info.id;
    let live = first.open_inbound(&identity, id).await.unwrap();
    let entries = vec![file("a/large", large.len() as u64), file("a/small", 1000), file("a/empty", 0)];
    let appended = live.append_entries(batch(0, entries.clone(), false)).await.unwrap();
    assert_eq!(appended.total, 3);
    assert_eq!(appended.placed[1].address.unwrap().0, 2 * BLOCK_SIZE);
    assert!(appended.placed[2].address.is_none());
    send(&live, 1, large[BLOCK_SIZE as usize..].to_vec()).await;
    drop(live);
    first.close().await;
    drop(first);

    let (second, identity) = depot(folder.path()).await;
    let created = second.create_transfer(&identity, named("run 7")).await.unwrap();
    assert!(created.resumed);
    assert_eq!(created.info.id, id);
    assert_eq!(created.info.durable_bytes, 5);
    let live = second.open_inbound(&identity, id).await.unwrap();
    let again = live.append_entries(batch(0, entries.clone(), true)).await.unwrap();
    assert_eq!(
        again.placed[1].address, appended.placed[1].address,
        "a repeated request gets the same answer"
    );
    assert!(matches!(live.finish().await, Err(DepotError::Incomplete { blocks: 2, .. })));
    send(&live, 0, large[..BLOCK_SIZE as usize].to_vec()).await;
    send(&live, 2, small.clone()).await;
    drop(live);
    second.close().await;
    drop(second);

    let (third, identity) = depot(folder.path()).await;
    let live = third.open_inbound(&identity, id).await.unwrap();
    let finished = live.finish().await.unwrap();
    assert_eq!(finished.state, TransferState::Complete);
    finished.statement.verify(&finished.signature).unwrap();
    let mut root = RootHasher::default();
    for (entry, bytes) in entries.iter().zip([&large[..], &small, b""]) {
        root.update(entry, Some(terahaul_core::Hash(*blake3::hash(bytes).as_bytes())));
    }
    assert_eq!(finished.statement.root, root.finish());
    assert!(matches!(
        live.append_entries(batch(3, vec![file("late", 1)], true)).await,
        Err(DepotError::NotOpen)
    ));
    drop(live);
    third.close().await;
    drop(third);

    let (fourth, identity) = depot(folder.path()).await;
    let caller = Caller::Token(identity);
    let published = fourth.open_published(&caller, id).await.unwrap();
    assert_eq!(published.finished().signature, finished.signature);
    let extent = published.extent(EntryIndex(0)).unwrap();
    let mut bytes = vec![0; large.len()];
    published.flat().read_at(extent.address, &mut bytes).unwrap();
    assert!(bytes == large);
    let source = published.source();
    let value = tokio::task::spawn_blocking(move || {
        terahaul_store::BlockSource::known_value(&source, BlockNumber(2)).unwrap().unwrap()
    });
    let expected =
        terahaul_core::BlockProof::Packed(vec![terahaul_core::Hash(*blake3::hash(&small).as_bytes())]);
    assert_eq!(value.await.unwrap(), expected.value());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_fails_alone_and_its_successor_makes_the_transfer_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let id = depot.create_transfer(&identity, named("t")).await.unwrap().info.id;
    let live = depot.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", 10), file("b", 2 * BLOCK_SIZE)], true)).await.unwrap();
    send(&live, 0, content(0, 10)).await;
    live.fail_entries(vec![failure(1), failure(1)]).await.unwrap();
    let finished = live.finish().await.unwrap();
    assert_eq!((finished.state, finished.statement.failed), (TransferState::Partial, 1));
    assert_eq!(finished.statement.entries, 1);
    assert!(
        matches!(live.finish().await.unwrap().state, TransferState::Partial),
        "finishing twice is one finish"
    );
    drop(live);

    let caller = Caller::Token(identity.clone());
    let entries = depot.entries(&caller, id, 0, 10).await.unwrap();
    assert_eq!(entries[0].state, EntryState::Complete);
    assert_eq!(entries[1].state, EntryState::Failed);
    assert!(entries[1].reason.as_deref().unwrap().contains("it grew"));

    let again = depot.create_transfer(&identity, named("t")).await.unwrap();
    assert_eq!((again.info.id, again.info.state, again.info.failed), (id, TransferState::Partial, 1));
    let live = depot.open_inbound(&identity, id).await.unwrap();
    let appended = live.append_entries(batch(2, vec![file("b", 20)], true)).await.unwrap();
    let block = appended.placed[0].address.unwrap().block().unwrap();
    send(&live, block.0, content(1, 20)).await;
    let finished = live.finish().await.unwrap();
    assert_eq!((finished.state, finished.statement.failed), (TransferState::Complete, 0));
    assert_eq!(depot.transfer(&caller, id).await.unwrap().failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_takes_only_what_continues_it() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let id = depot.create_transfer(&identity, named("t")).await.unwrap().info.id;
    let live = depot.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", 10)], false)).await.unwrap();
    let gap = live.append_entries(batch(2, vec![file("c", 1)], false)).await;
    assert!(matches!(gap, Err(DepotError::ManifestGap { first: 2, total: 1 })));
    let differs = live.append_entries(batch(0, vec![file("a", 11)], false)).await;
    assert!(matches!(differs, Err(DepotError::ManifestDiffers { entry: 0 })));
    let duplicate = live.append_entries(batch(1, vec![file("b", 1), file("a", 1)], false)).await;
    assert!(matches!(duplicate, Err(DepotError::DuplicatePath { .. })));
    let twice = live.append_entries(batch(1, vec![file("b", 1), file("b", 1)], false)).await;
    assert!(matches!(twice, Err(DepotError::DuplicatePath { .. })));
    let huge = live.append_entries(batch(1, vec![file("b", u64::MAX)], false)).await;
    assert!(matches!(huge, Err(DepotError::TooLarge)));
    let mut odd = file("b", 1);
    odd.mode = 0o10_0644;
    assert!(matches!(
        live.append_entries(batch(1, vec![odd], false)).await,
        Err(DepotError::BadEntry { .. })
    ));
    let overlapping = live.append_entries(batch(0, vec![file("a", 10), file("b", 1)], true)).await.unwrap();
    assert_eq!(overlapping.total, 2, "nothing of what was refused stayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_of_a_transfer_that_is_removed_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let caller = Caller::Token(identity.clone());
    for finished in [false, true] {
        let id = depot.create_transfer(&identity, named("t")).await.unwrap().info.id;
        let live = depot.open_inbound(&identity, id).await.unwrap();
        live.append_entries(batch(0, vec![file("a", 0)], true)).await.unwrap();
        live.append_entries(batch(1, vec![file("b", 0)], true)).await.unwrap();
        let mut manifest = if finished {
            live.finish().await.unwrap();
            depot.open_published(&caller, id).await.unwrap().manifest(0).unwrap()
        } else {
            live.manifest(0).unwrap()
        };
        assert_eq!(manifest.next().await.unwrap().unwrap().entries.len(), 1);
        depot.delete_transfer(&caller, id).await.unwrap();
        assert!(matches!(manifest.next().await, Err(DepotError::NoTransfer)), "finished: {finished}");
    }
}

/// As docs/operations.md has it: what is in a folder is copied over what the copy has of it, of which nothing is removed.
fn copy_over(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// What is finished or taken up again while a backup is made is in it twice, and then no finish came to an end.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_depot_goes_on_after_it_is_restored() {
    let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copied = |part: &str| copy_over(&folder.path().join(part), &backup.path().join(part));
    let (first, identity) = depot(folder.path()).await;
    let [open, partial] =
        ["open", "partial"].map(|key| CreateTransfer { resume_key: Some(key.into()), ..named(key) });
    let open = first.create_transfer(&identity, open).await.unwrap().info.id;
    let sending = first.open_inbound(&identity, open).await.unwrap();
    sending.append_entries(batch(0, vec![file("a", BLOCK_SIZE + 5)], true)).await.unwrap();
    send(&sending, 1, content(1, 5)).await;
    let inbound = Arc::clone(sending.inbound());
    tokio::task::spawn_blocking(move || inbound.flush()).await.unwrap().unwrap();
    let partial = first.create_transfer(&identity, partial).await.unwrap().info.id;
    let finished = first.open_inbound(&identity, partial).await.unwrap();
    finished
        .append_entries(batch(0, vec![file("a", BLOCK_SIZE), file("b", BLOCK_SIZE)], true))
        .await
        .unwrap();
    send(&finished, 0, content(2, BLOCK_SIZE)).await;
    finished.fail_entries(vec![failure(1)]).await.unwrap();
    finished.finish().await.unwrap();
    drop(finished);

    let database = SqliteConnectOptions::new().filename(folder.path().join("depot.db"));
    let mut database = SqliteConnection::connect_with(&database).await.unwrap();
    let vacuum = format!("VACUUM INTO '{}'", backup.path().join("depot.db").display());
    sqlx::query(&vacuum).execute(&mut database).await.unwrap();
    copied("keys");
    copied("store/incoming");
    send(&sending, 0, content(0, BLOCK_SIZE)).await;
    sending.finish().await.unwrap();
    copied("store/published");
    let reopened = first.open_inbound(&identity, partial).await.unwrap();
    reopened.append_entries(batch(2, vec![file("c", 1)], true)).await.unwrap();
    copied("store/incoming");

    let (restored, identity) = depot(backup.path()).await;
    let caller = Caller::Token(identity.clone());
    let live = restored.open_inbound(&identity, open).await.unwrap();
    assert_eq!(live.durable(), [BlockRun { first: BlockNumber(1), count: 1 }]);
    send(&live, 0, content(0, BLOCK_SIZE)).await;
    assert_eq!(live.finish().await.unwrap().state, TransferState::Complete);
    let mut bytes = vec![0; BLOCK_SIZE as usize + 5];
    restored.open_published(&caller, open).await.unwrap().flat().read_at(Address(0), &mut bytes).unwrap();
    assert!(bytes == [content(0, BLOCK_SIZE), content(1, 5)].concat());

    let read = restored.open_published(&caller, partial).await.unwrap();
    read.flat().read_at(Address(0), &mut bytes[..BLOCK_SIZE as usize]).unwrap();
    assert!(bytes[..BLOCK_SIZE as usize] == content(2, BLOCK_SIZE));
    let live = restored.open_inbound(&identity, partial).await.unwrap();
    live.append_entries(batch(2, vec![file("d", 0)], true)).await.unwrap();
    assert_eq!(live.finish().await.unwrap().state, TransferState::Partial);
    for (place, id) in [("published", open), ("incoming", partial)] {
        let aside = backup.path().join(format!("store/{place}/{id}.data.aside"));
        assert!(aside.exists(), "{}", aside.display());
    }
}

/// A start without the database, or with one that was restored and is older, removed what open transfers had, with a line at INFO; one with a
/// database that had come empty made a new depot of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_does_not_know_of_is_not_removed() {
    let (folder, restored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, identity) = depot(folder.path()).await;
    let older = SqliteConnectOptions::new().filename(folder.path().join("depot.db"));
    let mut older = SqliteConnection::connect_with(&older).await.unwrap();
    let vacuum = format!("VACUUM INTO '{}'", folder.path().join("older.db").display());
    sqlx::query(&vacuum).execute(&mut older).await.unwrap();
    let id = first.create_transfer(&identity, named("open")).await.unwrap().info.id;
    let sending = first.open_inbound(&identity, id).await.unwrap();
    sending.append_entries(batch(0, vec![file("a", BLOCK_SIZE)], true)).await.unwrap();
    send(&sending, 0, content(0, BLOCK_SIZE)).await;
    let unwritten = CreateTransfer { resume_key: Some("other".into()), ..named("unwritten") };
    let unwritten = first.create_transfer(&identity, unwritten).await.unwrap().info.id;
    for part in ["keys", "store/incoming", "store/published"] {
        copy_over(&folder.path().join(part), &restored.path().join(part));
    }

    let database = restored.path().join("depot.db");
    let refused = Depot::open(DepotConfig::new(restored.path())).await;
    assert!(matches!(&refused, Err(DepotError::NoDatabase(path)) if *path == database));
    assert!(!database.exists(), "the next start says the same");

    let young = restored.path().join("young.db");
    let emptied = SqliteConnectOptions::new().filename(&young).create_if_missing(true);
    let mut emptied = SqliteConnection::connect_with(&emptied).await.unwrap();
    sqlx::query("PRAGMA journal_mode = wal").execute(&mut emptied).await.unwrap();
    drop(emptied);
    let without_tables = std::fs::read(young).unwrap();
    assert_eq!(without_tables.len(), 4096);
    let log = restored.path().join("depot.db-wal");
    for left in [vec![], without_tables] {
        std::fs::write(&database, &left).unwrap();
        std::fs::write(&log, "what a restore of both put there").unwrap();
        let refused = Depot::open(DepotConfig::new(restored.path())).await;
        assert!(matches!(&refused, Err(DepotError::NoDatabase(path)) if *path == database));
        assert!(std::fs::read(&database).unwrap() == left, "nothing is made of it");
        assert!(log.exists());
    }
    std::fs::remove_file(log).unwrap();
    drop(std::fs::remove_file(restored.path().join("depot.db-shm")));

    std::fs::copy(folder.path().join("older.db"), &database).unwrap();
    depot(restored.path()).await;
    let object = |id| restored.path().join(format!("store/incoming/{id}.data"));
    assert!(std::fs::read(object(id)).unwrap() == content(0, BLOCK_SIZE));
    assert!(!object(unwritten).exists(), "a stop before the record leaves such a one");
}

/// The depot signed for bytes that were not there.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_store_lacks_of_an_open_transfer_is_sent_again_before_it_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let (first, identity) = depot(folder.path()).await;
    let id = first.create_transfer(&identity, named("open")).await.unwrap().info.id;
    let live = first.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", 2 * BLOCK_SIZE), file("b", 5)], true)).await.unwrap();
    let parts = [content(0, BLOCK_SIZE), content(1, BLOCK_SIZE), content(2, 5)];
    for (block, part) in (0..).zip(&parts) {
        send(&live, block, part.clone()).await;
    }
    drop(live);
    first.close().await;
    let cut = |len| {
        let path = folder.path().join(format!("store/incoming/{id}.data"));
        std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
    };
    cut(BLOCK_SIZE + 7);

    let (depot, identity) = depot(folder.path()).await;
    let caller = Caller::Token(identity.clone());
    let durable = async |depot: &Depot| depot.transfer(&caller, id).await.unwrap().durable_bytes;
    let of = |first, count| [BlockRun { first: BlockNumber(first), count }];
    let live = depot.open_inbound(&identity, id).await.unwrap();
    // Any of them may be a hole by now.
    assert_eq!((live.durable(), durable(&depot).await), (Vec::new(), 0));
    assert!(
        matches!(live.finish().await, Err(DepotError::Incomplete { missing, .. }) if missing == of(0, 3))
    );
    let send_all = async |live: &Arc<Live>| {
        for (block, part) in (0..).zip(&parts) {
            send(live, block, part.clone()).await;
        }
    };
    send_all(&live).await;
    // Its last byte, of a depot that runs.
    cut(2 * BLOCK_SIZE + 4);
    assert!(matches!(live.finish().await, Err(DepotError::Closed)));
    let live = depot.open_inbound(&identity, id).await.unwrap();
    assert_eq!(live.durable(), Vec::new());
    send_all(&live).await;
    assert_eq!(live.finish().await.unwrap().state, TransferState::Complete);
    let mut bytes = vec![0; 2 * BLOCK_SIZE as usize + 5];
    depot.open_published(&caller, id).await.unwrap().flat().read_at(Address(0), &mut bytes).unwrap();
    assert!(bytes == parts.concat());
}

/// A block that was under way when the copy was made hid that others came after it, and the depot signed for them.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_store_lacks_is_sent_again_however_long_its_files_are() {
    let (folder, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, identity) = depot(folder.path()).await;
    let id = first.create_transfer(&identity, named("open")).await.unwrap().info.id;
    let live = first.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", BLOCK_SIZE), file("b", 5)], true)).await.unwrap();
    send(&live, 1, content(1, 5)).await;
    let incoming = folder.path().join("store/incoming");
    copy_over(&incoming, older.path());
    send(&live, 0, content(0, BLOCK_SIZE)).await;
    drop(live);
    first.close().await;

    // As it was left, nothing is sent again.
    let (second, identity) = depot(folder.path()).await;
    let live = second.open_inbound(&identity, id).await.unwrap();
    assert_eq!(live.durable(), [BlockRun { first: BlockNumber(0), count: 2 }]);
    drop(live);
    second.close().await;

    copy_over(older.path(), &incoming);
    let (third, identity) = depot(folder.path()).await;
    let live = third.open_inbound(&identity, id).await.unwrap();
    assert_eq!(live.durable(), []);
    send(&live, 0, content(0, BLOCK_SIZE)).await;
    drop(live);
    third.close().await;

    let (fourth, identity) = depot(folder.path()).await;
    let live = fourth.open_inbound(&identity, id).await.unwrap();
    assert_eq!(live.durable(), [BlockRun { first: BlockNumber(0), count: 1 }]);
    send(&live, 1, content(1, 5)).await;
    live.finish().await.unwrap();
    let caller = Caller::Token(identity);
    let mut bytes = vec![0; BLOCK_SIZE as usize + 5];
    fourth.open_published(&caller, id).await.unwrap().flat().read_at(Address(0), &mut bytes).unwrap();
    assert!(bytes == [content(0, BLOCK_SIZE), content(1, 5)].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_store_lacks_of_a_finished_transfer_is_not_said_to_be_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let id = depot.create_transfer(&identity, named("t")).await.unwrap().info.id;
    let live = depot.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", BLOCK_SIZE), file("b", BLOCK_SIZE)], true)).await.unwrap();
    send(&live, 0, content(0, BLOCK_SIZE)).await;
    live.fail_entries(vec![failure(1)]).await.unwrap();
    live.finish().await.unwrap();
    live.finish().await.unwrap();
    drop(live);
    let path = folder.path().join(format!("store/published/{id}.data"));
    std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    depot.close().await;
    let (depot, identity) = self::depot(folder.path()).await;
    let refused = depot.open_inbound(&identity, id).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("shorter") && refused.contains(&format!("terahaul remove {id}")), "{refused}");
}
