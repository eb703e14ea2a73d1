//! Quotas, full disks, and requests that are malformed or meant ill.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::rig::{Rig, content, file, objects};
use axum::body::Body;
use axum::http::{Method, Request};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use terahaul_core::{BLOCK_SIZE, ByteCount};
use terahaul_depot::{Caller, Clock, Depot, DepotConfig};
use terahaul_store::MemoryStore;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt;

async fn append(rig: &Rig, token: &str, id: &str, first: u64, entries: Vec<Value>) -> crate::rig::Answer {
    let body = json!({ "entries": entries, "first": first, "seal": true });
    rig.call_as(token, Method::POST, &format!("/transfers/{id}/entries"), Some(body)).await
}

/// Each takes more than 4 KiB of a manifest.
fn links(count: u32) -> Vec<Value> {
    let link = |at| json!({ "path": format!("{at}"), "kind": "symlink", "target_hex": "78".repeat(4095), "mtime": 0, "mode": 0o777 });
    (0..count).map(link).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_checked_before_a_byte_is_taken() {
    let rig = Rig::with(|config| config.quota = Some(ByteCount(1000))).await;
    let token = rig.new_token(&["send"], Some(600)).await;
    let id = rig.new_transfer(&token).await;
    append(&rig, &token, &id, 0, vec![file("a", 500)]).await.expect(200);
    let refused = append(&rig, &token, &id, 1, vec![file("b", 101)]).await.refused(507, "quota_exceeded");
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("remove transfers that are not needed"),
        "{refused}"
    );
    append(&rig, &token, &id, 1, vec![file("b", 100)]).await.expect(200);
    let other = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &other, 0, vec![file("c", 401)]).await.refused(507, "quota_exceeded");
    // What failed, and what is removed, no longer counts.
    let failures = json!({ "failures": [{ "entry": 0, "cause": "vanished", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    append(&rig, &token, &id, 2, vec![file("d", 500)]).await.expect(200);
    rig.delete(&format!("/transfers/{id}")).await.expect(204);
    append(&rig, &rig.token, &other, 0, vec![file("c", 1000)]).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_counts_as_long_as_it_is_here_and_what_comes_later_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(crate::rig::START));
    let (quota, clock) = (Some(ByteCount(3 * BLOCK_SIZE)), Clock::set_by(Arc::clone(&now)));
    let config = DepotConfig { quota, clock, ..DepotConfig::new(folder.path()) };
    // It cannot give back a part of what it has.
    let depot = Depot::open_with_store(config, Arc::new(MemoryStore::default())).await.unwrap();
    let rig = Rig::over(depot, now, folder).await;
    let id = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &id, 0, vec![file("a", 2 * BLOCK_SIZE)]).await.expect(200);
    let bytes = content(1, BLOCK_SIZE);
    rig.put(&id, 0, &bytes, &[]).await.expect(200);
    let failures = json!({ "failures": [{ "entry": 0, "cause": "changed", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    append(&rig, &rig.token, &id, 1, vec![file("b", 2 * BLOCK_SIZE + 1)])
        .await
        .refused(507, "quota_exceeded");
    append(&rig, &rig.token, &id, 1, vec![file("b", 2 * BLOCK_SIZE)]).await.expect(200);
    // What was on its way is taken for good manners' sake, and thrown away.
    rig.put(&id, BLOCK_SIZE, &bytes, &[]).await.expect(200);
    let extents = rig.get(&format!("/transfers/{id}/extents")).await.expect(200);
    assert!(!extents.to_string().contains("[1,"), "{extents}");
    rig.put(&id, 2 * BLOCK_SIZE, &content(2, 2 * BLOCK_SIZE), &[]).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    append(&rig, &rig.token, &rig.new_transfer(&rig.token).await, 0, vec![file("c", 1)])
        .await
        .refused(507, "quota_exceeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_as_many_transfers_are_in_use_as_the_depot_allows() {
    let rig = Rig::with(|config| config.limits.transfers_in_use = 2).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(rig.new_transfer(&rig.token).await);
    }
    let append_to = |id: &str| {
        let (rig, id) = (&rig, id.to_owned());
        async move { append(rig, &rig.token, &id, 0, vec![file("a", 1)]).await }
    };
    append_to(&made[0]).await.expect(200);
    append_to(&made[1]).await.expect(200);
    append_to(&made[2]).await.refused(503, "busy");
    rig.delete(&format!("/transfers/{}", made[0])).await.expect(204);
    append_to(&made[2]).await.expect(200);
}

/// A token with a quota of one byte could make and finish any number of transfers without one.
#[tokio::test(flavor = "multi_thread")]
async fn transfers_count_although_they_hold_nothing() {
    let rig = Rig::new().await;
    let token = rig.new_token(&["send"], Some(1)).await;
    // What is not counted, but for some KiB.
    let id = rig.new_transfer(&token).await;
    append(&rig, &token, &id, 0, links(248)).await.expect(200);
    for _ in 0..64 {
        let made = rig.call_as(&token, Method::POST, "/transfers", Some(json!({ "name": "t" }))).await;
        if made.status != 201 {
            made.refused(507, "quota_exceeded");
            return;
        }
        let path = format!("/transfers/{}/finish", made.json()["id"].as_str().unwrap());
        rig.call_as(&token, Method::POST, &path, Some(json!({}))).await.expect(200);
    }
    panic!("none was refused");
}

/// Whoever had a token could make any number of transfers that hold nothing, and each append of everybody reads what all open ones
/// still wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_only_as_many_open_transfers_as_the_depot_allows() {
    let rig = Rig::with(|config| config.limits.open_transfers = 2).await;
    let create = |token: String| {
        let rig = &rig;
        async move { rig.call_as(&token, Method::POST, "/transfers", Some(json!({ "name": "t" }))).await }
    };
    let other = rig.new_token(&["send"], None).await;
    rig.new_transfer(&rig.token).await;
    let removed = rig.new_transfer(&rig.token).await;
    let refused = create(rig.token.clone()).await.refused(507, "too_many_transfers");
    assert!(refused["error"]["message"].as_str().unwrap().contains("remove"), "{refused}");
    rig.new_transfer(&other).await;
    rig.delete(&format!("/transfers/{removed}")).await.expect(204);
    // One that is finished is not open.
    rig.sent(&[("a", content(1, 10))]).await;
    let resumed = json!({ "name": "t", "resume_key": "k" });
    rig.post("/transfers", resumed.clone()).await.expect(201);
    rig.post("/transfers", resumed).await.expect(200);
    create(rig.token.clone()).await.refused(507, "too_many_transfers");
    // What is refused leaves nothing behind.
    assert_eq!(objects(rig.folder.path(), "incoming"), 3);
    rig.pass(31 * 86_400);
    create(rig.token.clone()).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_transfer_that_is_opened_again_counts_among_the_open_ones() {
    let rig = Rig::with(|config| config.limits.open_transfers = 2).await;
    let id = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &id, 0, vec![file("a", 1), file("b", 1)]).await.expect(200);
    let failures = json!({ "failures": [{ "entry": 0, "cause": "vanished", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    rig.put(&id, 0, &[0, 7], &[]).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    let others = [rig.new_transfer(&rig.token).await, rig.new_transfer(&rig.token).await];
    let owner = Caller::Token(rig.depot.authenticate(&rig.token).await.unwrap());
    let reader = rig.depot.open_published(&owner, id.parse().unwrap()).await.unwrap();
    append(&rig, &rig.token, &id, 2, vec![file("a", 1)]).await.refused(507, "too_many_transfers");
    let nothing = json!({ "entries": [], "first": 2 });
    rig.post(&format!("/transfers/{id}/entries"), nothing.clone()).await.refused(507, "too_many_transfers");
    // It stands as it was.
    assert!(!reader.is_closed(), "whoever reads it goes on");
    let shown = rig.get(&format!("/transfers/{id}")).await.expect(200);
    assert_eq!(
        (&shown["state"], &shown["entries"], &shown["failed"]),
        (&json!("partial"), &json!(2), &json!(1))
    );
    assert_eq!(rig.get(&format!("/transfers/{id}/files/1")).await.body, [7]);
    rig.delete(&format!("/transfers/{}", others[0])).await.expect(204);
    let gap = json!({ "entries": [], "first": 9 });
    rig.post(&format!("/transfers/{id}/entries"), gap).await.refused(409, "manifest_conflict");
    assert_eq!(rig.get(&format!("/transfers/{id}")).await.expect(200)["state"], json!("partial"));
    rig.post(&format!("/transfers/{id}/entries"), nothing).await.expect(200);
    assert!(reader.is_closed());
    append(&rig, &rig.token, &id, 2, vec![file("a", 1)]).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_just_read_makes_room_for_what_is_to_be() {
    let rig = Rig::with(|config| config.limits.transfers_in_use = 2).await;
    for name in ["a", "b", "c", "a"] {
        let id = rig.sent(&[(name, content(1, 10))]).await;
        rig.get(&format!("/transfers/{id}/entries")).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_bodies_are_short() {
    let rig = Rig::new().await;
    for path in ["/session", "/links/mfrggzdfmztwq2lknnwg23tpoa/open"] {
        let body = json!({ "token": "t".repeat(5000) });
        rig.call_as("", Method::POST, path, Some(body)).await.refused(413, "too_long");
    }
}

/// A request of which the rest never comes, once the depot waits for that.
async fn unfinished(rig: &Rig, token: &str, id: &str) -> JoinHandle<()> {
    let (waits, waiting) = oneshot::channel();
    let begin = stream::once(async { Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 70 << 10])) });
    let rest = stream::once(async move {
        waits.send(()).unwrap();
        std::future::pending().await
    });
    let request = Request::post(format!("/api/v1/transfers/{id}/entries"))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Body::from_stream(begin.chain(rest)))
        .unwrap();
    let router = rig.router.clone();
    let running = tokio::spawn(async move { drop(router.oneshot(request).await) });
    waiting.await.unwrap();
    running
}

/// One token could keep everybody else from declaring many entries at once.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_all_of_the_places_for_long_bodies() {
    let rig = Rig::with(|config| config.limits.long_bodies = 4).await;
    let greedy = rig.new_token(&["send"], None).await;
    let id = rig.new_transfer(&greedy).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(unfinished(&rig, &greedy, &id).await);
    }
    append(&rig, &greedy, &id, 0, links(20)).await.refused(503, "busy");
    let other = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &other, 0, links(20)).await.expect(200);
    running.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_write_has_no_place_for_a_long_body() {
    let rig = Rig::with(|config| config.limits.long_bodies = 1).await;
    let id = rig.new_transfer(&rig.token).await;
    for (scope, status, code) in [("receive", 403, "scope_missing"), ("send", 404, "not_found")] {
        let token = rig.new_token(&[scope], None).await;
        let running = unfinished(&rig, &token, &id).await;
        append(&rig, &rig.token, &id, 0, links(20)).await.expect(200);
        append(&rig, &token, &id, 0, links(20)).await.refused(status, code);
        running.abort();
    }
}

/// A token with a quota of one byte could fill the disk with entries that are no files.
#[tokio::test(flavor = "multi_thread")]
async fn what_manifests_take_counts_beyond_the_first_mebibyte_of_a_token() {
    let rig = Rig::with(|config| config.quota = Some(ByteCount(10 * BLOCK_SIZE))).await;
    let (token, other) =
        (rig.new_token(&["send"], Some(1)).await, rig.new_token(&["send"], Some(4 * BLOCK_SIZE)).await);
    let (one, two) = (rig.new_transfer(&token).await, rig.new_transfer(&token).await);
    append(&rig, &token, &one, 0, links(200)).await.expect(200);
    append(&rig, &token, &two, 0, links(60)).await.refused(507, "quota_exceeded");
    // What is in its manifest already is no more.
    append(&rig, &token, &one, 0, links(200)).await.expect(200);
    append(&rig, &token, &one, 200, vec![file("f", 1)]).await.expect(200);
    rig.delete(&format!("/transfers/{one}")).await.expect(204);
    append(&rig, &token, &two, 0, links(200)).await.expect(200);
    // Whose quota is a file's size may send the file.
    let whole = rig.new_transfer(&other).await;
    append(&rig, &other, &whole, 0, vec![file("f", 4 * BLOCK_SIZE)]).await.expect(200);
    // All of them together count in the depot's.
    let third = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &third, 0, links(60)).await.expect(200);
    append(&rig, &rig.token, &third, 60, vec![file("f", 6 * BLOCK_SIZE)])
        .await
        .refused(507, "quota_exceeded");
}

/// A token could take some seventy times its quota on the disk: a byte in a block takes 4 KiB there, and a row.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_count_that_hold_next_to_nothing() {
    let rig = Rig::new().await;
    let token = rig.new_token(&["send"], Some(1000)).await;
    let id = rig.new_transfer(&token).await;
    // What is not counted, but for some KiB.
    append(&rig, &token, &id, 0, links(248)).await.expect(200);
    let together = (0..8).map(|at| file(&format!("together/{at}"), 1)).collect();
    append(&rig, &token, &id, 248, together).await.expect(200);
    for at in 256..264 {
        let appended = append(&rig, &token, &id, at, vec![file(&format!("alone/{at}"), 1)]).await;
        if appended.status != 200 {
            appended.refused(507, "quota_exceeded");
            return;
        }
    }
    panic!("none was refused");
}

/// One link's holder could have a page of 140 MB made for each connection, and read none.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_long_names_ends_early_and_says_where_the_next_begins() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &id, 0, links(400)).await.expect(200);
    let (mut next, mut listed) = (json!(0), Vec::new());
    while let Some(from) = next.as_u64() {
        let page = rig.get(&format!("/transfers/{id}/entries?from={from}&limit=5000")).await;
        assert!(page.body.len() < 3 << 20, "{}", page.body.len());
        let page = page.expect(200);
        listed.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()));
        next = page["next"].clone();
    }
    assert_eq!(listed, (0..400).map(|at| json!(at.to_string())).collect::<Vec<_>>());
}

