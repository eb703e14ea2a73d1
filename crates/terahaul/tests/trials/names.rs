//! Names and kinds of files that break other programs, there and back through the command line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::rig::{Depot, Ran, assert_same, describe, spawn, wait_for, wait_for_some, write_random};

/// Everything that a file system takes and a person would not.
fn plant_torture(root: &Path) {
    let component = "x".repeat(255);
    let names: &[&[u8]] = &[
        b" ",
        b"  trailing ",
        b".",
        b"...",
        b"....",
        b"-",
        b"--help",
        b"~",
        b"$HOME",
        b"`id`",
        b"a;b",
        b"a&b",
        b"a|b",
        b"*",
        b"?",
        b"[a]",
        b"{b}",
        b"#",
        b"!",
        b"'",
        b"\"",
        b"back\\slash",
        b"..\\..\\up",
        b"C:",
        b"C:\\x",
        b"con",
        b"AUX.txt",
        b"nul",
        b"LPT1",
        b"a.",
        b"a:stream",
        b"new\nline",
        b"tab\t",
        b"cr\r",
        b"\x1b[31mred",
        b"\x7f",
        b"\x01",
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98\x80",
        b"%2e%2e%2fup",
        b".terahaul-x",
        b"case",
        b"CASE",
        b"Case",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        "ß".as_bytes(),
        "SS".as_bytes(),
        "\u{202e}gpj.exe".as_bytes(),
        "\u{200b}".as_bytes(),
        "ﬁ".as_bytes(),
        "fi".as_bytes(),
        component.as_bytes(),
    ];
    fs::create_dir_all(root).unwrap();
    for name in names.iter().filter(|name| **name != b".") {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    for len in [0, 1] {
        fs::write(root.join(format!("{len} bytes")), vec![7; len]).unwrap();
    }
    fs::create_dir_all(root.join("empty folder")).unwrap();
    let mut deep = root.join("deep");
    (0..200).for_each(|number| deep.push(format!("{}", number % 10)));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("end"), "end").unwrap();
    symlink("../../../../etc/passwd", root.join("out of the tree")).unwrap();
    symlink("/etc", root.join("absolute")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink(OsStr::from_bytes(b"\xff\n"), root.join("dangling")).unwrap();
}

#[test]
fn a_tree_of_torturous_names_arrives_as_it_is_and_may_come_again() {
    let depot = Depot::start();
    let src = depot.path("src");
    plant_torture(&src);
    let link = depot.send(&["src", "--receipt", "receipt.json"]);
    for round in 0..2 {
        let ran = depot.run(&["receive", &link, "dst"]);
        assert_eq!(ran.code, 0, "round {round}: {}", ran.stderr);
        assert_same(&src, &depot.path("dst/src"));
    }
    let ran = depot.run(&["verify", "receipt.json", "dst", "--extra"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for args in [&["info", &link][..], &["receive", &link, "elsewhere", "--dry-run"]] {
        let ran = depot.run(args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(!ran.stdout.bytes().any(|byte| byte == 0x1b || byte == b'\r'), "nothing moves the cursor");
    }
}

#[test]
fn what_is_no_file_is_refused_by_name_and_the_rest_arrives() {
    let depot = Depot::start();
    let src = depot.path("src");
    fs::create_dir(&src).unwrap();
    fs::write(src.join("stays"), "stays").unwrap();
    let mut refused = vec!["src/pipe", "src/socket"];
    assert!(Command::new("mkfifo").arg(src.join("pipe")).status().unwrap().success());
    drop(std::os::unix::net::UnixListener::bind(src.join("socket")).unwrap());
    let device = Command::new("mknod").arg(src.join("device")).args(["c", "1", "5"]).output().unwrap();
    if device.status.success() {
        refused.push("src/device");
    } else {
        eprintln!("SKIPPED in part: making a device needs root");
    }
    let ran = depot.run(&["send", "src", "--json"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    let named: Vec<_> = ran.events_named("failure");
    let mut paths: Vec<_> = named.iter().map(|failure| failure["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    refused.sort_unstable();
    assert_eq!(paths, refused);
    assert!(named.iter().all(|failure| failure["cause"] == "unsupported"));
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_eq!(fs::read_dir(depot.path("dst/src")).unwrap().count(), 1);
}

#[test]
fn a_link_that_is_there_before_leads_nothing_out_of_the_folder() {
    let depot = Depot::start();
    write_random(&depot.path("src/a/one"), 5 << 20, 1);
    let link = depot.send(&["src/"]);
    let outside = depot.path("outside");
    fs::create_dir_all(&outside).unwrap();
    for flag in ["--quiet", "--overwrite"] {
        let dst = depot.path(flag);
        fs::create_dir_all(&dst).unwrap();
        symlink(&outside, dst.join("a")).unwrap();
        let ran = depot.run(&["receive", &link, dst.to_str().unwrap(), flag]);
        assert_ne!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains("a"), "{}", ran.stderr);
        assert_eq!(describe(&outside), [], "nothing is written outside");
    }
}

#[test]
fn a_link_that_is_swapped_in_while_receiving_leads_nothing_out_of_the_folder() {
    let depot = Depot::start();
    write_random(&depot.path("src/a/one"), 12 << 20, 1);
    write_random(&depot.path("src/a/two"), 6 << 20, 2);
    let link = depot.send(&["src/"]);
    let outside = depot.path("outside");
    fs::create_dir_all(&outside).unwrap();
    let mut receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "6MB", "--channels", "1"]));
    let staging = || {
        let found = fs::read_dir(depot.path("dst")).ok()?.map(|entry| entry.unwrap().path());
        found.into_iter().find(|path| path.join("tree/a").exists())
    };
    let staging = wait_for_some("something is staged", staging);
    fs::rename(staging.join("tree/a"), staging.join("moved")).unwrap();
    symlink(&outside, staging.join("tree/a")).unwrap();
    wait_for(&mut receiver);
    let ran = Ran::of_child(receiver);
    assert_ne!(ran.code, 0, "what was staged is gone: {}", ran.stderr);
    assert_eq!(describe(&outside), [], "nothing is written outside");
}
