//! What is recorded of a block that is read, and whether it still is what is there.

use terahaul_core::{BlockHasher, BlockProof, BlockShape, Hash};
use terahaul_store::EntryFailure;

/// What a block is worth by what was recorded of it.
pub(super) enum Record {
    /// Nothing that holds: what is read is hashed.
    Nothing,
    /// This value, and what is read is not hashed: the receiver's own hash shows whether it still has it.
    Value(Hash),
    /// The receiver has refused the block, or one of its files has failed: what is read is hashed, and compared with this.
    Doubted(BlockProof),
}

impl Record {
    /// Hashes what is read, where it has to be.
    pub fn hasher(&self, shape: &BlockShape) -> Option<BlockHasher> {
        (!matches!(self, Self::Value(_))).then(|| BlockHasher::new(shape))
    }

    /// The block was read, and hashed by [`hasher`](Self::hasher): its value, and its proof where that was computed. What is not as it
    /// was recorded is added to `failures`.
    pub fn judge(
        &self,
        shape: &BlockShape,
        hasher: Option<BlockHasher>,
        failures: &mut Vec<EntryFailure>,
    ) -> (Hash, Option<BlockProof>) {
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
        (value, proof)
    }
}
