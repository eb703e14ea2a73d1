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
use crate::transfer::{ManifestReader, Outbound};

/// A transfer that a client receives.
pub struct DepotServe {
    depot: Depot,
    outbound: Outbound,
}

pub(super) async fn open(
    depot: &Depot,
    caller: &Caller,
    open: &OpenReceive,
) -> Result<DepotServe, DepotError> {
    let outbound = depot.open_outbound(caller, TransferId(open.transfer)).await?;
    Ok(DepotServe { depot: depot.clone(), outbound })
}

impl Serve for DepotServe {
    type Manifest = ManifestReader;

    fn opened(&self) -> Opened {
        Opened {
            transfer: self.outbound.id().0,
            entries: self.outbound.layout().entry_count() as u32,
            name: self.outbound.name().to_owned(),
            bytes: self.outbound.byte_count().0,
            ..Opened::default()
        }
    }

    fn block_limit(&self) -> u64 {
        self.outbound.layout().block_count()
    }

    fn placement(&self) -> Placement {
        Placement::Declared
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        Arc::new(self.outbound.source())
    }

    fn manifest(&self) -> Result<ManifestReader, WireError> {
        self.outbound.manifest(0).map_err(wire)
    }

    async fn failed(&self, from: EntryIndex) -> Result<Vec<Failed>, WireError> {
        if self.outbound.failed().is_empty() {
            return Ok(Vec::new());
        }
        let failures = self.depot.failures(&self.outbound, from).await.map_err(wire)?;
        let failed = failures.into_iter().map(|failure| Failed {
            entry: failure.entry.0,
            cause: failure.cause.into(),
            detail: failure.detail,
        });
        Ok(failed.collect())
    }

    fn handle_failed(&self, failed: &[Failed]) {
        for failure in failed {
            tracing::error!(transfer = %self.outbound.id(), entry = failure.entry, "{}", failure.detail);
        }
    }

    fn word(&self) -> Result<SignedWord, WireError> {
        word(self.outbound.finished()).map_err(wire)
    }

    async fn recheck(&self) -> Result<(), WireError> {
        if self.outbound.is_closed() {
            return Err(WireError::fatal(
                ErrorCode::NotFound,
                "the transfer was removed or reopened while it was received: ask its sender",
            ));
        }
        Ok(())
    }

    fn handle_finished(&self) {
        tracing::info!(transfer = %self.outbound.id(), "received whole");
    }
}
