//! Files that change, vanish or are locked away while they are sent.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Child;

use crate::ordinary::ordinary;
use crate::rig::{Depot, Ran, assert_same, send_signal, spawn, terahaul_through, wait_until, write_random};

/// A send that is stopped when it has walked, and before it comes to what sorts after `a`: however long the disk takes for what is done
/// then, it has not read that yet.
fn stopped_send(depot: &Depot) -> Child {
    let mut command = terahaul_through(depot.home.path(), &ordinary());
    command.env("TERAHAUL_URL", &depot.url).env("TERAHAUL_TOKEN", &depot.token);
    command.args(["send", "src", "--json", "--limit", "6MB", "--channels", "1"]);
    let sender = spawn(command);
    // Not until some of it is durable: a busy disk is done with that when all has been read.
    wait_until("a block has arrived", || {
        let objects = fs::read_dir(depot.path("depot/store/incoming")).unwrap();
        objects
            .map(|object| object.unwrap().metadata())
            .any(|object| object.is_ok_and(|object| object.len() > 4 << 20))
    });
    send_signal(sender.id(), "STOP");
    sender
}

fn reason(ran: &Ran, path: &str) -> String {
    let failures = ran.events_named("failure");
    let found = failures.iter().find(|failure| failure["path"] == path);
    let failure = found.unwrap_or_else(|| panic!("{path} is not named: {}", ran.stdout));
    format!("{}: {}", failure["cause"].as_str().unwrap(), failure["message"].as_str().unwrap())
}

#[test]
fn every_file_that_changes_under_the_sender_is_named_and_the_rest_arrives() {
    let depot = Depot::start();
    let src = |name: &str| depot.path("src").join(name);
    write_random(&src("a.bin"), 28 << 20, 1);
    const VICTIMS: [&str; 5] = ["deleted", "grown", "replaced", "truncated", "unreadable"];
    for (seed, name) in VICTIMS.into_iter().enumerate() {
        write_random(&src(&format!("b/{name}.large")), 5 << 20, seed as u64);
        write_random(&src(&format!("b/{name}.small")), 5000, 10 + seed as u64);
        write_random(&src(&format!("b/stays {name}.small")), 5000, 20 + seed as u64);
    }
    write_random(&src("c.bin"), 5 << 20, 2);
    let sender = stopped_send(&depot);
    for size in ["large", "small"] {
        let path = |name: &str| src(&format!("b/{name}.{size}"));
        fs::remove_file(path("deleted")).unwrap();
        OpenOptions::new().append(true).open(path("grown")).unwrap().write_all(b"more").unwrap();
        write_random(&depot.path("new"), fs::metadata(path("replaced")).unwrap().len() as usize, 99);
        fs::rename(depot.path("new"), path("replaced")).unwrap();
        OpenOptions::new().write(true).open(path("truncated")).unwrap().set_len(1000).unwrap();
        fs::set_permissions(path("unreadable"), Permissions::from_mode(0o000)).unwrap();
    }
    send_signal(sender.id(), "CONT");
    let ran = Ran::of_child(sender);
    assert_eq!(ran.code, 7, "{}{}", ran.stdout, ran.stderr);
    for size in ["large", "small"] {
        for (name, cause) in [
            ("deleted", "vanished"),
            ("grown", "changed"),
            ("replaced", "changed"),
            ("truncated", "changed"),
            ("unreadable", "unreadable"),
        ] {
            let reason = reason(&ran, &format!("src/b/{name}.{size}"));
            assert!(reason.starts_with(cause), "{name}.{size}: {reason}");
        }
    }
    assert_eq!(ran.events_named("failure").len(), 10, "{}", ran.stdout);
    assert_eq!(ran.event("done")["failed"], 10);

    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    let received = depot.run(&["receive", &link, "first"]);
    assert_eq!(received.code, 7, "what did not arrive is named: {}", received.stderr);
    for name in VICTIMS {
        assert!(received.stderr.contains(&format!("src/b/{name}.large")), "{}", received.stderr);
        assert!(!depot.path(&format!("first/src/b/{name}.large")).exists());
        let stays = format!("src/b/stays {name}.small");
        assert_eq!(fs::read(depot.path(&stays)).unwrap(), fs::read(depot.path("first").join(stays)).unwrap());
    }
    assert_eq!(fs::read(src("c.bin")).unwrap(), fs::read(depot.path("first/src/c.bin")).unwrap());

    for size in ["large", "small"] {
        write_random(&src(&format!("b/deleted.{size}")), 5000, 77);
        fs::set_permissions(src(&format!("b/unreadable.{size}")), Permissions::from_mode(0o644)).unwrap();
    }
    let again = depot.run(&["send", "src", "--json"]);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    let moved = again.event("done")["moved_bytes"].as_u64().unwrap();
    assert!(moved < 25 << 20, "what had arrived is not sent again: {moved}");
    assert_eq!(depot.run(&["receive", &link, "second"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("second/src"));
}
