//! JSON that may be some MiB long and is made as a whole. It has a place while it is sent, among the downloads or the uploads, so that who
//! reads nothing of it does not have any number of them made.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use crate::DepotError;
use crate::places::Place;

/// Bytes that are handed on at a time. The place is held until the connection has taken the last of them.
const PIECE: usize = 64 << 10;

pub(super) fn long_answer(value: &impl Serialize, place: Place) -> Result<Response, DepotError> {
    let text = serde_json::to_vec(value).map_err(|error| DepotError::Damaged(error.to_string()))?;
    let length = HeaderValue::from(text.len());
    let pieces = stream::unfold((Bytes::from(text), place), |(mut rest, place)| async {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, place)))
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, length);
    Ok(response)
}
