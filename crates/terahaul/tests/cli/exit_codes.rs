//! Each number that docs/cli.md lists, but for those that other modules show.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::rig::{Depot, Ran, terahaul, terahaul_through, wait_until, write_random};

#[test]
fn mistakes_on_the_command_line_are_2() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["send"][..],
        &["no-such-command"],
        &["send", "x", "--limit", "100"],
        &["send", "x", "--channels", "0"],
        &["receive", "https://example.org/"],
        &["serve", "--tls-cert", "x"],
        &["token", "create", "--label", "x"],
        &["list"],
    ] {
        let mut command = terahaul(home.path());
        command.args(args);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

/// Of a negative number it was said that it could be passed behind '--', as which it would name a file.
#[test]
fn what_is_mistyped_is_told_what_it_could_be() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("x"), "x").unwrap();
    for (line, said) in [
        ("send x --limit -1", "unit"),
        ("cp x y --limit -1", "unit"),
        ("send x --channels -1", "from 1 to 64"),
        ("send x --expire-days -1", "of days from 1 to 3650"),
        ("extend x --expire-days 0", "of days from 1 to 3650"),
        ("cp a b --delete --max-delete -1", "of files and folders, 0 or more"),
        ("cp a b --delete --max-delete x", "of files and folders, 0 or more"),
        ("cp a b --modify-window x", "of seconds from 0 to 86400"),
        ("list --max x", "of transfers, 0 or more"),
        ("cp -P 99999 a b:", "from 1 to 65535"),
        ("cp -P a b:", "followed by ssh's port"),
        ("cp a b --exclude /", "there is no name in it"),
        ("send x --receipt nodir/x", "there is no folder nodir: make it"),
    ] {
        let mut command = terahaul(home.path());
        command
            .args(line.split(' '))
            .env("TERAHAUL_TOKEN", "tht_x")
            .env("TERAHAUL_URL", "https://127.0.0.1:1");
        let ran = Ran::of(command);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains(said) && !ran.stderr.contains("-- -1"), "{line}: {}", ran.stderr);
    }
}

