//! JSON that may be some MiB long and is made as a whole. It has a place while it is sent, among the downloads or the uploads, so that who
//! reads nothing of it does not have any number of them made.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::DepotError;
use crate::places::Place;

/// What is sent, and its place. The connection takes 400 KiB and more ahead of who reads, and has all of the text for as long as a part
/// of it: only with its last byte may the place be another's.
struct Held {
    text: Vec<u8>,
    _place: Option<Place>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Without a place where it cannot be long this time.
pub(super) fn long_answer(
    value: &impl Serialize,
    place: impl Into<Option<Place>>,
) -> Result<Response, DepotError> {
    let text = serde_json::to_vec(value).map_err(|error| DepotError::Damaged(error.to_string()))?;
    let text = Bytes::from_owner(Held { text, _place: place.into() });
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
