//! Who may do what, and what everyone else is told.

use crate::rig::{Answer, Rig, content, file};
use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use terahaul_core::BLOCK_SIZE;

async fn with_cookie(
    rig: &Rig,
    method: Method,
    path: &str,
    cookie: &str,
    csrf: bool,
    body: Option<Value>,
) -> Answer {
    let mut request =
        Request::builder().method(method).uri(format!("/api/v1{path}")).header("cookie", cookie);
    if csrf {
        request = request.header("terahaul-csrf", "1");
    }
    let body = match body {
        None => Body::empty(),
        Some(body) => {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        }
    };
    rig.request(request.body(body).unwrap()).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_token_there_is_nothing_to_see() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    for path in ["/transfers".to_owned(), format!("/transfers/{id}"), format!("/transfers/{id}/zip")] {
        rig.call_as("", Method::GET, &path, None).await.refused(401, "unauthenticated");
        let wrong = rig.call_as(&format!("tht_{}", "A".repeat(43)), Method::GET, &path, None).await;
        wrong.refused(401, "token_unknown");
        assert_eq!(wrong.header("www-authenticate"), "Bearer");
        rig.call_as("nonsense", Method::GET, &path, None).await.refused(401, "token_unknown");
    }
    assert_eq!(rig.call_as("", Method::GET, "/health", None).await.expect(200)["status"], "ok");
    rig.call_as("", Method::GET, "/session", None).await.refused(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_transfer_does_not_exist() {
    let rig = Rig::new().await;
    let (one, two) = (rig.new_token(&["send"], None).await, rig.new_token(&["send"], None).await);
    let id = rig.new_transfer(&one).await;
    let path = format!("/transfers/{id}");
    rig.call_as(&one, Method::GET, &path, None).await.expect(200);
    rig.call_as(&two, Method::GET, &path, None).await.refused(404, "not_found");
    rig.call_as(&two, Method::DELETE, &path, None).await.refused(404, "not_found");
    rig.put_as(&two, &id, 0, b"x", &[]).await.refused(404, "not_found");
    let entries = json!({ "entries": [file("a", 1)], "first": 0, "seal": true });
    let append = rig.call_as(&two, Method::POST, &format!("{path}/entries"), Some(entries)).await;
    append.refused(404, "not_found");
    let none = "mfrggzdfmztwq2lknnwg23tpoa";
    for id in [id.as_str(), none] {
        let listed = rig.call_as(&two, Method::GET, &format!("/transfers?before={id}"), None).await;
        listed.refused(404, "not_found");
    }
    assert_eq!(rig.call_as(&two, Method::GET, "/transfers", None).await.expect(200)["transfers"], json!([]));
    assert_eq!(rig.get(&path).await.expect(200)["id"], json!(id), "the depot's owner sees it");

    // The same resume key is another key for another user.
    let body = json!({ "name": "t", "resume_key": "k" });
    let first = rig.call_as(&one, Method::POST, "/transfers", Some(body.clone())).await.expect(201);
    let second = rig.call_as(&two, Method::POST, "/transfers", Some(body)).await.expect(201);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_allow_what_they_say() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let receive = rig.new_token(&["receive"], None).await;
    let path = format!("/transfers/{id}");
    let seen = rig.call_as(&receive, Method::GET, &path, None).await.expect(200);
    assert_eq!(seen.get("link"), None, "only the sender and the owner can share");
    rig.call_as(&receive, Method::GET, &format!("{path}/files/0"), None).await;
    rig.call_as(&receive, Method::DELETE, &path, None).await.refused(403, "scope_missing");
    let body = json!({ "name": "t" });
    rig.call_as(&receive, Method::POST, "/transfers", Some(body)).await.refused(403, "scope_missing");
    rig.call_as(&receive, Method::GET, "/tokens", None).await.refused(403, "scope_missing");
    let none = json!({ "label": "x", "scopes": [] });
    rig.post("/tokens", none).await.refused(400, "bad_request");
    rig.post("/tokens", json!({ "label": "x", "scopes": ["all"] })).await.refused(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_token_says_why_at_once() {
    let rig = Rig::new().await;
    let made = rig
        .post("/tokens", json!({ "label": "l", "scopes": ["send"], "expires_in_days": 1 }))
        .await
        .expect(201);
    let token = made["token"].as_str().unwrap();
    assert_eq!(token.len(), 47);
    let id = rig.new_transfer(token).await;
    rig.call_as(
        token,
        Method::POST,
        &format!("/transfers/{id}/entries"),
        Some(json!({ "entries": [file("a", 1)], "first": 0, "seal": true })),
    )
    .await
    .expect(200);
    rig.pass(86_400);
    rig.put_as(token, &id, 0, b"x", &[]).await.refused(401, "token_expired");

    let made = rig.post("/tokens", json!({ "label": "m", "scopes": ["send"] })).await.expect(201);
    let token = made["token"].as_str().unwrap();
    let session = rig.call_as("", Method::POST, "/session", Some(json!({ "token": token }))).await;
    let cookie = cookie_of(&session);
    with_cookie(&rig, Method::GET, "/session", &cookie, false, None).await.expect(200);
    let list = rig.get("/tokens").await.expect(200);
    let listed = list["tokens"].as_array().unwrap().iter().find(|t| t["label"] == "m").unwrap();
    assert_eq!(listed.get("token"), None, "a token's text is shown once");
    rig.delete(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(204);
    rig.call_as(token, Method::GET, "/transfers", None).await.refused(401, "token_revoked");
    with_cookie(&rig, Method::GET, "/session", &cookie, false, None).await.refused(401, "session_ended");
    rig.delete("/tokens/unknown").await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_goes_on_once_it_is_extended_and_a_revoked_one_does_not() {
    let rig = Rig::new().await;
    let new = json!({ "label": "microscope", "scopes": ["send"], "expires_in_days": 1 });
    let made = rig.post("/tokens", new).await.expect(201);
    let (token, path) =
        (made["token"].as_str().unwrap(), format!("/tokens/{}", made["id"].as_str().unwrap()));
    let change = async |token: &str, path: &str, days: u32| {
        rig.call_as(token, Method::PATCH, path, Some(json!({ "expires_in_days": days }))).await
    };
    let key = json!({ "name": "n", "resume_key": "k", "entries": [file("a", 1)], "seal": true });
    let unfinished = rig.call_as(token, Method::POST, "/transfers", Some(key.clone())).await.expect(201);
    change(token, &path, 400).await.refused(403, "scope_missing");
    rig.pass(86_400);
    rig.call_as(token, Method::POST, "/transfers", Some(key.clone())).await.refused(401, "token_expired");
    let now = rig.now.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(change(&rig.token, &path, 30).await.expect(200)["expires"], now + 30 * 86_400);
    let resumed = rig.call_as(token, Method::POST, "/transfers", Some(key.clone())).await.expect(200);
    assert_eq!(resumed["id"], unfinished["id"]);
    for days in [0, 36_501] {
        change(&rig.token, &path, days).await.refused(400, "bad_request");
    }
    rig.delete(&path).await.expect(204);
    change(&rig.token, &path, 30).await.refused(404, "not_found");
    rig.call_as(token, Method::POST, "/transfers", Some(key)).await.refused(401, "token_revoked");
    change(&rig.token, "/tokens/unknown", 30).await.refused(404, "not_found");
    let tokens = rig.get("/tokens").await.expect(200);
    let own = tokens["tokens"].as_array().unwrap().iter().find(|token| token["label"] == "owner").unwrap();
    let path = format!("/tokens/{}", own["id"].as_str().unwrap());
    assert_eq!(change(&rig.token, &path, 1).await.expect(200)["expires"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_a_transfer_is_told_to_the_depots_owner_and_to_its_sender_that_it_is_theirs() {
    let rig = Rig::new().await;
    let new = json!({ "label": "microscope", "scopes": ["send"] });
    let sender = rig.post("/tokens", new).await.expect(201)["token"].as_str().unwrap().to_owned();
    let reader = rig.new_token(&["send", "receive"], None).await;
    let path = format!("/transfers/{}", rig.new_transfer(&sender).await);
    let list = "/transfers".to_owned();
    for (token, yours, told) in [
        (&rig.token, false, json!("microscope")),
        (&sender, true, json!(null)),
        (&reader, false, json!(null)),
    ] {
        let one = rig.call_as(token, Method::GET, &path, None).await.expect(200);
        let listed = rig.call_as(token, Method::GET, &list, None).await.expect(200)["transfers"][0].clone();
        for seen in [one, listed] {
            assert_eq!((&seen["yours"], &seen["sender"]), (&json!(yours), &told));
            assert_eq!(seen["link"].is_null(), *token == reader, "who may not change it has no link either");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_signs_in_once_with_its_code_and_needs_its_header_to_write() {
    let rig = Rig::new().await;
    let code = rig.depot.sign_in_code().unwrap();
    let body = json!({ "code": code });
    let session = rig.call_as("", Method::POST, "/session", Some(body.clone())).await;
    let told = session.expect(200);
    assert_eq!((&told["scopes"], &told["expires_in_days"]), (&json!(["own"]), &json!(30)));
    let set = session.header("set-cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains("Path=/;"), "{set}");
    assert!(!set.contains("Secure"), "this connection is not encrypted");
    rig.call_as("", Method::POST, "/session", Some(body)).await.refused(401, "code_invalid");
    rig.call_as("", Method::POST, "/session", Some(json!({}))).await.refused(400, "bad_request");

    let cookie = cookie_of(&session);
    with_cookie(&rig, Method::GET, "/transfers", &cookie, false, None).await.expect(200);
    let new = Some(json!({ "name": "t" }));
    let refused = with_cookie(&rig, Method::POST, "/transfers", &cookie, false, new.clone()).await;
    refused.refused(403, "csrf_header_missing");
    with_cookie(&rig, Method::POST, "/transfers", &cookie, true, new).await.expect(201);
    with_cookie(&rig, Method::DELETE, "/session", &cookie, true, None).await.expect(204);
    with_cookie(&rig, Method::GET, "/session", &cookie, false, None).await.refused(401, "session_ended");

    let mut request = Request::post("/api/v1/session")
        .header("content-type", "application/json")
        .body(Body::from(json!({ "code": rig.depot.sign_in_code().unwrap() }).to_string()))
        .unwrap();
    let peer = "192.0.2.7".parse().unwrap();
    request.extensions_mut().insert(terahaul_depot::Connection { peer, tls: true });
    assert!(rig.request(request).await.header("set-cookie").ends_with("; Secure"));
}

/// Whoever had a token could fill the disk with sessions, which count against no quota.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_only_so_many_browser_sessions_and_the_oldest_end() {
    let rig = Rig::with(|config| config.limits.sessions = 2).await;
    let sign_in = async |token: &str| {
        rig.pass(1);
        let opened = rig.call_as("", Method::POST, "/session", Some(json!({ "token": token }))).await;
        opened.expect(200);
        cookie_of(&opened)
    };
    let other = sign_in(&rig.new_token(&["send"], None).await).await;
    let mut cookies = Vec::new();
    for _ in 0..4 {
        cookies.push(sign_in(&rig.token).await);
    }
    let show = async |cookie: &str| with_cookie(&rig, Method::GET, "/session", cookie, false, None).await;
    for cookie in &cookies[..2] {
        show(cookie).await.refused(401, "session_ended");
    }
    for cookie in [&cookies[2], &cookies[3], &other] {
        show(cookie).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_browser_is_signed_in_at_two_depots_of_a_host() {
    let rigs = [Rig::new().await, Rig::new().await];
    // A browser keeps one cookie of each name.
    let mut kept = std::collections::BTreeMap::new();
    for rig in &rigs {
        let opened = rig.call_as("", Method::POST, "/session", Some(json!({ "token": rig.token }))).await;
        let cookie = cookie_of(&opened);
        kept.insert(cookie.split('=').next().unwrap().to_owned(), cookie);
    }
    let cookies = kept.into_values().collect::<Vec<_>>().join("; ");
    for rig in &rigs {
        with_cookie(rig, Method::GET, "/session", &cookies, false, None).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_has_a_token_again_once_the_keys_are_lost() {
    let rig = Rig::new().await;
    let (data, before) = (rig.depot.config().data.clone(), rig.token.clone());
    let session = rig.call_as("", Method::POST, "/session", Some(json!({ "token": before }))).await;
    let cookie = cookie_of(&session);
    rig.depot.close().await;
    std::fs::remove_dir_all(data.join("keys")).unwrap();
    let rig = Rig::with_data(rig.folder, &data, |_| {}).await;
    rig.get("/tokens").await.expect(200);
    // Whoever has them may have that, too.
    rig.call_as(&before, Method::GET, "/tokens", None).await.refused(401, "token_unknown");
    assert_eq!(with_cookie(&rig, Method::GET, "/session", &cookie, false, None).await.status, 401);
    let code = rig.depot.sign_in_code().unwrap();
    rig.call_as("", Method::POST, "/session", Some(json!({ "code": code }))).await.expect(200);
    let rig = rig.restart().await;
    assert_ne!(rig.token, before);
    rig.get("/tokens").await.expect(200);
}

/// It had ended for good with the first start without them.
#[tokio::test(flavor = "multi_thread")]
async fn the_owners_token_holds_again_once_the_keys_are_put_back_and_another_keys_does_not() {
    let rig = Rig::new().await;
    let (data, before) = (rig.depot.config().data.clone(), rig.token.clone());
    let [keys, backup] = ["keys", "backup"].map(|name| data.join(name));
    rig.depot.close().await;
    std::fs::rename(&keys, &backup).unwrap();
    let rig = Rig::with_data(rig.folder, &data, |_| {}).await;
    let meanwhile = rig.token.clone();
    assert_ne!(meanwhile, before);
    rig.depot.close().await;
    std::fs::remove_dir_all(&keys).unwrap();
    std::fs::rename(&backup, &keys).unwrap();
    let rig = Rig::with_data(rig.folder, &data, |_| {}).await;
    assert_eq!(rig.token, before);
    rig.call_as(&meanwhile, Method::GET, "/tokens", None).await.refused(401, "token_unknown");
    let tokens = rig.get("/tokens").await.expect(200);
    for token in tokens["tokens"].as_array().unwrap() {
        rig.delete(&format!("/tokens/{}", token["id"].as_str().unwrap())).await;
    }
    // What was revoked stays so, whichever keys it was made with.
    let rig = rig.restart().await;
    assert!(rig.token != before && rig.token != meanwhile);
    rig.call_as(&before, Method::GET, "/tokens", None).await.refused(401, "token_revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_one_transfer_to_read() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let other = rig.sent(&[("a", content(2, 10))]).await;
    let link = rig.get(&format!("/transfers/{id}")).await.expect(200)["link"].as_str().unwrap().to_owned();
    let secret = link.split_once('#').unwrap().1.split('&').next().unwrap().to_owned();
    let path = format!("/links/{id}/open");
    let wrong = json!({ "secret": format!("thl_{}", "A".repeat(43)) });
    rig.call_as("", Method::POST, &path, Some(wrong)).await.refused(404, "not_found");
    let opened = rig.call_as("", Method::POST, &path, Some(json!({ "secret": secret }))).await;
    assert_eq!(opened.expect(200).get("link"), None);
    assert!(opened.header("set-cookie").contains(&format!("Path=/api/v1/transfers/{id};")));
    let cookie = cookie_of(&opened);
    let file =
        with_cookie(&rig, Method::GET, &format!("/transfers/{id}/files/0"), &cookie, false, None).await;
    assert_eq!(file.body, content(1, 10));
    let remove = with_cookie(&rig, Method::DELETE, &format!("/transfers/{id}"), &cookie, true, None).await;
    remove.refused(401, "unauthenticated");

    let list = rig.call_as(&secret, Method::GET, &format!("/transfers/{id}/entries"), None).await;
    assert_eq!(list.expect(200)["total"], 1);
    rig.call_as(&secret, Method::GET, &format!("/transfers/{other}"), None).await.refused(404, "not_found");
    rig.call_as(&secret, Method::GET, "/transfers", None).await.refused(401, "unauthenticated");
    rig.call_as(&secret, Method::DELETE, &format!("/transfers/{id}"), None)
        .await
        .refused(403, "scope_missing");

    // Someone else, signed in, may hold the link, too.
    let stranger = rig.new_token(&["send"], None).await;
    let session = rig.call_as("", Method::POST, "/session", Some(json!({ "token": stranger }))).await;
    let both = format!("{}; {cookie}", cookie_of(&session));
    with_cookie(&rig, Method::GET, &format!("/transfers/{id}"), &both, false, None).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_whose_links_cookie_has_ended_is_shown_what_to_do() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let ask = async |path: &str, accept: &str| {
        let request = Request::get(format!("/api/v1{path}")).header("accept", accept);
        rig.request(request.body(Body::empty()).unwrap()).await
    };
    let a_persons = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for what in ["zip", "files/0", "receipt"] {
        let path = format!("/transfers/{id}/{what}");
        let shown = ask(&path, a_persons).await;
        assert_eq!(
            (shown.status, shown.header("content-type")),
            (401.try_into().unwrap(), "text/html; charset=utf-8")
        );
        assert!(shown.text().contains("Open the link that you were given once more"), "{}", shown.text());
        assert!(shown.header("content-security-policy").contains("default-src 'none'"));
        ask(&path, "*/*").await.refused(401, "unauthenticated");
    }
    let gone = rig.get_with("/transfers/aaaaaaaaaaaaaaaaaaaaaaaaaa/zip", &[("accept", a_persons)]).await;
    assert_eq!(gone.status, 404);
    assert!(gone.text().contains("<p>there is no such transfer"), "{}", gone.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_opens_a_link_that_was_cut_short_is_shown_what_to_do() {
    let rig = Rig::new().await;
    for path in ["/t/", "/t", "/nothing"] {
        let request = Request::get(path).header("accept", "text/html,*/*;q=0.8");
        let shown = rig.request(request.body(Body::empty()).unwrap()).await;
        assert_eq!(
            (shown.status, shown.header("content-type")),
            (404.try_into().unwrap(), "text/html; charset=utf-8")
        );
        assert!(shown.text().contains("open the whole of it"), "{}", shown.text());
        assert!(!shown.text().contains("download"), "{}", shown.text());
        assert!(shown.header("content-security-policy").contains("default-src 'none'"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_has_no_body_read() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let link = rig.get(&format!("/transfers/{id}")).await.expect(200)["link"].as_str().unwrap().to_owned();
    let secret = link.split_once('#').unwrap().1.split('&').next().unwrap().to_owned();
    for (secret, status, code) in [("thl_x", 404, "not_found"), (&secret, 403, "scope_missing")] {
        for (method, path) in [
            (Method::POST, "entries"),
            (Method::POST, "failures"),
            (Method::PATCH, ""),
            (Method::PUT, "bytes/0"),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(format!("/api/v1/transfers/{id}/{path}").trim_end_matches('/'));
            let request = request
                .header("authorization", format!("Bearer {secret}"))
                .header("content-type", "application/json");
            // It never comes.
            let body = Body::from_stream(futures_util::stream::pending::<std::io::Result<bytes::Bytes>>());
            rig.request(request.body(body).unwrap()).await.refused(status, code);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guesser_is_told_to_wait() {
    let rig = Rig::new().await;
    let guess = || async {
        let request = Request::get("/api/v1/transfers").header("authorization", "Bearer tht_wrong");
        let mut request = request.body(Body::empty()).unwrap();
        let peer = "192.0.2.7".parse().unwrap();
        request.extensions_mut().insert(terahaul_depot::Connection { peer, tls: true });
        rig.request(request).await
    };
    for _ in 0..100 {
        guess().await;
    }
    guess().await.refused(429, "too_many_attempts");
    rig.call_as("tht_wrong", Method::GET, "/transfers", None).await.refused(401, "token_unknown");
    rig.get("/transfers").await.expect(200);
    rig.pass(60);
    guess().await.refused(401, "token_unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owners_token_stays_the_same_until_it_is_revoked() {
    let rig = Rig::new().await;
    let before = rig.token.clone();
    let rig = rig.restart().await;
    assert_eq!(rig.token, before);
    let tokens = rig.get("/tokens").await.expect(200);
    let id = tokens["tokens"][0]["id"].as_str().unwrap().to_owned();
    rig.delete(&format!("/tokens/{id}")).await.expect(204);
    let rig = rig.restart().await;
    assert_ne!(rig.token, before);
    rig.call_as(&before, Method::GET, "/transfers", None).await.refused(401, "token_revoked");
    rig.get("/transfers").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_ends_with_its_token() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let rig = Rig::with(|config| config.limits.recheck = std::time::Duration::ZERO).await;
    let id = rig.sent(&[("a", content(1, 3 * BLOCK_SIZE))]).await;
    for (call, days) in
        [("files/0", None), ("zip", Some(1)), ("bytes/0?length=9000000", None), ("receipt", Some(1))]
    {
        let new = json!({ "label": "l", "scopes": ["receive"], "expires_in_days": days });
        let made = rig.post("/tokens", new).await.expect(201);
        let token = made["token"].as_str().unwrap();
        let request = Request::get(format!("/api/v1/transfers/{id}/{call}"));
        let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap();
        let mut body = rig.router.clone().oneshot(request).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        match days {
            None => drop(rig.delete(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(204)),
            Some(_) => rig.pass(86_400),
        }
        assert!(body.collect().await.is_err(), "{call}");
    }
}

/// The first owner's token of a new database was the first of the old one, which may have leaked and been revoked.
#[tokio::test(flavor = "multi_thread")]
async fn an_owners_token_of_before_is_nobodys_where_the_same_keys_begin_another_database() {
    let (first, second) = (Rig::new().await, tempfile::tempdir().unwrap());
    let keys = second.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    for file in std::fs::read_dir(first.folder.path().join("keys")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), keys.join(file.file_name())).unwrap();
    }
    let data = second.path().to_owned();
    let second = Rig::with_data(second, &data, |_| {}).await;
    second.call_as(&first.token, Method::GET, "/tokens", None).await.refused(401, "token_unknown");
}

/// Whoever had sent all but the last brace when a leaked token was revoked made one that holds for ever with it, hours later.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_revoked_token_has_begun_to_ask_for_is_not_done() {
    let rig = Rig::with(|config| config.limits.recheck = std::time::Duration::ZERO).await;
    let made = rig.post("/tokens", json!({ "label": "l", "scopes": ["own"] })).await.expect(201);
    let (sender, frames) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = futures_util::stream::unfold(frames, async |mut frames| Some((frames.recv().await?, frames)));
    let request = Request::post("/api/v1/tokens")
        .header("authorization", format!("Bearer {}", made["token"].as_str().unwrap()))
        .header("content-type", "application/json")
        .body(Body::from_stream(body))
        .unwrap();
    let sent = async {
        sender.send(Ok(r#"{ "label": "heir", "scopes": ["own"] "#.into())).await.unwrap();
        // Taken when the next one is asked for.
        sender.reserve().await.unwrap();
        rig.delete(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(204);
        sender.send(Ok("}".into())).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = tokio::join!(rig.request(request), sent);
    answer.refused(401, "token_revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_upload_ends_with_its_token_and_what_came_before_stays() {
    let rig = Rig::with(|config| config.limits.recheck = std::time::Duration::ZERO).await;
    let made = rig.post("/tokens", json!({ "label": "l", "scopes": ["send"] })).await.expect(201);
    let token = made["token"].as_str().unwrap();
    let new = json!({ "name": "t", "entries": [file("a", 3 * BLOCK_SIZE)], "seal": true });
    let transfer = rig.call_as(token, Method::POST, "/transfers", Some(new)).await.expect(201);
    let path = format!("/transfers/{}", transfer["id"].as_str().unwrap());
    let (sender, frames) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = futures_util::stream::unfold(frames, async |mut frames| Some((frames.recv().await?, frames)));
    let request = Request::put(format!("/api/v1{path}/bytes/0"))
        .header("authorization", format!("Bearer {token}"))
        .header("content-length", 3 * BLOCK_SIZE)
        .body(Body::from_stream(body))
        .unwrap();
    let sent = async {
        sender.send(Ok(content(1, BLOCK_SIZE).into())).await.unwrap();
        // Taken when the next one is asked for.
        sender.send(Ok(content(2, 1000).into())).await.unwrap();
        sender.reserve().await.unwrap();
        rig.delete(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(204);
        sender.send(Ok(content(2, 2 * BLOCK_SIZE - 1000).into())).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = tokio::join!(rig.request(request), sent);
    answer.refused(401, "token_revoked");
    let extents = rig.get(&format!("{path}/extents")).await.expect(200);
    assert_eq!(extents["received"], json!([[0, 1]]));
}
