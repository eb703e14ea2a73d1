//! Which blocks are here.

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use terahaul_core::{BlockNumber, Hash};

use super::error::{Answer, pairs};
use super::extract::{Asking, Params};
use super::long_answer::long_answer;
use crate::DepotError;
use crate::depot::Depot;
use crate::transfer::Extents;

#[derive(Serialize)]
struct ExtentsBody {
    blocks: u64,
    received: Vec<(u32, u32)>,
    durable: Vec<(u32, u32)>,
}

pub(super) async fn show(State(depot): State<Depot>, asking: Asking) -> Answer<Response> {
    let place = depot.inner.downloads.take(&asking.counted)?;
    let Extents { blocks, received, durable } = depot.extents(&asking.caller, asking.id).await?;
    let body = ExtentsBody { blocks, received: pairs(&received), durable: pairs(&durable) };
    Ok(long_answer(&body, place)?)
}

/// Blocks and their values.
#[derive(Serialize)]
pub(super) struct ValuesBody {
    pub blocks: Vec<BlockValue>,
}

#[derive(Serialize)]
pub(super) struct BlockValue {
    pub block: BlockNumber,
    pub value: Hash,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValuesParams {
    #[serde(default)]
    first: u32,
    count: Option<u32>,
}

/// The values of durable blocks, so that a sender can prove what it sent before without sending it again. Each is made from what is
/// recorded of its block, which of hundreds of small files is a hash for each.
pub(super) async fn values(
    State(depot): State<Depot>,
    asking: Asking,
    Params(params): Params<ValuesParams>,
) -> Answer<Response> {
    let count = params.count.unwrap_or(1000);
    if !(1..=1000).contains(&count) {
        return Err(DepotError::Invalid("count is from 1 to 1000".into()).into());
    }
    let place = depot.inner.downloads.take(&asking.counted)?;
    let values = depot.block_values(&asking.caller, asking.id, BlockNumber(params.first), count).await?;
    let blocks = values.into_iter().map(|(block, value)| BlockValue { block, value }).collect();
    Ok(long_answer(&ValuesBody { blocks }, place)?)
}
