//! Receiving, to nowhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use terahaul_core::{Receiver, TransferId};
use terahaul_net::client::{
    Client, ClientError, Destination, DestinationError, ReceiveWatch, Receiving, Taken,
};
use terahaul_store::{Inbound, MemoryLedger, Nowhere};
use terahaul_wire::{Batch, Failed};

use super::gauge::Gauge;
use super::{FIRST_BYTES, Plan, TICK, uncompressed};
use crate::probe::Transferred;
use crate::work::Direction;

/// Receives `transfer` for the planned time, or until it has all arrived, and keeps nothing. `None` if nothing came.
pub async fn download(
    client: Client,
    address: SocketAddr,
    transfer: TransferId,
    plan: Plan,
) -> Result<Option<Transferred>, ClientError> {
    let begun = Instant::now();
    let local = |error: &dyn std::fmt::Display| ClientError::Local(error.to_string());
    let inbound = Inbound::start(Receiver::default(), Arc::new(Nowhere), Arc::new(MemoryLedger::default()));
    let destination = Arc::new(Nothing { inbound: Arc::new(inbound.map_err(|error| local(&error))?) });
    let watch = ReceiveWatch::default();
    let watched = watch.clone();
    let gauge = Gauge::start(begun, address, plan.udp, move || watched.progress());
    let receiving = async {
        let receiving = Receiving::open(client, transfer, uncompressed(plan.udp)).await?;
        receiving.receive(destination, watch.clone()).await
    };
    let measured = async {
        while watch.progress().sent.0 == 0 {
            if begun.elapsed() >= FIRST_BYTES {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
        tokio::time::sleep(plan.time).await;
    };
    let ended = tokio::select! {
        ended = receiving => Some(ended),
        () = measured => None,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let readings = gauge.stop().await;
    let whole = match ended {
        Some(received) => received.map(|_| Some((watch.progress().total.0, seconds)))?,
        None => None,
    };
    let moved = readings.transferred(Direction::Get, plan.rtt, seconds);
    let (bytes, seconds) = whole.unzip();
    Ok(moved.map(|moved| Transferred { bytes, seconds, ..moved }))
}

/// Takes what comes.
struct Nothing {
    inbound: Arc<Inbound>,
}

impl Destination for Nothing {
    fn handle_entries(&self, _: Batch) -> Result<Taken, DestinationError> {
        Ok(Taken::default())
    }

    fn handle_failed(&self, _failed: Vec<Failed>) {}

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }
}
