use std::io::{BufRead, BufReader};

use crate::rig::{Depot, Ran, assert_same, send_signal, spawn, write_random};

#[test]
fn ctrl_c_leaves_a_resumable_transfer_and_says_so() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "20MB"]));
    depot.wait_for_durable(8 << 20);
    send_signal(sender.id(), "INT");
    let ran = Ran::of_child(sender);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("are kept; run the same command again to resume"), "{}", ran.stderr);
    let again = depot.run(&["send", "src", "--json"]);
    assert_eq!((again.code, &again.event("start")["resumed"]), (0, &true.into()));
    let link = again.event("done")["link"].as_str().unwrap().to_owned();
    let receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "20MB", "--json"]));
    let deadline = std::time::Instant::now() + crate::rig::PATIENCE;
    while !depot.path("dst").exists() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send_signal(receiver.id(), "TERM");
    let ran = Ran::of_child(receiver);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(ran.event("error")["code"], "interrupted");
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_resumed_receive_counts_only_what_it_moved_itself() {
    const SIZE: usize = 64 << 20;
    let depot = Depot::start();
    write_random(&depot.path("a.bin"), SIZE, 1);
    let link = depot.send(&["a.bin"]);
    let mut receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "20MB", "--json"]));
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut kept = 0;
    while kept < 8 << 20 {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before it was interrupted");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        kept = event["done_bytes"].as_u64().unwrap_or(0);
    }
    send_signal(receiver.id(), "KILL");
    receiver.wait().unwrap();
    let done = depot.run(&["receive", &link, "dst", "--json"]).event("done");
    let moved = done["moved_bytes"].as_u64().unwrap();
    assert!(moved > 0 && moved <= SIZE as u64 - kept, "{moved} moved, {kept} were kept");
}
