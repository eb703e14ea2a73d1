//! Bytes of the address space of a finished transfer, for clients that fetch many small files at once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use terahaul_core::{Address, BLOCK_SIZE, BlockContent, EntryIndex};

use super::error::Answer;
use super::extract::{self, Asking, Params};
use super::read_ahead::ReadAhead;
use super::standing::Standing;
use crate::DepotError;
use crate::depot::Depot;
use crate::transfer::Published;

/// Most bytes in one answer.
const MAX_LENGTH: u64 = 128 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BytesParams {
    length: u64,
}

pub(super) async fn read(
    State(depot): State<Depot>,
    asking: Asking,
    extract::Address((_, address)): extract::Address<(String, u64)>,
    Params(params): Params<BytesParams>,
) -> Answer<Response> {
    let length = params.length;
    if !(1..=MAX_LENGTH).contains(&length) {
        return Err(DepotError::Invalid(format!("length is from 1 to {MAX_LENGTH}")).into());
    }
    let published = depot.open_published(&asking.caller, asking.id).await?;
    check(&published, Address(address), length)?;
    let place = depot.inner.downloads.take(&asking.counted)?;
    let reader = ReadAhead::new(published, Address(address), length, Some(Arc::new(place))).begin().await?;
    let body = Standing::new(&depot, &asking.caller).guard(reader.into_body());
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// The bytes must be of entries that arrived, without a gap between.
fn check(published: &Published, address: Address, length: u64) -> Result<(), DepotError> {
    let layout = published.layout();
    let outside = || DepotError::Range {
        message:
            "the transfer has no such run of bytes: ask for files that arrived, without a gap between them"
                .into(),
        size: layout.end().0,
    };
    let end = address.0.checked_add(length).filter(|&end| end <= layout.end().0).ok_or_else(outside)?;
    let mut at = address;
    while at.0 < end {
        let shape = at.block().and_then(|block| layout.shape(block)).ok_or_else(outside)?;
        let occupied = shape.number.address() + u64::from(shape.len);
        let has_failed = |entry: &EntryIndex| published.failed().contains(entry);
        let is_lost = match &shape.content {
            BlockContent::Piece { entry, .. } => has_failed(entry),
            BlockContent::Packed { files, .. } => files.iter().any(|file| {
                let first = shape.number.address() + u64::from(file.offset);
                let is_asked_for = first.0 < end && first + u64::from(file.len) > at;
                is_asked_for && has_failed(&file.entry)
            }),
        };
        if at >= occupied || is_lost {
            return Err(outside());
        }
        // A block that is not full ends the run.
        if end > occupied.0 && u64::from(shape.len) < BLOCK_SIZE {
            return Err(outside());
        }
        at = occupied;
    }
    Ok(())
}
