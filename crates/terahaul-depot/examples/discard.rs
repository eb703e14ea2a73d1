//! A depot that throws uploaded bytes away unhashed: what a browser can send at the most, for `make bench` and for the
//! page on emulated paths.
//!
//! Everything but `PUT …/bytes/…` and `finish` is the real depot, so the page runs unchanged. Prints its page's
//! address as JSON. `discard DATA-FOLDER [ADDRESS]`: without an address it serves HTTP on loopback, with one HTTPS there.

use std::error::Error;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{post, put};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use terahaul_core::BLOCK_SIZE;
use terahaul_depot::{Connection, Depot, DepotConfig};
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::tls::{Certificate, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tower::ServiceExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("usage: discard DATA-FOLDER [ADDRESS]")?;
    let address = arguments.next();
    let certificate = Certificate::for_one_session()?;
    let tls = ServerTls::new(certificate.chain, certificate.key)?;
    let depot = Depot::open(DepotConfig { overcommit: true, ..DepotConfig::new(data) }).await?;
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let scheme = if address.is_some() { "https" } else { "http" };
    let page = format!("{scheme}://{}/#signin={}", listener.local_addr()?, depot.sign_in_code()?);
    println!("{}", json!({ "page": page }));
    let real = depot.http_router();
    let router = Router::new()
        .route("/api/v1/transfers/{id}/bytes/{address}", put(discard))
        .route("/api/v1/transfers/{id}/finish", post(finish))
        .with_state(real.clone())
        .fallback_service(real);
    loop {
        let (socket, peer) = listener.accept().await?;
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            // What breaks off here is the browser's to try again.
            let _ = match accept(socket, &tls).await {
                Ok(Incoming::Https(stream)) => {
                    serve(*stream, router, Connection { peer: peer.ip(), tls: true }).await
                }
                Ok(Incoming::Http(stream)) => {
                    serve(stream, router, Connection { peer: peer.ip(), tls: false }).await
                }
                _ => Ok(()),
            };
        });
    }
}

/// As the depot does it.
async fn serve<S>(stream: S, router: Router, origin: Connection) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router.layer(axum::Extension(origin)));
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
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
