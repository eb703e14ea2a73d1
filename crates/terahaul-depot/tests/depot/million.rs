//! A transfer of 1,000,000 small files, and one of 1 TB: memory and time. Long, so only `--ignored` runs them.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use crate::rig::{Rig, batch};
use terahaul_core::{BlockNumber, ByteCount, Entry, EntryKind, EntryPath, Mtime};
use terahaul_depot::{Caller, CreateTransfer, TransferState};

/// The most memory this process has had, in MiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn file(path: String, size: u64) -> Entry {
    Entry {
        path: EntryPath::new(path.into_bytes()).unwrap(),
        kind: EntryKind::File { size: ByteCount(size) },
        mtime: Mtime::default(),
        mode: 0o644,
        extra: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute"]
async fn a_million_small_files_cost_seconds_and_bounded_memory() {
    let rig = Rig::new().await;
    let identity = rig.depot.authenticate(&rig.token).await.unwrap();
    let new = CreateTransfer { name: "million".into(), ..CreateTransfer::default() };
    let id = rig.depot.create_transfer(&identity, new).await.unwrap().info.id;
    let live = rig.depot.open_inbound(&identity, id).await.unwrap();
    let started = Instant::now();
    for number in 0..1000u32 {
        let entries =
            (0..1000).map(|i| file(format!("some/folder-{number:04}/file-{i:07}.dat"), 100)).collect();
        live.append_entries(batch(number * 1000, entries, number == 999)).await.unwrap();
    }
    let appended = started.elapsed();
    let sending = live.clone();
    tokio::task::spawn_blocking(move || {
        let inbound = sending.inbound();
        let blocks = inbound.with(|receiver| receiver.layout().block_count());
        for block in (0..blocks as u32).map(BlockNumber) {
            let len = inbound.with(|receiver| receiver.layout().shape(block).unwrap().len);
            let mut arrival = inbound.begin(block, u64::from(len)).unwrap();
            arrival.write(&[IoSlice::new(&vec![7; len as usize])]).unwrap();
            arrival.finish(None).unwrap();
        }
    })
    .await
    .unwrap();
    let sent = started.elapsed();
    assert_eq!(live.finish().await.unwrap().state, TransferState::Complete);
    let finished = started.elapsed();
    drop(live);
    let caller = Caller::Token(identity);
    let published = rig.depot.open_published(&caller, id).await.unwrap();
    assert_eq!(published.layout().entry_count(), 1_000_000);
    let opened = started.elapsed();
    let listed = rig.depot.entries(&caller, id, 999_000, 1000).await.unwrap();
    assert_eq!(listed.len(), 1000);
    let listed = started.elapsed();
    let zip = rig.get_with(&format!("/transfers/{id}/zip"), &[("range", "bytes=-1000")]).await;
    assert_eq!(zip.status, 206);
    let zipped = started.elapsed();
    let peak = peak_memory();
    println!(
        "append {appended:.1?}, send {:.1?}, finish {:.1?}, open {:.1?}, list {:.1?}, zip's end {:.1?}; peak {peak} MiB",
        sent - appended,
        finished - sent,
        opened - finished,
        listed - opened,
        zipped - listed,
    );
    assert!(peak < 768, "{peak} MiB");
    assert!(finished < Duration::from_secs(120), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "kept beside the other"]
async fn a_terabyte_is_declared_at_once_and_bounded_memory() {
    let rig = Rig::with(|config| config.overcommit = true).await;
    let identity = rig.depot.authenticate(&rig.token).await.unwrap();
    let new = CreateTransfer { name: "terabyte".into(), ..CreateTransfer::default() };
    let id = rig.depot.create_transfer(&identity, new).await.unwrap().info.id;
    let live = rig.depot.open_inbound(&identity, id).await.unwrap();
    live.append_entries(batch(0, vec![file("big".into(), 1 << 40)], true)).await.unwrap();
    let sending = live.clone();
    tokio::task::spawn_blocking(move || {
        let bytes = vec![7; 4 << 20];
        for block in [0, 1000, 200_000, 262_143].map(BlockNumber) {
            let mut arrival = sending.inbound().begin(block, 4 << 20).unwrap();
            arrival.write(&[IoSlice::new(&bytes)]).unwrap();
            arrival.finish(None).unwrap();
        }
        sending.inbound().flush().unwrap();
    })
    .await
    .unwrap();
    assert_eq!(live.durable().len(), 4);
    let peak = peak_memory();
    println!("peak {peak} MiB");
    assert!(peak < 256, "{peak} MiB");
}
