//! Browser sessions.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Json};
use serde::{Deserialize, Serialize};

use super::Connection;
use super::cookies;
use super::error::Answer;
use super::extract::{MAX_STRANGERS_JSON, Payload, User};
use crate::DepotError;
use crate::auth::{Identity, Scope, TokenId, session_cookie};
use crate::depot::Depot;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenSession {
    code: Option<String>,
    token: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Session {
    /// What it stands for.
    token: TokenId,
    scopes: Vec<Scope>,
    label: String,
    /// How long a transfer is kept unless its sender asks for another time.
    expires_in_days: u32,
}

impl Session {
    fn of(depot: &Depot, identity: Identity) -> Json<Self> {
        let expires_in_days = depot.config().expiry_days;
        let scopes = identity.scopes.list();
        Json(Self { token: identity.token, scopes, label: identity.label, expires_in_days })
    }
}

pub(super) async fn open(
    State(depot): State<Depot>,
    connection: Connection,
    Payload(given): Payload<OpenSession, MAX_STRANGERS_JSON>,
) -> Answer<impl IntoResponse> {
    let opened = match (given.code, given.token) {
        (Some(code), None) => depot.sign_in_with_code(&code).await,
        (None, Some(token)) => depot.sign_in_with_token(&token).await,
        _ => Err(DepotError::Invalid("give either a code or a token".into())),
    };
    let opened = opened.map_err(|error| depot.throttled(connection.peer, error))?;
    let name = session_cookie(&depot.public_key());
    let cookie = cookies::write(&name, &opened.secret, "/", opened.seconds, connection.tls)?;
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), Session::of(&depot, opened.identity)))
}

pub(super) async fn show(State(depot): State<Depot>, User(identity): User) -> Json<Session> {
    Session::of(&depot, identity)
}

/// Signing out needs no session that still holds, and no header: another site could at most sign someone out, and
/// `SameSite` keeps it from that.
pub(super) async fn close(
    State(depot): State<Depot>,
    connection: Connection,
    headers: HeaderMap,
) -> Answer<(StatusCode, AppendHeaders<[(axum::http::HeaderName, HeaderValue); 1]>)> {
    let name = session_cookie(&depot.public_key());
    if let Some(secret) = cookies::read(&headers, &name)
        // The browser forgets it all the same: whoever uses that next is not signed in.
        && let Err(error) = depot.sign_out(secret).await
    {
        tracing::error!(%error, "a session that was signed out of could not be forgotten: it ends by its time");
    }
    let cookie = cookies::write(&name, "", "/", 0, connection.tls)?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(SET_COOKIE, cookie)])))
}
