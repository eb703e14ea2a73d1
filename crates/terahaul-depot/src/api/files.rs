//! One file of a finished transfer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use terahaul_core::{Address, EntryIndex};

use super::error::Answer;
use super::extract::{self, Asking};
use super::ranged::{Choice, Download};
use super::read_ahead::ReadAhead;
use super::standing::Standing;
use crate::DepotError;
use crate::depot::Depot;

pub(super) async fn read(
    State(depot): State<Depot>,
    asking: Asking,
    extract::Address((_, entry)): extract::Address<(String, u32)>,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let published = depot.open_published(&asking.caller, asking.id).await?;
    let index = EntryIndex(entry);
    let batch = published.manifest(u64::from(entry))?.next().await?;
    let found = batch.as_ref().filter(|batch| batch.first == u64::from(entry));
    let found = found.and_then(|batch| Some((batch.entries.first()?, batch.hashes.first()?)));
    let (entry, hash) = found.ok_or(DepotError::NotFound("entry"))?;
    if published.failed().contains(&index) {
        return Err(DepotError::EntryFailed.into());
    }
    let size = entry.file_size().ok_or(DepotError::NotFound("file: the entry is a folder or a link"))?.0;
    let download = Download {
        size,
        etag: hash.to_hex(),
        content_type: "application/octet-stream",
        file_name: entry.path.split().1,
    };
    let part = match download.choose(&method, &headers)? {
        Choice::NotModified => return Ok(download.not_modified()),
        Choice::Send(part) => part,
    };
    let place = depot.inner.downloads.take(&asking.counted)?;
    let start = published.extent(index).map_or(Address(0), |extent| extent.address);
    let mut reader =
        ReadAhead::new(published, start + part.start, part.end - part.start, Some(Arc::new(place)));
    if method != Method::HEAD {
        reader = reader.begin().await?;
    }
    Ok(download.respond(part, Standing::new(&depot, &asking.caller).guard(reader.into_body())))
}
