//! What of a finished transfer can be compared with what was recorded when it arrived.

use terahaul_core::{
    Address, BLOCK_SIZE, BlockContent, BlockHasher, BlockProof, BlockShape, EntryIndex, Printable,
};
use terahaul_store::EntryFailure;
use tokio::runtime::Handle;

use super::Published;
use crate::{DepotError, blocking};

/// Bytes that are proven together: a block of a large file, or small files side by side. Nothing smaller has a hash of its own, so whoever
/// wants less reads as much. All that is done with it blocks.
pub(crate) struct Unit {
    published: Published,
    start: Address,
    /// Of a packed block, of the files in question alone.
    shape: BlockShape,
    recorded: BlockProof,
}

impl Unit {
    /// That in which `at` is; of a packed block, all the files that have bytes between there and `end`.
    pub fn at(published: &Published, at: Address, end: Address) -> Result<Self, DepotError> {
        let shape = at.block().and_then(|block| published.layout().shape(block));
        let shape = shape.ok_or_else(|| DepotError::Damaged(format!("nothing is at address {}", at.0)))?;
        let block_start = shape.number.address();
        let last = (end.0 - block_start.0).min(BLOCK_SIZE) as u32;
        let mut unit = Self::of(published, shape)?;
        unit.narrow(at.offset_in_block() as u32, last);
        Ok(unit)
    }

    /// A whole block.
    pub fn of(published: &Published, shape: BlockShape) -> Result<Self, DepotError> {
        let recorded = published.values().recorded(&shape)?.ok_or_else(|| {
            // It is closed before its rows change.
            if published.is_closed() {
                return DepotError::NoTransfer;
            }
            DepotError::Damaged(format!("the proof of block {} is missing", shape.number))
        })?;
        Ok(Self { published: published.clone(), start: shape.number.address(), shape, recorded })
    }

    /// Leaves those files of a packed block that have bytes between `from` and `to`.
    fn narrow(&mut self, from: u32, to: u32) {
        let (BlockContent::Packed { files, .. }, BlockProof::Packed(hashes)) =
            (&mut self.shape.content, &mut self.recorded)
        else {
            return;
        };
        let first = files.partition_point(|file| file.offset + file.len <= from);
        let count = files[first..].partition_point(|file| file.offset < to);
        files.drain(..first);
        files.truncate(count);
        hashes.drain(..first);
        hashes.truncate(count);
        if let (Some(first), Some(last)) = (files.first(), files.last()) {
            self.start = self.start + u64::from(first.offset);
            self.shape.len = last.offset + last.len - first.offset;
        }
    }

    pub fn start(&self) -> Address {
        self.start
    }

    pub fn len(&self) -> u32 {
        self.shape.len
    }

    pub fn hasher(&self) -> BlockHasher {
        BlockHasher::new(&self.shape)
    }

    /// All of it, proven.
    pub fn read(&self) -> Result<Vec<u8>, DepotError> {
        let mut bytes = vec![0; self.len() as usize];
        self.published.read_at(self.start, &mut bytes)?;
        let mut hasher = self.hasher();
        hasher.update(&bytes);
        self.judge(hasher)?;
        Ok(bytes)
    }

    /// All of it was read, and `hasher` has seen it. What differs from what was recorded is logged, and the first of it is the error.
    pub fn judge(&self, hasher: BlockHasher) -> Result<(), DepotError> {
        let mut differing = self.recorded.differing(&self.shape, &hasher.finish());
        // What failed need not be here, nor be what was sent, and nobody is given it as a file.
        differing.retain(|entry| !self.published.failed().contains(entry));
        let damaged: Vec<_> = differing.into_iter().map(|entry| self.damaged(entry)).collect();
        damaged.into_iter().next().map_or(Ok(()), Err)
    }

    fn damaged(&self, entry: EntryIndex) -> DepotError {
        let offset = match &self.shape.content {
            BlockContent::Piece { offset, .. } => *offset,
            BlockContent::Packed { .. } => 0,
        };
        let path = self.path_of(entry).unwrap_or_else(|| format!("entry {entry}"));
        let said = EntryFailure::damaged(entry).detail;
        tracing::error!(transfer = %self.published.id(), entry = entry.0, path, offset, "{said}");
        DepotError::DamagedFile { path, offset }
    }

    fn path_of(&self, entry: EntryIndex) -> Option<String> {
        let mut manifest = self.published.manifest(u64::from(entry.0)).ok()?;
        let batch = blocking::wait(&Handle::current(), async move { manifest.next().await })?.ok()??;
        Some(Printable(batch.entries.first()?.path.as_bytes()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::ByteCount;

    use super::*;
    use crate::Caller;
    use crate::fixture::Fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_cannot_be_read_of_the_database_is_not_called_damaged() {
        for size in [5, BLOCK_SIZE] {
            let fixture = Fixture::new().await;
            let id = fixture.finished(ByteCount(size)).await;
            let published =
                fixture.depot.open_published(&Caller::Token(fixture.owner.clone()), id).await.unwrap();
            fixture.depot.inner.db.close().await;
            let unit = blocking::run(move || Unit::at(&published, Address(0), Address(size)).map(drop)).await;
            let error = unit.unwrap().unwrap_err();
            assert!(matches!(error, DepotError::Database(_)), "{error}");
            assert!(error.retry());
        }
    }
}
