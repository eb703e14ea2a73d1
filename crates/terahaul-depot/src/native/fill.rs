//! A client sends into one of the depot's transfers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_core::TransferId;
use terahaul_net::server::{Appended, Fill, Filling, Seated, Unseated};
use terahaul_net::session::SignedWord;
use terahaul_store::{EntryFailure, Inbound};
use terahaul_wire::{Batch, ErrorCode, OpenSend, Opened, WireError};

use super::wire;
use crate::auth::{Caller, Identity};
use crate::db::TransferState;
use crate::depot::Depot;
use crate::error::told_of_disk;
use crate::transfer::{Asker, CreateTransfer, Finished, Live, ManifestReader};
use crate::{ApiCode, DepotError};

/// A transfer that a client fills.
pub struct DepotFill {
    depot: Depot,
    live: Arc<Live>,
    name: String,
    seated: Seated,
    /// Behind the seat, which has to be free by the time that this is dropped.
    refused: Refused,
}

/// What was refused for lack of room before anything of it was declared leaves no transfer behind: there is nothing to go on with.
struct Refused {
    depot: Depot,
    id: TransferId,
    for_room: AtomicBool,
}

impl Drop for Refused {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !*self.for_room.get_mut() {
            return;
        }
        let (depot, id) = (self.depot.clone(), self.id);
        runtime.spawn(async move {
            if let Err(error) = depot.remove_if_empty(id).await {
                tracing::warn!(transfer = %id, %error, "an empty transfer could not be removed");
            }
        });
    }
}

pub(super) async fn open(
    depot: &Depot,
    caller: &Caller,
    open: OpenSend,
) -> Result<Filling<DepotFill>, DepotError> {
    let identity = caller.identity()?;
    let found = match open.transfer {
        Some(id) => settled(depot, caller, identity, TransferId(id)).await,
        None => match begun(depot, caller, identity, &open).await {
            // Another client of its resume key made it, could not fill it, and removed it in this moment.
            Err(DepotError::NoTransfer) => begun(depot, caller, identity, &open).await,
            begun => begun,
        },
    };
    let (id, live) = found?;
    let Some((live, name)) = live else { return finished(depot, caller, id).await };
    let declared = live.inbound().with(|r| r.layout().entry_count());
    if open.known.is_some_and(|known| u64::from(known) < declared) {
        return Err(DepotError::SenderReplaced);
    }
    let seated = live.seat.take();
    if open.known.is_none() {
        live.handle_run().await;
    }
    let refused = Refused { depot: depot.clone(), id, for_room: AtomicBool::new(false) };
    Ok(Filling::Open(DepotFill { depot: depot.clone(), live, name, seated, refused }))
}

/// A transfer and the name that it has now: it may have been given another one since it was loaded.
type Named = (Arc<Live>, String);

async fn begun(
    depot: &Depot,
    caller: &Caller,
    identity: &Identity,
    open: &OpenSend,
) -> Result<(TransferId, Option<Named>), DepotError> {
    let id = transfer_for(depot, identity, open).await?;
    match settled(depot, caller, identity, id).await? {
        // It was being finished, and this waited for that. Whoever knows nothing of it has nothing to go on with.
        (_, None) => {
            let id = transfer_for(depot, identity, open).await?;
            settled(depot, caller, identity, id).await
        }
        begun => Ok(begun),
    }
}

async fn settled(
    depot: &Depot,
    caller: &Caller,
    identity: &Identity,
    id: TransferId,
) -> Result<(TransferId, Option<Named>), DepotError> {
    let live = match complete_or_live(depot, caller, identity, id).await {
        // It was being finished, and this waited for that.
        Err(DepotError::NotOpen) => complete_or_live(depot, caller, identity, id).await?,
        settled => settled?,
    };
    Ok((id, live))
}

/// The transfer as it takes entries and bytes; `None` if it is complete.
async fn complete_or_live(
    depot: &Depot,
    caller: &Caller,
    identity: &Identity,
    id: TransferId,
) -> Result<Option<Named>, DepotError> {
    // Who may only read is not told the link either.
    let row = depot.row_to_write(caller, id).await?;
    match row.state {
        TransferState::Complete => Ok(None),
        TransferState::Open | TransferState::Partial => {
            Ok(Some((depot.open_inbound(identity, id).await?, row.name)))
        }
    }
}

async fn transfer_for(depot: &Depot, identity: &Identity, open: &OpenSend) -> Result<TransferId, DepotError> {
    let new = CreateTransfer {
        name: open.name.clone(),
        expires_in_days: open.expires_in_days,
        resume_key: open.resume_key.clone(),
    };
    Ok(depot.create_transfer(identity, new).await?.info.id)
}

async fn finished(depot: &Depot, caller: &Caller, id: TransferId) -> Result<Filling<DepotFill>, DepotError> {
    let published = depot.open_published(caller, id).await?;
    let opened = Opened {
        transfer: id.0,
        entries: published.layout().entry_count() as u32,
        name: published.name().to_owned(),
        link: Some(depot.link(id)),
        bytes: published.byte_count().0,
        ..Opened::default()
    };
    let blocks = published.layout().block_count() as u32;
    Ok(Filling::Finished { opened, blocks, word: word(published.finished())? })
}

