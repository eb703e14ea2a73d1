//! A finished transfer's blocks, for whoever receives them natively.

use std::io;

use terahaul_core::{BlockNumber, BlockProof, BlockShape, Hash};
use terahaul_store::{BlockSource, EntryFailure, FlatSource};

use super::Published;
use crate::DepotError;

/// Reads blocks as [`FlatSource`] does, and hands out none that nothing proves: the receiver checks what comes against the value that it
/// comes with, so zeros that are hashed here would pass.
pub(super) struct PublishedSource {
    published: Published,
    flat: FlatSource,
}

impl PublishedSource {
    pub fn new(published: Published, flat: FlatSource) -> Self {
        Self { published, flat }
    }

    /// Whether the transfer is still the one that was opened. What of it failed is given back once it is open again, and reads as zeros:
    /// so this is asked after what it is asked of was read.
    fn check_open(&self) -> io::Result<()> {
        self.published.check_open().map_err(other)
    }

    /// What is said of a block of which no value is recorded. A block that holds nothing but what failed has none, and is not asked for;
    /// of any other that is damage.
    fn without_record(&self, shape: &BlockShape) -> Vec<EntryFailure> {
        tracing::error!(transfer = %self.published.id(), block = shape.number.0, "what a block was proven by is missing");
        let entries = shape.entries().filter(|entry| !self.published.failed().contains(entry));
        entries.map(EntryFailure::damaged).collect()
    }
}

fn other(error: DepotError) -> io::Error {
    io::Error::other(error)
}

impl BlockSource for PublishedSource {
    fn known_value(&self, block: BlockNumber) -> io::Result<Option<Hash>> {
        self.flat.known_value(block)
    }

    fn known_proof(&self, shape: &BlockShape) -> io::Result<Option<BlockProof>> {
        self.flat.known_proof(shape)
    }

    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let is_recorded = self.known_value(shape.number)?.is_some();
        let failures = self.flat.read_block(shape, buffer, &mut |piece| {
            self.check_open()?;
            emit(piece)
        })?;
        Ok(if is_recorded { failures } else { self.without_record(shape) })
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{BLOCK_SIZE, BlockRun, ByteCount, EntryIndex, FailureCause};

    use super::*;
    use crate::fixture::Fixture;
    use crate::{Caller, blocking};

    const SIZES: [u64; 2] = [5, BLOCK_SIZE];
    const FIRST: BlockRun = BlockRun { first: BlockNumber(0), count: 1 };

    /// A finished transfer of one file, which somebody reads.
    async fn read(fixture: &Fixture, size: u64) -> Published {
        let id = fixture.finished(ByteCount(size)).await;
        fixture.depot.open_published(&Caller::Token(fixture.owner.clone()), id).await.unwrap()
    }

    /// What a sender hears of the first block: its value, and what reading it comes to.
    async fn first_block(published: &Published) -> (io::Result<Option<Hash>>, io::Result<Vec<EntryFailure>>) {
        let (source, shape) = (published.source(), published.layout().shape(BlockNumber(0)).unwrap());
        let asked = move || {
            let read = source.read_block(&shape, &mut vec![0; BLOCK_SIZE as usize], &mut |_| Ok(()));
            (source.known_value(shape.number), read)
        };
        blocking::run(asked).await.unwrap()
    }

    fn error_of<T: std::fmt::Debug>(result: io::Result<T>) -> DepotError {
        *result.unwrap_err().into_inner().unwrap().downcast().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_native_receiver_is_sent_nothing_of_a_transfer_that_was_removed_or_reopened() {
        for size in SIZES {
            let fixture = Fixture::new().await;
            let published = read(&fixture, size).await;
            assert_eq!(first_block(&published).await.1.unwrap(), []);
            let id = published.id();
            fixture.depot.inner.registry.slot(id).await.clear_published();
            assert!(matches!(error_of(first_block(&published).await.1), DepotError::NoTransfer), "{size}");
            // As its blocks are once it is open: the rows are gone, and zeros are where the bytes were.
            fixture.depot.inner.db.forget_blocks(id, &[FIRST], |_| size, size).await.unwrap();
            assert!(matches!(error_of(first_block(&published).await.1), DepotError::NoTransfer), "{size}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_nothing_proves_of_a_finished_transfer_is_called_damaged_and_not_hashed_anew() {
        for size in SIZES {
            let fixture = Fixture::new().await;
            let published = read(&fixture, size).await;
            fixture.depot.inner.db.forget_blocks(published.id(), &[FIRST], |_| size, size).await.unwrap();
            let failures = first_block(&published).await.1.unwrap();
            let failed: Vec<_> = failures.iter().map(|failure| (failure.entry, failure.cause)).collect();
            assert_eq!(failed, [(EntryIndex(0), FailureCause::Unreadable)], "{size}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_value_that_the_database_does_not_give_is_not_taken_for_one_that_is_not_recorded() {
        for size in SIZES {
            let fixture = Fixture::new().await;
            let published = read(&fixture, size).await;
            fixture.depot.inner.db.close().await;
            let (value, read) = first_block(&published).await;
            assert!(matches!(error_of(value), DepotError::Database(_)), "{size}");
            assert!(matches!(error_of(read), DepotError::Database(_)), "{size}");
        }
    }
}