/// What a connection has taken and nobody reads. Where the place was another's by then, all connections had one.
async fn taken(rig: &Rig, request: Request<Body>) -> Bytes {
    let response = rig.router.clone().oneshot(request).await.unwrap();
    assert!(response.status().is_success());
    assert_eq!(response.headers()["content-type"], "application/json");
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_read_keeps_its_place_among_the_downloads() {
    let rig = Rig::with(|config| config.limits.downloads = 1).await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let lists = ["entries", "extents", "values"].map(|call| format!("/transfers/{id}/{call}"));
    for path in lists.into_iter().chain(["/transfers?limit=500".to_owned()]) {
        let request =
            Request::get(format!("/api/v1{path}")).header("authorization", format!("Bearer {}", rig.token));
        let unread = taken(&rig, request.body(Body::empty()).unwrap()).await;
        rig.get(&path).await.refused(503, "busy");
        rig.get("/transfers").await.expect(200);
        drop(unread);
        rig.get(&path).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_answer_is_not_read_keeps_its_place() {
    let rig = Rig::with(|config| config.limits.uploads = 1).await;
    let id = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &id, 0, vec![file("a", 1)]).await.expect(200);
    let request = Request::put(format!("/api/v1/transfers/{id}/bytes/0"))
        .header("authorization", format!("Bearer {}", rig.token));
    let unread = taken(&rig, request.body(Body::from("x")).unwrap()).await;
    rig.put(&id, 0, b"x", &[]).await.refused(503, "busy");
    drop(unread);
    rig.put(&id, 0, b"x", &[]).await.expect(200);
}

/// Each of thousands of connections could have 300 kB of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_many_entries_has_a_place_among_the_uploads() {
    let rig = Rig::with(|config| config.limits.uploads = 1).await;
    let many: Vec<_> = (0..1001).map(|at| file(&at.to_string(), 1)).collect();
    let id = rig.new_transfer(&rig.token).await;
    let create = json!({ "name": "t", "entries": many, "seal": true });
    let add = json!({ "entries": many, "first": 0, "seal": true });
    for (path, body) in [("/transfers".to_owned(), create), (format!("/transfers/{id}/entries"), add)] {
        let request = Request::post(format!("/api/v1{path}"))
            .header("authorization", format!("Bearer {}", rig.token))
            .header("content-type", "application/json");
        let unread = taken(&rig, request.body(Body::from(body.to_string())).unwrap()).await;
        rig.post(&path, body.clone()).await.refused(503, "busy");
        append(&rig, &rig.token, &id, 0, vec![file("0", 1)]).await.expect(200);
        drop(unread);
        assert!(rig.post(&path, body).await.status.is_success());
    }
}

/// A body of one-byte blocks had an answer made of a thousand times its length.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_has_only_so_many_blocks_however_short_they_are() {
    const MOST: u64 = 1024;
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    for at in 0..=MOST {
        append(&rig, &rig.token, &id, at, vec![file(&at.to_string(), 1)]).await.expect(200);
    }
    let refused = rig.put(&id, 0, &[1; MOST as usize + 1], &[]).await.refused(413, "too_long");
    assert!(refused["error"]["message"].as_str().unwrap().contains("1024 blocks"), "{refused}");
    // Those before it are kept, and the same ones may come again.
    let taken = rig.put(&id, 0, &[1; MOST as usize], &[]).await.expect(200);
    assert_eq!(taken["blocks"].as_array().unwrap().len(), MOST as usize);
    rig.put(&id, MOST * BLOCK_SIZE, &[1], &[]).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
}

