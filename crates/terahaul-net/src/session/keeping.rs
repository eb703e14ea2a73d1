//! What becomes of blocks that were received, for the session that has to tell of it.

use std::sync::Arc;

use terahaul_core::BlockRun;
use terahaul_store::{Inbound, InboundError};
use terahaul_wire::WireError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::channel::inbound_wire_error;

/// Listens to an [`Inbound`] until it is dropped.
pub(crate) struct Keeping {
    /// Blocks that have become durable.
    pub durable: UnboundedReceiver<Vec<BlockRun>>,
    /// Blocks that were received are missing again, and why: the sender counts on them.
    pub lost: UnboundedReceiver<WireError>,
    inbound: Arc<Inbound>,
    listeners: [u64; 2],
}

impl Keeping {
    /// From here on nothing is missed.
    pub fn listen(inbound: &Arc<Inbound>) -> Self {
        let (now_durable, durable) = unbounded_channel();
        let (now_lost, lost) = unbounded_channel();
        // A session that is over hears nothing more of either; the next one begins with all that is there.
        let durable_listener = inbound.add_listener(Box::new(move |runs| {
            let _ = now_durable.send(runs.to_vec());
        }));
        let loss_listener = inbound.add_loss_listener(Box::new(move |failure| {
            let _ = now_lost.send(inbound_wire_error(&InboundError::Broken(failure.clone())));
        }));
        Self { durable, lost, inbound: Arc::clone(inbound), listeners: [durable_listener, loss_listener] }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.listeners.into_iter().for_each(|listener| self.inbound.remove_listener(listener));
    }
}
