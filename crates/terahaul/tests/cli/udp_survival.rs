//! What UDP data channels live through: a relay before the depot's port loses, delays and mixes up what it is told to.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use terahaul_wire::packet::{MAX_UDP_CHANNELS, PacketHeader};

use crate::relay::{Fault, Relay};
use crate::rig::{Depot, Ran, assert_same, write_random};

/// What a command that came to its end had to say, and how many connections it opened after something had gone wrong.
struct Came {
    done: Value,
    stderr: String,
    opened_since: u64,
}

/// Sends 60 MB through a relay and receives them again, in both cases with these faults, and returns what came of the two.
fn there_and_back(flags: &[&str], faults: &[(u64, Fault)]) -> [Came; 2] {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60_000_000, 1);
    let through_relay = |args: &[&str]| {
        let (relay, url) = Relay::to(&depot.url);
        faults.iter().for_each(|(at, fault)| relay.set(*at, *fault));
        let mut command = depot.command(args);
        command.env("TERAHAUL_URL", url).env("TERAHAUL_LOG", "info");
        command.args(flags).args(["--json", "--limit", "25MB"]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(relay.has_happened(), "too few datagrams: {}", ran.stdout);
        Came { done: ran.event("done"), stderr: ran.stderr, opened_since: relay.opened_since_fault() }
    };
    let sent = through_relay(&["send", "src"]);
    let id = sent.done["transfer"].as_str().unwrap();
    let received = through_relay(&["receive", id, "dst"]);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
    [sent, received]
}

/// The UDP session that these faults happen to carries all to the end. Where it ended, the session with the depot did with it, and the next
/// would begin with a connection: there are none over TCP beside that.
fn one_session_goes_on(flags: &[&str], faults: &[(u64, Fault)]) {
    for came in there_and_back(&[&["--transport", "udp"], flags].concat(), faults) {
        let Came { done, stderr, opened_since } = came;
        assert_eq!(done["transport"], "udp");
        assert!(!stderr.contains("trying again"), "{faults:?}: {stderr}");
        assert_eq!(opened_since, 0, "{faults:?}: {stderr}");
    }
}

/// Where `fault` happens at this datagram all arrives over TCP, which is said to be for this reason.
fn is_done_without(at: u64, fault: Fault, why: &str) {
    for Came { done, .. } in there_and_back(&["--transport", "tcp+udp"], &[(at, fault)]) {
        assert_eq!((&done["transport"], &done["transport_why"]), (&"tcp".into(), &why.into()));
    }
}

const FROM_THE_START: (u64, &str) = (0, "no datagram has come back yet");
const DARK: Fault = Fault::Dark(Duration::from_secs(5));
const HALF_WAY: (u64, &str) = (6, "nothing comes over UDP any more");

#[test]
fn udp_that_is_blocked_from_the_start_is_done_without() {
    let (at, why) = FROM_THE_START;
    is_done_without(at, Fault::Filter, why);
}

/// Firewalls let out what they do not let in.
#[test]
fn udp_that_is_blocked_one_way_from_the_start_is_done_without() {
    let (at, why) = FROM_THE_START;
    [Fault::FilterBack, Fault::FilterOut].into_iter().for_each(|fault| is_done_without(at, fault, why));
}

#[test]
fn udp_that_is_blocked_one_way_half_way_is_done_without() {
    let (at, why) = HALF_WAY;
    [Fault::FilterBack, Fault::FilterOut].into_iter().for_each(|fault| is_done_without(at, fault, why));
}

#[test]
fn udp_that_is_blocked_half_way_is_done_without() {
    let (at, why) = HALF_WAY;
    is_done_without(at, Fault::Filter, why);
}

/// What a command tells of its progress, as it does.
type Progress = Box<dyn Iterator<Item = Value>>;

