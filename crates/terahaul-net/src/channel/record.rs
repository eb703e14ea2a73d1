//! What is recorded of a block that is read, and whether it still is what is there.

use std::io;

use terahaul_core::{BlockHasher, BlockProof, BlockShape, Hash};
use terahaul_store::{BlockSource, EntryFailure};

/// What a block is worth by what was recorded of it.
pub(super) enum Record {
    /// Nothing that holds: what is read is hashed.
    Nothing,
    /// This value, and what is read is not hashed: the receiver's own hash shows whether it still has it.
    Value(Hash),
    /// The receiver has refused the block, or one of its files has failed: what is read is hashed, and compared with this.
    Doubted(BlockProof),
}

/// What reading a block came to.
pub(super) struct Read {
    /// What it is worth.
    pub value: Hash,
    /// Where it was hashed.
    pub proof: Option<BlockProof>,
    /// Of its entries, those that are not in what was read.
    pub failures: Vec<EntryFailure>,
}

impl Record {
    /// Reads a block into `buffer`, as [`BlockSource::read_block`] does, and hashes it where it has to be. What is not as it was recorded is
    /// among its failures.
    pub fn read(
        &self,
        source: &dyn BlockSource,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Read> {
        let mut hasher = (!matches!(self, Self::Value(_))).then(|| BlockHasher::new(shape));
        let mut failures = source.read_block(shape, buffer, &mut |piece| {
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            emit(piece)
        })?;
        let proof = hasher.map(BlockHasher::finish);
        if let (Self::Doubted(recorded), Some(read)) = (self, &proof) {
            for entry in recorded.differing(shape, read) {
                if failures.iter().all(|failure| failure.entry != entry) {
                    failures.push(EntryFailure::damaged(entry));
                }
            }
        }
        let value = match (&proof, self) {
            (Some(proof), _) => proof.value(),
            (None, Self::Value(value)) => *value,
            (None, _) => Hash::default(),
        };
        Ok(Read { value, proof, failures })
    }
}
