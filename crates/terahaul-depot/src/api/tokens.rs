//! Tokens, for the depot's owner.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use terahaul_core::ByteCount;

use super::error::Answer;
use super::extract::{Address, Payload, User};
use super::json::Whole;
use crate::auth::{CreatedToken, NewToken, Scope, TokenInfo};
use crate::depot::Depot;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTokenBody {
    label: String,
    scopes: Vec<Scope>,
    quota_bytes: Option<Whole<u64>>,
    expires_in_days: Option<Whole<u32>>,
}

pub(super) async fn list(State(depot): State<Depot>, User(user): User) -> Answer<Json<Value>> {
    user.require(Scope::Own)?;
    Ok(Json(json!({ "tokens": depot.tokens().await? })))
}

pub(super) async fn create(
    State(depot): State<Depot>,
    User(user): User,
    Payload(body): Payload<NewTokenBody>,
) -> Answer<(StatusCode, Json<CreatedToken>)> {
    user.require(Scope::Own)?;
    let NewTokenBody { label, scopes, quota_bytes, expires_in_days } = body;
    let new = NewToken {
        label,
        scopes,
        quota: quota_bytes.map(|bytes| ByteCount(bytes.0)),
        expires_in_days: expires_in_days.map(|days| days.0),
    };
    Ok((StatusCode::CREATED, Json(depot.create_token(new).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeBody {
    expires_in_days: Whole<u32>,
}

pub(super) async fn change(
    State(depot): State<Depot>,
    User(user): User,
    Address(id): Address<String>,
    Payload(body): Payload<ChangeBody>,
) -> Answer<Json<TokenInfo>> {
    user.require(Scope::Own)?;
    Ok(Json(depot.extend_token(&id, body.expires_in_days.0).await?))
}

pub(super) async fn revoke(
    State(depot): State<Depot>,
    User(user): User,
    Address(id): Address<String>,
) -> Answer<StatusCode> {
    user.require(Scope::Own)?;
    depot.revoke_token(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
