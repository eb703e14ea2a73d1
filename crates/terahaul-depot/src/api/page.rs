//! The page, embedded.

use axum::http::{HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use super::error::{ApiError, wrong_method};
use crate::DepotError;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Dist;

/// Files with a hash in their name never change.
const FOREVER: &str = "public, max-age=31536000, immutable";

pub(super) async fn serve(method: Method, uri: Uri) -> Response {
    if !matches!(method, Method::GET | Method::HEAD) {
        return wrong_method(method).await;
    }
    let path = uri.path().trim_start_matches('/');
    let is_transfer = path
        .strip_prefix("t/")
        .map(|id| id.strip_suffix('/').unwrap_or(id))
        .is_some_and(|id| !id.is_empty() && !id.contains('/'));
    let name = if path.is_empty() || is_transfer { "index.html" } else { path };
    let Some(file) = Dist::get(name) else { return ApiError(DepotError::NotFound("page")).into_response() };
    let mut response = axum::body::Body::from(file.data.into_owned()).into_response();
    let caching = if name.starts_with("assets/") { FOREVER } else { "no-cache" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "wasm" => "application/wasm",
        "json" | "webmanifest" => "application/json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
