//! CRC-32, block by block.

use std::collections::HashMap;

use bytes::Bytes;
use crc32fast::Hasher;
use terahaul_core::{BlockContent, BlockNumber, BlockShape, EntryIndex};

use crate::transfer::{Published, Unit};
use crate::{DepotError, blocking};

/// Blocks whose checksums are kept in the database at once.
const KEPT_AT_ONCE: usize = 256;
/// Blocks whose checksums are looked up at once.
const LOOKED_UP: u32 = 4096;

/// A packed block, its bytes and its files' checksums.
pub(super) struct Packed {
    pub shape: BlockShape,
    pub bytes: Bytes,
    crcs: Vec<u32>,
}

impl Packed {
    /// Where `entry` is in the block, and its checksum.
    pub fn find(&self, entry: EntryIndex) -> Option<(std::ops::Range<usize>, u32)> {
        let at = position(&self.shape, entry)?;
        let BlockContent::Packed { files, .. } = &self.shape.content else { return None };
        let start = files[at].offset as usize;
        Some((start..start + files[at].len as usize, *self.crcs.get(at)?))
    }
}

fn position(shape: &BlockShape, entry: EntryIndex) -> Option<usize> {
    let BlockContent::Packed { files, .. } = &shape.content else { return None };
    files.binary_search_by_key(&entry, |file| file.entry).ok()
}

/// The checksums of a transfer's blocks: known, or computed and from then on known.
pub(super) struct Checksums {
    published: Published,
    fresh: Vec<(BlockNumber, Vec<u8>)>,
    /// What the database did not take. A download only reads: it goes on without, on a full disk too.
    unkept: HashMap<u32, Vec<u8>>,
    /// The last packed block that was looked up without its bytes.
    last: Option<(BlockShape, Vec<u32>)>,
}

impl Checksums {
    pub fn new(published: Published) -> Self {
        Self { published, fresh: Vec::new(), unkept: HashMap::new(), last: None }
    }

    /// Reads a packed block.
    pub async fn packed(&mut self, block: BlockNumber) -> Result<Packed, DepotError> {
        let shape = self.shape(block)?;
        let bytes = self.read(&shape).await?;
        let crcs = crcs_of(&shape, &bytes);
        self.keep(block, &crcs).await;
        Ok(Packed { shape, bytes, crcs })
    }

    /// A small file's checksum, without need for its bytes.
    pub async fn of_small(&mut self, block: BlockNumber, entry: EntryIndex) -> Result<u32, DepotError> {
        if self.last.as_ref().is_none_or(|(shape, _)| shape.number != block) {
            let shape = self.shape(block)?;
            let known = self.look_up(block, 1).await?;
            let crcs = match known.into_iter().next() {
                Some((_, crcs)) => crcs,
                None => self.packed(block).await?.crcs,
            };
            self.last = Some((shape, crcs));
        }
        let found = self.last.as_ref().and_then(|(shape, crcs)| crcs.get(position(shape, entry)?).copied());
        found.ok_or_else(|| DepotError::Damaged(format!("entry {entry} is not in block {block}")))
    }

    /// A large file's checksum, from those of its blocks.
    pub async fn of_large(&mut self, first: BlockNumber, count: u32) -> Result<u32, DepotError> {
        self.flush().await;
        let mut whole = Hasher::new();
        let mut at = 0;
        while at < count {
            let some = (count - at).min(LOOKED_UP);
            let start = BlockNumber(first.0 + at);
            let known = self.look_up(start, some).await?;
            for block in (start.0..start.0 + some).map(BlockNumber) {
                let shape = self.shape(block)?;
                let crc = match known.get(&block.0).and_then(|crcs| crcs.first()) {
                    Some(crc) => *crc,
                    None => {
                        let crc = crc32fast::hash(&self.read(&shape).await?);
                        self.keep(block, &[crc]).await;
                        crc
                    }
                };
                whole.combine(&Hasher::new_with_initial_len(crc, u64::from(shape.len)));
            }
            at += some;
        }
        Ok(whole.finalize())
    }

    /// Remembers a block's checksums.
    pub async fn keep(&mut self, block: BlockNumber, crcs: &[u32]) {
        self.fresh.push((block, crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect()));
        if self.fresh.len() >= KEPT_AT_ONCE {
            self.flush().await;
        }
    }

    /// Writes down what was computed.
    pub async fn flush(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.is_empty() {
            return;
        }
        let kept = match self.published.depot() {
            Ok(depot) => depot.inner.db.keep_checksums(self.published.id(), &fresh).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            // Of a transfer that is gone there is nothing to keep.
            if self.unkept.is_empty() && !self.published.is_closed() {
                let transfer = self.published.id();
                tracing::warn!(%transfer, %error, "checksums were not kept; the next download computes them again");
            }
            self.unkept.extend(fresh.into_iter().map(|(block, crcs)| (block.0, crcs)));
        }
    }

    async fn look_up(
        &mut self,
        first: BlockNumber,
        count: u32,
    ) -> Result<HashMap<u32, Vec<u32>>, DepotError> {
        let rows = self.published.depot()?.inner.db.checksums(self.published.id(), first, count).await?;
        let numbers = |bytes: Vec<u8>| {
            bytes
                .chunks_exact(4)
                .map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap_or_default()))
                .collect()
        };
        let mut known: HashMap<_, _> =
            rows.into_iter().map(|(block, bytes)| (block.0, numbers(bytes))).collect();
        if !self.unkept.is_empty() {
            let unkept =
                (first.0..first.0 + count).filter_map(|block| Some((block, self.unkept.get(&block)?)));
            known.extend(unkept.map(|(block, bytes)| (block, numbers(bytes.clone()))));
        }
        Ok(known)
    }

    fn shape(&self, block: BlockNumber) -> Result<BlockShape, DepotError> {
        let shape = self.published.layout().shape(block);
        shape.ok_or_else(|| DepotError::Damaged(format!("block {block} is not in the manifest")))
    }

    /// A block's bytes, as they were sent: a checksum that is kept is not one of damaged bytes.
    async fn read(&self, shape: &BlockShape) -> Result<Bytes, DepotError> {
        if self.published.is_closed() {
            return Err(DepotError::NoTransfer);
        }
        let (published, shape) = (self.published.clone(), shape.clone());
        blocking::run(move || Unit::of(&published, shape)?.read().map(Bytes::from)).await?
    }
}

fn crcs_of(shape: &BlockShape, bytes: &[u8]) -> Vec<u32> {
    match &shape.content {
        BlockContent::Piece { .. } => vec![crc32fast::hash(bytes)],
        BlockContent::Packed { files, .. } => files
            .iter()
            .map(|file| crc32fast::hash(&bytes[file.offset as usize..(file.offset + file.len) as usize]))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::ByteCount;
    use tracing::Level;

    use super::*;
    use crate::Caller;
    use crate::fixture::Fixture;
    use crate::logged::Logged;

    /// The database was said to have failed, and its disk was to be checked.
    #[tokio::test]
    async fn that_a_transfer_is_removed_while_it_is_downloaded_is_no_warning() {
        let logged = Logged::here();
        let fixture = Fixture::new().await;
        let id = fixture.finished(ByteCount(1)).await;
        let owner = Caller::Token(fixture.owner.clone());
        let mut checksums = Checksums::new(fixture.depot.open_published(&owner, id).await.unwrap());
        checksums.keep(BlockNumber(0), &[0]).await;
        fixture.depot.delete_transfer(&owner, id).await.unwrap();
        checksums.flush().await;
        assert_eq!(logged.at(Level::WARN), [""; 0]);
    }
}
