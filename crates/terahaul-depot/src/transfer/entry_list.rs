//! Lists of entries, with what became of each.

use std::sync::{Arc, PoisonError};

use terahaul_core::{
    Address, BLOCK_SIZE, BlockNumber, ByteCount, Entry, EntryIndex, Extent, Hash, Layout, ReceiptEntry,
    Receiver, TransferId,
};

use super::entry_hashes::{EntryHashes, RUN};
use super::live::Live;
use super::{ManifestBatch, ManifestReader, Published};
use crate::DepotError;
use crate::auth::Caller;
use crate::db::StoredFailure;
use crate::depot::Depot;

/// An entry as lists show it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct EntryRecord {
    /// Its index.
    pub entry: EntryIndex,
    /// Path, kind, size, times, and the hash once it has arrived.
    #[serde(flatten)]
    pub line: ReceiptEntry,
    /// Where its bytes are; `null` when it has none.
    pub address: Option<Address>,
    /// What became of it.
    pub state: EntryState,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It failed, and a later entry of the same path has taken its place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

impl EntryRecord {
    /// How much of it may be of any length.
    fn text_len(&self) -> usize {
        let ReceiptEntry { path, path_hex, target_hex, .. } = &self.line;
        let others = [path_hex, target_hex, &self.reason].into_iter().flatten();
        path.len() + others.map(String::len).sum::<usize>()
    }
}

/// A list that is long enough at so many entries, or before.
struct List {
    records: Vec<EntryRecord>,
    limit: usize,
    text_len: usize,
}

impl List {
    fn is_full(&self) -> bool {
        self.records.len() >= self.limit || self.text_len >= LONGEST
    }

    fn push(&mut self, record: EntryRecord) {
        self.text_len += record.text_len();
        self.records.push(record);
    }
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    /// Not all of its bytes are kept yet.
    Pending,
    /// All of its bytes are kept.
    Complete,
    /// It will not arrive.
    Failed,
}

/// A file that is larger has its hash kept while the transfer is open: it takes more than one look at the database.
const KEPT_FROM: ByteCount = ByteCount(RUN as u64 * BLOCK_SIZE);

/// Bytes of names, links' targets and reasons after which a list ends, however few entries it has: the longest would make 5,000 of them
/// 140 MB.
const LONGEST: usize = 2 << 20;

/// How often a transfer is read anew that was reopened while it was read.
const ATTEMPTS: u32 = 4;

/// A transfer in memory, whichever way it is used.
pub(super) enum Loaded {
    Live(Arc<Live>),
    Published(Published),
}

impl Loaded {
    fn manifest(&self, from: u64) -> Result<ManifestReader, DepotError> {
        match self {
            Self::Live(live) => live.manifest(from),
            Self::Published(published) => published.manifest(from),
        }
    }

    pub fn with_layout<T>(&self, look: impl FnOnce(&Layout) -> T) -> T {
        match self {
            Self::Live(live) => live.inbound.with(|receiver| look(receiver.layout())),
            Self::Published(published) => look(published.layout()),
        }
    }

    /// Whether it takes nothing more: what is recorded of it may go.
    fn is_closed(&self) -> bool {
        match self {
            Self::Live(live) => live.is_closed(),
            Self::Published(published) => published.is_closed(),
        }
    }

    /// Whether all bytes of `entry`, which are at `extent`, are kept, and will be.
    fn has(&self, entry: EntryIndex, extent: Option<Extent>) -> bool {
        let Self::Live(live) = self else { return true };
        let is_durable = |receiver: &Receiver, extent: Extent| {
            let Some(first) = extent.address.block() else { return false };
            let end =
                u64::from(first.0) + (extent.address.offset_in_block() + extent.size.0).div_ceil(BLOCK_SIZE);
            receiver.durable().first_missing(first, end).is_none()
        };
        live.inbound.with(|receiver| {
            !receiver.failed().contains(&entry) && extent.is_none_or(|extent| is_durable(receiver, extent))
        })
    }
}

