//! A depot whose clock is behind when it starts, and is put right later.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::http::Method;
use serde_json::{Value, json};
use terahaul_depot::Clock;

use crate::rig::{Rig, START, content};

const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

struct Times {
    shown: Arc<AtomicI64>,
    passed: Arc<AtomicI64>,
}

impl Times {
    fn pass(&self, seconds: i64) {
        self.shown.fetch_add(seconds, Ordering::Relaxed);
        self.passed.fetch_add(seconds, Ordering::Relaxed);
    }

    fn set_forward(&self, seconds: i64) {
        self.shown.fetch_add(seconds, Ordering::Relaxed);
    }
}

async fn rig_at(shown: i64) -> (Rig, Times) {
    let times = Times { shown: Arc::new(AtomicI64::new(shown)), passed: Arc::new(AtomicI64::new(17)) };
    let clock = Clock::set_apart(Arc::clone(&times.shown), Arc::clone(&times.passed));
    (Rig::with(|config| config.clock = clock).await, times)
}

/// The same depot after a start at which the clock is set forward.
async fn restarted(rig: Rig, times: &Times, seconds: i64) -> Rig {
    let data = rig.depot.config().data.clone();
    rig.depot.close().await;
    times.set_forward(seconds);
    let clock = Clock::set_apart(Arc::clone(&times.shown), Arc::clone(&times.passed));
    Rig::with_data(rig.folder, &data, |config| config.clock = clock).await
}

async fn expiry(rig: &Rig, id: &str) -> i64 {
    rig.get(&format!("/transfers/{id}")).await.expect(200)["expires"].as_i64().unwrap()
}

async fn token_expiry(rig: &Rig, label: &str) -> i64 {
    let tokens = rig.get("/tokens").await.expect(200);
    let found = tokens["tokens"].as_array().unwrap().iter().find(|token| token["label"] == label);
    found.unwrap()["expires"].as_i64().unwrap()
}