/// A depot that has room for ten blocks, and no manifest counts against it.
async fn ten_blocks() -> (Rig, Arc<MemoryStore>) {
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(crate::rig::START));
    let store = Arc::new(MemoryStore::with_limit(ByteCount(10 * BLOCK_SIZE)));
    let mut config = DepotConfig::new(folder.path());
    config.clock = Clock::set_by(Arc::clone(&now));
    let depot = Depot::open_with_store(config, store.clone()).await.unwrap();
    (Rig::over(depot, now, folder).await, store)
}

/// A folder that has another time since is declared again. Where others are promised all that is free, that ended a run which had room for all of
/// its bytes, and each one after it.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_failed_and_has_no_bytes_is_mended_where_all_that_is_free_is_promised() {
    let (rig, _) = ten_blocks().await;
    let (one, other) = (rig.new_transfer(&rig.token).await, rig.new_transfer(&rig.token).await);
    let [folder, another] = ["d", "e"]
        .map(|name| json!({ "path": name.repeat(250), "kind": "directory", "mtime": 0, "mode": 0o755 }));
    let link = links(1).remove(0);
    let declared = vec![folder.clone(), link.clone(), file("a", BLOCK_SIZE)];
    append(&rig, &rig.token, &one, 0, declared).await.expect(200);
    append(&rig, &rig.token, &other, 0, vec![file("b", 9 * BLOCK_SIZE - 200)]).await.expect(200);
    append(&rig, &rig.token, &one, 3, vec![another]).await.refused(507, "disk_full");
    let failed = |entry: u64| json!({ "failures": [{ "entry": entry, "cause": "changed", "detail": "" }] });
    let failures = format!("/transfers/{one}/failures");
    rig.post(&failures, failed(0)).await.expect(200);
    append(&rig, &rig.token, &one, 3, vec![folder]).await.expect(200);
    // It may be of any length.
    rig.post(&failures, failed(1)).await.expect(200);
    append(&rig, &rig.token, &one, 4, vec![link]).await.refused(507, "disk_full");
    rig.put(&one, 0, &content(1, BLOCK_SIZE), &[]).await.expect(200);
    let finished = rig.post(&format!("/transfers/{one}/finish"), json!({})).await.expect(200);
    assert_eq!((&finished["state"], &finished["failed"]), (&json!("partial"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn space_is_promised_once() {
    let (rig, store) = ten_blocks().await;
    let (one, two) = (rig.new_transfer(&rig.token).await, rig.new_transfer(&rig.token).await);
    append(&rig, &rig.token, &one, 0, vec![file("a", 6 * BLOCK_SIZE)]).await.expect(200);
    append(&rig, &rig.token, &two, 0, vec![file("b", 5 * BLOCK_SIZE)]).await.refused(507, "disk_full");
    // What is written is no longer promised as well.
    rig.put(&one, 0, &content(1, 3 * BLOCK_SIZE), &[]).await.expect(200);
    append(&rig, &rig.token, &two, 0, vec![file("b", 4 * BLOCK_SIZE)]).await.refused(507, "disk_full");
    // The manifests need some, too.
    append(&rig, &rig.token, &two, 0, vec![file("b", 4 * BLOCK_SIZE - 200)]).await.expect(200);
    append(&rig, &rig.token, &two, 1, vec![file("c", 200)]).await.refused(507, "disk_full");

    // A disk that fills up all the same refuses the block and keeps the rest.
    store.set_limit(Some(ByteCount(4 * BLOCK_SIZE)));
    rig.put(&two, 0, &content(2, 4 * BLOCK_SIZE - 200), &[]).await.refused(507, "disk_full");
    store.set_limit(None);
    rig.put(&one, 3 * BLOCK_SIZE, &content(3, 3 * BLOCK_SIZE), &[]).await.expect(200);
    rig.post(&format!("/transfers/{one}/finish"), json!({})).await.expect(200);
}

/// A transfer of 20 TB went onto ext4 until 16 TiB were there, and could not go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_ends_where_the_disk_takes_no_longer_file() {
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(crate::rig::START));
    let config = DepotConfig { clock: Clock::set_by(Arc::clone(&now)), ..DepotConfig::new(folder.path()) };
    let store = Arc::new(MemoryStore::with_longest(ByteCount(3 * BLOCK_SIZE)));
    let rig = Rig::over(Depot::open_with_store(config, store).await.unwrap(), now, folder).await;
    let id = rig.new_transfer(&rig.token).await;
    append(&rig, &rig.token, &id, 0, vec![file("a", 2 * BLOCK_SIZE)]).await.expect(200);
    let refused = append(&rig, &rig.token, &id, 1, vec![file("b", BLOCK_SIZE + 1)]).await;
    let refused = refused.refused(422, "too_large");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("split it into several") && said.contains("XFS"), "{said}");
    append(&rig, &rig.token, &id, 1, vec![file("b", 10), file("c", 20)]).await.expect(200);
    append(&rig, &rig.token, &id, 3, vec![file("d", 1)]).await.refused(422, "too_large");
    // All that was taken fits, and what is no file needs none of it.
    let folder = json!({ "path": "e", "kind": "directory" });
    append(&rig, &rig.token, &id, 3, vec![folder]).await.expect(200);
    rig.put(&id, 0, &content(1, 2 * BLOCK_SIZE + 30), &[]).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_cannot_be_kept_faithfully_are_refused_by_name() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let bad = [
        json!({ "path": "../x", "kind": "file", "size": 1 }),
        json!({ "path": "/x", "kind": "file", "size": 1 }),
        json!({ "path": "", "kind": "file", "size": 1 }),
        json!({ "path": "a//b", "kind": "file", "size": 1 }),
        json!({ "path": "a\u{0}b", "kind": "file", "size": 1 }),
        json!({ "path": "x".repeat(300), "kind": "file", "size": 1 }),
        json!({ "path": "x", "path_hex": "2e2e", "kind": "file", "size": 1 }),
        json!({ "path": "x", "path_hex": "zz", "kind": "file", "size": 1 }),
        json!({ "path": "x", "kind": "directory", "size": 1 }),
        json!({ "path": "x", "kind": "symlink" }),
        json!({ "path": "x", "kind": "symlink", "target_hex": "" }),
        json!({ "path": "x", "kind": "symlink", "target_hex": "00" }),
        json!({ "path": "x", "kind": "file", "target_hex": "61" }),
        json!({ "path": "x", "kind": "file", "mtime_nanos": 1_000_000_000 }),
        json!({ "path": "x", "kind": "file", "mode": 0o100_644 }),
    ];
    for entry in bad {
        let refused = append(&rig, &rig.token, &id, 0, vec![file("ok", 1), entry.clone()]).await;
        let refused = refused.refused(422, "bad_entry");
        assert!(refused["error"]["message"].as_str().unwrap().contains("entry 1"), "{entry}: {refused}");
    }
    append(&rig, &rig.token, &id, 0, vec![file("x", u64::MAX)]).await.refused(422, "too_large");
    append(&rig, &rig.token, &id, 0, vec![file("x", 1 << 60)]).await.refused(422, "too_large");
    append(&rig, &rig.token, &id, 1, vec![file("x", 1)]).await.refused(409, "manifest_conflict");
    append(&rig, &rig.token, &id, 0, vec![file("x", 1), file("x", 2)]).await.refused(409, "duplicate_path");
    assert_eq!(rig.get(&format!("/transfers/{id}")).await.expect(200)["entries"], 0, "nothing stayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_ends_at_its_limit() {
    let rig = Rig::with(|config| config.limits.entries = 5).await;
    let id = rig.new_transfer(&rig.token).await;
    let entries = |range: std::ops::Range<u32>| range.map(|i| file(&format!("f{i}"), 1)).collect::<Vec<_>>();
    append(&rig, &rig.token, &id, 0, entries(0..6)).await.refused(422, "too_many_entries");
    append(&rig, &rig.token, &id, 0, entries(0..5)).await.expect(200);
    append(&rig, &rig.token, &id, 5, entries(5..6)).await.refused(422, "too_many_entries");
    append(&rig, &rig.token, &id, 0, entries(0..5)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_get_a_typed_answer() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let send = |method: Method, path: String, kind: &'static str, body: Vec<u8>| {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request =
            request.header("authorization", format!("Bearer {}", rig.token)).header("content-type", kind);
        rig.request(request.body(Body::from(body)).unwrap())
    };
    let entries = format!("/transfers/{id}/entries");
    let json = "application/json";
    send(Method::POST, entries.clone(), "text/plain", b"{}".to_vec()).await.refused(415, "media_type");
    send(Method::POST, entries.clone(), json, b"{".to_vec()).await.refused(400, "bad_request");
    send(Method::POST, entries.clone(), json, br#"{"entries":[],"first":-1}"#.to_vec())
        .await
        .refused(400, "bad_request");
    let unknown = br#"{"entries":[],"first":0,"more":1}"#.to_vec();
    send(Method::POST, entries.clone(), json, unknown).await.refused(400, "bad_request");
    send(Method::POST, entries.clone(), json, vec![b' '; 5 << 20]).await.refused(413, "too_long");
    send(Method::PUT, entries, json, vec![]).await.refused(405, "method_not_allowed");
    send(Method::GET, "/nothing".into(), json, vec![]).await.refused(404, "not_found");
    send(Method::GET, "/transfers/x".into(), json, vec![]).await.refused(404, "not_found");
    send(Method::PUT, format!("/transfers/{id}/bytes/x"), json, vec![1]).await.refused(404, "not_found");
    send(Method::PUT, format!("/transfers/{id}/bytes/{}", u64::MAX), json, vec![1])
        .await
        .refused(400, "bad_request");
    let far = u64::MAX / BLOCK_SIZE * BLOCK_SIZE;
    send(Method::PUT, format!("/transfers/{id}/bytes/{far}"), json, vec![1])
        .await
        .refused(416, "outside_manifest");
    let unknown = json!({ "entries": [file("a", 1)], "first": u64::MAX, "seal": true });
    rig.post(&format!("/transfers/{id}/entries"), unknown).await.refused(409, "manifest_conflict");
    send(Method::POST, "/transfers".into(), json, br#"["t"]"#.to_vec()).await.refused(400, "bad_request");
    let fraction = br#"{"name":"t","expires_in_days":3.0}"#.to_vec();
    send(Method::POST, "/transfers".into(), json, fraction).await.expect(201);
    rig.post("/transfers", json!({ "name": "" })).await.refused(400, "bad_request");
    rig.post("/transfers", json!({ "name": "a\nb" })).await.refused(400, "bad_request");
    rig.post("/transfers", json!({ "name": "x".repeat(201) })).await.refused(400, "bad_request");
    rig.post("/transfers", json!({ "name": "ä".repeat(200) })).await.expect(201);
    rig.post("/transfers", json!({ "name": "x", "expires_in_days": 0 })).await.refused(400, "bad_request");
    rig.get(&format!("/transfers/{id}/entries?from=18446744073709551615")).await.refused(400, "bad_request");
    rig.get(&format!("/transfers/{id}/files/4294967296")).await.refused(404, "not_found");
    let declared = rig.put(&id, 0, b"x", &[("content-length", "300000000")]).await;
    declared.refused(413, "too_long");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_a_strict_policy() {
    let rig = Rig::new().await;
    for path in ["/", "/t/aaaa", "/t/aaaa/", "/index.html"] {
        let answer = rig.request(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (200, "text/html; charset=utf-8")
        );
        assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cache-control"), "no-cache");
    }
    for path in ["/../Cargo.toml", "/nothing", "/t/", "/t/a/b", "/%2e%2e/Cargo.toml"] {
        let answer = rig.request(Request::get(path).body(Body::empty()).unwrap()).await;
        answer.refused(404, "not_found");
    }
    let posted = rig.request(Request::post("/").body(Body::empty()).unwrap()).await;
    posted.refused(405, "method_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_describes_calls_that_exist() {
    let rig = Rig::new().await;
    let document = rig.call_as("", Method::GET, "/openapi.json", None).await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let mut calls = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in
            ["get", "head", "post", "put", "patch", "delete"].iter().filter(|name| item.get(*name).is_some())
        {
            let path = path.replace(['{', '}'], "");
            let method: Method = method.to_uppercase().parse().unwrap();
            let answer = rig.call_as("", method.clone(), &path, None).await;
            let missing = answer.status == 405 || answer.text().contains("address in this API");
            assert!(!missing, "{method} {path}: {}", answer.text());
            calls += 1;
        }
    }
    assert_eq!(calls, 27);
}
