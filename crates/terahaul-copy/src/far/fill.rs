//! A near side sends: what it sends lands here.

use std::sync::Arc;

use terahaul_core::EntryIndex;
use terahaul_net::failures::to_failed;
use terahaul_net::server::{Appended, Fill, Manifest, Seated};
use terahaul_net::session::{SignedWord, Telling};
use terahaul_store::{EntryFailure, Inbound};
use terahaul_wire::{Batch, ErrorCode, Opened, WireError};

use super::{Side, last_word, off_runtime, other_way};
use crate::landing::{Judged, Landing, Looked};
use crate::notes::{DESTINATION, Note};
use crate::skipped::Walked;

/// A near side sends.
pub(crate) struct FarFill {
    pub(super) side: Arc<Side>,
    pub(super) landing: Arc<Landing>,
    pub(super) seated: Seated,
}

/// What is stored of a manifest: nothing that a near side would need.
pub(crate) struct NoManifest;

impl Manifest for NoManifest {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        Ok(None)
    }
}

impl Fill for FarFill {
    type Manifest = NoManifest;
    type Looked = Looked;

    fn opened(&self) -> Opened {
        let Side::Receives { key, .. } = &*self.side else { return Opened::default() };
        let entries = self.landing.inbound().with(|receiver| receiver.layout().entry_count() as u32);
        Opened { transfer: *key, entries, ..Opened::default() }
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(self.landing.inbound())
    }

    fn manifest(&self) -> Result<NoManifest, WireError> {
        Ok(NoManifest)
    }

    async fn look(&self, batch: Batch) -> Result<Looked, WireError> {
        let landing = Arc::clone(&self.landing);
        off_runtime(move || landing.look(batch)).await
    }

    async fn append(&self, looked: Looked) -> Result<Appended, WireError> {
        let landing = Arc::clone(&self.landing);
        let end = looked.end();
        let judged = off_runtime(move || {
            landing.tell_again_from(looked.first());
            landing.append(looked)
        })
        .await?;
        let Judged { declined, failed, durable } = judged;
        let failed = failed.into_iter().map(to_failed);
        Ok(Appended { end, declined, failed: failed.collect(), durable })
    }

    fn tell_bases(&self) -> Option<Telling> {
        self.landing.tell_bases()
    }

    fn held(&self, end: EntryIndex) -> Vec<EntryIndex> {
        self.landing.held(end)
    }

    async fn fail(&self, failures: Vec<EntryFailure>) -> Result<(), WireError> {
        let landing = Arc::clone(&self.landing);
        off_runtime(move || {
            landing.fail(failures);
            Ok(())
        })
        .await
    }

    async fn finish(&self) -> Result<SignedWord, WireError> {
        let Side::Receives { finished, .. } = &*self.side else { return Err(other_way()) };
        let mut finished = finished.lock().await;
        let landed = match *finished {
            // A session before this one, whose connection was lost meanwhile.
            Some(landed) => {
                self.landing.tell_again_from(DESTINATION);
                landed
            }
            None => {
                let landing = Arc::clone(&self.landing);
                *finished.insert(off_runtime(move || landing.finish()).await?)
            }
        };
        last_word(landed, self.landing.late_failures(), Walked::default())
    }

    fn handle_note(&self, note: Vec<u8>) -> Result<(), WireError> {
        match Note::decode(&note) {
            Some(Note::Walked(errors, kept)) => {
                let kept = kept.into_iter().flatten().map(Vec::from);
                self.landing.handle_walked(Walked::said(errors, kept));
            }
            _ => return Err(WireError::violation("its note cannot be read")),
        }
        Ok(())
    }

    fn take_notes(&self) -> Vec<Vec<u8>> {
        self.landing.take_notes()
    }

    async fn lost(&self) -> WireError {
        self.seated.lost().await;
        WireError::passing(ErrorCode::Unavailable, "the near side has connected once more")
    }
}
