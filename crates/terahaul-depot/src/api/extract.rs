//! What handlers take from requests. Every refusal is the API's own JSON.

use std::net::{IpAddr, Ipv4Addr};

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use terahaul_core::{ByteCount, TransferId};
use tokio::time::timeout_at;

use super::error::{ApiError, wrong_media_type};
use super::json::Object;
use super::standing::Standing;
use super::upload_body::{Patience, UploadBody};
use super::{Connection, cookies};
use crate::DepotError;
use crate::auth::{Caller, Counted, Identity, TokenId, link_cookie, session_cookie};
use crate::depot::Depot;
use crate::error::quoted;
use crate::places::{Place, Places};

/// Longest JSON body.
const MAX_JSON: usize = 4 << 20;
/// Longest one of whoever has shown nothing yet: memory is not for strangers to fill.
pub(super) const MAX_STRANGERS_JSON: usize = 4 << 10;
/// Longer ones are few at a time.
const SHORT_JSON: usize = 64 << 10;

impl<S: Sync> FromRequestParts<S> for Connection {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let local = Self { peer: IpAddr::V4(Ipv4Addr::LOCALHOST), tls: false };
        Ok(parts.extensions.get().copied().unwrap_or(local))
    }
}

/// A token or session of the API's own users.
pub(super) struct User(pub Identity);

impl FromRequestParts<Depot> for User {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, depot: &Depot) -> Result<Self, ApiError> {
        let Ok(connection) = Connection::from_request_parts(parts, depot).await;
        match caller(depot, &connection, &parts.method, &parts.headers, None).await? {
            Caller::Token(identity) => {
                parts.extensions.insert(Caller::Token(identity.clone()));
                Ok(Self(identity))
            }
            Caller::Link(_) => Err(ApiError(DepotError::LinkIsNoToken)),
        }
    }
}

/// Whoever asks about the transfer in the address: a user, or the holder of its link.
pub(super) struct Asking {
    pub caller: Caller,
    pub id: TransferId,
    pub counted: Counted,
}

impl FromRequestParts<Depot> for Asking {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, depot: &Depot) -> Result<Self, ApiError> {
        let Ok(connection) = Connection::from_request_parts(parts, depot).await;
        // Who asks comes before what is asked for: strangers learn nothing about addresses.
        let named = Path::<Vec<(String, String)>>::from_request_parts(parts, depot).await;
        let named = named.map(|Path(pairs)| pairs).unwrap_or_default();
        let id = named.iter().find(|(name, _)| name == "id").and_then(|(_, text)| text.parse().ok());
        let caller = caller(depot, &connection, &parts.method, &parts.headers, id).await?;
        let id = id.ok_or(DepotError::NoTransfer)?;
        let counted = match &caller {
            Caller::Token(identity) => Counted::token(identity),
            Caller::Link(secret) => {
                // Before a body is read: until here, whatever looks like a secret is one.
                if !depot.inner.keys.is_link_secret(id, secret) {
                    return Err(ApiError(DepotError::NoTransfer));
                }
                let row = match reads(&parts.method) {
                    true => depot.row_to_read(&caller, id).await?,
                    false => depot.row_to_write(&caller, id).await?,
                };
                Counted { token: TokenId(row.owner), link: Some(secret.clone()) }
            }
        };
        parts.extensions.insert(caller.clone());
        parts.extensions.insert(id);
        Ok(Self { caller, id, counted })
    }
}

/// Whether a request changes nothing.
fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

async fn caller(
    depot: &Depot,
    connection: &Connection,
    method: &Method,
    headers: &HeaderMap,
    transfer: Option<TransferId>,
) -> Result<Caller, DepotError> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let (scheme, token) = text.split_once(' ').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(DepotError::NoToken);
        }
        let found = depot.caller(token.trim()).await;
        return found.map_err(|error| depot.throttled(connection.peer, error));
    }
    let reads = reads(method);
    let link = transfer.and_then(|id| {
        let secret = cookies::read(headers, &link_cookie(id)).filter(|_| reads)?;
        depot.inner.keys.is_link_secret(id, secret).then(|| Caller::Link(secret.to_owned()))
    });
    let Some(session) = cookies::read(headers, &session_cookie(&depot.public_key())) else {
        return link.ok_or(DepotError::NoToken);
    };
    let user = match depot.session_identity(session).await {
        Ok(identity) => Caller::Token(identity),
        Err(error) => return link.ok_or_else(|| depot.throttled(connection.peer, error)),
    };
    if !reads && headers.get("terahaul-csrf").is_none_or(|value| value != "1") {
        return Err(DepotError::Csrf);
    }
    match (link, transfer) {
        // Someone signed in may hold the link of another's transfer.
        (Some(link), Some(id)) if depot.row_to_read(&user, id).await.is_err() => Ok(link),
        _ => Ok(user),
    }
}

