//! The manifest grows.

use std::sync::Arc;

use terahaul_core::{Address, BLOCK_SIZE, ByteCount, Entry, EntryIndex, EntryKind, kept_detail};
use terahaul_net::server::Seated;
use terahaul_wire::Batch;

use super::Asker;
use super::live::{Live, Tail};
use super::registry::Slot;
use super::reopen::Readers;
use super::space::Share;
use crate::DepotError;
use crate::db::{Change, Declared, EncodedBatch, Growth};

/// Most bytes in a symbolic link's text: Linux makes none that is longer.
const MAX_TARGET: usize = 4095;
/// What a packed block takes besides its bytes: a page of the disk of which it may fill one byte, and its row.
const PACKED_BLOCK_BYTES: u64 = 4096 + 200;
/// What a file in it takes in rows of that block: its hash once more, which the block is proven by, and its checksum, which a ZIP has.
const PACKED_FILE_BYTES: u64 = 32 + 4;

/// Most bytes that [mend](share_for) a transfer, as long as it is in memory, of those that others were promised.
const MOST_MENDED: u64 = 1 << 20;

/// What an append did.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Entries in the manifest now.
    pub total: u64,
    /// The entries that were given, in order, and where their bytes go.
    pub placed: Vec<Placed>,
}

/// An entry's place.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Placed {
    /// Its index.
    pub entry: EntryIndex,
    /// Where its bytes go; `None` when it has none.
    pub address: Option<Address>,
}

impl Live {
    /// Appends entries, and closes the open packed block after them where the batch says so.
    ///
    /// Entries that are in the manifest already must be the same ones: a request may be repeated. All or none are
    /// taken.
    pub async fn append_entries(self: &Arc<Self>, batch: Batch) -> Result<Appended, DepotError> {
        self.append_by(batch, None).await
    }

    /// The same for a native sender: what somebody else seals meanwhile would move what it has packed behind that.
    pub(crate) async fn append_seated(
        self: &Arc<Self>,
        batch: Batch,
        seated: &Seated,
    ) -> Result<Appended, DepotError> {
        self.append_by(batch, Some(seated.clone())).await
    }

