//! Certificates and tokens that end in the middle of a transfer.

use std::process::Child;

use crate::rig::{Depot, Ran, assert_same, spawn, write_random};

fn token(depot: &Depot, label: &str) -> (String, String) {
    let made = depot.run(&["token", "create", "--label", label, "--scope", "send", "--json"]).event("done");
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

fn run_as(depot: &Depot, token: &str, args: &[&str]) -> Ran {
    let mut command = depot.command(args);
    command.env("TERAHAUL_TOKEN", token);
    Ran::of(command)
}

fn slow_send(depot: &Depot, token: &str) -> Child {
    write_random(&depot.path("src/a.bin"), 40 << 20, 1);
    let mut command = depot.command(&["send", "src", "--limit", "4MB"]);
    command.env("TERAHAUL_TOKEN", token);
    let sender = spawn(command);
    depot.wait_for_durable(2 << 20);
    sender
}

#[test]
fn a_depot_with_a_new_certificate_is_not_trusted_until_the_user_says_so() {
    let mut depot = Depot::start();
    let sender = slow_send(&depot, &depot.token);
    depot.signal("KILL");
    depot.wait();
    let keys = depot.path("depot/keys");
    let is_certificate = |name: &str| name.contains("cert") || name.contains("tls");
    let mut removed = 0;
    for entry in std::fs::read_dir(&keys).unwrap() {
        let path = entry.unwrap().path();
        if is_certificate(path.file_name().unwrap().to_str().unwrap()) {
            std::fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    assert!(removed > 0, "where is the certificate?");
    let old = depot.url.clone();
    depot.restart();
    assert_ne!(old, depot.url);
    let ran = Ran::of_child(sender);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("another certificate than the one that its address or link pins"),
        "{}",
        ran.stderr
    );
    let ran = depot.run(&["send", "src", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.event("start")["resumed"], true);
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_token_that_is_revoked_half_way_ends_the_send_and_says_why() {
    let depot = Depot::start();
    let (id, text) = token(&depot, "leaves");
    let sender = slow_send(&depot, &text);
    assert_eq!(depot.run(&["token", "revoke", &id]).code, 0);
    let ran = Ran::of_child(sender);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("the token was revoked: ask"), "{}", ran.stderr);
    assert!(depot.only_transfer()["state"] == "open", "what arrived is kept for its owner to decide");
    let (_, other) = token(&depot, "stays");
    let ran = run_as(&depot, &other, &["send", "src"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(depot.run(&["receive", ran.last_line(), "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn another_users_transfer_does_not_exist() {
    let depot = Depot::start();
    let ((_, mine), (_, theirs)) = (token(&depot, "mine"), token(&depot, "theirs"));
    write_random(&depot.path("src/a"), 1000, 1);
    assert_eq!(run_as(&depot, &mine, &["send", "src"]).code, 0);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    assert!(run_as(&depot, &theirs, &["list", "--json"]).events_named("transfer").is_empty());
    for args in [["info", &id], ["remove", &id]] {
        let ran = run_as(&depot, &theirs, &args);
        assert_eq!(ran.code, 5, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("no such transfer"), "{}", ran.stderr);
    }
    let ran = run_as(&depot, &theirs, &["send", "src"]);
    assert_eq!(ran.code, 0, "the same command of another user is a transfer of its own: {}", ran.stderr);
    assert_eq!(depot.run(&["list", "--json"]).events().len(), 2);
    assert_eq!(run_as(&depot, &mine, &["info", &id]).code, 0);
}
