//! What is said with an answer, and most of all with a refusal.

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::rig::{Rig, content, file};

/// What a stored transfer's link holds.
async fn link_secret(rig: &Rig, id: &str) -> String {
    let link = rig.get(&format!("/transfers/{id}")).await.expect(200)["link"].as_str().unwrap().to_owned();
    link.split_once('#').unwrap().1.split('&').next().unwrap().to_owned()
}

/// They were answered whole, and seven times as long where each character was written as an escape.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_of_a_long_body_is_not_answered_whole() {
    let rig = Rig::new().await;
    let long = "\u{7f}".repeat(4_000_000);
    let with = |path: &str, times| {
        let entries = vec![json!({ "path": path, "kind": "file" }); times];
        json!({ "name": "x", "first": 0, "entries": entries })
    };
    // As long as one may be, and there already.
    let deep = vec!["\u{7f}".repeat(255); 16].join("/");
    let mut texts = vec![with(&long, 1), with(&deep, 2), json!({ "name": long.as_str() })];
    texts.push(json!({ long.as_str(): 1 }));
    texts.push(json!({ "name": "x", "entries": [{ "path": "x", "kind": long.as_str() }] }));
    texts.push(json!({ "name": "x", "expires_in_days": long.as_str() }));
    let id = rig.new_transfer(&rig.token).await;
    for path in ["/transfers".to_owned(), format!("/transfers/{id}/entries")] {
        for text in &texts {
            let answer = rig.post(&path, text.clone()).await;
            assert!(answer.status.is_client_error(), "{}", answer.status);
            assert!(answer.body.len() < 10_000, "{path}: {} bytes", answer.body.len());
        }
    }
}

/// The list of transfers has their links, and stayed in the caches of browsers and proxies.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_keeps_what_the_api_says() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let secret = link_secret(&rig, &id).await;
    let transfer = format!("/transfers/{id}");
    let within = |what: &str| format!("{transfer}/{what}");
    for path in ["/transfers".to_owned(), transfer.clone(), "/tokens".into(), "/session".into()] {
        assert_eq!(rig.get(&path).await.header("cache-control"), "no-store", "{path}");
    }
    for path in [within("receipt"), within("entries"), within("files/9")] {
        assert_eq!(rig.get(&path).await.header("cache-control"), "no-store", "{path}");
    }
    let token = json!({ "label": "t", "scopes": ["send"] });
    for (path, body) in [("/tokens", token), (&format!("/links/{id}/open"), json!({ "secret": secret }))] {
        assert_eq!(rig.post(path, body).await.header("cache-control"), "no-store", "{path}");
    }
    let whole = rig.get(&within("files/0")).await;
    let same = rig.get_with(&within("files/0"), &[("if-none-match", whole.header("etag"))]).await;
    assert_eq!(same.status, 304);
    for download in [whole, same, rig.get(&within("zip")).await, rig.get(&within("bytes/0?length=1")).await] {
        assert_eq!(download.header("cache-control"), "private, no-cache");
    }
}

/// They were told of a token's scopes, and they have no token.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_link_is_told_that_it_only_reads() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let secret = link_secret(&rig, &id).await;
    let path = format!("/transfers/{id}");
    let name = || Some(json!({ "name": "x" }));
    let entries = Some(json!({ "entries": [file("a", 1)], "first": 0 }));
    for (answer, status, code) in [
        (rig.call_as(&secret, Method::DELETE, &path, None).await, 403, "scope_missing"),
        (rig.call_as(&secret, Method::PATCH, &path, name()).await, 403, "scope_missing"),
        (rig.put_as(&secret, &id, 0, b"x", &[]).await, 403, "scope_missing"),
        (rig.call_as(&secret, Method::POST, &format!("{path}/entries"), entries).await, 403, "scope_missing"),
        (rig.call_as(&secret, Method::POST, &format!("{path}/finish"), None).await, 403, "scope_missing"),
        (rig.call_as(&secret, Method::POST, "/transfers", name()).await, 401, "unauthenticated"),
        (rig.call_as(&secret, Method::GET, "/transfers", None).await, 401, "unauthenticated"),
    ] {
        let refused = answer.refused(status, code);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("link") && message.contains("sign in with a token"), "{message}");
        assert!(!message.contains("scope") && !message.contains("no token was given"), "{message}");
    }
}

/// It was kept, and no Linux could make it.
#[tokio::test(flavor = "multi_thread")]
async fn a_links_target_is_as_long_as_linux_makes_them() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    let link = |len| json!({ "path": "x", "kind": "symlink", "target_hex": "78".repeat(len) });
    let append = async |len| {
        let body = json!({ "entries": [link(len)], "first": 0 });
        rig.post(&format!("/transfers/{id}/entries"), body).await
    };
    append(4096).await.refused(422, "bad_entry");
    append(4095).await.expect(200);
}

/// It said JSON only, and browsers are shown a page.
#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_declares_the_pages_of_refused_downloads() {
    let rig = Rig::new().await;
    let document = rig.call_as("", Method::GET, "/openapi.json", None).await.expect(200);
    let declared = |answer: &Value| {
        let answer = match answer["$ref"].as_str() {
            Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
            None => answer,
        };
        answer["content"].as_object().is_some_and(|content| content.contains_key("text/html"))
    };
    let mut pages = 0;
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            let Some(answers) = call["responses"].as_object() else { continue };
            let is_download = method == "get"
                && ["/files/{entry}", "/zip", "/receipt"].iter().any(|end| path.ends_with(end));
            for (status, answer) in answers {
                let is_page = is_download && status.as_str() >= "400";
                assert_eq!(declared(answer), is_page, "{method} {path} {status}");
                pages += usize::from(is_page);
            }
        }
    }
    assert!(pages > 20, "{pages}");
    for what in ["files/0", "zip", "receipt", "entries"] {
        let request = Request::get(format!("/api/v1/transfers/{}/{what}", "a".repeat(26)))
            .header("authorization", format!("Bearer {}", rig.token))
            .header("accept", "text/html");
        let answer = rig.request(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.header("content-type").starts_with("text/html"), what != "entries", "{what}");
    }
}