    async fn append_by(
        self: &Arc<Self>,
        batch: Batch,
        seated: Option<Seated>,
    ) -> Result<Appended, DepotError> {
        self.touch();
        self.sent.handle_sent();
        let live = Arc::clone(self);
        // A task of its own: a caller that goes away must not stop this between the database and the receiver.
        let task = tokio::spawn(async move {
            let mut slot = live.slot_if_finished().await?;
            let mut tail = live.tail.lock().await;
            match seated {
                Some(seated) if seated.is_lost() && !tail.closed => Err(DepotError::SenderReplaced),
                Some(_) => live.append(&mut tail, slot.as_deref_mut(), batch, Asker::Sender).await,
                None => live.append(&mut tail, slot.as_deref_mut(), batch, Asker::Another).await,
            }
        });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    /// With the transfer's locked slot if it may be finished.
    pub(super) async fn append(
        &self,
        tail: &mut Tail,
        slot: Option<&mut Slot>,
        mut batch: Batch,
        asker: Asker,
    ) -> Result<Appended, DepotError> {
        if tail.closed {
            return Err(DepotError::NotOpen);
        }
        let (first, total) = (u64::from(batch.first.0), tail.total);
        if first > total {
            return Err(DepotError::ManifestGap { first, total });
        }
        let known = (total - first).min(batch.entries.len() as u64) as usize;
        self.compare(first, &batch.entries[..known]).await?;
        let mut placed = self.places(batch.first, known);
        batch.entries.drain(..known);
        // A repeated request must not seal what was appended after it.
        batch.seal &= first + known as u64 == total;
        batch.first = EntryIndex(total as u32);
        let hashes = self.check(tail, &batch.entries).await?;

        if batch.entries.is_empty() && (!batch.seal || tail.sealed.is_some()) {
            if batch.seal && asker == Asker::Sender {
                tail.sealed = Some(asker);
            }
            return Ok(Appended { total, placed });
        }
        let encoded = EncodedBatch::new(&batch);
        let growth = self.growth_of(&batch, &encoded)?;
        let asked = Declared { bytes: growth.bytes, manifest_bytes: growth.manifest_bytes };
        let share = share_for(tail, &batch.entries, &hashes, asked);
        let depot = self.depot()?;
        let space = depot.claim_space(self.quota.as_ref(), asked, share).await?;
        // What stands under a failed entry's path now is that entry's remedy.
        let superseded: Vec<_> = hashes.iter().filter_map(|hash| tail.failed.get(hash).copied()).collect();
        let reopening = self.reopening(tail)?;
        let reopens = reopening.is_some();
        let change = Change { growth, superseded: &superseded, reopening };
        let mut readers = Readers::of(slot);
        let appended = depot.inner.db.append_batch(self.id, &encoded, &change, || readers.cut()).await;
        if appended.is_err() {
            readers.go_on(&depot, self.id).await;
        }
        if !appended? {
            return Err(DepotError::TooManyTransfers { limit: depot.inner.config.limits.open_transfers });
        }
        let (extents, gives_back) = self.inbound.with(|receiver| {
            let void = receiver.void_bytes();
            let extents = receiver.append_batch(batch.sizes(), batch.seal);
            (extents, receiver.void_bytes() > void)
        });
        self.replace_sender(asker);
        // Whoever asks for space next counts what the receiver waits for; moving a reopened object back takes none.
        drop(space);
        self.end_reopening(tail).await;
        // `check` has made sure that all of them fit.
        let extents = extents.map_err(|_| DepotError::TooLarge)?;
        for hash in hashes {
            tail.paths.insert(hash);
            tail.failed.remove(&hash);
        }
        tail.total += growth.entries;
        tail.sealed = batch.seal.then_some(asker);
        if share == Share::Free {
            tail.mended += asked.manifest_bytes;
        }
        // What was withheld counts against quotas until now, and so does a block that could still grow, though all in it has failed.
        if reopens || gives_back {
            self.free_failed().await;
        }
        placed.extend(
            (batch.first.0..)
                .map(EntryIndex)
                .zip(extents)
                .map(|(entry, extent)| Placed { entry, address: extent.map(|extent| extent.address) }),
        );
        Ok(Appended { total: tail.total, placed })
    }

    /// What a batch adds to the transfer, which the store must be able to take.
    fn growth_of(&self, batch: &Batch, encoded: &EncodedBatch) -> Result<Growth, DepotError> {
        let sizes: Vec<_> = batch.sizes().collect();
        let files = sizes.iter().flatten();
        let bytes = files.clone().fold(0u64, |sum, size| sum.saturating_add(size.0));
        let packed =
            self.inbound.with(|receiver| receiver.layout().packed_blocks_for(files.clone().copied()));
        let blocks_after = self.blocks_after(&sizes, packed);
        // Before its bytes come: on ext4 the first 16 TiB would, and nothing after them.
        if bytes > 0 && !self.flat.takes(ByteCount(blocks_after * BLOCK_SIZE)) {
            return Err(DepotError::TooLongForStore);
        }
        Ok(Growth {
            entries: batch.entries.len() as u64,
            files: files.count() as u64,
            bytes,
            manifest_bytes: encoded.byte_count()
                + packed * PACKED_BLOCK_BYTES
                + packed_files(&sizes) * PACKED_FILE_BYTES,
            blocks_after,
            sealed_after: batch.seal,
        })
    }

    /// Refuses `entries` unless they are the manifest's from `first` on.
    async fn compare(&self, first: u64, entries: &[Entry]) -> Result<(), DepotError> {
        let mut manifest = self.manifest(first)?;
        let mut rest = entries;
        let mut at = first;
        while !rest.is_empty() {
            let Some(batch) = manifest.next().await? else { return Ok(()) };
            let (now, later) = rest.split_at(rest.len().min(batch.entries.len()));
            if let Some(differs) = now.iter().zip(&batch.entries).position(|(given, known)| given != known) {
                return Err(DepotError::ManifestDiffers { entry: at + differs as u64 });
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn places(&self, first: EntryIndex, count: usize) -> Vec<Placed> {
        let indices = (first.0..).map(EntryIndex).take(count);
        self.inbound.with(|receiver| {
            let address = |entry| receiver.layout().extent(entry).map(|extent| extent.address);
            indices.map(|entry| Placed { entry, address: address(entry) }).collect()
        })
    }

    /// Checks new entries, and returns the hashes of their paths.
    async fn check(&self, tail: &Tail, entries: &[Entry]) -> Result<Vec<u64>, DepotError> {
        let limit = self.depot()?.inner.config.limits.entries;
        if tail.total + entries.len() as u64 > limit {
            return Err(DepotError::TooManyEntries { limit });
        }
        for (entry, index) in entries.iter().zip(tail.total..) {
            check_entry(entry).map_err(|reason| DepotError::BadEntry {
                entry: index,
                path: kept_detail(entry.path.to_string()),
                reason: reason.to_owned(),
            })?;
        }
        // At most this many blocks follow, however small files are packed.
        let blocks = entries.iter().filter_map(Entry::file_size).map(|size| size.0.div_ceil(BLOCK_SIZE));
        let blocks = blocks.fold(self.inbound.with(|r| r.layout().block_count()), u64::saturating_add);
        if blocks > u64::from(u32::MAX) {
            return Err(DepotError::TooLarge);
        }
        let hashes: Vec<u64> = entries.iter().map(|entry| tail.paths.hash(&entry.path)).collect();
        let mut sorted: Vec<(u64, usize)> = hashes.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let within = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1);
        let before = hashes.iter().position(|hash| tail.paths.contains(*hash));
        match before.or(within) {
            Some(at) => Err(DepotError::DuplicatePath { path: kept_detail(entries[at].path.to_string()) }),
            None => Ok(hashes),
        }
    }

    /// How many blocks the manifest has with files of these sizes, for which `packed` packed ones are opened.
    fn blocks_after(&self, sizes: &[Option<ByteCount>], packed: u64) -> u64 {
        let large = sizes.iter().flatten().filter(|size| size.0 >= BLOCK_SIZE);
        let large: u64 = large.map(|size| size.0.div_ceil(BLOCK_SIZE)).sum();
        self.inbound.with(|receiver| receiver.layout().block_count()) + large + packed
    }
}

/// A folder's new time, and the end of the manifest, take little, and the transfer could not end without them although it has been promised room
/// for all of its files.
fn share_for(tail: &Tail, entries: &[Entry], hashes: &[u64], asked: Declared) -> Share {
    let mends =
        |(entry, hash): (&Entry, &u64)| entry.kind == EntryKind::Directory && tail.failed.contains_key(hash);
    let mended = tail.mended.saturating_add(asked.manifest_bytes);
    match mended <= MOST_MENDED && entries.iter().zip(hashes).all(mends) {
        true => Share::Free,
        false => Share::Unpromised,
    }
}

/// How many of files of these sizes share blocks.
fn packed_files(sizes: &[Option<ByteCount>]) -> u64 {
    sizes.iter().flatten().filter(|size| (1..BLOCK_SIZE).contains(&size.0)).count() as u64
}

/// What [`terahaul_core::EntryPath`] does not check. The stored encoding takes nothing else.
fn check_entry(entry: &Entry) -> Result<(), &'static str> {
    if entry.mtime.nanos >= 1_000_000_000 {
        return Err("its modification time has a second or more of nanoseconds");
    }
    if entry.mode > 0o7777 {
        return Err("its mode has more than permission bits");
    }
    match &entry.kind {
        EntryKind::Symlink { target } if target.is_empty() => Err("a symbolic link needs a target"),
        EntryKind::Symlink { target } if target.len() > MAX_TARGET => {
            Err("its target is longer than 4095 bytes")
        }
        EntryKind::Symlink { target } if target.contains(&0) => Err("its target holds a NUL byte"),
        EntryKind::File { .. } | EntryKind::Directory | EntryKind::Symlink { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use terahaul_core::BlockNumber;

    use super::*;
    use crate::Caller;
    use crate::db::TRANSFER_BYTES;
    use crate::fixture::{Fixture, entry};

    const FILES: u64 = 1000;

    /// A transfer of so many small files, all of which have arrived.
    async fn small_files(fixture: &Fixture) -> Arc<Live> {
        let id = fixture.transfer().await;
        let live = fixture.depot.open_inbound(&fixture.owner, id).await.unwrap();
        let files = (0..FILES).map(|at| entry(&at.to_string(), EntryKind::File { size: ByteCount(1) }));
        let batch = Batch { first: EntryIndex(0), entries: files.collect(), seal: true };
        live.append_entries(batch).await.unwrap();
        let sent = Arc::clone(&live);
        let send = move || {
            let mut arrival = sent.inbound().begin(BlockNumber(0), FILES).unwrap();
            arrival.write(&[IoSlice::new(&[1; FILES as usize])]).unwrap();
            arrival.finish(None).unwrap();
            sent.inbound().flush().unwrap();
        };
        tokio::task::spawn_blocking(send).await.unwrap();
        live
    }

    /// The hashes of their blocks and the checksums for ZIP downloads were kept beside what was counted.
    #[tokio::test]
    async fn what_small_files_take_in_the_database_counts_against_quotas() {
        let fixture = Fixture::new().await;
        let db = &fixture.depot.inner.db;
        let live = small_files(&fixture).await;
        live.finish().await.unwrap();
        db.keep_checksums(live.id(), &[(BlockNumber(0), vec![0; 4 * FILES as usize])]).await.unwrap();
        let counted = db.declared(None).await.unwrap().manifest_bytes;
        let taken = db.content_bytes(live.id()).await;
        assert_eq!(counted, taken + PACKED_BLOCK_BYTES + TRANSFER_BYTES);
    }

    #[tokio::test]
    async fn what_small_files_count_is_given_back_when_they_are_removed_and_no_sooner() {
        let fixture = Fixture::new().await;
        let depot = &fixture.depot;
        let before = depot.inner.db.declared(None).await.unwrap();
        let live = small_files(&fixture).await;
        let id = live.id();
        let counted = depot.inner.db.declared(None).await.unwrap().manifest_bytes;
        let (entry, cause, detail) = (EntryIndex(0), terahaul_core::FailureCause::Changed, String::new());
        live.fail_entries(vec![terahaul_store::EntryFailure { entry, cause, detail }]).await.unwrap();
        live.finish().await.unwrap();
        let failed = depot.inner.db.declared(None).await.unwrap().manifest_bytes;
        assert_eq!(failed, counted, "the rows are here");
        drop(live);
        depot.delete_transfer(&Caller::Token(fixture.owner.clone()), id).await.unwrap();
        let after = depot.inner.db.declared(None).await.unwrap();
        assert_eq!((after.bytes, after.manifest_bytes), (before.bytes, before.manifest_bytes));
    }
}
