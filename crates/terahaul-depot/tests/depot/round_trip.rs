//! Sending and receiving with nothing but HTTP.

use std::time::{Duration, Instant};

use crate::rig::{Rig, content, file, objects};
use crate::server::PATIENCE;
use axum::http::Method;
use serde_json::json;
use terahaul_core::{BLOCK_SIZE, Receipt};

/// How long a finish may wait.
const WAIT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_come_out_over_three_restarts() {
    let large = content(1, 2 * BLOCK_SIZE + 17);
    let (small, tiny) = (content(2, 100_000), content(3, 1));
    let rig = Rig::new().await;
    let made = rig.post("/transfers", json!({ "name": "run 7", "resume_key": "k" })).await.expect(201);
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(made["state"], "open");
    assert_eq!(made["block_size"], BLOCK_SIZE);
    let link = made["link"].as_str().unwrap().to_owned();
    assert!(link.starts_with(&format!("https://depot.example:8750/t/{id}#thl_")), "{link}");
    assert!(link.ends_with(&format!("&fp={}", "ab".repeat(32))));

    let entries = vec![
        file("d/large", large.len() as u64),
        file("d/small", 100_000),
        json!({ "path": "d", "kind": "directory" }),
        json!({ "path": "link", "kind": "symlink", "target_hex": "642f736d616c6c" }),
        file("tiny", 1),
        file("empty", 0),
    ];
    let answer = rig.append(&id, 0, entries.clone()).await;
    assert_eq!(answer["total"], 6);
    assert_eq!(answer["entries"][1], json!({ "entry": 1, "address": 3 * BLOCK_SIZE }));
    assert_eq!(answer["entries"][2]["address"], json!(null));
    rig.put(&id, 2 * BLOCK_SIZE, &large[2 * BLOCK_SIZE as usize..], &[]).await.expect(200);

    let rig = rig.restart().await;
    let again = rig.post("/transfers", json!({ "name": "run 7", "resume_key": "k" })).await.expect(200);
    assert_eq!(
        (&again["id"], &again["durable_bytes"], &again["link"]),
        (&json!(id), &json!(17), &json!(link))
    );
    assert_eq!(rig.append(&id, 0, entries).await, answer);
    let missing = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.refused(409, "incomplete");
    assert_eq!(missing["error"]["missing"], json!([[0, 2], [3, 1]]));
    // Two blocks and the start of a third in one chunk: blocks that are whole are taken.
    let chunk = &large[..2 * BLOCK_SIZE as usize];
    let values = [chunk, &[][..]].concat();
    let put = rig.put(&id, 0, &values, &[]).await.expect(200);
    assert_eq!(put["blocks"].as_array().unwrap().len(), 2);
    let packed = [small.clone(), tiny.clone()].concat();
    rig.put(&id, 3 * BLOCK_SIZE, &packed, &[]).await.expect(200);
    let extents = rig.get(&format!("/transfers/{id}/extents")).await.expect(200);
    assert_eq!(extents["received"], json!([[0, 4]]));

    let rig = rig.restart().await;
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!((&done["state"], &done["failed"], &done["files"]), (&json!("complete"), &json!(0), &json!(4)));
    let again = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!(again, done, "finishing again changes nothing");

    let rig = rig.restart().await;
    let listed = rig.get(&format!("/transfers/{id}/entries?from=0&limit=5")).await.expect(200);
    assert_eq!((&listed["total"], &listed["next"]), (&json!(6), &json!(5)));
    for (at, bytes) in [(0, &large), (1, &small), (4, &tiny)] {
        assert_eq!(listed["entries"][at]["blake3"], json!(blake3::hash(bytes).to_hex().to_string()));
        assert_eq!(listed["entries"][at]["state"], "complete");
        let read = rig.get(&format!("/transfers/{id}/files/{at}")).await;
        assert_eq!(read.status, 200);
        assert!(read.body == *bytes);
        assert_eq!(read.header("etag"), format!("\"{}\"", blake3::hash(bytes).to_hex()));
        assert_eq!(read.header("content-length"), bytes.len().to_string());
    }
    let empty = rig.get(&format!("/transfers/{id}/files/5")).await;
    assert_eq!((empty.status.as_u16(), empty.body.len()), (200, 0));
    rig.get(&format!("/transfers/{id}/files/2")).await.refused(404, "not_found");
    rig.get(&format!("/transfers/{id}/files/6")).await.refused(404, "not_found");
    let packed_again = rig.get(&format!("/transfers/{id}/bytes/{}?length=100001", 3 * BLOCK_SIZE)).await;
    assert!(packed_again.body == packed);

    let receipt = rig.get(&format!("/transfers/{id}/receipt")).await;
    let receipt: Receipt = serde_json::from_slice(&receipt.body).unwrap();
    assert_eq!(receipt.verify().unwrap(), rig.depot.public_key());
    assert_eq!(receipt.entries.len(), 6);
    assert_eq!(receipt.statement.name, "run 7");

    rig.delete(&format!("/transfers/{id}")).await.expect(204);
    rig.get(&format!("/transfers/{id}")).await.refused(404, "not_found");
    for place in ["incoming", "published"] {
        assert_eq!(objects(rig.folder.path(), place), 0, "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_transfer_takes_its_first_entries_along_or_is_not_made() {
    let rig = Rig::new().await;
    let twice = json!({ "name": "n", "entries": [file("a", 3), file("a", 3)], "seal": true });
    rig.post("/transfers", twice).await.refused(409, "duplicate_path");
    let outside = json!({ "name": "n", "entries": [file("../a", 3)], "seal": true });
    rig.post("/transfers", outside).await.refused(422, "bad_entry");
    assert_eq!(rig.get("/transfers").await.expect(200)["transfers"], json!([]));

    let body =
        json!({ "name": "n", "resume_key": "k", "entries": [file("a", 3), file("b", 0)], "seal": true });
    let made = rig.post("/transfers", body.clone()).await.expect(201);
    assert_eq!(made["placed"], json!([{ "entry": 0, "address": 0 }, { "entry": 1, "address": null }]));
    assert_eq!((&made["entries"], &made["sealed"]), (&json!(2), &json!(true)));
    let again = rig.post("/transfers", body).await.expect(200);
    assert_eq!(again, made, "taken up");
    let other = json!({ "name": "n", "resume_key": "k", "entries": [file("c", 3)] });
    rig.post("/transfers", other).await.refused(409, "manifest_conflict");

    let id = made["id"].as_str().unwrap();
    rig.put(id, 0, b"abc", &[]).await.expect(200);
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!((&done["state"], &done["durable_bytes"]), (&json!("complete"), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_the_manifest_is_refused_and_what_is_here_stays() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let bytes = content(1, 1000);
    rig.append(&id, 0, vec![file("a", 1000), file("b", BLOCK_SIZE)]).await;
    rig.put(&id, 4 * BLOCK_SIZE, &bytes, &[]).await.refused(416, "outside_manifest");
    rig.put(&id, 1000, &bytes, &[]).await.refused(400, "bad_request");
    rig.put(&id, 0, &[], &[]).await.refused(400, "bad_request");
    rig.put(&id, 0, &bytes[..999], &[]).await.refused(422, "block_length");
    let wrong = blake3::hash(b"other").to_hex().to_string();
    let answer = rig.put(&id, 0, &bytes, &[("terahaul-values", &wrong)]).await.refused(422, "hash_mismatch");
    assert_eq!((&answer["error"]["block"], &answer["error"]["retry"]), (&json!(0), &json!(true)));
    rig.put(&id, 0, &bytes, &[("terahaul-values", "zz")]).await.refused(400, "bad_request");
    // What stood behind the first one was not looked at.
    let right =
        terahaul_core::BlockProof::Packed(vec![terahaul_core::Hash(*blake3::hash(&bytes).as_bytes())]);
    let right = right.value().to_hex();
    let several = format!("{right},{wrong}");
    rig.put(&id, 0, &bytes, &[("terahaul-values", &several)]).await.refused(400, "bad_request");
    let lines = [("terahaul-values", right.as_str()), ("terahaul-values", &wrong)];
    rig.put(&id, 0, &bytes, &lines).await.refused(400, "bad_request");
    let taken = rig.put(&id, 0, &bytes, &[]).await.expect(200);
    let value = taken["blocks"][0]["value"].as_str().unwrap().to_owned();
    rig.put(&id, 0, &bytes, &[("terahaul-values", &value)]).await.expect(200);
    let other = rig.put(&id, 0, &content(9, 1000), &[]).await.refused(409, "content_conflict");
    assert_eq!(other["error"]["block"], 0);
    let long = rig.put(&id, BLOCK_SIZE, &content(1, BLOCK_SIZE + 1), &[]).await;
    long.refused(416, "outside_manifest");
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    rig.put(&id, 0, &bytes, &[]).await.refused(409, "not_open");
    let read = rig.get(&format!("/transfers/{id}/files/0")).await;
    assert!(read.body == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn finishing_may_wait_for_what_is_under_way_and_publishes_nothing_but_what_was_sent() {
    let rig = Rig::new().await;
    // The value of a file's only block is the file's hash.
    let (bytes, damaged) = (content(1, BLOCK_SIZE), content(2, BLOCK_SIZE));
    let value = blake3::hash(&bytes).to_hex().to_string();
    let finishes = async || {
        let id = rig.new_transfer(&rig.token).await;
        rig.append(&id, 0, vec![file("a", BLOCK_SIZE)]).await;
        let finish = async |wait| rig.post(&format!("/transfers/{id}/finish?wait={wait}"), json!({})).await;
        finish("6").await.refused(400, "bad_request");
        finish("x").await.refused(400, "bad_request");
        assert_eq!(finish("1").await.refused(409, "incomplete")["error"]["missing"], json!([[0, 1]]));
        let begun = Instant::now();
        let sent = async {
            rig.put(&id, 0, &damaged, &[("terahaul-values", &value)]).await.refused(422, "hash_mismatch");
            rig.put(&id, 0, &bytes, &[("terahaul-values", &value)]).await.expect(200);
        };
        let (finished, ()) = tokio::join!(finish("5"), sent);
        if finished.status == 409 && begun.elapsed() >= WAIT {
            return false;
        }
        assert_eq!(finished.expect(200)["state"], "complete");
        assert_eq!(finish("5").await.expect(200), finished.json(), "again");
        assert!(rig.get(&format!("/transfers/{id}/files/0")).await.body == bytes);
        true
    };
    // On a slow disk, what is under way may take longer than it waits. One that does not hear of it says so each time.
    let mut finished = false;
    for _ in 0..5 {
        finished = finished || finishes().await;
    }
    assert!(finished, "what came meanwhile was not waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_finish_hears_of_failures_and_of_the_transfers_end() {
    let rig = Rig::new().await;
    let hears = async |removed| {
        let id = rig.new_transfer(&rig.token).await;
        rig.append(&id, 0, vec![file("a", 10), file("big", BLOCK_SIZE)]).await;
        rig.put(&id, 0, &content(1, 10), &[]).await.expect(200);
        let begun = Instant::now();
        let path = format!("/transfers/{id}");
        let finish = async || rig.post(&format!("{path}/finish?wait=5"), json!({})).await;
        let finished = if removed {
            tokio::join!(finish(), rig.delete(&path)).0
        } else {
            let failures = json!({ "failures": [{ "entry": 1, "cause": "vanished", "detail": "gone" }] });
            let failing = async { rig.post(&format!("{path}/failures"), failures).await };
            tokio::join!(finish(), failing).0
        };
        if begun.elapsed() >= WAIT {
            return false;
        }
        if removed {
            finished.refused(404, "not_found");
        } else {
            assert_eq!(finished.expect(200)["state"], "partial");
        }
        true
    };
    for removed in [false, true] {
        // A slow disk may take as long as it would wait. One that waits on does so each time.
        let mut heard = false;
        for _ in 0..5 {
            heard = heard || hears(removed).await;
        }
        assert!(heard, "it waited on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_what_is_durable_can_be_asked_for() {
    let rig = Rig::new().await;
    let bytes = content(1, 5000);
    let id = rig.sent(&[("a", bytes)]).await;
    let values = rig.get(&format!("/transfers/{id}/values?first=0&count=10")).await.expect(200);
    assert_eq!(values["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(values["blocks"][0]["value"].as_str().unwrap().len(), 64);
    rig.get(&format!("/transfers/{id}/values?count=0")).await.refused(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_named_and_a_partial_transfer_goes_on() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    rig.append(&id, 0, vec![file("a", 10), file("big", 2 * BLOCK_SIZE)]).await;
    rig.put(&id, 0, &content(1, 10), &[]).await.expect(200);
    let failures =
        json!({ "failures": [{ "entry": 1, "cause": "unreadable", "detail": "permission denied" }] });
    let told = rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    assert_eq!(told["failed"], 1);
    let outside = json!({ "failures": [{ "entry": 9, "cause": "vanished", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), outside).await.refused(409, "manifest_conflict");
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!(done["state"], "partial");
    rig.get(&format!("/transfers/{id}/files/1")).await.refused(410, "entry_failed");
    let receipt: Receipt =
        serde_json::from_slice(&rig.get(&format!("/transfers/{id}/receipt")).await.body).unwrap();
    receipt.verify().unwrap();
    assert_eq!(receipt.failures[0].path, "big");
    assert_eq!(receipt.failures[0].reason, "permission denied", "without advice to who runs a command");
    rig.put(&id, 0, &content(1, 10), &[]).await.refused(409, "not_open");

    let reopened = rig.append(&id, 2, vec![file("big", 20)]).await;
    let address = reopened["entries"][0]["address"].as_u64().unwrap();
    assert_eq!(rig.get(&format!("/transfers/{id}")).await.expect(200)["state"], "open");
    rig.put(&id, address, &content(2, 20), &[]).await.expect(200);
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!((&done["state"], &done["failed"]), (&json!("complete"), &json!(0)));
    let receipt = rig.get(&format!("/transfers/{id}/receipt")).await;
    let receipt: Receipt = serde_json::from_slice(&receipt.body).unwrap();
    receipt.verify().unwrap();
    assert_eq!((receipt.failures.len(), receipt.entries.len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_are_listed_page_by_page_and_changed() {
    let rig = Rig::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(rig.new_transfer(&rig.token).await);
        rig.pass(1);
    }
    made.reverse();
    let ids = |answer: serde_json::Value| -> Vec<String> {
        let list = answer["transfers"].as_array().unwrap();
        list.iter().map(|transfer| transfer["id"].as_str().unwrap().to_owned()).collect()
    };
    let page = rig.get("/transfers?limit=2").await.expect(200);
    let after = page["next"].as_str().unwrap().to_owned();
    let first = ids(page);
    assert_eq!(first, made[..2]);
    let next = ids(rig.get(&format!("/transfers?limit=9&before={}", first[1])).await.expect(200));
    assert_eq!(next, made[2..]);
    let page = rig.get(&format!("/transfers?limit=9&before={after}")).await.expect(200);
    assert_eq!(page["next"], json!(null));
    assert_eq!(ids(page), made[2..]);
    rig.get("/transfers?before=x").await.refused(400, "bad_request");
    rig.get("/transfers?limit=0").await.refused(400, "bad_request");
    rig.get("/transfers?limit=x").await.refused(400, "bad_request");

    let path = format!("/transfers/{}", made[0]);
    let body = json!({ "name": "other", "expires_in_days": 7 });
    let changed = rig.call_as(&rig.token, Method::PATCH, &path, Some(body)).await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["expires"]),
        (&json!("other"), &json!(crate::rig::START + 5 + 7 * 86_400))
    );
    for body in [json!({ "expires_in_days": 0 }), json!({ "name": "third", "expires_in_days": 0 })] {
        rig.call_as(&rig.token, Method::PATCH, &path, Some(body)).await.refused(400, "bad_request");
    }
    assert_eq!(rig.get(&path).await.expect(200)["name"], json!("other"), "all of a change or none of it");

    rig.pass(8 * 86_400);
    rig.get(&path).await.refused(404, "not_found");
    rig.depot.sweep().await.unwrap();
    assert_eq!(objects(rig.folder.path(), "incoming"), 4, "the expired one's data is gone");
}

/// As after a start with a clock that nobody has set yet.
#[tokio::test]
async fn a_clock_that_is_years_ahead_at_the_start_removes_nothing() {
    let rig = Rig::with(|config| config.trusts_clock_after = Duration::from_secs(3600)).await;
    let new = json!({ "name": "n", "entries": [file("a", 0)], "seal": true });
    let id = rig.post("/transfers", new).await.expect(201)["id"].as_str().unwrap().to_owned();
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    rig.pass(3650 * 86_400);
    rig.depot.sweep().await.unwrap();
    rig.get(&format!("/transfers/{id}")).await.refused(404, "not_found");
    rig.pass(-3650 * 86_400);
    rig.get(&format!("/transfers/{id}")).await.expect(200);
}

/// Ten minutes before it would have expired.
#[tokio::test]
async fn what_is_taken_up_again_is_kept_as_long_as_a_new_transfer() {
    let rig = Rig::new().await;
    let new = json!({ "name": "n", "resume_key": "k", "expires_in_days": 3 });
    let made = rig.post("/transfers", new.clone()).await.expect(201);
    rig.pass(3 * 86_400 - 600);
    let again = rig.post("/transfers", new).await.expect(200);
    assert_eq!(again["id"], made["id"]);
    rig.pass(1_200);
    rig.depot.sweep().await.unwrap();
    let path = format!("/transfers/{}", made["id"].as_str().unwrap());
    rig.get(&path).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_sent_is_not_removed_when_its_days_pass_and_is_kept_for_them_from_its_finish_on() {
    let rig = Rig::new().await;
    let new =
        json!({ "name": "n", "expires_in_days": 1, "entries": [file("a", 3 * BLOCK_SIZE)], "seal": true });
    let made = rig.post("/transfers", new).await.expect(201);
    let id = made["id"].as_str().unwrap();
    for block in 0..3 {
        rig.put(id, block * BLOCK_SIZE, &content(block, BLOCK_SIZE), &[]).await.expect(200);
        rig.pass(86_400 + 10);
        rig.depot.sweep().await.unwrap();
    }
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!(done["expires"].as_i64().unwrap(), done["completed"].as_i64().unwrap() + 86_400);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_sends_any_more_is_removed_when_its_days_pass_whoever_looks_at_it() {
    let rig = Rig::new().await;
    let new = json!({ "name": "n", "expires_in_days": 1, "entries": [file("a", BLOCK_SIZE)], "seal": true });
    let made = rig.post("/transfers", new).await.expect(201);
    let path = format!("/transfers/{}", made["id"].as_str().unwrap());
    let rig = rig.restart().await;
    rig.pass(86_400 - 10);
    rig.get(&format!("{path}/entries")).await.expect(200);
    rig.depot.sweep().await.unwrap();
    rig.pass(10);
    rig.depot.sweep().await.unwrap();
    assert_eq!(objects(rig.folder.path(), "incoming"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_transfer_that_goes_on_is_kept_for_the_days_its_sender_asked_for() {
    let rig = Rig::new().await;
    let new = json!({ "name": "n", "resume_key": "k", "expires_in_days": 3, "entries": [file("a", 10)], "seal": true });
    let made = rig.post("/transfers", new).await.expect(201);
    let path = format!("/transfers/{}", made["id"].as_str().unwrap());
    let failures = json!({ "failures": [{ "entry": 0, "cause": "changed", "detail": "" }] });
    rig.post(&format!("{path}/failures"), failures).await.expect(200);
    assert_eq!(rig.post(&format!("{path}/finish"), json!({})).await.expect(200)["state"], "partial");
    let kept = async || {
        let now = rig.now.load(std::sync::atomic::Ordering::Relaxed);
        rig.get(&path).await.expect(200)["expires"].as_i64().unwrap() - now
    };
    rig.pass(86_400);
    let again = json!({ "entries": [file("a", 10)], "first": 1, "seal": true });
    rig.post(&format!("{path}/entries"), again).await.expect(200);
    assert_eq!(kept().await, 3 * 86_400, "appended to");
    rig.pass(86_400);
    rig.post("/transfers", json!({ "name": "n", "resume_key": "k" })).await.expect(200);
    assert_eq!(kept().await, 3 * 86_400, "taken up by somebody who does not say for how long");
    rig.post("/transfers", json!({ "name": "n", "resume_key": "k", "expires_in_days": 9 })).await.expect(200);
    rig.pass(86_400);
    rig.post("/transfers", json!({ "name": "n", "resume_key": "k", "expires_in_days": 1 })).await.expect(200);
    assert_eq!(kept().await, 9 * 86_400, "never earlier");
}

/// Each read meets the transfer in the middle of its change some time.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_answered_while_a_transfer_is_finished_and_reopened() {
    let rig = Rig::new().await;
    for round in 0..12 {
        let files: Vec<_> = (0..2000).map(|number| file(&format!("f{number}"), 10)).collect();
        let key = json!({ "name": "n", "resume_key": format!("k{round}") });
        let made = rig.post("/transfers", key).await.expect(201);
        let path = format!("/transfers/{}", made["id"].as_str().unwrap());
        rig.append(made["id"].as_str().unwrap(), 0, files).await;
        rig.put(made["id"].as_str().unwrap(), 0, &content(1, 20_000), &[]).await.expect(200);
        let failures = json!({ "failures": [{ "entry": 3, "cause": "changed", "detail": "" }] });
        rig.post(&format!("{path}/failures"), failures).await.expect(200);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let reads = ["entries", "extents", "values?first=0&count=10", ""].map(|call| {
            let address = format!("{path}/{call}").trim_end_matches('/').to_owned();
            let (rig, is_over) = (&rig, &is_over);
            async move {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let answer = rig.get(&address).await;
                    assert_eq!(answer.status, 200, "{address}: {}", answer.text());
                }
            }
        });
        let changes = async {
            for _ in 0..3 {
                let done = rig.post(&format!("{path}/finish"), json!({})).await.expect(200);
                assert_eq!(done["state"], "partial");
                let nothing = json!({ "entries": [], "first": 2000 });
                rig.post(&format!("{path}/entries"), nothing).await.expect(200);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        };
        tokio::join!(changes, futures_util::future::join_all(reads));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_while_it_makes_a_transfer_leaves_all_of_it_or_nothing() {
    let rig = Rig::new().await;
    for steps in 0..400 {
        let new = json!({ "name": "n", "entries": [file("a", 10)], "seal": true });
        let leaves = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = rig.post("/transfers", new) => {}
            () = leaves => {}
        }
    }
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let listed = rig.get("/transfers?limit=500").await.expect(200);
        let transfers = listed["transfers"].as_array().unwrap();
        let empty = transfers.iter().filter(|transfer| transfer["entries"] == 0).count();
        let objects = objects(rig.folder.path(), "incoming");
        if empty == 0 && objects == transfers.len() {
            break;
        }
        // On a slow disk, hundreds of them take long.
        let now = (empty, objects, transfers.len());
        if seen.replace(now) != Some(now) {
            since = Instant::now();
        }
        assert!(since.elapsed() < PATIENCE, "{empty} of {} are empty, {objects} objects", transfers.len());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_transfer_that_is_refused_is_not_removed_from_under_another_client_of_its_key() {
    let rig = Rig::with(|config| config.quota = Some(terahaul_core::ByteCount(2 * BLOCK_SIZE))).await;
    for round in 0..40 {
        let make = async |size: u64| {
            let new = json!({ "name": "n", "resume_key": format!("k{round}"), "entries": [file("a", size)], "seal": true });
            rig.post("/transfers", new).await
        };
        let (_, one, _, two) = tokio::join!(make(5 * BLOCK_SIZE), make(10), make(5 * BLOCK_SIZE), make(10));
        let (one, two) = (one.json(), two.json());
        assert_eq!((&one["entries"], &one["id"]), (&json!(1), &two["id"]), "{one} {two}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_when_the_last_transfer_of_a_page_is_removed_before_the_next_is_asked_for() {
    let rig = Rig::new().await;
    let oldest = rig.new_transfer(&rig.token).await;
    rig.pass(1);
    let last = rig.new_transfer(&rig.token).await;
    let page = rig.get("/transfers?limit=1").await.expect(200);
    assert_eq!(page["transfers"][0]["id"], json!(last));
    rig.delete(&format!("/transfers/{last}")).await.expect(204);
    let next = page["next"].as_str().unwrap();
    let page = rig.get(&format!("/transfers?limit=9&before={next}")).await.expect(200);
    assert_eq!(page["transfers"][0]["id"], json!(oldest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_transfer_has_as_many_blocks_as_its_layout_however_its_entries_came() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let append = async |first: u64, entry, seal| {
        let body = json!({ "entries": [entry], "first": first, "seal": seal });
        rig.post(&format!("/transfers/{id}/entries"), body).await.expect(200)
    };
    append(0, file("a", 10), false).await;
    append(1, file("b", 10), true).await;
    rig.put(&id, 0, &content(1, 20), &[]).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    let extents = rig.get(&format!("/transfers/{id}/extents")).await.expect(200);
    assert_eq!((&extents["blocks"], &extents["durable"]), (&json!(1), &json!([[0, 1]])));
    assert_eq!(rig.get(&format!("/transfers/{id}")).await.expect(200)["blocks"], 1);
}
