//! A disk that something else has filled to the last byte. It is a small file system of its own, so a machine on which the test may not
//! mount any skips it, and says so.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;
use terahaul_core::BLOCK_SIZE;

use crate::rig::{Rig, content, objects};

/// A file system in memory, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    /// `None` where this test may not mount.
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(&at).output();
        let mounted = mounted.is_ok_and(|ran| ran.status.success());
        if !mounted {
            eprintln!("SKIPPED: mounting a small file system needs root");
        }
        mounted.then_some(Self(at))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Until nothing more fits.
    fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).unwrap();
        assert!(std::io::copy(&mut std::io::repeat(1), &mut filler).is_err());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: what a failed test leaves running may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A depot whose data is on a small file system.
async fn cramped() -> Option<(Rig, Small)> {
    let folder = tempfile::tempdir().unwrap();
    let disk = Small::mount(folder.path().join("data"))?;
    Some((Rig::with_data(folder, &disk.0, |_| {}).await, disk))
}

fn stored(disk: &Small) -> usize {
    objects(&disk.0, "incoming") + objects(&disk.0, "published")
}

/// Whether the write-ahead log has to grow for the next row. One that was as long before takes more without, which hides what is tested.
fn is_small(disk: &Path) -> bool {
    fs::metadata(disk.join("depot.db-wal")).unwrap().len() < 4 << 20
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_can_be_removed_from_a_full_disk_and_makes_room_there() {
    let Some((rig, disk)) = cramped().await else { return };
    let removed = rig.sent(&[("a", content(1, 2 * BLOCK_SIZE))]).await;
    let other = rig.sent(&[("b", content(2, 10))]).await;
    disk.fill();
    assert!(is_small(&disk.0));
    rig.delete(&format!("/transfers/{removed}")).await.expect(204);
    rig.get(&format!("/transfers/{removed}")).await.refused(404, "not_found");
    assert_eq!(stored(&disk), 1);
    let rig = rig.restart().await;
    let listed = rig.get("/transfers").await.expect(200);
    assert_eq!(
        (listed["transfers"].as_array().unwrap().len(), &listed["transfers"][0]["id"]),
        (1, &json!(other))
    );
    rig.new_transfer(&rig.token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expires_on_a_full_disk_is_swept_and_makes_room_there() {
    let Some((rig, disk)) = cramped().await else { return };
    rig.sent(&[("a", content(1, 2 * BLOCK_SIZE))]).await;
    disk.fill();
    assert!(is_small(&disk.0));
    rig.pass(31 * 86_400);
    rig.depot.sweep().await.unwrap();
    assert_eq!(stored(&disk), 0);
    rig.new_transfer(&rig.token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_locks_nobody_out() {
    let Some((rig, disk)) = cramped().await else { return };
    let receive = rig.new_token(&["receive"], None).await;
    let bytes = content(1, 1000);
    let id = rig.sent(&[("a", bytes.clone())]).await;
    disk.fill();
    rig.pass(3600);
    let read = rig.call_as(&receive, Method::GET, &format!("/transfers/{id}/files/0"), None).await;
    assert!(read.body == bytes, "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_signs_in_and_removes_something_while_the_disk_is_full() {
    let Some((rig, disk)) = cramped().await else { return };
    let id = rig.sent(&[("a", content(1, 2 * BLOCK_SIZE))]).await;
    disk.fill();
    assert!(is_small(&disk.0));
    let code = rig.depot.sign_in_code().unwrap();
    let opened = rig.call_as("", Method::POST, "/session", Some(json!({ "code": code }))).await;
    opened.expect(200);
    let cookie = opened.header("set-cookie").split(';').next().unwrap();
    for (method, path, status) in [
        (Method::GET, "/session".to_owned(), 200),
        (Method::DELETE, format!("/transfers/{id}"), 204),
        (Method::DELETE, "/session".to_owned(), 204),
        (Method::GET, "/session".to_owned(), 401),
    ] {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header("cookie", cookie).header("terahaul-csrf", "1");
        rig.request(request.body(Body::empty()).unwrap()).await.expect(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zip_is_downloaded_whole_from_a_full_disk() {
    let Some((rig, disk)) = cramped().await else { return };
    let files =
        [("a", content(1, 2 * BLOCK_SIZE + 7)), ("b", content(2, 1000)), ("c", content(3, BLOCK_SIZE))];
    let id = rig.sent(&files).await;
    disk.fill();
    let path = format!("/transfers/{id}/zip");
    let full = rig.get(&path).await;
    // From the middle of a file on, so that its first block is read for the checksum alone.
    let end = rig.get_with(&path, &[("range", &format!("bytes={}-", BLOCK_SIZE + 100))]).await;
    fs::remove_file(disk.filler()).unwrap();
    let whole = rig.get(&path).await;
    assert_eq!(whole.status, 200);
    assert!(full.body == whole.body && end.body == whole.body[BLOCK_SIZE as usize + 100..]);
}

/// The disk is filled again in the moment in which the data is gone, and the depot stopped there.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_whose_removal_was_stopped_half_way_is_damaged_and_not_complete() {
    let rig = Rig::new().await;
    let id = rig.sent(&[("a", content(1, 10))]).await;
    let open = rig.new_transfer(&rig.token).await;
    let store = rig.folder.path().join("store");
    fs::remove_file(store.join(format!("published/{id}.data"))).unwrap();
    fs::remove_file(store.join(format!("incoming/{open}.data"))).unwrap();
    let rig = rig.restart().await;
    for id in [&id, &open] {
        rig.post(&format!("/transfers/{id}/finish"), json!({})).await.refused(500, "damaged");
    }
    rig.get(&format!("/transfers/{id}/files/0")).await.refused(500, "damaged");
    for id in [&id, &open] {
        rig.delete(&format!("/transfers/{id}")).await.expect(204);
    }
    assert_eq!(rig.get("/transfers").await.expect(200)["transfers"], json!([]));
}
