//! Errors as responses.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};
use terahaul_core::{BlockNumber, BlockRefusal, BlockRun};
use terahaul_store::InboundError;

use crate::DepotError;

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

fn status(code: &str) -> StatusCode {
    match code {
        "unauthenticated" | "token_unknown" | "token_expired" | "token_revoked" | "session_ended"
        | "code_invalid" => StatusCode::UNAUTHORIZED,
        "scope_missing" | "csrf_header_missing" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "method_not_allowed" => StatusCode::METHOD_NOT_ALLOWED,
        "too_slow" => StatusCode::REQUEST_TIMEOUT,
        "not_open" | "not_finished" | "incomplete" | "manifest_conflict" | "duplicate_path"
        | "content_conflict" | "block_busy" => StatusCode::CONFLICT,
        "entry_failed" => StatusCode::GONE,
        "too_long" => StatusCode::PAYLOAD_TOO_LARGE,
        "media_type" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "range_not_satisfiable" | "outside_manifest" => StatusCode::RANGE_NOT_SATISFIABLE,
        "bad_entry" | "too_many_entries" | "too_large" | "block_length" | "hash_mismatch" => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        "too_many_attempts" => StatusCode::TOO_MANY_REQUESTS,
        "bad_request" | "body_cut" => StatusCode::BAD_REQUEST,
        "busy" | "stopping" => StatusCode::SERVICE_UNAVAILABLE,
        "quota_exceeded" | "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
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
        let status = status(code);
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self.0, "a request failed");
        }
        let mut body = json!({ "code": code, "message": self.0.to_string(), "retry": self.0.retry() });
        let mut headers = HeaderMap::new();
        match &self.0 {
            DepotError::Incomplete { missing, .. } => body["missing"] = json!(pairs(missing)),
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
        (status, headers, Json(json!({ "error": body }))).into_response()
    }
}

/// An answer with a code that no [`DepotError`] has.
fn plain(code: &str, message: &str) -> Response {
    let body: Value = json!({ "error": { "code": code, "message": message, "retry": false } });
    (status(code), Json(body)).into_response()
}

pub(super) async fn wrong_method(method: Method) -> Response {
    plain(
        "method_not_allowed",
        &format!("this address does not take {method}: see the Allow header and /api/v1/openapi.json"),
    )
}

pub(super) fn wrong_media_type() -> Response {
    plain("media_type", "the body has to be JSON: send it with 'Content-Type: application/json'")
}
