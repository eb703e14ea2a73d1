//! The record of what is durable.

use std::collections::BTreeMap;
use std::sync::Mutex;

use terahaul_core::{BlockNumber, BlockProof, BlockShape};

use crate::limits::remedy_of_too_many_files;

/// Why the record could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the record of what has arrived could not be {action}: {source}; {remedy}, then run the same command again", remedy = self.remedy()
)]
pub struct LedgerError {
    /// `written` or `read`.
    pub action: &'static str,
    /// What failed. Where room is missing it is an [`io::Error`](std::io::Error) that says so, whatever it wraps.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl LedgerError {
    /// Whether room on the disk is what is missing.
    pub fn is_full(&self) -> bool {
        self.source.downcast_ref().is_some_and(crate::is_full)
    }

    fn remedy(&self) -> &'static str {
        if self.is_full() {
            return "free some space or, where it is used up, raise the quota";
        }
        self.source.downcast_ref().and_then(remedy_of_too_many_files).unwrap_or("check the disk")
    }
}

/// Keeps the proofs of durable blocks: a depot's database, or a journal in a receiver's staging folder.
pub trait Ledger: Send + Sync {
    /// Records `proven`, durably, before it returns. The blocks' bytes are durable already.
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError>;

    /// The recorded proof of a block.
    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError>;

    /// Whether a block's recorded proof is `proof`; `None` when nothing is recorded of it.
    fn has_recorded(&self, shape: &BlockShape, proof: &BlockProof) -> Result<Option<bool>, LedgerError> {
        Ok(self.proof(shape)?.map(|known| known == *proof))
    }
}

/// A ledger that forgets when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    proofs: Mutex<BTreeMap<BlockNumber, BlockProof>>,
}

impl Ledger for MemoryLedger {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        let mut proofs = self.proofs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        proofs.extend(proven.iter().cloned());
        Ok(())
    }

    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        let proofs = self.proofs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(proofs.get(&shape.number).cloned())
    }
}
