//! What a sender could not read.

use axum::extract::State;
use axum::response::Json;
use serde::Deserialize;
use terahaul_core::{EntryIndex, FailureCause};
use terahaul_store::EntryFailure;

use super::error::Answer;
use super::extract::{Asking, Payload};
use super::json::{Object, Whole};
use crate::DepotError;
use crate::depot::Depot;
use crate::transfer::TransferInfo;

/// Most failures in one request.
const MAX_FAILURES: usize = 5000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailuresBody {
    failures: Vec<Object<FailureBody>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureBody {
    entry: Whole<u32>,
    cause: FailureCause,
    #[serde(default)]
    detail: String,
}

pub(super) async fn report(
    State(depot): State<Depot>,
    asking: Asking,
    Payload(body): Payload<FailuresBody>,
) -> Answer<Json<TransferInfo>> {
    if body.failures.len() > MAX_FAILURES {
        return Err(DepotError::Invalid(format!(
            "at most {MAX_FAILURES} failures are taken at once: split them"
        ))
        .into());
    }
    let failures = body.failures.into_iter().map(|Object(failure)| EntryFailure {
        entry: EntryIndex(failure.entry.0),
        cause: failure.cause,
        detail: failure.detail,
    });
    let live = depot.live_as(&asking.caller, asking.id).await?;
    live.fail_entries(failures.collect()).await?;
    Ok(Json(depot.transfer(&asking.caller, asking.id).await?))
}
