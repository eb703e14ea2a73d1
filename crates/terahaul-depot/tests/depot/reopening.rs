//! A partial transfer is sent again: what becomes of its link and its receipt.

use terahaul_core::{BLOCK_SIZE, ByteCount, EntryIndex, TransferId};
use terahaul_depot::{Caller, Depot, DepotConfig, DepotError, Identity, TransferState};

use crate::rig::batch;
use crate::transfers::{content, failure, file, named, send};

const QUOTA: u64 = 3 * BLOCK_SIZE;

async fn depot(folder: &std::path::Path) -> (Depot, Identity) {
    let config = DepotConfig { quota: Some(ByteCount(QUOTA)), ..DepotConfig::new(folder) };
    let depot = Depot::open(config).await.unwrap();
    let token = depot.owner_token().await.unwrap();
    let identity = depot.authenticate(&token).await.unwrap();
    (depot, identity)
}

/// A transfer whose file `a` of a block has arrived, and whose file `b` has not. Returns its signature, too.
async fn partial(depot: &Depot, identity: &Identity) -> (TransferId, String) {
    let id = depot.create_transfer(identity, named("t")).await.unwrap().info.id;
    let live = depot.open_inbound(identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("a", BLOCK_SIZE), file("b", BLOCK_SIZE)], true)).await.unwrap();
    send(&live, 0, content(0, BLOCK_SIZE)).await;
    live.fail_entries(vec![failure(1)]).await.unwrap();
    let finished = live.finish().await.unwrap();
    assert_eq!(finished.state, TransferState::Partial);
    (id, finished.signature)
}