/// Has `fault` happen at this datagram while files are sent and then while they are received, slowly. What `seen` finds in what the relay and
/// the progress tell has to come; then the command is killed, and the same without a limit comes to its end.
fn comes_back(at: u64, fault: Fault, mut seen: impl FnMut(&Relay, &mut Progress) -> bool) {
    let depot = Depot::start();
    std::fs::create_dir(depot.path("src")).unwrap();
    let file = std::fs::File::create(depot.path("src/a.bin")).unwrap();
    file.set_len(260_000_000).unwrap();
    let mut through_relay = |args: &[&str]| {
        let (relay, url) = Relay::to(&depot.url);
        relay.set(at, fault);
        let mut command = depot.command(args);
        command.env("TERAHAUL_URL", url);
        command.args(["--transport", "tcp+udp", "--json", "--limit", "8MB", "--compress", "no"]);
        let mut child = crate::rig::spawn(command);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let mut progress: Progress = Box::new(events.filter(|event| event["event"] == "progress"));
        assert!(seen(&relay, &mut progress), "UDP does not carry again");
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = depot.run(args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    through_relay(&["send", "src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    through_relay(&["receive", &id, "dst"]);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn udp_that_is_blocked_for_a_while_carries_again() {
    let (at, why) = HALF_WAY;
    comes_back(at, Fault::Filter, |relay, progress| {
        assert!(progress.any(|event| event["transport"] == "tcp" && event["transport_why"] == why));
        relay.unfilter();
        progress.any(|event| event["transport"].as_str().unwrap().contains("udp"))
    });
}

#[test]
fn a_channel_whose_port_is_filtered_leaves_its_packets_to_the_others() {
    one_session_goes_on(&["--channels", "4"], &[(40, Fault::FilterChannel(2))]);
}

#[test]
fn after_five_dark_seconds_udp_goes_on() {
    one_session_goes_on(&[], &[(40, DARK)]);
}

/// At once where it is not much slower to come back than TCP is, and else when it is offered again.
#[test]
fn after_five_dark_seconds_udp_goes_on_beside_tcp() {
    /// More than pings and offers of UDP that carries nothing are while a file of this size takes.
    const CARRIES: u64 = 300;
    comes_back(40, DARK, |relay, progress| progress.any(|_| relay.passed_since_dark() >= CARRIES));
}

/// Whoever sends, as many have come from the client: a path that is dark before anything has come back is one that UDP does not pass, and is
/// given up sooner. Who receives sends a report every few milliseconds, and no more than some hundred in all.
const UNDER_WAY: u64 = 200;

#[test]
#[ignore = "over two minutes: two paths are dark for one each"]
fn after_sixty_dark_seconds_a_transfer_goes_on() {
    let dark = [(UNDER_WAY, Fault::Dark(Duration::from_secs(60)))];
    there_and_back(&["--transport", "udp"], &dark);
}

/// Where all is dark, the silence of the control channel ends the session before anything is known of UDP.
#[test]
#[ignore = "over two minutes: two paths are dark to datagrams for one each"]
fn after_sixty_seconds_without_a_datagram_the_same_udp_session_goes_on() {
    one_session_goes_on(&[], &[(UNDER_WAY, Fault::DarkToDatagrams(Duration::from_secs(60)))]);
}

#[test]
fn a_path_that_carries_only_shorter_datagrams_half_way_gets_shorter_ones() {
    one_session_goes_on(&[], &[(40, Fault::Narrow(1300))]);
}

#[test]
fn a_client_whose_address_changes_goes_on() {
    one_session_goes_on(&[], &[(40, Fault::Rebind), (100, Fault::Rebind)]);
}

#[test]
fn a_depot_that_is_killed_and_started_again_gets_the_rest() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60_000_000, 1);
    let (relay, url) = Relay::to(&depot.url);
    let mut command = depot.command(&["send", "src", "--transport", "udp", "--limit", "25MB", "--json"]);
    command.env("TERAHAUL_URL", url);
    let sending = crate::rig::spawn(command);
    relay.wait_for(500);
    depot.crash_and_restart();
    let ran = Ran::of_child(sending);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let id = ran.event("done")["transfer"].as_str().unwrap().to_owned();
    let ran = depot.run(&["receive", &id, "dst", "--transport", "udp"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn who_receives_from_a_depot_that_is_killed_and_started_again_gets_the_rest() {
    const SIZE: usize = 60_000_000;
    /// What comes before, and more than the parts of blocks that may be under way then.
    const BEFORE: u64 = 15_000_000;
    const PARTS: u64 = 3 * (4 << 20);
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), SIZE, 1);
    depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    let flags = ["--transport", "udp", "--limit", "8MB", "--json"];
    let mut command = depot.command(&[&["receive", &id, "dst"], &flags[..]].concat());
    command.env("TERAHAUL_LOG", "info");
    let mut receiving = crate::rig::spawn(command);
    let lines = BufReader::new(receiving.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let has_some =
        |event: Value| event["event"] == "progress" && event["moved_bytes"].as_u64() > Some(BEFORE);
    assert!(events.any(has_some), "it was over before it could be seen");
    depot.crash_and_restart();
    let done = events.last().unwrap();
    let ran = Ran::of_child(receiving);
    assert_eq!(ran.code, 0, "{done}{}", ran.stderr);
    assert!(ran.stderr.contains("trying again"), "it was over before: {}", ran.stderr);
    // No block of the first session is fetched again, but for those that had come in part.
    let moved = done["moved_bytes"].as_u64().unwrap();
    assert!((SIZE as u64..SIZE as u64 + PARTS).contains(&moved) && PARTS < BEFORE, "{done}");
    assert_eq!(done["transport"], "udp");
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// How many strangers' packets a second, at most.
const STRANGERS: u64 = 200_000;
/// At least: what one thread gets off where two processors have the transfer and both its ends to do as well.
const STRANGERS_AT_LEAST: f64 = 90_000.0;

#[test]
#[ignore = "measures: a quiet machine, a minute"]
fn beside_a_flood_of_strangers_packets_a_transfer_keeps_four_fifths_of_its_rate() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 1 << 30, 1);
    let seconds = |name: &str| {
        let began = Instant::now();
        depot.send(&["src", "--transport", "udp", "--limit", "400mbit", "--name", name]);
        began.elapsed().as_secs_f64()
    };
    let alone = seconds("alone");
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flood = {
        let (stop, sent, to) = (Arc::clone(&stop), Arc::clone(&sent), depot.listen.clone());
        std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(&to).unwrap();
            let (began, mut packet) = (Instant::now(), [0x41; 1200]);
            while !stop.load(Ordering::Relaxed) {
                let count = sent.load(Ordering::Relaxed);
                // To each of the port's sockets in turn, so also to those that the transfer's channels come to.
                packet[PacketHeader::CHANNEL_AT] = (count % MAX_UDP_CHANNELS as u64) as u8;
                packet[8..16].copy_from_slice(&count.to_le_bytes());
                // What the depot has no room for is dropped there, which is what a flood does. What this end does not get off never was one.
                if socket.send(&packet).is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                while count > (began.elapsed().as_secs_f64() * STRANGERS as f64) as u64 {
                    std::thread::yield_now();
                }
            }
        })
    };
    write_random(&depot.path("src/a.bin"), 1 << 30, 2);
    let before = sent.load(Ordering::Relaxed);
    let beside = seconds("beside");
    let rate = (sent.load(Ordering::Relaxed) - before) as f64 / beside;
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    println!(
        "alone {alone:.2} s, beside {rate:.0} packets a second {beside:.2} s: {:.0} % kept",
        100.0 * alone / beside
    );
    assert!(rate >= STRANGERS_AT_LEAST, "no flood: {rate} packets a second");
    assert!(alone / beside >= 0.8, "{alone} s alone, {beside} s beside {rate} packets a second");
}
