//! Ranges, conditions and the ZIP file.

use std::io::Write;
use std::process::Command;

use crate::rig::{Rig, content, file};
use axum::body::Body;
use axum::http::{Method, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use terahaul_core::BLOCK_SIZE;

#[tokio::test(flavor = "multi_thread")]
async fn any_range_of_a_file_is_those_bytes() {
    let rig = Rig::new().await;
    let bytes = content(4, BLOCK_SIZE + 700_001);
    let size = bytes.len() as u64;
    let id = rig.sent(&[("x", content(5, 10)), ("f", bytes.clone())]).await;
    let path = format!("/transfers/{id}/files/1");
    let ranges = (0..size + 2, 0..size + 2, 0..3u8);
    let mut runner = TestRunner::new(Config::with_cases(64));
    let handle = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        runner
            .run(&ranges, |(a, b, form)| {
                let (text, start, end) = match form {
                    0 => (format!("bytes={a}-{b}"), a, (b + 1).min(size)),
                    1 => (format!("bytes={a}-"), a, size),
                    _ => (format!("bytes=-{b}"), size.saturating_sub(b), size),
                };
                let answer = handle.block_on(rig.get_with(&path, &[("range", &text)]));
                if form == 0 && a > b {
                    prop_assert_eq!(answer.status.as_u16(), 200, "an invalid range is ignored");
                } else if start >= end {
                    prop_assert_eq!(answer.status.as_u16(), 416);
                    prop_assert_eq!(answer.header("content-range"), format!("bytes */{size}"));
                } else {
                    prop_assert_eq!(answer.status.as_u16(), 206);
                    let expected = format!("bytes {start}-{}/{size}", end - 1);
                    prop_assert_eq!(answer.header("content-range"), expected);
                    prop_assert!(answer.body == bytes[start as usize..end as usize]);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_hold_only_for_the_same_content() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("täglich.txt", content(4, 1000))]).await;
    let path = format!("/transfers/{id}/files/0");
    let whole = rig.get(&path).await;
    let etag = whole.header("etag").to_owned();
    assert_eq!(whole.header("accept-ranges"), "bytes");
    assert!(whole.header("content-disposition").contains("filename*=UTF-8''t%C3%A4glich.txt"));
    assert!(whole.header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(whole.header("x-content-type-options"), "nosniff");
    let part = rig.get_with(&path, &[("range", "bytes=10-19"), ("if-range", &etag)]).await;
    assert_eq!((part.status.as_u16(), part.body.len()), (206, 10));
    let other = rig.get_with(&path, &[("range", "bytes=10-19"), ("if-range", "\"other\"")]).await;
    assert_eq!((other.status.as_u16(), other.body.len()), (200, 1000));
    let dated = [("range", "bytes=10-19"), ("if-range", "Sat, 21 Nov 2026 00:00:00 GMT")];
    assert_eq!(rig.get_with(&path, &dated).await.status, 200);
    let known = rig.get_with(&path, &[("if-none-match", &etag)]).await;
    assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
    rig.get_with(&path, &[("range", "bytes=10-19"), ("if-match", "\"other\"")])
        .await
        .refused(412, "precondition_failed");
    for held in [&*etag, "*", &format!("\"other\", {etag}")] {
        let part = rig.get_with(&path, &[("range", "bytes=10-19"), ("if-match", held)]).await;
        assert_eq!((part.status.as_u16(), part.body.len()), (206, 10));
    }
    let head = rig.call_as(&rig.token, Method::HEAD, &path, None).await;
    assert_eq!((head.status.as_u16(), head.body.len(), head.header("content-length")), (200, 0, "1000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_come_only_from_occupied_runs() {
    let rig = Rig::new().await;
    let large = content(1, 2 * BLOCK_SIZE);
    let id =
        rig.sent(&[("a", content(2, 100)), ("l", large.clone()), ("z", content(3, BLOCK_SIZE - 1))]).await;
    // a shares no block with z, which does not fit beside it.
    let bytes = |address: u64, length: u64| {
        let path = format!("/transfers/{id}/bytes/{address}?length={length}");
        let rig = &rig;
        async move { rig.get(&path).await }
    };
    assert!(bytes(BLOCK_SIZE + 5, 2 * BLOCK_SIZE - 5).await.body == large[5..]);
    assert_eq!(bytes(0, 100).await.body, content(2, 100));
    bytes(0, 101).await.refused(416, "range_not_satisfiable");
    bytes(100, 1).await.refused(416, "range_not_satisfiable");
    bytes(0, 2 * BLOCK_SIZE).await.refused(416, "range_not_satisfiable");
    bytes(u64::MAX, 10).await.refused(416, "range_not_satisfiable");
    bytes(0, 0).await.refused(400, "bad_request");
    bytes(0, 1 << 40).await.refused(400, "bad_request");
}

/// A transfer with everything a ZIP file can hold, and one entry that failed.
async fn zipped(rig: &Rig) -> (String, Vec<(Vec<u8>, Vec<u8>)>) {
    let id = rig.new_transfer(&rig.token).await;
    let files: Vec<(Vec<u8>, Vec<u8>)> = vec![
        ("d/small.txt".into(), content(1, 3000)),
        ("d/large".into(), content(2, 2 * BLOCK_SIZE + 9)),
        (b"raw-\xff\xfe".to_vec(), content(3, 77)),
        ("naïve 文.bin".into(), content(4, 500)),
        ("empty".into(), Vec::new()),
        ("d/exact".into(), content(5, BLOCK_SIZE)),
    ];
    let mut entries: Vec<_> = files
        .iter()
        .map(|(path, bytes)| {
            let mut entry = file(&String::from_utf8_lossy(path), bytes.len() as u64);
            entry["path_hex"] = json!(data_encoding::HEXLOWER.encode(path));
            entry
        })
        .collect();
    entries.push(file("failed", 10));
    entries.push(json!({ "path": "d", "kind": "directory", "mtime": 1_700_000_000 }));
    entries.push(json!({ "path": "to-small", "kind": "symlink", "target_hex": "642f736d616c6c2e747874" }));
    rig.append(&id, 0, entries).await;
    let failures = json!({ "failures": [{ "entry": 6, "cause": "vanished", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    // The failed file's bytes are zeros in the packed block that it shares.
    let mut sent: Vec<(&str, Vec<u8>)> = files.iter().map(|(_, bytes)| ("", bytes.clone())).collect();
    sent.push(("failed", vec![0; 10]));
    rig.send_all(&id, &sent).await;
    let done = rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    assert_eq!(done["state"], "partial");
    (id, files)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_zip_is_valid_for_unzip_and_python_and_has_every_file() {
    let rig = Rig::new().await;
    let (id, files) = zipped(&rig).await;
    let zip = rig.get(&format!("/transfers/{id}/zip")).await;
    assert_eq!(zip.status, 200);
    assert_eq!(zip.header("content-length"), zip.body.len().to_string());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.zip");
    std::fs::File::create(&path).unwrap().write_all(&zip.body).unwrap();

    let python = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    assert z.testzip() is None
    for info in z.infolist():
        print(info.filename, info.file_size, info.date_time[0], oct(info.external_attr >> 16))
"#;
    let listed = Command::new("python3").args(["-c", python]).arg(&path).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("naïve 文.bin 500 2023 0o100640"), "{listed}");
    assert!(listed.contains("d/ 0 2023 0o40755"), "{listed}");
    assert!(!listed.contains("failed"), "{listed}");

    match Command::new("unzip").arg("-qq").arg(&path).arg("-d").arg(folder.path().join("out")).output() {
        Err(error) => eprintln!("unzip is not installed, so only Python read the file: {error}"),
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            use std::os::unix::ffi::OsStrExt;
            for (name, bytes) in &files {
                let name = if name.starts_with(b"raw") { b"raw-%FF%FE" } else { &name[..] };
                let out = folder.path().join("out").join(std::ffi::OsStr::from_bytes(name));
                assert!(std::fs::read(&out).unwrap() == *bytes, "{}", out.display());
            }
            let target = std::fs::read_link(folder.path().join("out/to-small")).unwrap();
            assert_eq!(target.to_str(), Some("d/small.txt"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_range_of_the_zip_is_those_bytes_whatever_was_read_before() {
    let rig = Rig::new().await;
    let (id, _) = zipped(&rig).await;
    let path = format!("/transfers/{id}/zip");
    // The end first, while no checksum is known.
    let head = rig.call_as(&rig.token, Method::HEAD, &path, None).await;
    let size: u64 = head.header("content-length").parse().unwrap();
    let etag = head.header("etag").to_owned();
    let tail = rig.get_with(&path, &[("range", "bytes=-900")]).await;
    let whole = rig.get(&path).await.body;
    assert_eq!(whole.len() as u64, size);
    assert!(tail.body == whole[whole.len() - 900..]);

    let mut runner = TestRunner::new(Config::with_cases(48));
    let handle = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        runner
            .run(&(0..size, 1..3 * BLOCK_SIZE), |(start, len)| {
                let end = (start + len).min(size);
                let text = format!("bytes={start}-{}", end - 1);
                let answer = handle.block_on(rig.get_with(&path, &[("range", &text), ("if-range", &etag)]));
                prop_assert_eq!(answer.status.as_u16(), 206);
                prop_assert!(answer.body == whole[start as usize..end as usize]);
                Ok(())
            })
            .unwrap();
    });
    let rig = rig.restart().await;
    assert!(rig.get(&path).await.body == whole, "the same after a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_transfer_cuts_its_downloads() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let rig = Rig::new().await;
    let id = rig.sent(&[("f", content(1, 3 * BLOCK_SIZE))]).await;
    let path = format!("/api/v1/transfers/{id}/files/0");
    let request = Request::get(path).header("authorization", format!("Bearer {}", rig.token));
    let response = rig.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    rig.delete(&format!("/transfers/{id}")).await.expect(204);
    assert!(body.collect().await.is_err(), "the client must notice that bytes are missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_of_a_transfer_that_is_removed_is_cut_and_does_not_look_whole() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let rig = Rig::new().await;
    for frames in [1, 2, 3] {
        let id = rig.new_transfer(&rig.token).await;
        rig.append(&id, 0, (0..5000).map(|number| file(&format!("f{number}"), 0)).collect()).await;
        rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
        let request = Request::get(format!("/api/v1/transfers/{id}/receipt"))
            .header("authorization", format!("Bearer {}", rig.token));
        let response = rig.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let mut body = response.into_body();
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        rig.delete(&format!("/transfers/{id}")).await.expect(204);
        assert!(body.collect().await.is_err(), "after {frames} pieces");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_downloaded_from_an_open_transfer() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    rig.append(&id, 0, vec![file("a", 10)]).await;
    for call in ["files/0", "zip", "receipt", "bytes/0?length=1"] {
        let body = rig.get(&format!("/transfers/{id}/{call}")).await.refused(409, "not_finished");
        assert_eq!(body["error"]["retry"], true);
    }
    let listed = rig.get(&format!("/transfers/{id}/entries")).await.expect(200);
    assert_eq!(listed["entries"][0]["state"], "pending");
}
