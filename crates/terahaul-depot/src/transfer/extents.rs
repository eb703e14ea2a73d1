//! Which blocks of a transfer are here.

use terahaul_core::{BlockNumber, BlockProof, BlockRun, Hash, TransferId};

use super::entry_list::Loaded;
use crate::DepotError;
use crate::auth::Caller;
use crate::db::TransferState;
use crate::depot::Depot;

/// A transfer's extent map.
#[derive(Clone, Debug)]
pub struct Extents {
    /// Blocks that the manifest reaches into.
    pub blocks: u64,
    /// Blocks that arrived, durable or not.
    pub received: Vec<BlockRun>,
    /// Blocks that are kept for good.
    pub durable: Vec<BlockRun>,
}

impl Depot {
    /// The extent map of a transfer that the caller may read.
    pub async fn extents(&self, caller: &Caller, id: TransferId) -> Result<Extents, DepotError> {
        let row = self.row_to_read(caller, id).await?;
        if row.state == TransferState::Open
            && let Loaded::Live(live) = self.loaded(id).await?
        {
            return Ok(live.inbound.with(|receiver| Extents {
                blocks: receiver.layout().block_count(),
                received: receiver.received().runs().collect(),
                durable: receiver.durable().runs().collect(),
            }));
        }
        // Of a finished one, which may have become so just now, the rows say it.
        let row = self.row_to_read(caller, id).await?;
        let blocks = u64::try_from(row.blocks).unwrap_or(0);
        let durable: Vec<BlockRun> = if self.inner.db.failures(id, 0, 1).await?.is_empty() {
            // All of them, and they may be millions.
            let all = BlockRun { first: BlockNumber(0), count: u32::try_from(blocks).unwrap_or(u32::MAX) };
            Some(all).filter(|all| all.count > 0).into_iter().collect()
        } else {
            self.inner.db.durable_blocks(id).await?.runs().collect()
        };
        Ok(Extents { blocks, received: durable.clone(), durable })
    }

    /// The values of the durable blocks among `count` from `first` on.
    pub async fn block_values(
        &self,
        caller: &Caller,
        id: TransferId,
        first: BlockNumber,
        count: u32,
    ) -> Result<Vec<(BlockNumber, Hash)>, DepotError> {
        self.row_to_read(caller, id).await?;
        let loaded = self.loaded(id).await?;
        let rows = self.inner.db.proofs(id, first, count).await?;
        let value = |(block, bytes): (BlockNumber, Vec<u8>)| {
            let shape = loaded.with_layout(|layout| layout.shape(block))?;
            Some((block, BlockProof::from_bytes(&shape, &bytes)?.value()))
        };
        Ok(rows.into_iter().filter_map(value).collect())
    }
}
