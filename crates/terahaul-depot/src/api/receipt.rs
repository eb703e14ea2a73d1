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
use super::standing::Standing;
use crate::DepotError;
use crate::depot::Depot;
use crate::places::Place;
use crate::transfer::{ManifestReader, NamedFailures, Published};

pub(super) async fn show(State(depot): State<Depot>, asking: Asking) -> Answer<Response> {
    let published = depot.open_published(&asking.caller, asking.id).await?;
    let place = depot.inner.downloads.take(&asking.counted)?;
    let lines = Lines {
        failures: depot.named_failures(&published),
        manifest: published.manifest(0)?,
        published,
        part: Part::Head,
        first: true,
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(lines, |mut lines| async move {
        let piece = lines.next().await?;
        Some((piece, lines))
    }));
    let mut response = Standing::new(&depot, &asking.caller).guard(body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn text(value: &impl serde::Serialize) -> Result<String, DepotError> {
    serde_json::to_string(value).map_err(|error| DepotError::Damaged(error.to_string()))
}

/// What comes next.
#[derive(Clone, Copy)]
enum Part {
    Head,
    Failures,
    Entries,
    Nothing,
}

struct Lines {
    published: Published,
    failures: NamedFailures,
    manifest: ManifestReader,
    part: Part,
    /// Whether the next item is its list's first.
    first: bool,
    _place: Place,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, DepotError>> {
        let piece = match self.part {
            Part::Head => self.head(),
            Part::Failures => self.some_failures().await,
            Part::Entries => self.some_entries().await,
            Part::Nothing => return None,
        };
        Some(piece.map(Bytes::from))
    }

    /// Everything before the lists.
    fn head(&mut self) -> Result<String, DepotError> {
        self.part = Part::Failures;
        let finished = self.published.finished();
        let (statement, signature) = (text(&finished.statement)?, text(&finished.signature)?);
        Ok(format!("{{\"statement\":{statement},\"signature\":{signature},\"failures\":["))
    }

    async fn some_failures(&mut self) -> Result<String, DepotError> {
        let Some(failures) = self.failures.next().await? else {
            (self.part, self.first) = (Part::Entries, true);
            return Ok("],\"entries\":[".into());
        };
        self.items(&failures)
    }

    async fn some_entries(&mut self) -> Result<String, DepotError> {
        let Some(batch) = self.manifest.next().await? else {
            self.part = Part::Nothing;
            return Ok("]}".into());
        };
        let indices = (batch.first as u32..).map(EntryIndex);
        let listed = indices.zip(&batch.entries).zip(&batch.hashes);
        let arrived = listed.filter(|((index, _), _)| !self.published.failed().contains(index));
        let entries: Vec<_> = arrived
            .map(|((_, entry), hash)| ReceiptEntry::new(entry, entry.file_size().map(|_| *hash)))
            .collect();
        self.items(&entries)
    }

    /// More of the list that is being written.
    fn items(&mut self, items: &[impl serde::Serialize]) -> Result<String, DepotError> {
        let mut lines = String::new();
        for item in items {
            if !std::mem::take(&mut self.first) {
                lines.push(',');
            }
            lines.push_str(&text(item)?);
        }
        Ok(lines)
    }
}
