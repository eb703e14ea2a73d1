//! Peers that do not keep to the protocol: typed refusals, bounded memory, and nobody else notices.

mod blocks;
mod crowd;
mod manifest;
mod peer;
mod secrets;

use crate::rig::Depot;

/// A line of `/proc/PID/status`, in its own unit.
fn status_of(depot: &Depot, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", depot.process())).unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
    found.split_whitespace().next().unwrap().parse().unwrap()
}

/// The most memory that the depot has had, in MiB.
fn peak_memory(depot: &Depot) -> u64 {
    status_of(depot, "VmHWM") / 1024
}

/// The depot lives, and others can work with it.
fn assert_serves(depot: &Depot) {
    crate::rig::write_random(&depot.path("honest/a.bin"), 5 << 20, 1);
    crate::rig::write_random(&depot.path("honest/b.bin"), 5000, 2);
    let link = depot.send(&["honest"]);
    let ran = depot.run(&["receive", &link, "received", "--overwrite"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    crate::rig::assert_same(&depot.path("honest"), &depot.path("received/honest"));
}
