//! The HTTP API under `/api/v1` and the page beside it. `openapi.json` describes every call.

mod bytes;
mod cookies;
mod cut;
mod entries;
mod error;
mod extents;
mod extract;
mod failures;
mod files;
mod json;
mod links;
mod long_answer;
mod page;
mod ranged;
mod read_ahead;
mod receipt;
mod refused_page;
mod session;
mod standing;
mod tokens;
mod transfers;
mod upload;
mod upload_body;
mod zip;

use std::net::IpAddr;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Json;
use axum::routing::{get, patch, post, put};
use tower_http::set_header::SetResponseHeaderLayer;

use crate::DepotError;
use crate::depot::Depot;
pub(crate) use cut::log_cut;
use error::ApiError;
pub(crate) use read_ahead::ReadAhead;

/// What the server knows about a request's connection. It puts one into the request's extensions; without it, a
/// request counts as a plain one from this machine.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// Whether it is encrypted: cookies are then marked so.
    pub tls: bool,
}

/// Everything from the page itself, and nothing else: a file's name or a transfer's can never become a script.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
    style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Depot {
    /// The API and the page.
    pub fn http_router(&self) -> Router {
        let downloads = Router::new()
            .route("/transfers/{id}/receipt", get(receipt::show))
            .route("/transfers/{id}/files/{entry}", get(files::read))
            .route("/transfers/{id}/zip", get(zip::read))
            .route_layer(axum::middleware::from_fn(refused_page::readable));
        let api = Router::new()
            .merge(downloads)
            .route("/health", get(health))
            .route("/openapi.json", get(openapi))
            .route("/session", get(session::show).post(session::open).delete(session::close))
            .route("/links/{id}/open", post(links::open))
            .route("/tokens", get(tokens::list).post(tokens::create))
            .route("/tokens/{token}", patch(tokens::change).delete(tokens::revoke))
            .route("/transfers", get(transfers::list).post(transfers::create))
            .route("/transfers/{id}", get(transfers::show).patch(transfers::change).delete(transfers::remove))
            .route("/transfers/{id}/entries", get(entries::list).post(entries::append))
            .route("/transfers/{id}/failures", post(failures::report))
            .route("/transfers/{id}/bytes/{address}", put(upload::put).get(bytes::read))
            .route("/transfers/{id}/extents", get(extents::show))
            .route("/transfers/{id}/values", get(extents::values))
            .route("/transfers/{id}/finish", post(transfers::finish))
            .fallback(|| async { ApiError(DepotError::NotFound("address in this API")) })
            .method_not_allowed_fallback(error::wrong_method);
        Router::new()
            .nest("/api/v1", api)
            .fallback(page::serve.layer(axum::middleware::from_fn(refused_page::readable_address)))
            // Each handler that takes a body has a limit of its own.
            .layer(DefaultBodyLimit::disable())
            // What is known about transfers and tokens, links among it, stays in no cache. Downloads and the page's files say otherwise.
            .layer(constant(header::CACHE_CONTROL, "no-store"))
            .layer(constant(header::CONTENT_SECURITY_POLICY, POLICY))
            .layer(constant(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .layer(constant(header::REFERRER_POLICY, "no-referrer"))
            .layer(constant(header::X_FRAME_OPTIONS, "DENY"))
            .layer(constant(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
            .layer(constant(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"))
            .with_state(self.clone())
    }
}

fn constant(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

async fn health() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

async fn openapi() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../openapi.json"))
}