impl Fill for DepotFill {
    type Manifest = ManifestReader;
    type Looked = Batch;

    fn opened(&self) -> Opened {
        let (entries, bytes, sealed) = self.live.inbound().with(|receiver| {
            let layout = receiver.layout();
            (layout.entry_count() as u32, layout.byte_count().0, layout.open_block().is_none())
        });
        Opened {
            transfer: self.live.id().0,
            entries,
            name: self.name.clone(),
            link: Some(self.depot.link(self.live.id())),
            bytes,
            sealed: Some(sealed),
            ..Opened::default()
        }
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(self.live.inbound())
    }

    fn manifest(&self) -> Result<ManifestReader, WireError> {
        self.live.manifest(0).map_err(wire)
    }

    async fn look(&self, batch: Batch) -> Result<Batch, WireError> {
        Ok(batch)
    }

    async fn append(&self, batch: Batch) -> Result<Appended, WireError> {
        if batch.has_extras() {
            return Err(WireError::violation(
                "its manifest has owners or attributes, and this depot did not say that it keeps them",
            ));
        }
        let end = batch.end();
        if let Err(error) = self.live.append_seated(batch, &self.seated).await {
            if matches!(error.code(), ApiCode::QuotaExceeded | ApiCode::DiskFull | ApiCode::TooLarge) {
                self.refused.for_room.store(true, Ordering::Relaxed);
            }
            return Err(wire(meanwhile(error)));
        }
        Ok(Appended { end, ..Appended::default() })
    }

    async fn fail(&self, failures: Vec<EntryFailure>) -> Result<(), WireError> {
        self.live.fail_by(failures, Asker::Sender).await.map_err(meanwhile).map_err(wire)
    }

    fn told_of_disk(&self, error: WireError) -> WireError {
        tracing::warn!(transfer = %self.live.id(), %error, "the disk did not take what was sent");
        WireError { message: told_of_disk(error.code == ErrorCode::DiskFull).to_owned(), ..error }
    }

    async fn finish(&self) -> Result<SignedWord, WireError> {
        let finished = self.live.finish().await.map_err(wire)?;
        word(&finished).map_err(wire)
    }

    async fn lost(&self) -> WireError {
        wire(match self.seated.lost().await {
            Unseated::Replaced => DepotError::SenderReplaced,
            Unseated::Closed => DepotError::Closed,
        })
    }
}

/// It was open when the session began: the sender, which comes again, finds what became of it.
fn meanwhile(error: DepotError) -> DepotError {
    match error {
        DepotError::NotOpen => DepotError::Closed,
        error => error,
    }
}

pub(super) fn word(finished: &Finished) -> Result<SignedWord, DepotError> {
    let said = serde_json::to_vec(&finished.statement)
        .map_err(|error| DepotError::Damaged(format!("a statement cannot be written: {error}")))?;
    Ok(SignedWord { said, signature: finished.signature.clone() })
}

#[cfg(test)]
mod tests {
    use terahaul_core::{ByteCount, EntryIndex, EntryKind, Extra, FailureCause, Hash};

    use super::*;
    use crate::fixture::{Fixture, entry};

    /// A sender that has begun a transfer.
    async fn sending() -> (Fixture, Caller, DepotFill) {
        let fixture = Fixture::new().await;
        let caller = Caller::Token(fixture.owner.clone());
        let asked = OpenSend { name: "name".into(), ..OpenSend::default() };
        let Filling::Open(fill) = open(&fixture.depot, &caller, asked).await.unwrap() else { panic!() };
        (fixture, caller, fill)
    }

    /// It was told that it had given no token.
    #[tokio::test]
    async fn who_would_send_with_a_link_is_told_that_it_only_reads() {
        let fixture = Fixture::new().await;
        let caller = Caller::Link("thl_x".into());
        let refused = wire(open(&fixture.depot, &caller, OpenSend::default()).await.err().unwrap());
        assert_eq!(refused.code, ErrorCode::Denied);
        assert!(refused.message.contains("a link is no token"), "{}", refused.message);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_depot_does_not_keep_of_an_entry_is_refused() {
        let (_fixture, _, fill) = sending().await;
        let mut entry = entry("a", EntryKind::Directory);
        entry.extra = Extra { content: Some(Hash([0; 32])), ..Extra::default() }.into_option();
        let batch = Batch { first: EntryIndex(0), entries: vec![entry], seal: true };
        assert_eq!(fill.append(batch).await.err().unwrap().code, ErrorCode::Violation);
    }

    /// It was told to check its own disk, or the permissions of its own folder.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_is_told_that_it_is_the_depots_disk_that_failed() {
        let (_fixture, _, fill) = sending().await;
        for code in [ErrorCode::DiskFull, ErrorCode::Internal] {
            let told = fill.told_of_disk(WireError::passing(code, "writing failed: check the disk"));
            assert!(told.message.contains("the depot's owner") && told.retry, "{}", told.message);
            assert_eq!(told.code, code);
        }
    }