#[test]
fn a_report_of_no_results_is_told_what_to_look_at() {
    let home = tempfile::tempdir().unwrap();
    let mut command = terahaul(home.path());
    command.args(["lab", "report", "nodir"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("nodir") && !ran.stderr.contains("free space"), "{}", ran.stderr);
}

/// A script would take a mistyped command for files that have changed.
#[test]
fn what_is_no_receipt_is_2_and_a_damaged_one_is_8() {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in
        [("note", "a note"), ("list", "[]"), ("empty", ""), ("cut", "\n {\"entries\":"), ("altered", "{x}")]
    {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    std::fs::create_dir(home.path().join("dir")).unwrap();
    for (receipt, code) in [("dir", 2), ("note", 2), ("list", 2), ("empty", 2), ("cut", 8), ("altered", 8)] {
        let mut command = terahaul(home.path());
        command.args(["verify", receipt, "dir"]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, code, "{receipt}: {}", ran.stderr);
        assert!(ran.stderr.contains("--receipt"), "{receipt}: {}", ran.stderr);
    }
}

#[test]
fn a_place_that_nothing_can_be_written_to_is_2_with_the_remedy() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let link = depot.send(&["x"]);
    for (args, remedy) in [
        (&["receive", &link, "x"][..], "give a folder"),
        (&["receive", &link, "/proc/x"], "choose another folder"),
        (&["cp", "x", "/proc/x/"], "/proc"),
        (&["man", "/proc/x"], "check the spelling"),
    ] {
        let ran = depot.run(args);
        assert_eq!((ran.code, ran.stderr.contains(remedy)), (2, true), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_token_that_none_can_be_is_2_and_the_space_around_one_is_no_matter() {
    let depot = Depot::start();
    for (token, code) in [("tht_a\rb".to_owned(), 2), ("\u{e9}".into(), 2), (format!("{}\r", depot.token), 0)]
    {
        let mut command = depot.command(&["list"]);
        command.env("TERAHAUL_TOKEN", &token);
        let ran = Ran::of(command);
        assert_eq!(ran.code, code, "{token:?}: {}", ran.stderr);
    }
}

#[test]
fn a_depot_that_does_not_answer_is_3() {
    let mut depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let link = depot.send(&["x"]);
    depot.signal("KILL");
    depot.wait();
    for args in
        [&["list"][..], &["send", "x"], &["receive", &link, "dst"], &["info", &link], &["verify", &link, "."]]
    {
        let ran = depot.run(args);
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("cannot be reached"), "{}", ran.stderr);
    }
    assert!(!depot.path("dst").exists());
}

/// The depot was said to be out of reach, and its address was to be checked.
#[test]
fn a_depot_that_is_not_reached_for_too_many_open_files_is_1_with_the_remedy() {
    let depot = Depot::start();
    let mut short = 0;
    for files in 8..32 {
        let through = ["prlimit".to_owned(), format!("--nofile={files}")];
        let mut command = terahaul_through(depot.home.path(), &through);
        command.env("TERAHAUL_URL", &depot.url).env("TERAHAUL_TOKEN", &depot.token).arg("list");
        let ran = Ran::of(command);
        let is_said = ran.stderr.contains("raise the limit on open files");
        assert!(ran.code == 0 || ran.code == 1 && is_said, "{files}: {}: {}", ran.code, ran.stderr);
        short += usize::from(ran.stderr.contains("no connection can be opened"));
    }
    assert!(short > 0);
}

#[test]
fn a_token_that_is_not_accepted_is_4() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let wrong = format!("tht_{}", "a".repeat(43));
    for args in [&["list"][..], &["send", "x"]] {
        let mut command = depot.command(args);
        command.env("TERAHAUL_TOKEN", &wrong);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 4, "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("aaaa"), "a token is never shown: {}", ran.stderr);
    }
}

#[test]
fn another_certificate_is_4() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let (base, _) = depot.url.split_once('#').unwrap();
    for args in [&["list"][..], &["send", "x"]] {
        let mut command = depot.command(args);
        command.env("TERAHAUL_URL", format!("{base}#sha256={}", "ab".repeat(32)));
        let ran = Ran::of(command);
        assert_eq!(ran.code, 4, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("certificate"), "{}", ran.stderr);
    }
}

/// The variable was never named: 'install the ca-certificates package', or somebody was in between.
#[test]
fn where_the_environment_has_no_authority_that_fits_its_variable_is_named() {
    let [depot, other] = [(); 2].map(|()| Depot::start());
    let (base, _) = depot.url.split_once('#').unwrap();
    std::fs::write(depot.path("empty"), "").unwrap();
    std::fs::write(depot.path("text"), "no certificate").unwrap();
    let cert = |of: &Depot| of.path("depot/keys/tls-cert.pem");
    for (file, code) in [
        (depot.path("missing"), 2),
        (depot.path("empty"), 2),
        (depot.path("text"), 2),
        (cert(&other), 4),
        (cert(&depot), 0),
    ] {
        let mut command = depot.command(&["list"]);
        command.env("TERAHAUL_URL", base).env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR");
        let ran = Ran::of(command);
        assert_eq!(ran.code, code, "{}: {}", file.display(), ran.stderr);
        let named = ran.stderr.contains(&format!("SSL_CERT_FILE={}", file.display()));
        assert!(named || code == 0, "{}", ran.stderr);
    }
}

/// Only `send` and `receive` said what may be in between.
#[test]
fn what_ends_tls_in_front_of_a_depot_with_an_older_version_is_named_as_such() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("x"), "x").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/#sha256={}", listener.local_addr().unwrap(), "ab".repeat(32));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).unwrap();
            let mut rest = vec![0; usize::from(u16::from_be_bytes([hello[3], hello[4]]))];
            stream.read_exact(&mut rest).unwrap();
            // A fatal alert: protocol_version.
            stream.write_all(&[21, 3, 3, 0, 2, 2, 70]).unwrap();
        }
    });
    for args in [&["list"][..], &["token", "list"], &["send", "x"]] {
        let mut command = terahaul(home.path());
        command.args(args).env("TERAHAUL_URL", &url).env("TERAHAUL_TOKEN", "tht_x");
        let ran = Ran::of(command);
        assert_eq!(
            (ran.code, ran.stderr.contains("something in between ends TLS")),
            (3, true),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_not_there_is_5() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let link = depot.send(&["x"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["remove", &id]).code, 0);
    for args in [
        &["receive", &link, "dst"][..],
        &["info", &id],
        &["remove", &id],
        &["send", "no-such-file"],
        &["verify", "no-such-receipt", "."],
    ] {
        let ran = depot.run(args);
        assert_eq!(ran.code, 5, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_quota_that_is_used_up_is_6() {
    let depot = Depot::start_with(&["--quota", "1MB"]);
    write_random(&depot.path("x"), 2_000_000, 1);
    let ran = depot.run(&["send", "x", "--json"]);
    assert_eq!(ran.code, 6, "{}", ran.stdout);
    assert!(ran.event("error")["message"].as_str().unwrap().contains("quota"));
    wait_until("nothing is left of it", || depot.run(&["list"]).stdout.is_empty());
}

#[test]
fn the_exit_codes_are_listed_by_help() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["help", "exit-codes"][..], &["exit-codes"]] {
        let mut command = terahaul(home.path());
        command.args(args);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0);
        for number in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "130"] {
            assert!(
                ran.stdout.lines().any(|line| line.trim_start().starts_with(&format!("{number}  "))),
                "{number}"
            );
        }
    }
}

/// What a flag leaves out must not be sent because the other side is a depot.
#[test]
fn flags_of_cp_that_a_depot_lacks_are_2_and_nothing_is_sent() {
    let depot = Depot::start();
    std::fs::write(depot.path("x"), "x").unwrap();
    let (url, _) = depot.url.split_once('#').unwrap();
    for flags in [
        &["--files-from", "list"][..],
        &["--delete"],
        &["-u"],
        &["-X"],
        &["--partial-dir", "p"],
        &["--include", "*/", "--exclude", "*"],
        &["--exclude", "a/b"],
        &["--exclude-from", "x"],
    ] {
        let ran = depot.run(&[&["cp", "x"], flags, &[url]].concat());
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("depot"), "{flags:?}: {}", ran.stderr);
    }
    let ran = depot.run(&["cp", "-a", "-v", "--exclude", "*.tmp", "x", url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(depot.run(&["list"]).stdout.lines().filter(|line| line.contains('x')).count(), 1);
}
