//! A manifest, batch by batch.

use terahaul_core::{Entry, Hash, TransferId};

use super::Published;
use crate::DepotError;
use crate::depot::Depot;

/// Reads a manifest without holding it in memory.
pub struct ManifestReader {
    depot: Depot,
    id: TransferId,
    at: u64,
    /// The entries that there are at least.
    end: u64,
    /// What is read, where that can be closed.
    published: Option<Published>,
}

/// Consecutive entries of a manifest.
#[derive(Clone, Debug)]
pub struct ManifestBatch {
    /// Index of the first entry.
    pub first: u64,
    /// The entries, failed ones included.
    pub entries: Vec<Entry>,
    /// Whether the open packed block is closed after the last of them.
    pub seal: bool,
    /// One hash for each entry once the transfer is finished (zeros for what is not an arrived file), else nothing.
    pub hashes: Vec<Hash>,
}

impl ManifestReader {
    pub(super) fn new(depot: Depot, id: TransferId, from: u64, end: u64) -> Self {
        Self { depot, id, at: from, end, published: None }
    }

    /// Reads of `published`, and no further once that is closed.
    pub(super) fn of(self, published: Published) -> Self {
        Self { published: Some(published), ..self }
    }

    /// The next batch; `None` at the end. A transfer that is removed meanwhile, or reopened, has no end: what was read of it is not all.
    pub async fn next(&mut self) -> Result<Option<ManifestBatch>, DepotError> {
        let read = self.depot.inner.db.batch_at(self.id, self.at).await?;
        // Asked afterwards: it is closed before its rows change.
        if self.published.as_ref().is_some_and(Published::is_closed) {
            return Err(DepotError::NoTransfer);
        }
        let Some(mut batch) = read else {
            return if self.at < self.end { Err(DepotError::NoTransfer) } else { Ok(None) };
        };
        // A reader may start in the middle of a batch.
        let skip = (self.at - batch.first) as usize;
        batch.entries.drain(..skip);
        let mut hashes = batch.hashes.unwrap_or_default();
        hashes.drain(..skip.min(hashes.len()));
        let first = batch.first + skip as u64;
        self.at = first + batch.entries.len() as u64;
        Ok(Some(ManifestBatch { first, entries: batch.entries, seal: batch.seal, hashes }))
    }
}