    /// It was told that another had taken the transfer over.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_whose_transfer_is_removed_while_it_declares_comes_again() {
        let (fixture, caller, fill) = sending().await;
        fixture.depot.delete_transfer(&caller, fill.live.id()).await.unwrap();
        let empty = Batch { first: EntryIndex(0), entries: Vec::new(), seal: true };
        let looked = fill.look(empty).await.unwrap();
        assert!(fill.append(looked).await.unwrap_err().retry);
        let (entry, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
        assert!(fill.fail(vec![EntryFailure { entry, cause, detail }]).await.unwrap_err().retry);
    }

    /// The last block was sealed at the depot alone: files to come had other addresses there, and with sizes alike one had another's content.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_transfer_that_its_sender_still_declares_is_not_finished_over_http() {
        let (fixture, caller, fill) = sending().await;
        let batch = |first, names: &[&str], seal| {
            let kind = EntryKind::File { size: ByteCount(5) };
            let entries = names.iter().map(|name| entry(name, kind.clone())).collect();
            Batch { first: EntryIndex(first), entries, seal }
        };
        fill.append(batch(0, &["a", "b"], false)).await.unwrap();
        let early = fixture.depot.finish(fill.live.id(), Asker::Another).await;
        assert!(matches!(early, Err(DepotError::BeingDeclared)));
        let live = Arc::clone(&fill.live);
        let another = async |first, seal| live.append_entries(batch(first, &[], seal)).await.unwrap();
        assert_eq!(fill.opened().sealed, Some(false));
        fill.append(batch(2, &["c"], false)).await.unwrap();
        // It seals nothing, as more came since.
        another(2, true).await;
        assert!(!fill.seated.is_lost());
        another(3, true).await;
        assert_eq!(fill.append(batch(3, &["d"], true)).await.err().unwrap().code, ErrorCode::WrongState);
        assert_eq!((fill.opened().entries, fill.opened().sealed), (3, Some(true)));
        // It comes back, and goes on behind what was sealed meanwhile.
        drop(fill);
        let asked = OpenSend { transfer: Some(live.id().0), known: Some(3), ..OpenSend::default() };
        let Filling::Open(fill) = open(&fixture.depot, &caller, asked).await.unwrap() else { panic!() };
        let finish = async || fixture.depot.finish(live.id(), Asker::Another).await;
        assert!(matches!(finish().await, Err(DepotError::BeingDeclared)));
        fill.append(batch(3, &[], true)).await.unwrap();
        assert!(matches!(finish().await, Err(DepotError::Incomplete { .. })));
        // The next run may find more.
        let asked = OpenSend { transfer: Some(live.id().0), ..OpenSend::default() };
        let Filling::Open(_next) = open(&fixture.depot, &caller, asked).await.unwrap() else { panic!() };
        assert!(matches!(finish().await, Err(DepotError::BeingDeclared)));
    }

    /// It waited without end for a file that it knew nothing of, or called the depot a forger.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_sends_natively_leaves_a_transfer_that_somebody_goes_on_with_over_http() {
        for fails in [false, true] {
            let (_fixture, _, fill) = sending().await;
            let file = |name| vec![entry(name, EntryKind::File { size: ByteCount(5) })];
            fill.append(Batch { first: EntryIndex(0), entries: file("a"), seal: true }).await.unwrap();
            if fails {
                let (entry, cause, detail) = (EntryIndex(0), FailureCause::Changed, String::new());
                fill.live.fail_entries(vec![EntryFailure { entry, cause, detail }]).await.unwrap();
            } else {
                let more = Batch { first: EntryIndex(1), entries: file("b"), seal: false };
                fill.live.append_entries(more).await.unwrap();
            }
            assert!(!fill.lost().await.retry);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_transfer_that_is_renamed_while_it_is_sent_is_told_by_its_new_name() {
        let (fixture, caller, fill) = sending().await;
        fixture.depot.change_transfer(&caller, fill.live.id(), Some("other"), None).await.unwrap();
        let asked = OpenSend { transfer: Some(fill.live.id().0), ..OpenSend::default() };
        let Filling::Open(again) = open(&fixture.depot, &caller, asked).await.unwrap() else { panic!() };
        assert_eq!(again.opened().name, "other");
    }

    /// It was taken for the one to go on with, of which its client knew nothing, and which took nothing more.
    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_begins_while_the_transfer_of_its_key_is_finished_gets_another() {
        for _ in 0..20 {
            let fixture = Fixture::new().await;
            let live = fixture.arrived_for(ByteCount(1), Some("key")).await;
            let asked =
                OpenSend { resume_key: Some("key".into()), name: "name".into(), ..OpenSend::default() };
            let caller = Caller::Token(fixture.owner.clone());
            let (finished, opened) = tokio::join!(live.finish(), open(&fixture.depot, &caller, asked));
            finished.unwrap();
            assert!(matches!(opened.unwrap(), Filling::Open(_)));
        }
    }
}
