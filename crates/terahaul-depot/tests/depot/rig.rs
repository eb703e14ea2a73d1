//! A depot and its real router in a temporary folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use terahaul_core::{BLOCK_SIZE, Entry, EntryIndex};
use terahaul_depot::{Clock, Depot, DepotConfig};
use terahaul_wire::Batch;
use tower::ServiceExt;

/// The first moment of every test.
pub const START: i64 = 1_800_000_000;

pub struct Rig {
    pub depot: Depot,
    pub router: Router,
    pub token: String,
    pub now: Arc<AtomicI64>,
    pub folder: TempDir,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The answer's JSON, which has to come with `status`.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Asserts a typed error: status, code, a sentence.
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["error"]["code"], code, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().len() > 10);
        assert!(body["error"]["retry"].is_boolean());
        body
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut DepotConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_owned();
        Self::with_data(folder, &data, change).await
    }

    /// A depot whose data is in `data`, which is `folder` or in it.
    pub async fn with_data(folder: TempDir, data: &Path, change: impl FnOnce(&mut DepotConfig)) -> Self {
        let now = Arc::new(AtomicI64::new(START));
        let depot = Depot::open(config(data, &now, change)).await.unwrap();
        Self::over(depot, now, folder).await
    }

    pub async fn over(depot: Depot, now: Arc<AtomicI64>, folder: TempDir) -> Self {
        depot.set_link_base("https://depot.example:8750/", Some("ab".repeat(32)));
        let token = depot.owner_token().await.unwrap();
        Self { router: depot.http_router(), depot, token, now, folder }
    }

    /// Stops the depot and starts it again on the same folder.
    pub async fn restart(self) -> Self {
        let Self { depot, router, now, folder, .. } = self;
        let data = depot.config().data.clone();
        depot.close().await;
        drop((depot, router));
        let began = std::time::Instant::now();
        let depot = loop {
            match Depot::open(config(&data, &now, |_| {})).await {
                // What another test runs has all that is open here, the lock too, from when it is forked until it is executed.
                Err(terahaul_depot::DepotError::Locked(_)) if began.elapsed().as_secs() < 10 => {
                    tokio::task::yield_now().await;
                }
                opened => break opened.unwrap(),
            }
        };
        Self::over(depot, now, folder).await
    }

    pub fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::Relaxed);
    }

    pub async fn request(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// A request with a token and a body of JSON or bytes.
    pub async fn call_as(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = match body {
            None => Body::empty(),
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
        };
        self.request(request.body(body).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call_as(&self.token, Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call_as(&self.token, Method::POST, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call_as(&self.token, Method::DELETE, path, None).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request =
            Request::get(format!("/api/v1{path}")).header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.request(request.body(Body::empty()).unwrap()).await
    }

    pub async fn put(&self, id: &str, address: u64, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
        self.put_as(&self.token, id, address, bytes, headers).await
    }

    pub async fn put_as(
        &self,
        token: &str,
        id: &str,
        address: u64,
        bytes: &[u8],
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::put(format!("/api/v1/transfers/{id}/bytes/{address}"))
            .header("authorization", format!("Bearer {token}"));
        if !headers.iter().any(|(name, _)| *name == "content-length") {
            request = request.header("content-length", bytes.len());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // Frames of an odd length, as networks deliver them.
        let frames: Vec<Result<bytes::Bytes, std::io::Error>> =
            bytes.chunks(77_777).map(|chunk| Ok(bytes::Bytes::copy_from_slice(chunk))).collect();
        self.request(request.body(Body::from_stream(futures_util::stream::iter(frames))).unwrap()).await
    }

    /// A token with these scopes.
    pub async fn new_token(&self, scopes: &[&str], quota: Option<u64>) -> String {
        let body = json!({ "label": "t", "scopes": scopes, "quota_bytes": quota });
        self.post("/tokens", body).await.expect(201)["token"].as_str().unwrap().to_owned()
    }

    /// Makes a transfer and returns its id.
    pub async fn new_transfer(&self, token: &str) -> String {
        let made =
            self.call_as(token, Method::POST, "/transfers", Some(json!({ "name": "t" }))).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Makes a transfer of these files and sends it whole; returns its id.
    pub async fn sent(&self, files: &[(&str, Vec<u8>)]) -> String {
        let id = self.new_transfer(&self.token).await;
        let entries: Vec<Value> = files.iter().map(|(path, bytes)| file(path, bytes.len() as u64)).collect();
        self.append(&id, 0, entries).await;
        self.send_all(&id, files).await;
        self.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
        id
    }

    pub async fn append(&self, id: &str, first: u64, entries: Vec<Value>) -> Value {
        let body = json!({ "entries": entries, "first": first, "seal": true });
        self.post(&format!("/transfers/{id}/entries"), body).await.expect(200)
    }

    /// Sends the bytes of all blocks of a transfer of exactly these files.
    pub async fn send_all(&self, id: &str, files: &[(&str, Vec<u8>)]) {
        let listed = self.get(&format!("/transfers/{id}/entries?limit=5000")).await.expect(200);
        let mut space: std::collections::BTreeMap<u64, Vec<u8>> = std::collections::BTreeMap::new();
        for (entry, (_, bytes)) in listed["entries"].as_array().unwrap().iter().zip(files) {
            let Some(address) = entry["address"].as_u64() else { continue };
            space.entry(address / BLOCK_SIZE * BLOCK_SIZE).or_default().extend_from_slice(bytes);
        }
        for (address, bytes) in space {
            self.put(id, address, &bytes, &[]).await.expect(200);
        }
    }
}

/// How many transfers a part of the store in `data` has something of.
pub fn objects(data: &Path, place: &str) -> usize {
    let names = std::fs::read_dir(data.join("store").join(place)).unwrap().map(|found| found.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "data")).count()
}

fn config(folder: &Path, now: &Arc<AtomicI64>, change: impl FnOnce(&mut DepotConfig)) -> DepotConfig {
    let mut config = DepotConfig::new(folder);
    config.clock = Clock::set_by(Arc::clone(now));
    config.trusts_clock_after = Duration::ZERO;
    change(&mut config);
    config
}

pub fn file(path: &str, size: u64) -> Value {
    json!({ "path": path, "kind": "file", "size": size, "mtime": 1_700_000_000, "mtime_nanos": 5, "mode": 0o640 })
}

pub fn batch(first: u32, entries: Vec<Entry>, seal: bool) -> Batch {
    Batch { first: EntryIndex(first), entries, seal }
}

/// Bytes that differ everywhere.
pub fn content(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}
