//! Native sessions: what the depot does behind the server's end of `terahaul/1` ([`terahaul_net::server`]).

mod fill;
mod serve;

use std::net::IpAddr;

use terahaul_core::EntryIndex;
use terahaul_net::server::{Filling, Manifest, Service};
use terahaul_wire::{Batch, ErrorCode, OpenReceive, OpenSend, WireError};

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

    fn is_proven(&self, caller: &Caller) -> bool {
        // What a link's secret is for comes with the request.
        !matches!(caller, Caller::Link(_))
    }

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
    let wire = WireError::from(&error);
    // As what fails over HTTP.
    match wire.code {
        ErrorCode::Internal => tracing::error!(%error, "a session's request failed"),
        ErrorCode::DiskFull => tracing::warn!(%error, "a session's request failed"),
        _ => {}
    }
    wire
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use terahaul_core::EntryKind;
    use terahaul_net::control::{ControlReader, ControlWriter};
    use terahaul_net::server::run_control;
    use terahaul_wire::{Hello, Message, VERSION};

    use super::*;
    use crate::fixture::{Fixture, entry};

    /// What finishing does to a transfer was taken for another's doing: the sender was told that it had lost it, connected again, and
    /// heard of the end then.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_hears_of_the_end_in_the_session_that_asks_for_it() {
        let Fixture { depot, .. } = &Fixture::new().await;
        let token = depot.owner_token().await.unwrap();
        let (near, far) = tokio::io::duplex(1 << 16);
        let served = depot.clone();
        tokio::spawn(async move {
            run_control(&served, far, Ipv4Addr::LOCALHOST.into(), &Arc::default(), None).await;
        });
        let (read, write) = tokio::io::split(near);
        let (mut reader, mut writer) = (ControlReader::new(read), ControlWriter::new(write));
        let first =
            Batch { first: EntryIndex(0), entries: vec![entry("folder", EntryKind::Directory)], seal: true };
        for message in [
            Message::Hello(Hello { versions: vec![VERSION], capabilities: Vec::new(), agent: "test".into() }),
            Message::Authenticate(token),
            Message::OpenSend(OpenSend { name: "t".into(), first: Some(first), ..OpenSend::default() }),
            Message::Finish,
        ] {
            writer.send(&message).await.unwrap();
        }
        loop {
            match reader.next().await.unwrap() {
                Message::Statement(..) => break,
                Message::Error(error) => panic!("{error}"),
                _ => {}
            }
        }
    }
}
