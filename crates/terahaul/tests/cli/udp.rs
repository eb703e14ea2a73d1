//! Transfers over UDP: real processes, their datagrams and their keys.

use std::net::UdpSocket;

use crate::rig::{Depot, assert_same, write_random, write_tree};

#[test]
fn over_udp_everything_arrives_both_ways() {
    let depot = Depot::start();
    write_random(&depot.path("src/large.bin"), 100 << 20, 1);
    write_random(&depot.path("src/odd.bin"), (4 << 20) + 1, 2);
    write_tree(&depot.path("src/tree"));
    let link = depot.send(&["src", "--transport", "udp"]);
    let ran = depot.run(&["receive", &link, "dst", "--transport", "udp"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn what_moved_over_udp_is_the_content_alone() {
    const SIZE: usize = (20 << 20) + 1;
    let depot = Depot::start();
    write_random(&depot.path("a.bin"), SIZE, 1);
    let flags = ["--transport", "udp", "--compress", "no", "--json"];
    let sent = depot.run(&[&["send", "a.bin"], &flags[..]].concat()).event("done");
    let link = sent["link"].as_str().unwrap();
    let received = depot.run(&[&["receive", link, "dst"], &flags[..]].concat()).event("done");
    assert_eq!((&sent["moved_bytes"], &received["moved_bytes"]), (&SIZE.into(), &SIZE.into()));
}

/// A block of 4 MiB takes two seconds here, in which nothing seemed to move.
#[test]
fn over_udp_progress_is_of_bytes_that_move_and_not_of_whole_blocks() {
    const BLOCK: u64 = 4 << 20;
    let depot = Depot::start();
    write_random(&depot.path("a.bin"), 2 * BLOCK as usize, 1);
    let flags = ["--transport", "udp", "--compress", "no", "--limit", "2MB", "--json"];
    let shows_parts_of_blocks = |args: &[&str]| {
        let ran = depot.run(&[args, &flags[..]].concat());
        let moved = ran.events_named("progress").into_iter();
        let moved: Vec<_> = moved.map(|event| event["moved_bytes"].as_u64().unwrap()).collect();
        assert!(moved.is_sorted() && moved.last() <= Some(&(2 * BLOCK)), "{moved:?}");
        assert!(moved.iter().any(|moved| moved % BLOCK > 0), "{moved:?}");
        ran.event("done")
    };
    let sent = shows_parts_of_blocks(&["send", "a.bin"]);
    shows_parts_of_blocks(&["receive", sent["link"].as_str().unwrap(), "dst"]);
}

#[test]
fn several_channels_and_a_limit_work_over_udp_too() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 20 << 20, 1);
    let flags = ["--transport", "udp", "--channels", "4", "--limit", "20MB"];
    let began = std::time::Instant::now();
    let link = depot.send(&[&["src"], &flags[..]].concat());
    let ran = depot.run(&[&["receive", &link, "dst"], &flags[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
    assert!(began.elapsed().as_secs_f64() > 1.8, "twice 21 MB at 20 MB/s: {:?}", began.elapsed());
}

#[test]
fn where_the_depot_has_no_udp_the_sentence_says_what_to_do() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 1 << 20, 1);
    depot.signal("KILL");
    depot.wait();
    // Its port number is somebody else's for UDP.
    let _taken = UdpSocket::bind(&depot.listen).unwrap();
    depot.restart();
    let ran = depot.run(&["send", "src", "--transport", "udp"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("has no UDP: use --transport tcp"), "{}", ran.stderr);
    depot.send(&["src"]);
}

/// How the last progress of a run says that blocks travelled.
fn ways(ran: &crate::rig::Ran) -> Vec<String> {
    let progress = ran.events().into_iter().filter(|event| event["event"] == "progress");
    progress.map(|event| event["transport"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn by_itself_a_transfer_starts_on_tcp_and_takes_udp_in() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60 << 20, 1);
    let flags = ["--transport", "tcp+udp", "--limit", "20MB", "--json"];
    let sent = depot.run(&[&["send", "src"], &flags[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(ways(&sent).iter().any(|way| way.contains("udp")), "{:?}", ways(&sent));
    let link = sent.event("done")["link"].as_str().unwrap().to_owned();
    let received = depot.run(&[&["receive", &link, "dst"], &flags[..]].concat());
    assert_eq!(received.code, 0, "{}", received.stderr);
    assert!(ways(&received).iter().any(|way| way.contains("udp")), "{:?}", ways(&received));
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn by_itself_a_transfer_does_without_udp_where_there_is_none() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 20 << 20, 1);
    depot.signal("KILL");
    depot.wait();
    let taken = UdpSocket::bind(&depot.listen).unwrap();
    depot.restart();
    let sent = depot.run(&["send", "src", "--transport", "tcp+udp", "--json"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(ways(&sent).iter().all(|way| way == "tcp"));
    drop(taken);
}
