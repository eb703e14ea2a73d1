//! Several network paths: what `--bind` names is what packets come from, and one path may fail.
//!
//! Linux lets anybody bind to any address of 127.0.0.0/8, so that one machine has as many paths as a test wants.

use std::net::IpAddr;

use serde_json::Value;

use crate::relay::{Fault, Relay};
use crate::rig::{Depot, Ran, assert_same, write_random};

const TWO: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Sends 30 MB and receives them again over two paths, in both cases with these flags and faults, and returns what was said at the two
/// ends.
fn there_and_back(flags: &[&str], faults: &[(u64, Fault)]) -> [Value; 2] {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 30_000_000, 1);
    let over_two = |args: &[&str]| {
        let (relay, url) = Relay::to(&depot.url);
        faults.iter().for_each(|(at, fault)| relay.set(*at, *fault));
        let mut command = depot.command(args);
        command.env("TERAHAUL_URL", url);
        command.args(["--transport", "udp", "--bind", "127.0.0.2,127.0.0.3", "--json"]).args(flags);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(relay.has_happened(), "too few datagrams: {}", ran.stdout);
        assert_eq!(names(&relay.hosts()), TWO);
        ran.event("done")
    };
    let sent = over_two(&["send", "src"]);
    let id = sent["transfer"].as_str().unwrap();
    let received = over_two(&["receive", id, "dst"]);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
    [sent, received]
}

fn names(hosts: &[IpAddr]) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}

/// Megabytes that each path has carried.
fn carried(done: &Value) -> [f64; 2] {
    let paths = done["paths"].as_array().unwrap();
    assert_eq!([&paths[0]["local"], &paths[1]["local"]], TWO);
    [0, 1].map(|at| paths[at]["bytes"].as_f64().unwrap() / 1e6)
}

#[test]
fn both_addresses_carry_what_is_sent_and_what_is_received() {
    // As fast as it goes, all may be over before the second path has got going.
    for done in there_and_back(&["--limit", "25MB"], &[]) {
        let [one, two] = carried(&done);
        assert!(one > 0.5 && two > 0.5 && one + two > 27.0, "{done}");
    }
}

#[test]
fn a_path_that_is_blocked_half_way_leaves_the_transfer_to_the_other() {
    for done in there_and_back(&["--limit", "25MB"], &[(50, Fault::FilterChannel(1))]) {
        assert_eq!(done["transport"], "udp");
        let [one, two] = carried(&done);
        assert!(one > two && one + two > 27.0, "{done}");
    }
}

#[test]
fn tcp_channels_take_the_addresses_too() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 10_000_000, 1);
    let (relay, url) = Relay::to(&depot.url);
    let flags = ["--transport", "tcp", "--channels", "2", "--bind", "127.0.0.2,127.0.0.3"];
    let mut command = depot.command(&["send", "src"]);
    command.env("TERAHAUL_URL", url).args(flags);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(names(&relay.tcp_hosts()), TWO);
}

#[test]
fn addresses_that_cannot_be_left_from_are_named_before_anything_happens() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 1, 1);
    for (bind, says) in [
        ("127.0.0.2,192.0.2.1", "192.0.2.1 is not an address of this machine: `ip addr` lists them"),
        ("127.0.0.2,127.0.0.2", "127.0.0.2 is named twice"),
        ("eth0", "addresses of this machine"),
    ] {
        let ran = depot.run(&["send", "src", "--bind", bind]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    // Only loopback has it, and the depot is at an IPv4 address.
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        let ran = depot.run(&["send", "src", "--bind", "::1"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("of its kind"), "{}", ran.stderr);
    }
}