/// Makes a token for two days while the clock is a year behind, has the depot sweep once more, and puts the clock right.
async fn put_right_behind_a_token(rig: &Rig, times: &Times) -> String {
    let body = json!({ "label": "microscope", "scopes": ["send"], "expires_in_days": 2 });
    let made = rig.post("/tokens", body).await.expect(201);
    times.pass(60);
    rig.depot.sweep().await.unwrap();
    times.pass(10);
    times.set_forward(YEAR);
    made["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_while_the_clock_was_behind_is_kept_as_long_by_the_right_time() {
    let (rig, times) = rig_at(START - YEAR).await;
    times.pass(60);
    let done = rig.sent(&[("a", content(1, 10))]).await;
    // Nothing of it has been sent, which would have it kept.
    let new = json!({ "name": "open", "expires_in_days": 1 });
    let open = rig.post("/transfers", new).await.expect(201)["id"].as_str().unwrap().to_owned();
    let token = put_right_behind_a_token(&rig, &times).await;
    let later = rig.new_transfer(&rig.token).await;
    rig.depot.sweep().await.unwrap();
    let made = START + 60;
    assert_eq!(expiry(&rig, &open).await, made + DAY);
    assert_eq!(expiry(&rig, &done).await, made + 30 * DAY);
    assert_eq!(token_expiry(&rig, "microscope").await, made + 2 * DAY);
    assert_eq!(expiry(&rig, &later).await, made + 70 + 30 * DAY, "made by the right time");
    rig.call_as(&token, Method::GET, "/session", None).await.expect(200);
    rig.depot.sweep().await.unwrap();
    let receipt: Value = rig.get(&format!("/transfers/{done}/receipt")).await.expect(200);
    assert_eq!(receipt["statement"]["entries"], 1);
    times.pass(2 * DAY);
    rig.depot.sweep().await.unwrap();
    rig.get(&format!("/transfers/{open}")).await.refused(404, "not_found");
    rig.call_as(&token, Method::GET, "/session", None).await.refused(401, "token_expired");
    assert_eq!(expiry(&rig, &done).await, made + 30 * DAY, "it is moved once");
}

/// Until the depot swept again, half a minute later, all of it had expired: a sender that was about to finish was told that there is no such
/// transfer, and the next run of it made another one.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_while_the_clock_was_behind_is_there_as_soon_as_that_is_right() {
    let new = json!({ "name": "open", "resume_key": "k" });
    for first in 0..3 {
        let (rig, times) = rig_at(START - YEAR).await;
        times.pass(60);
        let open = rig.post("/transfers", new.clone()).await.expect(201)["id"].clone();
        let token = put_right_behind_a_token(&rig, &times).await;
        for asked in (0..3).map(|turn| (first + turn) % 3) {
            match asked {
                0 => assert!(expiry(&rig, open.as_str().unwrap()).await > START + 30 * DAY),
                1 => drop(rig.call_as(&token, Method::GET, "/session", None).await.expect(200)),
                _ => assert_eq!(rig.post("/transfers", new.clone()).await.expect(200)["id"], open),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_before_the_depot_started_with_its_clock_behind_expires_as_it_should() {
    let (rig, times) = rig_at(START).await;
    let earlier = rig.new_transfer(&rig.token).await;
    let rig = restarted(rig, &times, -YEAR).await;
    times.pass(60);
    times.set_forward(YEAR);
    rig.depot.sweep().await.unwrap();
    assert_eq!(expiry(&rig, &earlier).await, START + 30 * DAY);
    times.pass(30 * DAY);
    rig.depot.sweep().await.unwrap();
    rig.get(&format!("/transfers/{earlier}")).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_put_right_while_the_depot_is_stopped_removes_nothing() {
    let (rig, times) = rig_at(START - YEAR).await;
    times.pass(60);
    let done = rig.sent(&[("a", content(1, 10))]).await;
    // Started twice with its clock behind.
    let rig = restarted(rig, &times, 0).await;
    times.pass(60);
    let later = rig.new_transfer(&rig.token).await;
    let rig = restarted(rig, &times, YEAR).await;
    for _ in 0..2 {
        assert_eq!(expiry(&rig, &done).await, START + 60 + 30 * DAY);
        assert_eq!(expiry(&rig, &later).await, START + 120 + 30 * DAY);
        rig.depot.sweep().await.unwrap();
    }
    let rig = restarted(rig, &times, 0).await;
    assert_eq!(expiry(&rig, &done).await, START + 60 + 30 * DAY, "it is moved once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_extended_while_the_clock_is_behind_ends_by_the_right_time() {
    let (rig, times) = rig_at(START).await;
    let body = json!({ "label": "microscope", "scopes": ["send"], "expires_in_days": 2 });
    let made = rig.post("/tokens", body).await.expect(201);
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    times.pass(DAY);
    let rig = restarted(rig, &times, -YEAR).await;
    times.pass(60);
    let body = json!({ "expires_in_days": 20 });
    rig.call_as(&rig.token, Method::PATCH, &format!("/tokens/{id}"), Some(body)).await.expect(200);
    times.set_forward(YEAR);
    for _ in 0..2 {
        rig.depot.sweep().await.unwrap();
        assert_eq!(token_expiry(&rig, "microscope").await, START + DAY + 60 + 20 * DAY);
    }
    rig.call_as(token, Method::GET, "/session", None).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_extended_or_finished_while_the_clock_is_behind_is_kept_as_long_by_the_right_time() {
    let (rig, times) = rig_at(START).await;
    let extended = rig.sent(&[("a", content(1, 10))]).await;
    let finished = rig.new_transfer(&rig.token).await;
    rig.append(&finished, 0, vec![]).await;
    // The clock is behind when they have almost expired.
    times.pass(29 * DAY);
    let rig = restarted(rig, &times, -YEAR).await;
    times.pass(60);
    let body = json!({ "expires_in_days": 20 });
    let path = format!("/transfers/{extended}");
    rig.call_as(&rig.token, Method::PATCH, &path, Some(body)).await.expect(200);
    rig.post(&format!("/transfers/{finished}/finish"), json!({})).await.expect(200);
    times.pass(2 * DAY);
    times.set_forward(YEAR);
    let done = START + 29 * DAY + 60;
    for _ in 0..2 {
        rig.depot.sweep().await.unwrap();
        assert_eq!(expiry(&rig, &extended).await, done + 20 * DAY);
        let told = rig.get(&format!("/transfers/{finished}")).await.expect(200);
        assert_eq!((&told["completed"], &told["expires"]), (&json!(done), &json!(done + 30 * DAY)));
        assert_eq!(told["created"], START);
    }
}
