use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Stdio;

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
    let extended =
        depot.run(&["token", "extend", info["id"].as_str().unwrap(), "--expire-days", "2", "--json"]);
    assert_eq!(extended.code, 0, "{}", extended.stdout);
    let listed = depot.run(&["token", "list", "--json"]).events();
    let now = listed.iter().find(|token| token["id"] == info["id"]).unwrap();
    assert_eq!(
        (now["expires"].clone(), info["expires"].is_null()),
        (extended.event("done")["expires"].clone(), true)
    );
    let revoked = depot.run(&["token", "revoke", "unknown", info["id"].as_str().unwrap()]);
    assert_eq!(revoked.code, 5, "one of the two is unknown: {}", revoked.stderr);
    assert!(revoked.stderr.contains("1 of 2 failed: unknown"), "{}", revoked.stderr);
    assert_eq!(revoked.stderr.matches("there is no such").count(), 1, "why is said once: {}", revoked.stderr);
    assert_eq!(as_token(&["send", "src"]).code, 4, "and the other is revoked all the same");
}

#[test]
fn of_several_that_are_removed_each_that_fails_is_named() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    let [unknown, other] = ["a".repeat(26), "e".repeat(26)];
    let ran = depot.run(&["remove", &unknown, &other, &id, "--json", "--quiet"]);
    assert_eq!(ran.code, 5, "{}", ran.stdout);
    let named: Vec<_> = ran.events_named("failure").iter().map(|failure| failure["path"].clone()).collect();
    assert_eq!(named, [unknown.as_str(), &other]);
    assert!(ran.event("error")["message"].as_str().unwrap().contains(&unknown), "{}", ran.stdout);
    assert_eq!(ran.event("done")["transfer"], id.as_str(), "and the last one is removed all the same");
    // One that is no identifier, or a link with its secret, keeps the others no more than one that is unknown.
    let link = depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    for command in [&["extend", "--expire-days", "9"][..], &["remove"]] {
        let ran = depot.run(&[command, &["zzz", &link, &id, "--json"]].concat());
        assert_eq!(ran.code, 2, "{command:?}: {}", ran.stdout);
        let secret = link.split_once("#thl_").unwrap().1;
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{}", ran.stdout);
        let named: Vec<_> =
            ran.events_named("failure").iter().map(|failure| failure["path"].clone()).collect();
        assert_eq!(named, ["zzz", "a link"]);
        assert_eq!(ran.event("done")["transfer"], id.as_str(), "{command:?}: {}", ran.stdout);
    }
    // What a token may not do with one, it may with the next.
    let reader = depot.run(&["token", "create", "--label", "reader", "--scope", "receive"]);
    depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    let mut command = depot.command(&["remove", &id, &unknown, "--json"]);
    command.env("TERAHAUL_TOKEN", reader.last_line());
    let ran = Ran::of(command);
    assert_eq!((ran.code, ran.events_named("failure").len()), (4, 2), "{}", ran.stdout);
    let nothing = depot.run(&["list", "--max", "0"]);
    assert_eq!((nothing.code, nothing.stderr.as_str()), (0, ""), "nothing is said of what was not asked");
}

