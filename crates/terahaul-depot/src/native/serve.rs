//! A client receives one of the depot's transfers.

use std::sync::Arc;

use terahaul_core::{EntryIndex, TransferId};
use terahaul_net::channel::Placement;
use terahaul_net::server::Serve;
use terahaul_net::session::SignedWord;
use terahaul_store::BlockSource;
use terahaul_wire::{ErrorCode, Failed, OpenReceive, Opened, WireError};

use super::fill::word;
use super::wire;
use crate::DepotError;
use crate::auth::Caller;
use crate::depot::Depot;
use crate::transfer::{ManifestReader, Published};

/// A transfer that a client receives.
pub struct DepotServe {
    depot: Depot,
    published: Published,
}

pub(super) async fn open(
    depot: &Depot,
    caller: &Caller,
    open: &OpenReceive,
) -> Result<DepotServe, DepotError> {
    let published = depot.open_published(caller, TransferId(open.transfer)).await?;
    Ok(DepotServe { depot: depot.clone(), published })
}

impl Serve for DepotServe {
    type Manifest = ManifestReader;

    fn opened(&self) -> Opened {
        Opened {
            transfer: self.published.id().0,
            entries: self.published.layout().entry_count() as u32,
            name: self.published.name().to_owned(),
            bytes: self.published.byte_count().0,
            ..Opened::default()
        }
    }

    fn block_limit(&self) -> u64 {
        self.published.layout().block_count()
    }

    fn placement(&self) -> Placement {
        Placement::Declared
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        Arc::new(self.published.source())
    }

    fn manifest(&self) -> Result<ManifestReader, WireError> {
        self.published.manifest(0).map_err(wire)
    }

    async fn failed(&self, from: EntryIndex) -> Result<Vec<Failed>, WireError> {
        if self.published.failed().is_empty() {
            return Ok(Vec::new());
        }
        let failures = self.depot.failures(&self.published, from).await.map_err(wire)?;
        let failed = failures.into_iter().map(|failure| Failed {
            entry: failure.entry.0,
            cause: failure.cause.into(),
            detail: failure.detail,
        });
        Ok(failed.collect())
    }

    fn handle_failed(&self, failed: &[Failed]) {
        for failure in failed {
            tracing::error!(transfer = %self.published.id(), entry = failure.entry, "{}", failure.detail);
        }
    }

    fn word(&self) -> Result<SignedWord, WireError> {
        word(self.published.finished()).map_err(wire)
    }

    async fn recheck(&self) -> Result<(), WireError> {
        if self.published.is_closed() {
            return Err(WireError::fatal(
                ErrorCode::NotFound,
                "the transfer was removed or reopened while it was received: ask its sender",
            ));
        }
        Ok(())
    }

    fn handle_finished(&self) {
        tracing::info!(transfer = %self.published.id(), "received whole");
    }
}
