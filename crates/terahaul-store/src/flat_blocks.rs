//! Blocks of a flat transfer: a depot's side of the engine.

use std::io::{self, IoSlice};
use std::sync::Arc;

use terahaul_core::{
    Address, BlockContent, BlockNumber, BlockProof, BlockShape, EntryIndex, FailureCause, Hash,
};

use crate::{
    BlockSink, BlockSource, BlockWriter, EntryFailure, FlatTransfer, SinkError, StoreError, piece_at,
};

/// Writes blocks at their addresses.
pub struct FlatSink {
    transfer: Arc<dyn FlatTransfer>,
}

impl FlatSink {
    /// Writes into `transfer`.
    pub fn new(transfer: Arc<dyn FlatTransfer>) -> Self {
        Self { transfer }
    }
}

struct FlatWriter<'a> {
    transfer: &'a dyn FlatTransfer,
    at: Address,
}

impl BlockSink for FlatSink {
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        Ok(Box::new(FlatWriter { transfer: &*self.transfer, at: shape.number.address() }))
    }

    fn sync(&self) -> Result<(), SinkError> {
        Ok(self.transfer.sync()?)
    }
}

impl BlockWriter for FlatWriter<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError> {
        self.transfer.write_at(self.at, parts)?;
        self.at = self.at + parts.iter().map(|part| part.len() as u64).sum();
        Ok(())
    }

    fn skip(&mut self, len: u32) -> Result<(), SinkError> {
        self.at = self.at + u64::from(len);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What was recorded of a transfer's blocks when they arrived.
pub trait Recorded: Send + Sync {
    /// A block's value.
    fn value(&self, block: BlockNumber) -> io::Result<Option<Hash>>;

    /// What it was proven by.
    fn proof(&self, shape: &BlockShape) -> io::Result<Option<BlockProof>>;
}

/// Reads blocks from their addresses.
pub struct FlatSource {
    transfer: Arc<dyn FlatTransfer>,
    recorded: Arc<dyn Recorded>,
}

impl FlatSource {
    /// Reads from `transfer`; `recorded` gives the values recorded when the blocks arrived, so that a receiver's own
    /// hash proves the bytes against what was once sent, whatever happened to the disk since.
    pub fn new(transfer: Arc<dyn FlatTransfer>, recorded: Arc<dyn Recorded>) -> Self {
        Self { transfer, recorded }
    }
}

impl BlockSource for FlatSource {
    fn known_value(&self, block: BlockNumber) -> io::Result<Option<Hash>> {
        self.recorded.value(block)
    }

    fn known_proof(&self, shape: &BlockShape) -> io::Result<Option<BlockProof>> {
        self.recorded.proof(shape)
    }

    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        let mut failures: Vec<EntryFailure> = Vec::new();
        let mut at = 0u32;
        while at < shape.len {
            let piece = piece_at(buffer, at, shape.len);
            let end = at + piece.len() as u32;
            if let Err(error) = self.transfer.read_at(shape.number.address() + u64::from(at), piece) {
                piece.fill(0);
                for entry in entries_within(shape, at, end) {
                    if failures.last().is_none_or(|last| last.entry < entry) {
                        let detail = said_of_reading(&error);
                        failures.push(EntryFailure { entry, cause: FailureCause::Unreadable, detail });
                    }
                }
            }
            emit(piece)?;
            at = end;
        }
        Ok(failures)
    }
}

/// Why bytes could not be read, to who can do nothing about the disk, and may have them the next time.
fn said_of_reading(error: &StoreError) -> String {
    match error {
        StoreError::Io(error) | StoreError::TooManyFiles(error) => format!("it cannot be read now: {error}"),
        other => other.to_string(),
    }
}

/// The entries with bytes between `start` and `end`, in order.
fn entries_within(shape: &BlockShape, start: u32, end: u32) -> impl Iterator<Item = EntryIndex> {
    let (piece, packed) = match &shape.content {
        BlockContent::Piece { entry, .. } => (Some(*entry), &[][..]),
        BlockContent::Packed { files, .. } => (None, files.as_slice()),
    };
    let overlapping = packed.iter().filter(move |file| file.offset < end && file.offset + file.len > start);
    piece.into_iter().chain(overlapping.map(|file| file.entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, Store};
    use terahaul_core::{ByteCount, Layout, TransferId};

    struct Constant(Hash);

    impl Recorded for Constant {
        fn value(&self, _: BlockNumber) -> io::Result<Option<Hash>> {
            Ok(Some(self.0))
        }

        fn proof(&self, _: &BlockShape) -> io::Result<Option<BlockProof>> {
            Ok(None)
        }
    }

    #[test]
    fn what_could_not_be_read_once_is_not_called_lost() {
        let said = said_of_reading(&StoreError::Io(rustix::io::Errno::IO.into()));
        assert!(said.starts_with("it cannot be read now: Input/output error"), "{said}");
        assert!(said_of_reading(&StoreError::Short(TransferId([1; 16]))).contains("is damaged"));
    }

    #[test]
    fn files_that_the_store_has_lost_fail_by_name_and_the_rest_is_read() {
        let transfer = MemoryStore::new().create(TransferId([1; 16])).unwrap();
        let mut layout = Layout::new();
        for size in [100, 50, 70, 30] {
            layout.append(Some(ByteCount(size))).unwrap();
        }
        layout.seal();
        let shape = layout.shape(BlockNumber(0)).unwrap();
        let sink = FlatSink::new(Arc::clone(&transfer));
        let mut writer = sink.begin(&shape).unwrap();
        writer.write(&[IoSlice::new(&[1; 90]), IoSlice::new(&[1; 30])]).unwrap();
        writer.write(&[IoSlice::new(&[1; 40])]).unwrap();
        writer.finish().unwrap();

        let source = FlatSource::new(transfer, Arc::new(Constant(Hash([8; 32]))));
        assert_eq!(source.known_value(BlockNumber(0)).unwrap(), Some(Hash([8; 32])));
        let mut read = Vec::new();
        let failures = source.read_block(&shape, &mut [0; 40], &mut |bytes| {
            read.extend_from_slice(bytes);
            Ok(())
        });
        let failures = failures.unwrap();
        assert_eq!(read.len(), 250, "exactly the block's bytes, whatever fails");
        assert_eq!(read[..160], [1; 160]);
        assert_eq!(read[160..], [0; 90]);
        let failed: Vec<_> = failures.iter().map(|failure| (failure.entry, failure.cause)).collect();
        let unreadable = [2, 3].map(|entry| (EntryIndex(entry), FailureCause::Unreadable));
        assert_eq!(failed, unreadable);

        let stop = source.read_block(&shape, &mut [0; 40], &mut |_| Err(io::ErrorKind::BrokenPipe.into()));
        assert_eq!(stop.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