async fn assert_stands(depot: &Depot, identity: &Identity, (id, signature): &(TransferId, String)) {
    let caller = Caller::Token(identity.clone());
    assert_eq!(depot.transfer(&caller, *id).await.unwrap().state, TransferState::Partial);
    let published = depot.open_published(&caller, *id).await.unwrap();
    assert_eq!(published.finished().signature, *signature);
    let extent = published.extent(EntryIndex(0)).expect("it has not failed");
    let mut bytes = vec![0; BLOCK_SIZE as usize];
    published.flat().read_at(extent.address, &mut bytes).unwrap();
    assert!(bytes == content(0, BLOCK_SIZE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_transfer_stands_while_what_it_is_sent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let made = partial(&depot, &identity).await;
    let caller = Caller::Token(identity.clone());
    let read_before = depot.open_published(&caller, made.0).await.unwrap();
    depot.create_transfer(&identity, named("t")).await.unwrap();
    let live = depot.open_inbound(&identity, made.0).await.unwrap();
    assert_stands(&depot, &identity, &made).await;
    // A file that has grown: its old entry fails, and the new one finds no room.
    live.fail_entries(vec![failure(0)]).await.unwrap();
    let refused = live.append_entries(batch(2, vec![file("a", QUOTA)], true)).await;
    assert!(matches!(refused, Err(DepotError::Quota { .. })));
    assert_stands(&depot, &identity, &made).await;
    assert!(!read_before.is_closed(), "whoever reads it goes on");
    drop(live);
    let live = depot.open_inbound(&identity, made.0).await.unwrap();
    assert!(!live.failed().contains(&EntryIndex(0)), "what came to nothing is forgotten");
    assert_eq!(live.finish().await.unwrap().signature, made.1, "nothing has changed");
    assert_stands(&depot, &identity, &made).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_transfer_is_open_again_once_it_takes_more_and_so_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (first, identity) = depot(folder.path()).await;
    let (id, signature) = partial(&first, &identity).await;
    let caller = Caller::Token(identity.clone());
    let read_before = first.open_published(&caller, id).await.unwrap();
    let live = first.open_inbound(&identity, id).await.unwrap();
    live.fail_entries(vec![failure(0)]).await.unwrap();
    let appended = live.append_entries(batch(2, vec![file("a", 10), file("b", 20)], true)).await.unwrap();
    assert_eq!(first.transfer(&caller, id).await.unwrap().state, TransferState::Open);
    assert!(read_before.is_closed());
    assert!(matches!(first.open_published(&caller, id).await, Err(DepotError::NotFinished)));
    assert!(folder.path().join(format!("store/incoming/{id}.data")).exists());
    drop((live, read_before));
    first.close().await;
    drop(first);
    // As a stop between the row and the object leaves it.
    let name = format!("{id}.data");
    let [incoming, published] =
        ["incoming", "published"].map(|place| folder.path().join("store").join(place).join(&name));
    std::fs::rename(incoming, published).unwrap();

    let (second, identity) = depot(folder.path()).await;
    let live = second.open_inbound(&identity, id).await.unwrap();
    assert_eq!(live.failed().len(), 2, "what failed with it is recorded");
    let block = appended.placed[0].address.unwrap().block().unwrap();
    send(&live, block.0, content(1, 30)).await;
    let finished = live.finish().await.unwrap();
    assert_eq!((finished.state, finished.statement.entries), (TransferState::Complete, 2));
    assert_ne!(finished.signature, signature);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_alone_open_a_partial_transfer_again_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let made = partial(&depot, &identity).await;
    let live = depot.open_inbound(&identity, made.0).await.unwrap();
    live.fail_entries(vec![failure(0)]).await.unwrap();
    assert_stands(&depot, &identity, &made).await;
    let finished = live.finish().await.unwrap();
    assert_eq!((finished.statement.entries, finished.statement.failed), (0, 2));
}

/// A file that grows, sent again and again, would use up the quota and the disk with what nobody can read.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_an_entry_that_has_failed_is_given_back() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let (id, _) = partial(&depot, &identity).await;
    let caller = Caller::Token(identity.clone());
    for round in 0..4 {
        let live = depot.open_inbound(&identity, id).await.unwrap();
        let last = if round == 0 { 0 } else { round + 1 };
        live.fail_entries(vec![failure(last)]).await.unwrap();
        let appended =
            live.append_entries(batch(round + 2, vec![file("a", BLOCK_SIZE)], true)).await.unwrap();
        let block = appended.placed[0].address.unwrap().block().unwrap();
        send(&live, block.0, content(u64::from(round), BLOCK_SIZE)).await;
        let finished = live.finish().await.unwrap();
        assert_eq!((finished.statement.entries, finished.statement.bytes.0), (1, BLOCK_SIZE));
        let shown = depot.transfer(&caller, id).await.unwrap();
        assert_eq!(shown.durable_bytes, BLOCK_SIZE, "round {round}");
        let kept = folder.path().join(format!("store/published/{id}.data")).metadata().unwrap();
        assert!(kept.blocks() * 512 <= BLOCK_SIZE + 65_536, "{} bytes on the disk", kept.blocks() * 512);
        let published = depot.open_published(&caller, id).await.unwrap();
        let mut bytes = vec![0; BLOCK_SIZE as usize];
        published.flat().read_at(block.address(), &mut bytes).unwrap();
        assert!(bytes == content(u64::from(round), BLOCK_SIZE));
    }
    // As a new start finds it.
    depot.close().await;
    drop(depot);
    let (depot, identity) = self::depot(folder.path()).await;
    let live = depot.open_inbound(&identity, id).await.unwrap();
    let held: u32 = live.durable().iter().map(|run| run.count).sum();
    assert_eq!((held, live.failed().len()), (1, 5));
    live.append_entries(batch(6, vec![file("c", QUOTA - BLOCK_SIZE)], true)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_withheld_is_given_back_once_a_partial_transfer_is_open_again() {
    let folder = tempfile::tempdir().unwrap();
    let (depot, identity) = depot(folder.path()).await;
    let (id, _) = partial(&depot, &identity).await;
    let live = depot.open_inbound(&identity, id).await.unwrap();
    live.fail_entries(vec![failure(0)]).await.unwrap();
    live.append_entries(batch(2, vec![file("a", BLOCK_SIZE)], true)).await.unwrap();
    let shown = depot.transfer(&Caller::Token(identity), id).await.unwrap();
    assert_eq!(shown.durable_bytes, 0);
    live.append_entries(batch(3, vec![file("c", QUOTA - BLOCK_SIZE)], true)).await.unwrap();
}
