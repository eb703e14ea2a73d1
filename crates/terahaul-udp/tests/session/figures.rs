//! The figures of a whole gigabyte on each of the lab's paths.

use crate::sim::figures::{Figure, figures};
use crate::sim::*;

fn reaches_its_figure(name: &str) {
    let figure = figures().into_iter().find(|figure| figure.name == name).unwrap();
    for seed in 1..3 {
        let (share, world) = figure.carry(laws::model, seed);
        assert!(share >= figure.least, "{share:.3} of the line, seed {seed}");
        let waited = world.out.counters.wait_mean() as f64 / 1e6;
        assert!(waited < 50.0, "a queue of {waited} ms, seed {seed}");
        let dropped = world.out.counters.dropped as f64 / world.out.counters.sent as f64;
        // A policer is found by losing to it.
        let most = if name == "policed" { 0.02 } else { 0.005 };
        assert!(dropped < most, "{dropped:.4} dropped by the queue, seed {seed}");
    }
}

macro_rules! figures {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { reaches_its_figure($name) })*
    };
}

figures! {
    filesender_100ms: "filesender-100ms",
    transatlantic: "transatlantic",
    lossy: "lossy",
    very_lossy: "very-lossy",
    bursty: "bursty",
    satellite: "satellite",
    policed: "policed",
    bloated: "bloated",
    asymmetric: "asymmetric",
    lan_9000: "lan, MTU 9000",
    lan_1500: "lan, MTU 1500",
}

/// MCDTP's table: there, more channels were slower, and eight stalled.
#[test]
fn more_channels_are_never_slower_and_cause_no_loss() {
    let mut fewer = 0.0f64;
    for channels in [1, 2, 4, 8, 16] {
        let path = paths::transatlantic();
        let line = path.payload_rate();
        let mut world = World::new(path, 1);
        let spec = TransferSpec { channels, ..world.spec(200_000_000, laws::model) };
        world.add(spec);
        world.finish(60 * SECOND);
        let share = world.transfers[0].goodput() / line;
        assert!(
            share > 0.99 * fewer,
            "{channels} channels: {share:.3} of the line, fewer {fewer:.3}, seed 1"
        );
        fewer = fewer.max(share);
        let dropped = world.out.counters.dropped as f64 / world.out.counters.sent as f64;
        assert!(dropped < 0.005, "{channels} channels: {dropped:.4} dropped by the queue, seed 1");
    }
}

/// What the default is for: CUBIC gets a hundredth of what it does where one packet in a hundred is lost.
#[test]
fn where_packets_are_lost_the_default_outdoes_cubic_a_hundred_times() {
    let lossy = Figure { name: "lossy", path: paths::lossy(0.01), bytes: 20_000_000, least: 0.0 };
    let long = Figure { bytes: 2_000_000_000, path: paths::lossy(0.01), ..lossy };
    let ((cubic, _), (model, _)) = (lossy.carry(laws::cubic, 1), long.carry(laws::model, 1));
    assert!(model > 100.0 * cubic, "{model} and {cubic} of the line");
}

#[test]
fn alone_on_a_clean_line_every_law_uses_it() {
    let clean = Figure { name: "clean", path: paths::shared(), bytes: 1_000_000_000, least: 0.0 };
    let laws: [Law; 3] = [laws::model, laws::cubic, laws::background];
    for (law, least) in laws.into_iter().zip([0.95, 0.85, 0.7]) {
        let (share, world) = clean.carry(law, 1);
        let name = world.transfers[0].sender.status().next().unwrap().law;
        assert!(share > least, "{name}: {share:.3}");
    }
}
