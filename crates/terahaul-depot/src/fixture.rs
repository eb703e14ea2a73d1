//! A depot in a folder of its own, for tests of what its parts do to each other.

use std::io::IoSlice;
use std::sync::Arc;

use tempfile::TempDir;
use terahaul_core::{
    Address, BLOCK_SIZE, BlockNumber, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime, TransferId,
};
use terahaul_wire::Batch;

use crate::transfer::{CreateTransfer, Live};
use crate::{Depot, DepotConfig, Identity};

/// The depot, and its owner's own identity.
pub(crate) struct Fixture {
    pub depot: Depot,
    pub owner: Identity,
    _folder: TempDir,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with(|config| config).await
    }

    /// With other settings.
    pub async fn with(set: impl FnOnce(DepotConfig) -> DepotConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(set(DepotConfig::new(folder.path()))).await.unwrap();
        let owner = depot.authenticate(&depot.owner_token().await.unwrap()).await.unwrap();
        Self { depot, owner, _folder: folder }
    }

    /// A transfer without entries.
    pub async fn transfer(&self) -> TransferId {
        self.transfer_for(None).await
    }

    async fn transfer_for(&self, resume_key: Option<&str>) -> TransferId {
        let resume_key = resume_key.map(str::to_owned);
        let create = CreateTransfer { name: "t".to_owned(), resume_key, ..CreateTransfer::default() };
        self.depot.create_transfer(&self.owner, create).await.unwrap().info.id
    }

    /// A transfer that has one entry, and is not in memory.
    pub async fn transfer_of(&self, kind: EntryKind) -> TransferId {
        let id = self.transfer().await;
        let live = self.depot.open_inbound(&self.owner, id).await.unwrap();
        let batch = Batch { first: EntryIndex(0), entries: vec![entry("a", kind)], seal: true };
        live.append_entries(batch).await.unwrap();
        drop(live);
        self.depot.inner.registry.slot(id).await.clear().await;
        id
    }

    /// Blocks that are recorded with proofs by chance; the object is as long as they are.
    pub async fn add_blocks(&self, id: TransferId, count: u32) {
        self.depot.inner.db.add_blocks(id, count).await;
        let last = Address(u64::from(count) * BLOCK_SIZE - 1);
        self.depot.inner.store.open(id).unwrap().write_at(last, &[IoSlice::new(&[0])]).unwrap();
    }

    /// A transfer of one file of so many zeros, a block at most, which are durable.
    pub async fn arrived(&self, size: ByteCount) -> Arc<Live> {
        self.arrived_for(size, None).await
    }

    /// The same of this resume key.
    pub async fn arrived_for(&self, size: ByteCount, resume_key: Option<&str>) -> Arc<Live> {
        let id = self.transfer_for(resume_key).await;
        let live = self.depot.open_inbound(&self.owner, id).await.unwrap();
        let entries = vec![entry("a", EntryKind::File { size })];
        live.append_entries(Batch { first: EntryIndex(0), entries, seal: true }).await.unwrap();
        let sent = Arc::clone(&live);
        let send = move || {
            let mut arrival = sent.inbound().begin(BlockNumber(0), size.0).unwrap();
            arrival.write(&[IoSlice::new(&vec![0; size.0 as usize])]).unwrap();
            arrival.finish(None).unwrap();
            sent.inbound().flush().unwrap();
        };
        tokio::task::spawn_blocking(send).await.unwrap();
        live
    }

    /// The same, finished.
    pub async fn finished(&self, size: ByteCount) -> TransferId {
        let live = self.arrived(size).await;
        live.finish().await.unwrap();
        live.id()
    }
}

/// One that is like any other of its kind.
pub(crate) fn entry(path: &str, kind: EntryKind) -> Entry {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
    let path = EntryPath::new(path.as_bytes()).unwrap();
    Entry { path, kind, mtime: Mtime { seconds: 0, nanos: 0 }, mode, extra: None }
}
