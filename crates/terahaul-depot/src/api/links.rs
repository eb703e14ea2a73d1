//! Links: whoever has one may read its transfer.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Json};
use serde::Deserialize;

use super::Connection;
use super::cookies;
use super::error::Answer;
use super::extract::{Address, MAX_STRANGERS_JSON, Payload};
use crate::DepotError;
use crate::auth::{Caller, link_cookie};
use crate::depot::Depot;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenLink {
    secret: String,
}

/// Puts the link's secret into a cookie for this transfer's addresses, so that plain download links work.
pub(super) async fn open(
    State(depot): State<Depot>,
    connection: Connection,
    Address(id): Address<String>,
    Payload(given): Payload<OpenLink, MAX_STRANGERS_JSON>,
) -> Answer<impl IntoResponse> {
    let refused = || depot.throttled(connection.peer, DepotError::UnknownToken);
    let Ok(id) = id.parse() else { return Err(DepotError::NoTransfer.into()) };
    if !depot.inner.keys.is_link_secret(id, &given.secret) {
        // Counted as a wrong token, told as a missing transfer: a guesser learns nothing.
        return Err(match refused() {
            DepotError::TooManyAttempts => DepotError::TooManyAttempts,
            _ => DepotError::NoTransfer,
        }
        .into());
    }
    let info = depot.transfer(&Caller::Link(given.secret.clone()), id).await?;
    let seconds = info.expires - depot.inner.config.clock.now();
    let path = format!("/api/v1/transfers/{id}");
    let cookie = cookies::write(&link_cookie(id), &given.secret, &path, seconds, connection.tls)?;
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), Json(info)))
}
