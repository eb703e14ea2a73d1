//! A depot's disk returns other bytes than were written to it, and no error.

use std::os::unix::fs::FileExt;

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::json;
use terahaul_core::BLOCK_SIZE;
use tower::ServiceExt;

use crate::rig::{Answer, Rig, content, file};

/// Changes one byte of what is stored of the only transfer.
pub fn damage(rig: &Rig, address: u64) {
    let mut stored = std::fs::read_dir(rig.folder.path().join("store/published")).unwrap();
    let path = stored.next().unwrap().unwrap().path();
    let stored = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    stored.read_exact_at(&mut byte, address).unwrap();
    stored.write_all_at(&[byte[0] ^ 1], address).unwrap();
}

/// What came of a download, and whether it came to its end.
async fn download(rig: &Rig, path: &str, range: Option<&str>) -> (Vec<u8>, bool) {
    let mut request = Request::get(format!("/api/v1{path}"));
    request = request.header("authorization", format!("Bearer {}", rig.token));
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let response = rig.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    let (mut body, mut bytes) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
            Err(_) => return (bytes, false),
        }
    }
    (bytes, true)
}

async fn ranged(rig: &Rig, path: &str, range: &str) -> Answer {
    rig.get_with(path, &[("range", range)]).await
}

fn refused(answer: &Answer, path: &str, offset: u64) {
    let body = answer.refused(500, "damaged");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(path) && message.contains(&offset.to_string()), "{message}");
    assert_eq!(body["error"]["retry"], false, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_cut_before_the_block_that_is_damaged() {
    let rig = Rig::new().await;
    let bytes = content(1, 2 * BLOCK_SIZE + 9000);
    let id = rig.sent(&[("d/large", bytes.clone())]).await;
    let path = format!("/transfers/{id}/files/0");
    for block in [2, 1] {
        damage(&rig, block * BLOCK_SIZE + 7777);
        let (came, whole) = download(&rig, &path, None).await;
        assert!(!whole);
        assert!(came == bytes[..(block * BLOCK_SIZE) as usize], "{} bytes", came.len());
    }
    // Going on from there, the client hears why.
    refused(&ranged(&rig, &path, &format!("bytes={BLOCK_SIZE}-")).await, "d/large", BLOCK_SIZE);
    damage(&rig, 5);
    refused(&rig.get(&path).await, "d/large", 0);
    let head = rig.call_as(&rig.token, Method::HEAD, &path, None).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, &*bytes.len().to_string()));
    let etag = head.header("etag").to_owned();
    assert_eq!(rig.get_with(&path, &[("if-none-match", &etag)]).await.status, 304);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_refused_where_its_block_is_damaged_and_nowhere_else() {
    let rig = Rig::new().await;
    let bytes = content(1, 3 * BLOCK_SIZE);
    let id = rig.sent(&[("large", bytes.clone())]).await;
    let path = format!("/transfers/{id}/files/0");
    damage(&rig, BLOCK_SIZE + 7777);
    for (first, last) in [(0, 10), (BLOCK_SIZE - 3, BLOCK_SIZE - 1), (2 * BLOCK_SIZE, 3 * BLOCK_SIZE - 1)] {
        let answer = ranged(&rig, &path, &format!("bytes={first}-{last}")).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == bytes[first as usize..=last as usize]);
    }
    // The damaged byte itself, others of its block, and the block's end.
    for (first, last) in [(7777, 7777), (0, 10), (2_000_000, 3_000_000), (BLOCK_SIZE - 1, BLOCK_SIZE + 5)] {
        let range = format!("bytes={}-{}", BLOCK_SIZE + first, BLOCK_SIZE + last);
        refused(&ranged(&rig, &path, &range).await, "large", BLOCK_SIZE);
    }
    let (came, whole) = download(&rig, &path, Some(&format!("bytes=100-{}", BLOCK_SIZE + 1))).await;
    assert!(!whole && came == bytes[100..BLOCK_SIZE as usize]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_is_refused_where_it_is_damaged_and_its_neighbours_arrive() {
    let rig = Rig::new().await;
    let files: Vec<_> = (0..5).map(|seed| content(seed, 300_000 + seed)).collect();
    let named: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().zip(files.iter().cloned()).collect();
    let id = rig.sent(&named).await;
    let start: Vec<u64> =
        files.iter().scan(0, |at, bytes| Some(std::mem::replace(at, *at + bytes.len() as u64))).collect();
    damage(&rig, start[2] + 270_000);
    for (at, bytes) in files.iter().enumerate() {
        let path = format!("/transfers/{id}/files/{at}");
        if at == 2 {
            refused(&rig.get(&path).await, "c", 0);
            refused(&ranged(&rig, &path, "bytes=5-9").await, "c", 0);
        } else {
            assert!(rig.get(&path).await.body == *bytes);
            assert!(ranged(&rig, &path, "bytes=5-9").await.body == bytes[5..10]);
        }
    }
    // The same of runs of bytes, whichever files they are of.
    let run = |from: u64, to: u64| {
        let path = format!("/transfers/{id}/bytes/{from}?length={}", to - from);
        let rig = &rig;
        async move { rig.get(&path).await }
    };
    let all = files.concat();
    assert!(run(5, start[2]).await.body == all[5..start[2] as usize]);
    assert!(run(start[3] + 1, start[4] + 9).await.body == all[start[3] as usize + 1..start[4] as usize + 9]);
    refused(&run(start[1], start[2] + 1).await, "c", 0);
    refused(&run(0, all.len() as u64).await, "c", 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zip_is_cut_before_what_is_damaged() {
    let large = content(2, 2 * BLOCK_SIZE + 9);
    let files = [("a", content(1, 1000)), ("large", large), ("z", content(3, BLOCK_SIZE - 10))];
    // What is damaged, and how much of the file comes before that.
    let places =
        [(0, 0), (BLOCK_SIZE + 5, 0), (2 * BLOCK_SIZE, BLOCK_SIZE), (4 * BLOCK_SIZE + 9, 2 * BLOCK_SIZE)];
    for (address, least) in places {
        for crcs_are_known in [false, true] {
            let rig = Rig::new().await;
            let id = rig.sent(&files).await;
            let path = format!("/transfers/{id}/zip");
            let intact = crcs_are_known.then_some(rig.get(&path).await.body);
            damage(&rig, address);
            let (came, whole) = download(&rig, &path, None).await;
            assert!(!whole, "damaged at {address}");
            assert!((least..least + 2 * BLOCK_SIZE).contains(&(came.len() as u64)), "{}", came.len());
            if let Some(intact) = intact {
                assert!(came == intact[..came.len()]);
                // The directory at the end needs no bytes but checksums, which are those of what was sent.
                let tail = ranged(&rig, &path, "bytes=-100").await;
                assert!(tail.body == intact[intact.len() - 100..]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_of_an_entry_that_failed_need_not_be_what_was_sent() {
    let rig = Rig::new().await;
    let id = rig.new_transfer(&rig.token).await;
    rig.append(&id, 0, vec![file("a", 100), file("failed", 100), file("b", 100)]).await;
    let bytes = content(1, 300);
    rig.put(&id, 0, &bytes, &[]).await.expect(200);
    let failures = json!({ "failures": [{ "entry": 1, "cause": "changed", "detail": "" }] });
    rig.post(&format!("/transfers/{id}/failures"), failures).await.expect(200);
    rig.post(&format!("/transfers/{id}/finish"), json!({})).await.expect(200);
    damage(&rig, 150);
    assert!(rig.get(&format!("/transfers/{id}/files/0")).await.body == bytes[..100]);
    assert!(rig.get(&format!("/transfers/{id}/files/2")).await.body == bytes[200..]);
    // Bytes of it are given to nobody, and its neighbours' without it.
    for (address, length) in [(0, 300), (0, 101), (150, 1), (199, 2)] {
        let path = format!("/transfers/{id}/bytes/{address}?length={length}");
        rig.get(&path).await.refused(416, "range_not_satisfiable");
    }
    for (address, length) in [(0, 100), (200, 100)] {
        assert_eq!(rig.get(&format!("/transfers/{id}/bytes/{address}?length={length}")).await.status, 200);
    }
    assert!(download(&rig, &format!("/transfers/{id}/zip"), None).await.1);
    damage(&rig, 250);
    refused(&rig.get(&format!("/transfers/{id}/files/2")).await, "b", 0);
    assert!(!download(&rig, &format!("/transfers/{id}/zip"), None).await.1);
}