#[test]
fn transfers_are_listed_shown_and_removed() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src", "--name", "run 42 \u{e9}", "--expire-days", "3"]);
    let listed = depot.run(&["list"]).stdout;
    let [head, line] = listed.lines().collect::<Vec<_>>()[..] else { panic!("{listed}") };
    assert!(head.ends_with("  SENDER            NAME"), "the owner sees who sends: {listed}");
    assert!(line.ends_with("  owner             run 42 \u{e9}"), "{listed}");
    let transfer = depot.only_transfer();
    assert_eq!(transfer["state"], "complete");
    let kept = transfer["expires"].as_i64().unwrap() - transfer["completed"].as_i64().unwrap();
    assert!((3 * 86_400 - 1..=3 * 86_400 + 1).contains(&kept), "from its finish on: {kept}");
    let info = depot.run(&["info", &link, "--json"]);
    let file = info.events().into_iter().find(|event| event["path"] == "src/large.bin").unwrap();
    let hash = blake3::hash(&std::fs::read(depot.path("src/large.bin")).unwrap());
    assert_eq!(file["blake3"], hash.to_hex().as_str());
    let id = transfer["id"].as_str().unwrap();
    let shown = depot.run(&["info", id, "--summary", "--receipt", "kept.json"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains(&link), "whoever lost the link finds it: {}", shown.stdout);
    assert!(depot.run(&["info", id, "-q"]).stdout.contains(&link), "it is no chatter");
    assert_eq!(depot.run(&["verify", "kept.json", "."]).code, 0);
    assert_eq!(depot.run(&["extend", id, "--expire-days", "90"]).code, 0);
    let extended = depot.only_transfer()["expires"].as_i64().unwrap() - transfer["expires"].as_i64().unwrap();
    assert!((87 * 86_400..88 * 86_400).contains(&extended), "from now: {extended}");
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

/// Whoever sat before the question was told to pipe something in.
#[test]
fn a_question_that_is_not_answered_says_so() {
    let home = tempfile::tempdir().unwrap();
    let line = format!("{} login https://127.0.0.1:1", env!("CARGO_BIN_EXE_terahaul"));
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").env("HOME", home.path());
    let ran = Ran::with_input(command, "\n");
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    assert!(ran.stdout.contains("no token was given") && !ran.stdout.contains("stdin"), "{}", ran.stdout);
}

/// Writes a login as it is kept, whatever modes others get here.
fn store(path: &Path, text: &str) {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Files went to the depot of whoever had made the folder first. What root is told to take from another's home is that user's.
#[test]
fn a_login_is_taken_from_whoever_has_the_settings_only() {
    let depot = Depot::start();
    let login = serde_json::json!({ "depots": [{ "url": depot.url, "token": depot.token }] });
    let [config, folder, stored] =
        ["config", "config/terahaul", "config/terahaul/login.json"].map(|name| depot.path(name));
    store(&stored, &login.to_string());
    let list = || {
        let mut command = terahaul(depot.home.path());
        command.arg("list");
        Ran::of(command)
    };
    assert_eq!(list().code, 0);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let ran = list();
    assert!(ran.code == 2 && ran.stderr.contains("chmod go-w"), "{}", ran.stderr);
    assert_eq!(depot.run(&["list"]).code, 0, "who has all settings in the environment needs no login");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for place in [&stored, &folder] {
        chown(place, Some(12345), None).unwrap();
        let ran = list();
        assert!(ran.code == 2 && ran.stderr.contains("belongs to user 12345"), "{}", ran.stderr);
    }
    chown(&config, Some(12345), None).unwrap();
    assert_eq!(list().code, 0);
}

/// Every command that looks for a login waited for somebody to write into it, and did not hear Ctrl-C.
#[test]
fn a_pipe_in_the_place_of_a_login_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let stored = home.path().join("config/terahaul/login.json");
    store(&stored, "");
    std::fs::remove_file(&stored).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &stored, rustix::fs::Mode::RUSR).unwrap();
    for arguments in [&["list"][..], &["login", "https://127.0.0.1:1"]] {
        let mut command = terahaul(home.path());
        command.args(arguments);
        let ran = Ran::of(command);
        assert!(ran.code == 2 && ran.stderr.contains("no regular file"), "{}", ran.stderr);
    }
}

#[test]
fn a_login_that_cannot_be_read_is_in_the_way_of_those_only_who_need_it() {
    let depot = Depot::start();
    let stored = depot.path("config/terahaul/login.json");
    store(&stored, "damaged");
    assert_eq!(depot.run(&["list"]).code, 0);
    let list = |home: &str| {
        let mut command = terahaul(depot.home.path());
        command.env("HOME", home).env_remove("XDG_CONFIG_HOME").arg("list");
        command
    };
    let mut without = terahaul(depot.home.path());
    without.arg("list");
    let ran = Ran::of(without);
    assert!(ran.code == 2 && ran.stderr.contains("remove the file"), "{}", ran.stderr);
    let nowhere = Ran::of(list("/dev/null"));
    assert!(nowhere.code == 2 && nowhere.stderr.contains("no depot is set"), "{}", nowhere.stderr);
}

#[test]
fn two_logins_at_once_are_both_stored() {
    let (depot, other) = (Depot::start(), Depot::start());
    let login = |url: &str| {
        let mut command = terahaul(depot.home.path());
        command.args(["login", url]);
        command
    };
    let mut waits = login(&other.url);
    waits.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waits = waits.spawn().unwrap();
    assert_eq!(Ran::with_input(login(&depot.url), &depot.token).code, 0);
    waits.stdin.take().unwrap().write_all(other.token.as_bytes()).unwrap();
    assert_eq!(Ran::of_child(waits).code, 0);
    for url in [&depot.url, &other.url] {
        let mut command = terahaul(depot.home.path());
        command.args(["list", "--to", url]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
}

#[test]
fn no_error_repeats_a_token_or_a_links_secret() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let (token, link) = (depot.token.as_str(), depot.send(&["x"]));
    let secret = link.split(['#', '&']).nth(1).unwrap();
    let (of_token, of_link) = (["tht_…", "TERAHAUL_TOKEN"], ["thl_…", "'terahaul receive'"]);
    for (words, said) in [
        (&["login", "https://h:1", token][..], of_token),
        (&["list", token], of_token),
        (&["extend", token, "--expire-days", "3"], of_token),
        (&["extend", token, token, "--expire-days", "3"], ["tht_…", "2 of 2 failed"]),
        (&["send", "x", "--limit", token], of_token),
        (&["send", &link], of_link),
        (&["send", "x", "--receipt", &link], of_link),
        (&["serve", "--url", &link], of_link),
    ] {
        for more in [&[][..], &["--json"]] {
            let ran = depot.run(&[words, more].concat());
            let told = format!("{}{}", ran.stdout, ran.stderr);
            assert!(ran.code != 0 && said.iter().all(|said| told.contains(said)), "{words:?}: {told}");
            assert!(!told.contains(token) && !told.contains(secret), "{words:?}: {told}");
        }
    }
}
