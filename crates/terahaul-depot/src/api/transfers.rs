//! Transfers.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Json, Response};
use serde::{Deserialize, Serialize};
use terahaul_core::EntryIndex;
use terahaul_wire::Batch;

use super::entries::{EntryBody, place_for_placed, read_entries};
use super::error::Answer;
use super::extract::{Asking, Params, Payload, User};
use super::json::{Object, Whole};
use super::long_answer::long_answer;
use crate::DepotError;
use crate::auth::{Caller, Counted};
use crate::depot::Depot;
use crate::transfer::{Asker, Before, CreateTransfer, Page, Placed, TransferInfo};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    limit: Option<u32>,
    before: Option<Before>,
    /// Only the unfinished transfer that creating one with this key would take up.
    resume_key: Option<String>,
}

#[derive(Serialize)]
struct TransfersBody {
    transfers: Vec<TransferInfo>,
    next: Option<String>,
}

/// A list of as many may be some 50 KiB long. A longer one has a place among the downloads.
const SHORT_LIST: u32 = 50;

pub(super) async fn list(
    State(depot): State<Depot>,
    User(user): User,
    Params(params): Params<ListParams>,
) -> Answer<Response> {
    let limit = params.limit.unwrap_or(SHORT_LIST);
    if !(1..=500).contains(&limit) {
        return Err(DepotError::Invalid("limit is from 1 to 500".into()).into());
    }
    let place = (limit > SHORT_LIST).then(|| depot.inner.downloads.take(&Counted::token(&user)));
    let place = place.transpose()?;
    let Page { transfers, next } = match params.resume_key {
        None => depot.transfers(&user, params.before, limit).await?,
        Some(key) => {
            let transfers = match depot.find_resumable(&user, &key).await? {
                Some(id) => vec![depot.transfer(&Caller::Token(user), id).await?],
                None => Vec::new(),
            };
            Page { transfers, next: None }
        }
    };
    let next = next.map(|before| before.to_string());
    Ok(long_answer(&TransfersBody { transfers, next }, place)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTransferBody {
    name: String,
    expires_in_days: Option<Whole<u32>>,
    resume_key: Option<String>,
    /// Its first entries: a round trip less for whoever knows them.
    #[serde(default)]
    entries: Vec<Object<EntryBody>>,
    #[serde(default)]
    seal: bool,
}

#[derive(Serialize)]
pub(super) struct CreatedBody {
    #[serde(flatten)]
    info: TransferInfo,
    /// Where the entries' bytes go.
    placed: Vec<Placed>,
}

pub(super) async fn create(
    State(depot): State<Depot>,
    User(user): User,
    Payload(body): Payload<NewTransferBody>,
) -> Answer<(StatusCode, Response)> {
    let NewTransferBody { name, expires_in_days, resume_key, entries, seal } = body;
    let expires_in_days = expires_in_days.map(|days| days.0);
    let entries = read_entries(0, entries)?;
    let place = place_for_placed(&depot, entries.len(), &Counted::token(&user))?;
    let new = CreateTransfer { name, expires_in_days, resume_key };
    let (created, placed) = if entries.is_empty() && !seal {
        (depot.create_transfer(&user, new).await?, Vec::new())
    } else {
        depot.create_filled(&user, new, Batch { first: EntryIndex(0), entries, seal }).await?
    };
    let status = if created.resumed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, long_answer(&CreatedBody { info: created.info, placed }, place)?))
}

pub(super) async fn show(State(depot): State<Depot>, asking: Asking) -> Answer<Json<TransferInfo>> {
    Ok(Json(depot.transfer(&asking.caller, asking.id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeBody {
    name: Option<String>,
    expires_in_days: Option<Whole<u32>>,
}

pub(super) async fn change(
    State(depot): State<Depot>,
    asking: Asking,
    Payload(body): Payload<ChangeBody>,
) -> Answer<Json<TransferInfo>> {
    let (name, days) = (body.name.as_deref(), body.expires_in_days.map(|days| days.0));
    Ok(Json(depot.change_transfer(&asking.caller, asking.id, name, days).await?))
}

pub(super) async fn remove(State(depot): State<Depot>, asking: Asking) -> Answer<StatusCode> {
    depot.delete_transfer(&asking.caller, asking.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Seconds that a client may have the depot wait before it finishes: fewer than after which clients and proxies give up a request.
const MAX_WAIT: u64 = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FinishParams {
    /// For what is still under way: the answer then costs no round trip after the last byte.
    #[serde(default)]
    wait: u64,
}

pub(super) async fn finish(
    State(depot): State<Depot>,
    asking: Asking,
    Params(params): Params<FinishParams>,
) -> Answer<Json<TransferInfo>> {
    if params.wait > MAX_WAIT {
        return Err(DepotError::Invalid(format!("wait is from 0 to {MAX_WAIT} seconds")).into());
    }
    depot.row_to_write(&asking.caller, asking.id).await?;
    if params.wait > 0 {
        depot.await_arrival(asking.id, Duration::from_secs(params.wait)).await?;
    }
    depot.finish(asking.id, Asker::Another).await?;
    Ok(Json(depot.transfer(&asking.caller, asking.id).await?))
}
