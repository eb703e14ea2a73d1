//! Errors as responses.

use axum::Extension;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};
use terahaul_core::{BlockNumber, BlockRefusal, BlockRun};
use terahaul_store::InboundError;

use super::refused_page::Said;
use crate::DepotError;
use crate::error::quoted;
use crate::error_code::ApiCode;

/// A [`DepotError`] on its way to an HTTP client.
pub(super) struct ApiError(pub DepotError);

/// What most handlers return.
pub(super) type Answer<T> = Result<T, ApiError>;

impl<E: Into<DepotError>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// Runs of blocks as the API writes them.
pub(super) fn pairs(runs: &[BlockRun]) -> Vec<(u32, u32)> {
    runs.iter().map(|run| (run.first.0, run.count)).collect()
}

/// The block that an error is about.
fn block_of(error: &InboundError) -> Option<BlockNumber> {
    match error {
        InboundError::Refused(BlockRefusal::Outside(block) | BlockRefusal::Busy(block))
        | InboundError::Refused(BlockRefusal::Length { block, .. })
        | InboundError::Mismatch { block, .. }
        | InboundError::Conflict(block) => Some(*block),
        InboundError::Sink(_)
        | InboundError::Basis(_)
        | InboundError::Ledger(_)
        | InboundError::Broken(_)
        | InboundError::Closed => None,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.0.code();
        let status = code.status();
        let message = self.0.told();
        if status == StatusCode::INTERNAL_SERVER_ERROR || self.0.disk_trouble().is_some() {
            tracing::error!(error = %self.0, "a request failed");
        }
        let mut body = json!({ "code": code.name(), "message": message, "retry": self.0.retry() });
        let mut headers = HeaderMap::new();
        match &self.0 {
            DepotError::Incomplete { missing, .. } => body["missing"] = json!(pairs(missing)),
            DepotError::BeingDeclared => body["missing"] = json!([]),
            DepotError::Inbound(error) => {
                if let Some(block) = block_of(error) {
                    body["block"] = json!(block);
                }
            }
            DepotError::Range { size, .. } => {
                if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
                    headers.insert(header::CONTENT_RANGE, value);
                }
            }
            _ => {}
        }
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        (status, headers, Extension(Said(message)), Json(json!({ "error": body }))).into_response()
    }
}

/// An answer with a code that no [`DepotError`] has.
fn plain(code: ApiCode, message: &str) -> Response {
    let body: Value = json!({ "error": { "code": code.name(), "message": message, "retry": false } });
    (code.status(), Json(body)).into_response()
}

pub(super) async fn wrong_method(method: Method) -> Response {
    plain(
        ApiCode::MethodNotAllowed,
        &format!(
            "this address does not take {}: see the Allow header and /api/v1/openapi.json",
            quoted(method.to_string())
        ),
    )
}

pub(super) fn wrong_media_type() -> Response {
    plain(ApiCode::MediaType, "the body has to be JSON: send it with 'Content-Type: application/json'")
}
