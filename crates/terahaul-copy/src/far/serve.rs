//! A near side receives: what is offered here is sent.

use std::sync::Arc;

use terahaul_core::EntryIndex;
use terahaul_net::channel::Placement;
use terahaul_net::server::Serve;
use terahaul_net::session::SignedWord;
use terahaul_store::BlockSource;
use terahaul_wire::{Failed, Opened, WireError};

use super::last_word;
use crate::offer::{Offer, OfferManifest};
use crate::summary::Landed;

/// A near side receives.
pub(crate) struct FarServe {
    pub(super) offer: Arc<Offer>,
    pub(super) key: [u8; 16],
}

impl Serve for FarServe {
    type Manifest = OfferManifest;

    fn opened(&self) -> Opened {
        Opened { transfer: self.key, ..Opened::default() }
    }

    fn block_limit(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn placement(&self) -> Placement {
        Placement::Accepted
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        self.offer.source()
    }

    fn manifest(&self) -> Result<OfferManifest, WireError> {
        self.offer.handle_session();
        Ok(OfferManifest::new(Arc::clone(&self.offer)))
    }

    async fn failed(&self, from: EntryIndex) -> Result<Vec<Failed>, WireError> {
        Ok(self.offer.failed(from))
    }

    fn handle_failed(&self, failed: &[Failed]) {
        self.offer.handle_failed(failed);
    }

    fn word(&self) -> Result<SignedWord, WireError> {
        last_word(Landed::default(), self.offer.skipped(), self.offer.walked())
    }

    async fn recheck(&self) -> Result<(), WireError> {
        Ok(())
    }

    fn handle_finished(&self) {}
}
