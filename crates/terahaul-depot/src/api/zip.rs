//! A finished transfer as one ZIP file.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;

use super::error::Answer;
use super::extract::Asking;
use super::ranged::{Choice, Download};
use super::standing::Standing;
use crate::depot::Depot;
use crate::zip;

pub(super) async fn read(
    State(depot): State<Depot>,
    asking: Asking,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let published = depot.open_published(&asking.caller, asking.id).await?;
    let place = depot.inner.downloads.take(&asking.counted)?;
    let plan = zip::plan(&published).await?;
    let name = format!("{}.zip", published.name());
    let download = Download {
        size: plan.size(),
        // The same content makes the same file, byte for byte.
        etag: format!("{}-zip{}", published.root().to_hex(), zip::FORMAT),
        content_type: "application/zip",
        file_name: name.as_bytes(),
    };
    let part = match download.choose(&method, &headers)? {
        Choice::NotModified => return Ok(download.not_modified()),
        Choice::Send(part) => part,
    };
    let body = zip::stream(published, plan, part.start, part.end, Arc::new(place));
    Ok(download.respond(part, Standing::new(&depot, &asking.caller).guard(body)))
}
