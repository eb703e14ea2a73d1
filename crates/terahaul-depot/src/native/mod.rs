//! Native sessions: what the depot does behind the server's end of `terahaul/1` ([`terahaul_net::server`]).

mod fill;
mod serve;

use std::net::IpAddr;

use terahaul_core::EntryIndex;
use terahaul_net::server::{Filling, Manifest, Service};
use terahaul_wire::{Batch, OpenReceive, OpenSend, WireError};

use crate::DepotError;
use crate::auth::Caller;
use crate::depot::Depot;
use crate::transfer::{ManifestBatch, ManifestReader};
use fill::DepotFill;
use serve::DepotServe;

impl Service for Depot {
    type Caller = Caller;
    type Fill = DepotFill;
    type Serve = DepotServe;

    async fn caller(&self, credential: &str, peer: IpAddr) -> Result<Caller, WireError> {
        match Depot::caller(self, credential).await {
            Ok(caller) => Ok(caller),
            Err(error) => Err((&self.throttled(peer, error)).into()),
        }
    }

    async fn recheck(&self, caller: &Caller) -> Result<(), WireError> {
        Depot::recheck(self, caller).await.map_err(wire)
    }

    async fn open_send(&self, caller: &Caller, open: OpenSend) -> Result<Filling<DepotFill>, WireError> {
        fill::open(self, caller, open).await.map_err(wire)
    }

    async fn open_receive(&self, caller: &Caller, open: &OpenReceive) -> Result<DepotServe, WireError> {
        serve::open(self, caller, open).await.map_err(wire)
    }
}

impl Manifest for ManifestReader {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        let batch = ManifestReader::next(self).await.map_err(wire)?;
        Ok(batch.map(|ManifestBatch { first, entries, seal, .. }| {
            let first = EntryIndex(first as u32);
            Batch { first, entries, seal }
        }))
    }
}

fn wire(error: DepotError) -> WireError {
    (&error).into()
}
