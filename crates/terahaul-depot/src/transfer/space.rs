//! Quotas and disk space: given out by declared sizes and by what manifests take, before a byte is taken.

use std::collections::HashMap;

use terahaul_core::ByteCount;
use tokio::sync::MutexGuard;

use crate::db::Declared;
use crate::depot::Depot;
use crate::{DepotError, blocking};

/// What the manifests of a token's transfers, or of all, may take without being counted: a quota of exactly a file's size takes the file.
/// That is some eight thousand small files.
const FREE_MANIFEST_BYTES: u64 = 1 << 20;

impl Declared {
    /// What counts against a quota.
    fn counted(self) -> ByteCount {
        ByteCount(self.bytes.saturating_add(self.manifest_bytes.saturating_sub(FREE_MANIFEST_BYTES)))
    }

    fn with(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            manifest_bytes: self.manifest_bytes.saturating_add(more.manifest_bytes),
        }
    }
}

/// What of a disk may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// What is promised to nobody.
    Unpromised,
    /// All that is free: little is asked for, by a transfer that could not end without it, and has been promised room for its files.
    Free,
}

impl Depot {
    /// Refuses when what is asked for would pass the depot's quota, that of its owner, or the disk's end. What is returned is held until it is declared, so that
    /// nobody else is promised the same; there is nothing to hold where nothing is asked for.
    pub(super) async fn claim_space(
        &self,
        owners: Option<&(String, ByteCount)>,
        asked: Declared,
        share: Share,
    ) -> Result<Option<MutexGuard<'_, ()>>, DepotError> {
        if asked.bytes == 0 && asked.manifest_bytes == 0 {
            return Ok(None);
        }
        let claimed = self.inner.registry.space.lock().await;
        if let Some((owner, quota)) = owners {
            let used = self.inner.db.declared(Some(owner)).await?;
            within("the token's", asked, *quota, used)?;
        }
        if let Some(quota) = self.inner.config.quota {
            let used = self.inner.db.declared(None).await?;
            within("the depot's", asked, quota, used)?;
        }
        // The database, which keeps manifests, is on the same disk.
        let asked = ByteCount(asked.bytes.saturating_add(asked.manifest_bytes));
        if !self.inner.config.overcommit {
            let store = self.inner.store.clone();
            if let Some(free) = blocking::run(move || store.free_space()).await?? {
                let promised = match share {
                    Share::Unpromised => self.promised_bytes().await?,
                    Share::Free => 0,
                };
                let free = ByteCount(free.0.saturating_sub(promised));
                if asked > free {
                    return Err(DepotError::DiskFull { free, asked });
                }
            }
        }
        Ok(Some(claimed))
    }

    /// Bytes that open transfers have declared and not written. For those in memory their receivers know best: what
    /// they have received is written, recorded or not.
    async fn promised_bytes(&self) -> Result<u64, DepotError> {
        let live = self.inner.registry.live();
        let live: HashMap<_, _> = live.iter().map(|live| (live.id(), live)).collect();
        let recorded = self.inner.db.awaited_bytes().await?;
        let mut promised: u64 = 0;
        for (id, bytes) in recorded {
            let awaited = live.get(&id).map_or(bytes, |live| live.awaited());
            promised = promised.saturating_add(awaited);
        }
        Ok(promised)
    }
}

fn within(whose: &'static str, asked: Declared, quota: ByteCount, used: Declared) -> Result<(), DepotError> {
    let (used, after) = (used.counted(), used.with(asked).counted());
    let asked = ByteCount(after.0.saturating_sub(used.0));
    if asked.0 > 0 && after > quota { Err(DepotError::Quota { whose, asked, quota, used }) } else { Ok(()) }
}
