//! A depot that throws uploaded bytes away unhashed: what a browser can send at the most, for `make bench`.
//!
//! Everything but `PUT …/bytes/…` and `finish` is the real depot, so the page runs unchanged. Prints its page's
//! address as JSON. `discard DATA-FOLDER`

use std::error::Error;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{post, put};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use terahaul_core::BLOCK_SIZE;
use terahaul_depot::{Depot, DepotConfig};
use tower::ServiceExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data = std::env::args().nth(1).ok_or("usage: discard DATA-FOLDER")?;
    let depot = Depot::open(DepotConfig { overcommit: true, ..DepotConfig::new(data) }).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("{}", json!({ "page": format!("http://{address}/#signin={}", depot.sign_in_code()?) }));
    let real = depot.http_router();
    let router = Router::new()
        .route("/api/v1/transfers/{id}/bytes/{address}", put(discard))
        .route("/api/v1/transfers/{id}/finish", post(finish))
        .with_state(real.clone())
        .fallback_service(real);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn discard(Path((_, address)): Path<(String, u64)>, body: Body) -> Response {
    let mut body = body;
    let mut len = 0;
    while let Some(Ok(frame)) = body.frame().await {
        len += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    let first = address / BLOCK_SIZE;
    let blocks: Vec<Value> =
        (0..len.div_ceil(BLOCK_SIZE)).map(|at| json!({ "block": first + at, "value": "" })).collect();
    Json(json!({ "blocks": blocks })).into_response()
}

/// The transfer as the depot knows it, called complete.
async fn finish(State(real): State<Router>, request: Request) -> Response {
    let path = request.uri().path().trim_end_matches("/finish").to_owned();
    let mut look = Request::builder().method(Method::GET).uri(path);
    if let Some(cookie) = request.headers().get(header::COOKIE) {
        look = look.header(header::COOKIE, cookie);
    }
    let Ok(look) = look.body(Body::empty()) else { return "bad address".into_response() };
    let Ok(shown) = real.oneshot(look).await;
    let bytes = shown.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut transfer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    transfer["state"] = json!("complete");
    Json(transfer).into_response()
}