/// The address's variable parts; what does not read as `T` is not found.
pub(super) struct Address<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Depot> for Address<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, depot: &Depot) -> Result<Self, ApiError> {
        let path = Path::<T>::from_request_parts(parts, depot).await;
        path.map(|Path(value)| Self(value)).map_err(|_| ApiError(DepotError::NotFound("address in this API")))
    }
}

/// The address's parameters.
pub(super) struct Params<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Depot> for Params<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &Depot) -> Result<Self, ApiError> {
        Query::try_from_uri(&parts.uri).map(|Query(value)| Self(value)).map_err(|error| {
            ApiError(DepotError::Invalid(format!("a parameter is wrong: {}", quoted(error.body_text()))))
        })
    }
}

/// A JSON body of at most so many bytes. Nothing of it is kept before whoever asks is known to be one who may change what it is for.
pub(super) struct Payload<T, const MAX: usize = MAX_JSON>(pub T);

impl<T: DeserializeOwned, const MAX: usize> FromRequest<Depot> for Payload<T, MAX> {
    type Rejection = Response;
    async fn from_request(request: Request, depot: &Depot) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        // Asking for this type also keeps other sites from posting: their browsers ask first, and hear no.
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(wrong_media_type());
        }
        let refuse = |error: DepotError| ApiError(error).into_response();
        let (parts, body) = request.into_parts();
        let (caller, id) = (parts.extensions.get::<Caller>(), parts.extensions.get::<TransferId>());
        if let (Some(caller), Some(id)) = (caller, id)
            && let Err(error) = depot.row_to_write(caller, *id).await
        {
            // A page's own: browsers show an answer that comes before the body's end as a network error.
            UploadBody::new(body).discard(MAX as u64).await;
            return Err(refuse(error));
        }
        let standing = caller.map(|caller| Standing::new(depot, caller));
        let gathered = gather(body, MAX, caller, &depot.inner.long_bodies).await;
        let (bytes, _place) = gathered.map_err(refuse)?;
        // It may have come for hours, and its token been revoked since the headers came.
        if let Some(mut standing) = standing {
            standing.check().await.map_err(refuse)?;
        }
        serde_json::from_slice::<Object<T>>(&bytes)
            .map(|Object(body)| Self(body))
            .map_err(|error| format!("the body does not fit: {}", quoted(error.to_string())))
            .map_err(|message| refuse(DepotError::Invalid(message)))
    }
}

/// The whole body, and the place that it has among the long ones while it is one.
async fn gather(
    body: Body,
    max: usize,
    caller: Option<&Caller>,
    long: &Places,
) -> Result<(Vec<u8>, Option<Place>), DepotError> {
    let (mut bytes, mut place) = (Vec::new(), None);
    let mut frames = body.into_data_stream();
    // As slow as an upload may be: over a thin line a page's entries take minutes.
    let mut patience = Patience::begin();
    while let Some(frame) =
        timeout_at(patience.deadline(), frames.next()).await.map_err(|_| DepotError::TooSlow)?
    {
        let frame = frame.map_err(|_| DepotError::BodyCut)?;
        let len = bytes.len() + frame.len();
        if len > max {
            return Err(DepotError::TooLong { limit: ByteCount(max as u64) });
        }
        if len > SHORT_JSON && place.is_none() {
            // A stranger's ends before that.
            place = Some(long.take(&Counted::token(caller.ok_or(DepotError::NoToken)?.identity()?))?);
        }
        bytes.extend_from_slice(&frame);
        patience.handle_len(len as u64);
    }
    Ok((bytes, place))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;

    use super::*;

    /// A page's entries over a thin line: it was answered that almost nothing came, and sent them again for ever.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_goes_on_coming_is_waited_for_and_one_that_does_not_is_refused() {
        let coming = |every: Duration| {
            Body::from_stream(stream::unfold(0, move |sent| async move {
                tokio::time::sleep(every).await;
                (sent < 40).then_some((Ok::<_, std::io::Error>(vec![b' '; 1 << 10]), sent + 1))
            }))
        };
        let places = Places::new(1);
        let (slow, _) = gather(coming(Duration::from_secs(3)), MAX_JSON, None, &places).await.unwrap();
        assert_eq!(slow.len(), 40 << 10);
        let stuck = gather(coming(Duration::from_secs(5)), MAX_JSON, None, &places).await;
        assert!(matches!(stuck, Err(DepotError::TooSlow)));
    }
}