impl Depot {
    /// Entries from `from` on, at most `limit` and fewer where their names are long, of a transfer that the caller may read.
    pub async fn entries(
        &self,
        caller: &Caller,
        id: TransferId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<EntryRecord>, DepotError> {
        for _ in 1..ATTEMPTS {
            match self.entries_now(caller, id, from, limit).await {
                // Or removed, and then that is said again.
                Err(DepotError::NoTransfer) => {}
                done => return done,
            }
        }
        self.entries_now(caller, id, from, limit).await
    }

    async fn entries_now(
        &self,
        caller: &Caller,
        id: TransferId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<EntryRecord>, DepotError> {
        self.row_to_read(caller, id).await?;
        let loaded = self.loaded(id).await?;
        let failures = self.inner.db.failures(id, from, limit).await?;
        let mut hashes = EntryHashes::new(self.inner.db.clone(), id);
        let mut manifest = loaded.manifest(from)?;
        let mut list = List { records: Vec::new(), limit: limit as usize, text_len: 0 };
        while !list.is_full()
            && let Some(batch) = manifest.next().await?
        {
            self.describe(&loaded, &batch, &failures, &mut hashes, &mut list).await?;
        }
        Ok(list.records)
    }

    async fn describe(
        &self,
        loaded: &Loaded,
        batch: &ManifestBatch,
        failures: &[StoredFailure],
        hashes: &mut EntryHashes,
        list: &mut List,
    ) -> Result<(), DepotError> {
        let indices = (batch.first as u32..).map(EntryIndex);
        for (at, (index, entry)) in indices.zip(&batch.entries).enumerate() {
            if list.is_full() {
                break;
            }
            let extent = loaded.with_layout(|layout| layout.extent(index));
            let address = extent.map(|extent| extent.address);
            let failure = failures.binary_search_by_key(&index, |failure| failure.entry).ok();
            let failure = failure.map(|at| &failures[at]);
            let (state, hash, reason) = match failure {
                Some(failure) => (EntryState::Failed, None, Some(sentence(failure))),
                None if !loaded.has(index, extent) => (EntryState::Pending, None, None),
                None => {
                    let known = batch.hashes.get(at).copied();
                    let hash = match known {
                        Some(hash) => Ok(entry.file_size().map(|_| hash)),
                        None => self.hash_now(loaded, index, entry, extent, hashes).await,
                    };
                    match hash {
                        // It is being removed, or finished.
                        Err(DepotError::Damaged(_)) if loaded.is_closed() => {
                            return Err(DepotError::NoTransfer);
                        }
                        // It has failed, and was given back, meanwhile.
                        Err(DepotError::Damaged(_)) if !loaded.has(index, extent) => {
                            (EntryState::Pending, None, None)
                        }
                        hash => (EntryState::Complete, hash?, None),
                    }
                }
            };
            list.push(EntryRecord {
                entry: index,
                line: ReceiptEntry::new(entry, hash),
                address,
                state,
                reason,
                superseded: failure.is_some_and(|failure| failure.superseded),
            });
        }
        Ok(())
    }

    async fn hash_now(
        &self,
        loaded: &Loaded,
        index: EntryIndex,
        entry: &Entry,
        extent: Option<Extent>,
        hashes: &mut EntryHashes,
    ) -> Result<Option<Hash>, DepotError> {
        let shape_of = |block: BlockNumber| loaded.with_layout(|layout| layout.shape(block));
        let known = match loaded {
            Loaded::Live(live) if extent.is_some_and(|extent| extent.size > KEPT_FROM) => &live.hashes,
            _ => return hashes.hash(index, entry, extent, shape_of).await,
        };
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = lock().get(&index).copied() {
            return Ok(Some(hash));
        }
        let hash = hashes.hash(index, entry, extent, shape_of).await?;
        if let Some(hash) = hash {
            lock().insert(index, hash);
        }
        Ok(hash)
    }
}

/// Why an entry failed, as one sentence. A detail says it alone.
pub(super) fn sentence(failure: &StoredFailure) -> String {
    let StoredFailure { cause, detail, .. } = failure;
    if detail.is_empty() { cause.describe_elsewhere().to_owned() } else { detail.clone() }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{EntryKind, file_hash_from_values};

    use super::*;
    use crate::DepotConfig;
    use crate::fixture::Fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_files_hash_is_computed_in_runs_and_once() {
        const BLOCKS: u32 = 2 * RUN + 3;
        let fixture = Fixture::with(|config| DepotConfig { overcommit: true, ..config }).await;
        let depot = &fixture.depot;
        let size = ByteCount(u64::from(BLOCKS) * BLOCK_SIZE);
        let id = fixture.transfer_of(EntryKind::File { size }).await;
        let db = &depot.inner.db;
        fixture.add_blocks(id, BLOCKS).await;
        let rows = db.proofs(id, BlockNumber(0), BLOCKS).await.unwrap();
        let values: Vec<Hash> = rows.into_iter().map(|(_, proof)| Hash(proof.try_into().unwrap())).collect();
        let caller = Caller::Token(fixture.owner.clone());
        let listed = async || {
            let entries = depot.entries(&caller, id, 0, 10).await.unwrap();
            (entries[0].state, entries[0].line.blake3)
        };
        let expected = (EntryState::Complete, file_hash_from_values(size, &values));
        assert_eq!(listed().await, expected);
        // What is read no more is not missed.
        let all = terahaul_core::BlockRun { first: BlockNumber(0), count: BLOCKS };
        db.forget_blocks(id, &[all], |_| 0, 0).await.unwrap();
        assert_eq!(listed().await, expected);
    }

    /// What lists know of failures is from before they look at what is here.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_entry_that_fails_while_it_is_listed_is_not_taken_for_damaged() {
        let fixture = Fixture::new().await;
        let live = fixture.arrived(ByteCount(1)).await;
        let block = terahaul_core::BlockRun { first: BlockNumber(0), count: 1 };
        let caller = Caller::Token(fixture.owner.clone());
        live.inbound.with(|receiver| receiver.handle_failed([EntryIndex(0)]));
        fixture.depot.inner.db.forget_blocks(live.id(), &[block], |_| 1, 1).await.unwrap();
        let listed = fixture.depot.entries(&caller, live.id(), 0, 10).await.unwrap();
        assert_eq!((listed[0].state, listed[0].line.blake3), (EntryState::Pending, None));
    }
}
