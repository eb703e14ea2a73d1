//! A client that gets another address, or whose NAT forgets it, while it transfers: connections that lead nowhere any more, and say
//! nothing of that.

use crate::relay::Relay;
use crate::rig::{Depot, Ran, assert_same, spawn, wait_while_it_runs, write_random};

/// Sends and receives through a relay that forgets its connections while the first of that goes on. The sender opens them anew before
/// their silence has lasted so long that it gives them up for that alone.
fn forgotten_while_it_sends(transport: &str) {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60_000_000, 1);
    let (relay, url) = Relay::to(&depot.url);
    let mut command = depot.command(&["send", "src", "--json", "--limit", "10MB", "--transport", transport]);
    command.env("TERAHAUL_URL", url).env("TERAHAUL_LOG", "info");
    let mut child = spawn(command);
    wait_while_it_runs(&mut child, "it sends", || depot.keeps(1));
    relay.forget();
    let ran = Ran::of_child(child);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("leads to the other end no longer"), "{}", ran.stderr);
    let id = ran.event("done")["transfer"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &id, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn tcp_connections_that_lead_nowhere_are_opened_anew() {
    forgotten_while_it_sends("tcp");
}

#[test]
fn a_control_channel_that_leads_nowhere_is_opened_anew_though_udp_goes_on() {
    forgotten_while_it_sends("udp");
}

#[test]
fn what_udp_brings_after_the_control_channel_is_gone_is_received() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60_000_000, 1);
    depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    let (relay, url) = Relay::to(&depot.url);
    let mut command = depot.command(&["receive", &id, "dst", "--limit", "20MB", "--transport", "udp"]);
    command.env("TERAHAUL_URL", url);
    let mut child = spawn(command);
    wait_while_it_runs(&mut child, "it receives", || relay.bytes() > 20_000);
    relay.forget();
    let ran = Ran::of_child(child);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}
