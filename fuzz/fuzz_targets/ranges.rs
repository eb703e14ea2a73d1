//! `Range` and `If-Range` on a file and on the ZIP stream: an answer is that part of the whole, or a refusal.
#![no_main]

use std::cell::OnceCell;

use axum::http::HeaderValue;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use terahaul_fuzz::Rig;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    zip: bool,
    range: How<'a>,
    condition: Option<&'a [u8]>,
    /// With the right tag as the condition.
    tagged: bool,
}

#[derive(Arbitrary, Debug)]
enum How<'a> {
    Text(&'a [u8]),
    Part(u16, u16),
    From(u16),
    Last(u16),
}

struct State {
    rig: Rig,
    file: (String, Vec<u8>, String),
    zip: (String, Vec<u8>, String),
}

fn prepare() -> State {
    let rig = Rig::new();
    let id = rig.transfer();
    let content: Vec<u8> = (0..4000u32).map(|at| (at * 7 % 251) as u8).collect();
    let entries = json!({ "first": 0, "seal": true, "entries": [
        { "path": "folder", "kind": "directory" },
        { "path": "folder/a", "kind": "file", "size": 1000 },
        { "path": "empty", "kind": "file", "size": 0 },
        { "path": "link", "kind": "symlink", "target_hex": "666f6c646572" },
        { "path": "b", "path_hex": "62ff", "kind": "file", "size": 3000 },
    ] });
    rig.json("POST", &format!("/transfers/{id}/entries"), entries);
    let put = rig.call("PUT", &format!("/transfers/{id}/bytes/0"), &[], content);
    assert!(put.status.is_success());
    rig.json("POST", &format!("/transfers/{id}/finish"), json!({}));
    let whole = |path: String| {
        let answer = rig.call("GET", &path, &[], Vec::new());
        assert_eq!(answer.status, 200, "{path}");
        let tag = answer.headers["etag"].to_str().expect("a tag").to_owned();
        (path, answer.body, tag)
    };
    let (file, zip) = (whole(format!("/transfers/{id}/files/4")), whole(format!("/transfers/{id}/zip")));
    State { rig, file, zip }
}

thread_local! {
    static STATE: OnceCell<State> = const { OnceCell::new() };
}

fuzz_target!(|input: Input| {
    STATE.with(|state| {
        let state = state.get_or_init(prepare);
        let (path, whole, tag) = if input.zip { &state.zip } else { &state.file };
        let range = match input.range {
            How::Text(text) => text.to_vec(),
            How::Part(first, last) => format!("bytes={first}-{last}").into_bytes(),
            How::From(first) => format!("bytes={first}-").into_bytes(),
            How::Last(count) => format!("bytes=-{count}").into_bytes(),
        };
        let condition = if input.tagged { Some(tag.as_bytes()) } else { input.condition };
        // What is no header value never reaches a handler.
        let is_value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).is_ok();
        let mut headers: Vec<(&str, &[u8])> = Vec::new();
        if is_value(&range) {
            headers.push(("range", &range));
        }
        if let Some(condition) = condition.filter(|condition| is_value(condition)) {
            headers.push(("if-range", condition));
        }
        let answer = state.rig.call("GET", path, &headers, Vec::new());
        match answer.status.as_u16() {
            200 => assert!(answer.body == *whole),
            206 => {
                let told = answer.headers["content-range"].to_str().expect("text").to_owned();
                let (part, size) = told.strip_prefix("bytes ").and_then(|rest| rest.split_once('/')).expect("its form");
                let (first, last) = part.split_once('-').expect("its form");
                let (first, last): (usize, usize) = (first.parse().expect("digits"), last.parse().expect("digits"));
                assert_eq!(size.parse(), Ok(whole.len()));
                assert!(answer.body == whole[first..=last], "{told}");
            }
            416 => answer.assert_typed_refusal(),
            other => panic!("{other}"),
        }
    });
});
