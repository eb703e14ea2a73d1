//! What several fuzz targets share: a pair of record keys, and a depot behind its real router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};
use tempfile::TempDir;
use terahaul_core::ByteCount;
use terahaul_depot::{Depot, DepotConfig};
use terahaul_net::tls::{Opener, Sealer};
use terahaul_store::MemoryStore;
use terahaul_wire::packet::{PACKET_TAG_LEN, PacketHeader};
use tokio::runtime::Runtime;
use tower::ServiceExt;

fn secrets() -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([7; 32]), iv: Iv::new([9; 12]) }
}

/// The sending half of a data channel whose keys the fuzzer knows.
pub fn sealer() -> Sealer {
    Sealer::new(0, &secrets()).expect("AES-256-GCM is supported")
}

/// Its receiving half.
pub fn opener() -> Opener {
    Opener::new(0, &secrets()).expect("AES-256-GCM is supported")
}

/// Opens packets that nobody has sealed.
pub struct Trusting;

impl terahaul_udp::Seal for Trusting {
    fn seal(&mut self, _: &PacketHeader, _: &mut [u8], _: &mut [u8; PACKET_TAG_LEN]) {}
}

impl terahaul_udp::Open for Trusting {
    fn open(&mut self, _: &PacketHeader, _: &mut [u8]) -> bool {
        true
    }
}

/// A folder that is gone with the guard; in memory where the system has such a place, because syncs are free there.
pub fn folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::path::Path::new("/tmp") };
    tempfile::tempdir_in(parent).expect("a folder")
}

/// A depot in memory and the router that its port serves.
pub struct Rig {
    runtime: Runtime,
    router: Router,
    token: String,
    _data: TempDir,
}

impl Rig {
    /// A depot without transfers.
    pub fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let data = folder();
        let (router, token) = runtime.block_on(async {
            let mut config = DepotConfig::new(data.path());
            config.quota = Some(ByteCount(64 << 20));
            let depot = Depot::open_with_store(config, Arc::new(MemoryStore::new())).await.expect("a depot");
            let token = depot.owner_token().await.expect("a token");
            (depot.http_router(), token)
        });
        Self { runtime, router, token, _data: data }
    }

    /// One request; the answer's body is read whole.
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &[u8])], body: Vec<u8>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("the caller's headers are valid");
        let response = self.runtime.block_on(self.router.clone().oneshot(request)).expect("never fails");
        let (parts, body) = response.into_parts();
        let body = self.runtime.block_on(body.collect()).map(|body| body.to_bytes().to_vec());
        Answer { status: parts.status, headers: parts.headers, body: body.expect("the body ends well") }
    }

    /// A request with a JSON body that has to succeed.
    pub fn json(&self, method: &str, path: &str, body: serde_json::Value) -> serde_json::Value {
        let headers: &[(&str, &[u8])] = &[("content-type", b"application/json")];
        let answer = self.call(method, path, headers, body.to_string().into_bytes());
        assert!(answer.status.is_success(), "{path}: {}", String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// A new transfer's identifier.
    pub fn transfer(&self) -> String {
        let made = self.json("POST", "/transfers", serde_json::json!({ "name": "fuzz" }));
        made["id"].as_str().expect("an id").to_owned()
    }
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

/// What the depot answered.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// A refusal is JSON with a code, a sentence and a hint whether to try again.
    pub fn assert_typed_refusal(&self) {
        let body: serde_json::Value = serde_json::from_slice(&self.body).expect("a refusal is JSON");
        assert!(self.status.is_client_error(), "{}: {body}", self.status);
        assert!(body["error"]["code"].is_string() && body["error"]["retry"].is_boolean(), "{body}");
        assert!(body["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
    }
}
