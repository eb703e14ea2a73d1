//! Quotas and disk space: given out by declared sizes, before a byte is taken.

use std::collections::HashMap;

use terahaul_core::ByteCount;

use super::Live;
use crate::depot::Depot;
use crate::{DepotError, blocking};

impl Depot {
    /// Refuses when `bytes` more in `live` would pass a quota or the disk's end. The caller holds the registry's
    /// space lock until the bytes are declared.
    pub(super) async fn check_space(&self, live: &Live, bytes: u64) -> Result<(), DepotError> {
        if bytes == 0 {
            return Ok(());
        }
        let asked = ByteCount(bytes);
        if let Some((owner, quota)) = &live.quota {
            let used = self.inner.db.declared_bytes(Some(owner)).await?;
            within("the token's", asked, *quota, ByteCount(used))?;
        }
        if let Some(quota) = self.inner.config.quota {
            let used = self.inner.db.declared_bytes(None).await?;
            within("the depot's", asked, quota, ByteCount(used))?;
        }
        if !self.inner.config.overcommit {
            let store = self.inner.store.clone();
            if let Some(free) = blocking::run(move || store.free_space()).await?? {
                let promised = self.promised_bytes().await?;
                let free = ByteCount(free.0.saturating_sub(promised));
                if asked > free {
                    return Err(DepotError::DiskFull { free, asked });
                }
            }
        }
        Ok(())
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

fn within(
    whose: &'static str,
    asked: ByteCount,
    quota: ByteCount,
    used: ByteCount,
) -> Result<(), DepotError> {
    if used + asked > quota { Err(DepotError::Quota { whose, asked, quota, used }) } else { Ok(()) }
}
