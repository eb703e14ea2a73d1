use std::os::unix::fs::PermissionsExt;

use crate::rig::{Depot, Ran, terahaul, write_tree};

#[test]
fn a_tokens_scopes_are_kept_and_it_ends_when_revoked() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let created =
        depot.run(&["token", "create", "--label", "microscope", "--scope", "send", "--quota", "1GB"]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    let token = created.last_line().to_owned();
    let as_token = |args: &[&str]| {
        let mut command = depot.command(args);
        command.env("TERAHAUL_TOKEN", &token);
        Ran::of(command)
    };
    assert_eq!(as_token(&["send", "src"]).code, 0);
    assert_eq!(as_token(&["token", "list"]).code, 4, "its scope is to send");
    let listed = depot.run(&["token", "list", "--json"]).events();
    let info = listed.iter().find(|token| token["label"] == "microscope").unwrap();
    assert_eq!(info["scopes"], serde_json::json!(["send"]));
    assert_eq!(info["quota_bytes"], 1_000_000_000);
    assert!(!depot.run(&["token", "list"]).stdout.contains(&token), "a token is shown once");
    let revoked = depot.run(&["token", "revoke", "unknown", info["id"].as_str().unwrap()]);
    assert_eq!(revoked.code, 5, "one of the two is unknown: {}", revoked.stderr);
    assert_eq!(as_token(&["send", "src"]).code, 4, "and the other is revoked all the same");
}

#[test]
fn transfers_are_listed_shown_and_removed() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src", "--name", "run 42 \u{e9}", "--expire-days", "3"]);
    assert!(depot.run(&["list"]).stdout.contains("run 42 \u{e9}"));
    let transfer = depot.only_transfer();
    assert_eq!(transfer["state"], "complete");
    assert_eq!(transfer["expires"].as_i64().unwrap() - transfer["created"].as_i64().unwrap(), 3 * 86_400);
    let info = depot.run(&["info", &link, "--json"]);
    let file = info.events().into_iter().find(|event| event["path"] == "src/large.bin").unwrap();
    let hash = blake3::hash(&std::fs::read(depot.path("src/large.bin")).unwrap());
    assert_eq!(file["blake3"], hash.to_hex().as_str());
    let id = transfer["id"].as_str().unwrap();
    assert_eq!(depot.run(&["remove", id, "--dry-run"]).code, 0);
    assert_eq!(depot.only_transfer()["id"], id);
    assert_eq!(depot.run(&["remove", id]).code, 0);
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
}

#[test]
fn a_login_is_stored_privately_and_replaces_the_settings() {
    let depot = Depot::start();
    let command = |args: &[&str]| {
        let mut command = terahaul(depot.home.path());
        command.args(args);
        command
    };
    let wrong = format!("tht_{}", "b".repeat(43));
    let refused = Ran::with_input(command(&["login", &depot.url]), &format!("{wrong}\n"));
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    let path = depot.path("config/terahaul/login.json");
    assert!(!path.exists(), "only a token that works is stored");
    let ran = Ran::with_input(command(&["login", &depot.url]), &format!("{}\n", depot.token));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains(&depot.token) && !ran.stderr.contains(&depot.token));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listed = Ran::of(command(&["token", "list"]));
    assert_eq!(listed.code, 0, "{}", listed.stderr);
}
