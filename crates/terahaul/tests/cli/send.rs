use crate::rig::{Depot, assert_same, spawn, write_random, write_tree};

#[test]
fn a_tree_arrives_as_it_was_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn the_link_is_the_last_line_and_the_only_one_when_quiet() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let ran = depot.run(&["send", "src", "--quiet"]);
    assert_eq!(ran.stdout.lines().count(), 1);
    assert!(ran.last_line().starts_with("https://") && ran.last_line().contains("#thl_"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_folder_with_a_slash_stands_for_what_is_in_it() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src/"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst"));
}

#[test]
fn only_what_the_globs_leave_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src", "--include", "sub/", "--exclude", "4?.bin"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert!(depot.path("dst/src/sub/many/9.bin").exists() && depot.path("dst/src/sub/exact.bin").exists());
    assert!(!depot.path("dst/src/large.bin").exists() && !depot.path("dst/src/sub/many/41.bin").exists());
}

#[test]
fn what_is_compressed_on_the_way_arrives_as_it_was_and_is_proven() {
    let depot = Depot::start();
    let text = "one of many lines that are alike\n".repeat(200_000);
    std::fs::write(depot.path("log.txt"), &text).unwrap();
    let moved = |args: &[&str]| {
        let ran = depot.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let done = ran.event("done");
        assert_eq!(done["files_compared"], 1);
        (done["moved_bytes"].as_u64().unwrap(), done["link"].as_str().unwrap_or_default().to_owned())
    };
    let (sent, link) = moved(&["send", "-z", "yes", "log.txt"]);
    assert!(sent < text.len() as u64 / 4, "{sent}");
    let (received, _) = moved(&["receive", "-z1", &link, "packed"]);
    assert!(received < text.len() as u64 / 4, "{received}");
    let (received, _) = moved(&["receive", "-z", "no", &link, "plain"]);
    assert_eq!(received, text.len() as u64);
    for folder in ["packed", "plain"] {
        assert!(std::fs::read(depot.path(folder).join("log.txt")).unwrap() == text.as_bytes());
    }
}

#[test]
fn a_dry_run_sends_nothing_and_lists_everything() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let ran = depot.run(&["send", "src", "--dry-run", "--json"]);
    assert_eq!(ran.code, 0);
    let entries = ran.events_named("entry");
    assert_eq!(entries.len(), 1 + 50 + 8);
    assert!(entries.iter().all(|entry| entry["present"] == false));
    assert_eq!(ran.event("done")["present_bytes"], 0);
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
    let mut without = crate::rig::terahaul(depot.home.path());
    without.args(["send", "src", "--dry-run"]);
    let ran = crate::rig::Ran::of(without);
    assert_eq!(ran.code, 0, "a dry run needs no depot: {}", ran.stderr);
}

#[test]
fn of_two_sends_of_the_same_files_the_later_one_goes_on_and_the_earlier_one_says_so() {
    for transport in ["tcp", "udp"] {
        let depot = Depot::start();
        write_random(&depot.path("src/a.bin"), 60_000_000, 1);
        let send = ["send", "src", "--json", "--transport", transport];
        let mut slow = depot.command(&send);
        slow.args(["--limit", "10MB"]);
        let earlier = spawn(slow);
        depot.wait_for_durable(8_000_000);
        let later = depot.run(&send);
        assert_eq!(later.code, 0, "{}{}", later.stdout, later.stderr);
        let earlier = crate::rig::Ran::of_child(earlier);
        assert_ne!(earlier.code, 0, "{}", earlier.stdout);
        assert!(earlier.stdout.contains("has taken this transfer over"), "{}", earlier.stdout);
        let transfer = depot.only_transfer();
        assert_eq!((&transfer["state"], &transfer["bytes"]), (&"complete".into(), &60_000_000.into()));
    }
}

#[test]
fn a_killed_sender_resumes_and_sends_only_what_is_not_there() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    write_tree(&depot.path("src/tree"));
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "20MB"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let dry = depot.run(&["send", "src", "--dry-run", "--json"]).event("done");
    let total = dry["bytes"].as_u64().unwrap();
    let foretold = dry["present_bytes"].as_u64().unwrap();
    assert!(
        (8 << 20..total).contains(&foretold),
        "{foretold}: a part of a file that is there need not go again"
    );
    let durable = depot.only_transfer()["durable_bytes"].as_u64().unwrap();
    let ran = depot.run(&["send", "src", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.event("start")["resumed"], true);
    let moved = ran.event("done")["moved_bytes"].as_u64().unwrap();
    assert!(moved <= total - durable, "{moved} bytes were sent, {durable} of {total} were durable");
    assert_eq!(depot.only_transfer()["state"], "complete");
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_sender_outlives_a_depot_that_crashes() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "25MB", "--json"]));
    depot.wait_for_durable(8 << 20);
    depot.crash_and_restart();
    let ran = crate::rig::Ran::of_child(sender);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn what_changed_vanished_or_came_since_the_interruption_is_named() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    for name in ["changes", "stays", "vanishes"] {
        std::fs::write(depot.path("src").join(name), name).unwrap();
    }
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "20MB"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    std::fs::write(depot.path("src/changes"), "something else").unwrap();
    std::fs::remove_file(depot.path("src/vanishes")).unwrap();
    std::fs::write(depot.path("src/new"), "new").unwrap();
    let ran = depot.run(&["send", "src"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("src/vanishes vanished"), "{}", ran.stderr);
    assert!(ran.stderr.contains("src/changes changed since the interrupted run"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("src/stays"), "{}", ran.stderr);
    let link = ran.last_line().to_owned();
    let received = depot.run(&["receive", &link, "dst"]);
    assert!(received.stderr.contains("src/vanishes was not sent"), "{}", received.stderr);
    assert!(!received.stderr.contains("src/changes"), "its newer version arrived: {}", received.stderr);
    let shown = depot.run(&["info", &link, "--json"]);
    let failures = shown.events_named("failure");
    assert_eq!(failures.len(), 1, "of what arrived in the end nothing failed: {}", shown.stdout);
    assert_eq!(failures[0]["path"], "src/vanishes");
    let foretold = depot.run(&["receive", &link, "elsewhere", "--dry-run"]);
    assert_eq!(foretold.code, received.code);
    assert!(foretold.stderr.contains("src/vanishes was not sent"), "{}", foretold.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_file_that_cannot_be_sent_fails_alone_and_a_later_run_completes() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let made = std::process::Command::new("mkfifo").arg(depot.path("src/pipe")).status().unwrap();
    assert!(made.success());
    let ran = depot.run(&["send", "src", "--json"]);
    assert_eq!(ran.code, 7);
    let failure = ran.event("failure");
    assert_eq!(
        (failure["path"].as_str(), failure["cause"].as_str()),
        (Some("src/pipe"), Some("unsupported"))
    );
    assert_eq!(ran.event("done")["failed"], 1);
    std::fs::remove_file(depot.path("src/pipe")).unwrap();
    assert_eq!(depot.run(&["send", "src"]).code, 0);
}

#[test]
fn a_receipt_that_cannot_be_kept_is_refused_before_anything_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    for place in ["no/such/folder/r.json", "src"] {
        let ran = depot.run(&["send", "src", "--receipt", place]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
    }
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
}
