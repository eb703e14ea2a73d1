//! New transfers, and unfinished ones that are taken up again.

use terahaul_core::TransferId;
use terahaul_wire::Batch;

use super::space::Share;
use super::{Placed, TransferInfo};
use crate::auth::{Caller, Identity, Scope};
use crate::db::{Declared, NewTransfer, TRANSFER_BYTES, TransferRow, TransferState};
use crate::depot::Depot;
use crate::keys::random;
use crate::{DepotError, blocking};

/// What a new transfer is to be.
#[derive(Clone, Debug, Default)]
pub struct CreateTransfer {
    /// Its name.
    pub name: String,
    /// Days until it expires; without it, the depot's default.
    pub expires_in_days: Option<u32>,
    /// The client's key for what it is sending: an unfinished transfer of the same key is taken up again.
    pub resume_key: Option<String>,
}

/// A transfer to send into.
#[derive(Clone, Debug)]
pub struct Created {
    /// The transfer.
    pub info: TransferInfo,
    /// Whether it was there already.
    pub resumed: bool,
}

/// How often a transfer is looked for that goes away while it is taken up.
const ATTEMPTS: u32 = 4;

fn check_key(resume_key: &str) -> Result<(), DepotError> {
    match resume_key.len() {
        1..=200 => Ok(()),
        _ => Err(DepotError::Invalid("a resume key has 1 to 200 bytes: choose a shorter one".into())),
    }
}

impl Depot {
    /// Makes a transfer, or takes up the caller's unfinished one of the same resume key.
    pub async fn create_transfer(
        &self,
        identity: &Identity,
        new: CreateTransfer,
    ) -> Result<Created, DepotError> {
        let (depot, identity) = (self.clone(), identity.clone());
        // A task of its own: a client that goes away must not stop this between the object and its row.
        let task = tokio::spawn(async move { depot.create(&identity, &new).await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    /// The same with the first entries. All or nothing: a new transfer that cannot take them is not made.
    pub(crate) async fn create_filled(
        &self,
        identity: &Identity,
        new: CreateTransfer,
        first: Batch,
    ) -> Result<(Created, Vec<Placed>), DepotError> {
        let (depot, identity) = (self.clone(), identity.clone());
        // A task of its own, here too.
        let task = tokio::spawn(async move { depot.create_and_fill(&identity, &new, &first).await });
        task.await.map_err(|_| DepotError::Stopping)?
    }

    async fn create_and_fill(
        &self,
        identity: &Identity,
        new: &CreateTransfer,
        first: &Batch,
    ) -> Result<(Created, Vec<Placed>), DepotError> {
        let caller = Caller::Token(identity.clone());
        let mut attempts = ATTEMPTS;
        loop {
            attempts -= 1;
            let Created { info, resumed } = self.create(identity, new).await?;
            let fill = async {
                let live = self.open_inbound_as(&caller, info.id).await?;
                live.append_entries(first.clone()).await
            };
            match fill.await {
                Ok(appended) => {
                    let info = self.transfer(&caller, info.id).await?;
                    return Ok((Created { info, resumed }, appended.placed));
                }
                // Whoever made it has removed it, as it could not be filled, or finished it.
                Err(DepotError::NoTransfer | DepotError::NotOpen) if resumed && attempts > 0 => {}
                Err(error) => {
                    if !resumed && let Err(error) = self.remove_if_empty(info.id).await {
                        tracing::warn!(transfer = %info.id, %error, "an empty transfer could not be removed");
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn create(&self, identity: &Identity, new: &CreateTransfer) -> Result<Created, DepotError> {
        for _ in 1..ATTEMPTS {
            match self.create_now(identity, new).await {
                // What was to be taken up was removed or finished in this moment.
                Err(DepotError::NoTransfer | DepotError::NotOpen) => {}
                done => return done,
            }
        }
        self.create_now(identity, new).await
    }

    async fn create_now(&self, identity: &Identity, new: &CreateTransfer) -> Result<Created, DepotError> {
        identity.require(Scope::Send)?;
        self.check_name(&new.name)?;
        let now = self.inner.config.clock.now();
        let term = self.term(new.expires_in_days)?;
        let key = new.resume_key.as_deref();
        // Until it is found or made, and no longer: taking it up waits for whoever has it.
        let resuming = match key {
            Some(_) => Some(self.inner.registry.resuming.lock().await),
            None => None,
        };
        if let Some(key) = key {
            check_key(key)?;
            // What seems to have expired is not taken up, but made anew.
            self.follow_clock().await?;
            if let Some(row) = self.inner.db.resumable(&identity.token.0, key, now).await? {
                drop(resuming);
                self.take_up(row.transfer_id(), new.expires_in_days).await?;
                let row = self.row(row.transfer_id()).await?;
                return Ok(Created {
                    info: self.info(&Caller::Token(identity.clone()), &row),
                    resumed: true,
                });
            }
        }
        let quota = identity.quota.map(|quota| (identity.token.0.clone(), quota));
        let asked = Declared { bytes: 0, manifest_bytes: TRANSFER_BYTES };
        let _space = self.claim_space(quota.as_ref(), asked, Share::Unpromised).await?;
        let id = TransferId(random()?);
        let store = self.inner.store.clone();
        // The object first: without a row it is an orphan that the next start removes.
        blocking::run(move || store.create(id).map(|_| ())).await??;
        let (owner, name) = (identity.token.0.as_str(), new.name.as_str());
        let row = NewTransfer { id, owner, name, created: now, term, resume_key: key };
        let limit = self.inner.config.limits.open_transfers;
        let inserted = match self.inner.db.insert_transfer(&row, limit).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(DepotError::TooManyTransfers { limit }),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = inserted {
            let store = self.inner.store.clone();
            if let Err(error) = blocking::run(move || store.remove(id)).await? {
                tracing::warn!(transfer = %id, %error, "data without a transfer stays until the next start");
            }
            return Err(error);
        }
        let row = self.row(id).await?;
        Ok(Created { info: self.info(&Caller::Token(identity.clone()), &row), resumed: false })
    }

    /// The unfinished transfer of this caller and key, if there is one.
    pub async fn find_resumable(
        &self,
        identity: &Identity,
        key: &str,
    ) -> Result<Option<TransferId>, DepotError> {
        check_key(key)?;
        self.follow_clock().await?;
        let now = self.inner.config.clock.now();
        let row = self.inner.db.resumable(&identity.token.0, key, now).await?;
        Ok(row.as_ref().map(TransferRow::transfer_id))
    }

    /// Sending goes on: the transfer is kept as long from now on, or for the days that are asked for if these are more.
    pub(super) async fn take_up(&self, id: TransferId, asked: Option<u32>) -> Result<(), DepotError> {
        let _slot = self.inner.registry.slot(id).await;
        let row = self.row(id).await?;
        if row.state == TransferState::Complete {
            return Err(DepotError::NotOpen);
        }
        Ok(self.inner.db.keep_transfer(id, self.term_anew(&row, asked)).await?)
    }

    pub(crate) fn check_name(&self, name: &str) -> Result<(), DepotError> {
        let limit = self.inner.config.limits.name_chars;
        let chars = name.chars().count();
        // A control character could forge lines of the signed receipt or of a terminal.
        if chars == 0 || chars > limit || name.chars().any(char::is_control) {
            return Err(DepotError::Invalid(format!(
                "a transfer's name has 1 to {limit} characters, none of them a control character"
            )));
        }
        Ok(())
    }
}
