//! What the lab measures on this machine alone, without paths.

use crate::rig::{PATIENCE, Ran, send_signal, spawn, terahaul};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

fn lab(home: &Path, arguments: &[&str]) -> Ran {
    let mut command = terahaul(home);
    command.arg("lab").args(arguments);
    Ran::of_child(spawn(command))
}

#[test]
fn limits_are_measured_for_people_and_scripts() {
    let home = tempfile::tempdir().unwrap();
    let ran = lab(home.path(), &["limits", "--dir", ".", "--time", "1ms", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let done = ran.event("done");
    assert!(done["machine"]["cores"].as_u64().unwrap() > 0);
    let limits = done["limits"].as_array().unwrap();
    assert_eq!(limits.len(), ran.events_named("measured").len());
    assert!(limits.iter().any(|limit| limit["part"] == "write-synced" && limit["folder"] == "."));
    let ran = lab(home.path(), &["limits", "--dir", "missing", "--time", "1ms"]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("missing"), "{}", ran.stderr);
}

#[test]
fn ciphers_are_measured() {
    let home = tempfile::tempdir().unwrap();
    let ran = lab(home.path(), &["ciphers", "--time", "1ms"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in ["AES-128-GCM", "ChaCha20-Poly1305", "BLAKE3", "MD5"] {
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
    }
}

#[test]
fn a_small_terabyte_arrives_and_is_what_was_sent() {
    let home = tempfile::tempdir().unwrap();
    // The second is smaller than a block, which is another way through the engine.
    for size in ["21000001B", "5kB"] {
        let ran = lab(home.path(), &["terabyte", "--size", size]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("3 h 19 min"), "{}", ran.stdout);
    }
}

#[test]
fn an_interrupted_terabyte_goes_on_and_ends_with_the_same_root() {
    let home = tempfile::tempdir().unwrap();
    let flags = ["terabyte", "--size", "1500MB", "--state", "state", "--json"];
    let mut command = terahaul(home.path());
    command.arg("lab").args(flags).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let deadline = Instant::now() + PATIENCE;
    let moved = lines.by_ref().map_while(Result::ok).find(|line| {
        assert!(Instant::now() < deadline);
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["event"] == "progress" && event["done_bytes"].as_u64().unwrap() > 0 || event["event"] == "done"
    });
    assert!(moved.is_some());
    send_signal(child.id(), "INT");
    lines.for_each(drop);
    // A machine that is very fast may be done already; then there was nothing to go on with.
    let code = child.wait().unwrap().code();
    assert!(code == Some(130) || code == Some(0), "{code:?}");
    let other = lab(home.path(), &["terabyte", "--size", "2GB", "--state", "state"]);
    assert_eq!(other.code, 2, "another size is another job: {}", other.stdout);
    let ran = lab(home.path(), &flags);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let whole = lab(home.path(), &["terabyte", "--size", "1500MB", "--json"]);
    let root = |ran: &Ran| ran.event("done")["record"]["root"].clone();
    assert!(root(&ran).is_string());
    assert_eq!(root(&ran), root(&whole));
}

/// Those that are published beside this program, too, whichever version has measured them.
#[test]
fn reports_are_made_again_from_results() {
    let home = tempfile::tempdir().unwrap();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/copies/batch/results.json");
    std::fs::create_dir(home.path().join("batch")).unwrap();
    std::fs::copy(results, home.path().join("batch/results.json")).unwrap();
    let done = lab(home.path(), &["report", "batch", "--json"]).event("done");
    for (kind, begins) in [("markdown", "# "), ("html", "<!doctype html>")] {
        let path = done[kind].as_str().unwrap();
        assert!(path.starts_with("batch/report."), "{done}");
        let report = std::fs::read_to_string(home.path().join(path)).unwrap();
        assert!(report.to_lowercase().starts_with(begins), "{report:.80}");
    }
    let ran = lab(home.path(), &["report", "nowhere"]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
}

#[test]
fn a_dry_run_says_how_long_it_can_take_and_notices_a_congestion_control_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let compare = "compare --path lan --work file:1MB --with scp,terahaul --runs 1 --cut-after 10 --dry-run";
    let compare: Vec<&str> = compare.split(' ').collect();
    let ran = lab(home.path(), &compare);
    assert!(ran.code == 0 && ran.stdout.contains("8 runs at most"), "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("none longer than 10 s, so 1 min 20 s at most"), "{}", ran.stdout);
    let ran = lab(home.path(), &[&compare[..], &["--cc", "nosuch"]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("'nosuch'"), "{} {}", ran.code, ran.stderr);
}

#[test]
fn a_folder_for_results_may_have_any_name() {
    let home = tempfile::tempdir().unwrap();
    let mut command = terahaul(home.path());
    command.args([
        "lab",
        "compare",
        "--path",
        "filesender-100ms",
        "--work",
        "file:1MB",
        "--with",
        "terahaul",
    ]);
    command.args(["--dry-run", "--out"]).arg(OsStr::from_bytes(b"r\xff"));
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
