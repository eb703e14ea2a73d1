//! A finished transfer's receipt, streamed: it has a line for every entry.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use terahaul_core::{EntryIndex, ReceiptEntry};

use super::error::Answer;
use super::extract::Asking;
use crate::DepotError;
use crate::depot::Depot;
use crate::transfer::{ManifestReader, Outbound};

pub(super) async fn show(State(depot): State<Depot>, asking: Asking) -> Answer<Response> {
    let outbound = depot.open_outbound(&asking.caller, asking.id).await?;
    let head = head(&depot, &outbound).await?;
    let lines =
        Lines { manifest: outbound.manifest(0)?, outbound, head: Some(head), first: true, done: false };
    let body = Body::from_stream(stream::unfold(lines, |mut lines| async move {
        let piece = lines.next().await?;
        Some((piece, lines))
    }));
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Everything before the entries.
async fn head(depot: &Depot, outbound: &Outbound) -> Result<String, DepotError> {
    let finished = outbound.finished();
    let failures = depot.receipt_failures(outbound).await?;
    Ok(format!(
        "{{\"statement\":{},\"signature\":{},\"failures\":{},\"entries\":[",
        text(&finished.statement)?,
        text(&finished.signature)?,
        text(&failures)?
    ))
}

fn text(value: &impl serde::Serialize) -> Result<String, DepotError> {
    serde_json::to_string(value).map_err(|error| DepotError::Damaged(error.to_string()))
}

struct Lines {
    outbound: Outbound,
    manifest: ManifestReader,
    head: Option<String>,
    first: bool,
    done: bool,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, DepotError>> {
        if let Some(head) = self.head.take() {
            return Some(Ok(head.into()));
        }
        if self.done {
            return None;
        }
        Some(self.batch().await.map(Bytes::from))
    }

    async fn batch(&mut self) -> Result<String, DepotError> {
        let Some(batch) = self.manifest.next().await? else {
            self.done = true;
            return Ok("]}".into());
        };
        let mut lines = String::new();
        let indices = (batch.first as u32..).map(EntryIndex);
        for ((index, entry), hash) in indices.zip(&batch.entries).zip(&batch.hashes) {
            if self.outbound.failed().contains(&index) {
                continue;
            }
            let line = ReceiptEntry::new(entry, entry.file_size().map(|_| *hash));
            if !std::mem::take(&mut self.first) {
                lines.push(',');
            }
            lines.push_str(&text(&line)?);
        }
        Ok(lines)
    }
}
