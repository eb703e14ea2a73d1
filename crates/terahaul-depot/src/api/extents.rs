//! Which blocks are here.

use axum::extract::State;
use axum::response::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use terahaul_core::{BlockNumber, BlockRun};

use super::error::{Answer, pairs};
use super::extract::{Asking, Params};
use crate::DepotError;
use crate::depot::Depot;

pub(super) async fn show(State(depot): State<Depot>, asking: Asking) -> Answer<Json<Value>> {
    let extents = depot.extents(&asking.caller, asking.id).await?;
    let (received, durable): (Vec<BlockRun>, Vec<BlockRun>) = (extents.received, extents.durable);
    Ok(Json(json!({ "blocks": extents.blocks, "received": pairs(&received), "durable": pairs(&durable) })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValuesParams {
    #[serde(default)]
    first: u32,
    count: Option<u32>,
}

/// The values of durable blocks, so that a sender can prove what it sent before without sending it again.
pub(super) async fn values(
    State(depot): State<Depot>,
    asking: Asking,
    Params(params): Params<ValuesParams>,
) -> Answer<Json<Value>> {
    let count = params.count.unwrap_or(1000);
    if !(1..=1000).contains(&count) {
        return Err(DepotError::Invalid("count is from 1 to 1000".into()).into());
    }
    let values = depot.block_values(&asking.caller, asking.id, BlockNumber(params.first), count).await?;
    let blocks: Vec<Value> =
        values.iter().map(|(block, value)| json!({ "block": block, "value": value })).collect();
    Ok(Json(json!({ "blocks": blocks })))
}
