//! The figures of a whole gigabyte on each of the lab's paths: `cargo test -p terahaul-udp --test session -- --ignored --nocapture figures`.

use std::time::Duration;

use terahaul_udp::rate::{Background, Cubic, Eagerness, Model, RateLaw};

use crate::sim::*;

pub fn model(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Model::new(Eagerness::Fair, rtt))
}

pub fn cubic(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Cubic::new(rtt))
}

pub fn background(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Background::new(rtt))
}

struct Figure {
    name: &'static str,
    path: PathSpec,
    bytes: u64,
    least: f64,
}

fn figures() -> Vec<Figure> {
    let figure = |name, path, bytes, least| Figure { name, path, bytes, least };
    const GB: u64 = 1_000_000_000;
    vec![
        figure("filesender-100ms", paths::filesender_100ms(), GB, 0.93),
        figure("transatlantic", paths::transatlantic(), GB, 0.93),
        figure("lossy", paths::lossy(0.01), GB, 0.92),
        figure("very-lossy", paths::lossy(0.05), GB, 0.88),
        figure("bursty", paths::bursty(), GB, 0.85),
        // Two round trips more come before these on real sockets: 0.85 then.
        figure("satellite", paths::satellite(), GB / 10, 0.88),
        figure("policed", paths::policed(), GB, 0.85),
        figure("bloated", paths::bloated(), GB / 2, 0.85),
        figure("asymmetric", paths::asymmetric(), GB, 0.85),
        figure("lan, MTU 9000", paths::lan(9_000), GB, 0.85),
        figure("lan, MTU 1500", paths::lan(1_500), GB, 0.85),
    ]
}

/// Transfers `figure` under `law`: its share of what the line carries, and the network afterwards.
fn carry(figure: &Figure, law: fn(Duration) -> Box<dyn RateLaw>, seed: u64) -> (f64, World) {
    let mut world = World::new(figure.path.clone(), seed);
    let spec = world.spec(figure.bytes, law);
    world.add(spec);
    world.finish(600 * SECOND);
    (world.transfers[0].goodput() / figure.path.payload_rate(), world)
}

fn reaches_its_figure(name: &str) {
    let figure = figures().into_iter().find(|figure| figure.name == name).unwrap();
    for seed in 1..3 {
        let (share, world) = carry(&figure, model, seed);
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
        let spec = TransferSpec { channels, ..world.spec(200_000_000, model) };
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
    let ((cubic, _), (model, _)) = (carry(&lossy, cubic, 1), carry(&long, model, 1));
    assert!(model > 100.0 * cubic, "{model} and {cubic} of the line");
}

#[test]
fn alone_on_a_clean_line_every_law_uses_it() {
    let clean = Figure { name: "clean", path: paths::shared(), bytes: 1_000_000_000, least: 0.0 };
    let laws: [fn(Duration) -> Box<dyn RateLaw>; 3] = [model, cubic, background];
    for (law, least) in laws.into_iter().zip([0.95, 0.85, 0.7]) {
        let (share, world) = carry(&clean, law, 1);
        let name = world.transfers[0].sender.status().next().unwrap().law;
        assert!(share > least, "{name}: {share:.3}");
    }
}

#[test]
#[ignore = "prints a table; takes half a minute"]
fn figures_of_every_path() {
    println!(
        "| path | of C(1 − p) less headers | at least | seconds | queue added, mean / most | dropped by the queue | sent needlessly |"
    );
    println!("|---|---|---|---|---|---|---|");
    let only = std::env::var("ONLY").unwrap_or_default();
    for Figure { name, path, bytes, least } in
        figures().into_iter().filter(|figure| figure.name.contains(&only))
    {
        let line = path.payload_rate();
        let mut world = World::new(path, 1);
        let spec = world.spec(bytes, model);
        world.add(spec);
        world.finish(600 * SECOND);
        let transfer = &world.transfers[0];
        let share = transfer.goodput() / line;
        println!(
            "| {name} | {share:.3} | {least} | {:.2} | {:.1} / {:.1} ms | {:.2} % | {:.2} % |",
            transfer.finished_at.unwrap_or(0) as f64 / 1e9,
            world.out.counters.wait_mean() as f64 / 1e6,
            world.out.counters.wait_peak as f64 / 1e6,
            world.out.counters.dropped as f64 / world.out.counters.sent as f64 * 100.0,
            (transfer.overhead() - world.out.counters.lost as f64 / world.out.counters.sent as f64) * 100.0,
        );
    }
}

/// `ONLY=lossy SEEDS=8 MB=500`: the same over many seeds. A single one may be lucky.
#[test]
#[ignore = "prints a table; takes a minute for each path"]
fn figures_by_seed() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(usual)
    };
    let (seeds, mb) = (number("SEEDS", 8), number("MB", 500));
    let only = std::env::var("ONLY").unwrap_or_default();
    println!(
        "| path | MB | median | worst | at least | queue added, mean | dropped by the queue | sent needlessly |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for figure in figures().into_iter().filter(|figure| figure.name.contains(&only)) {
        let figure = Figure { bytes: figure.bytes * mb / 1_000, ..figure };
        let mut all: Vec<(f64, f64, f64, f64)> = (1..=seeds)
            .map(|seed| {
                let (share, world) = carry(&figure, model, seed);
                let counters = &world.out.counters;
                let of_sent = |packets: u64| packets as f64 / counters.sent as f64 * 100.0;
                let needless = world.transfers[0].overhead() * 100.0 - of_sent(counters.lost);
                (share, counters.wait_mean() as f64 / 1e6, of_sent(counters.dropped), needless)
            })
            .collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let most = |value: fn(&(f64, f64, f64, f64)) -> f64| all.iter().map(value).fold(0.0, f64::max);
        println!(
            "| {} | {} | {:.3} | {:.3} | {} | {:.1} ms | {:.2} % | {:.2} % |",
            figure.name,
            figure.bytes / 1_000_000,
            all[all.len() / 2].0,
            all[0].0,
            figure.least,
            most(|one| one.1),
            most(|one| one.2),
            most(|one| one.3),
        );
    }
}

/// `TRACE=policed`: what the sender does over time on one path.
#[test]
#[ignore = "prints a trace of the path that TRACE names"]
fn trace() {
    let Ok(name) = std::env::var("TRACE") else { return };
    let step = std::env::var("STEP_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(100) * MILLI;
    for Figure { path, bytes, .. } in figures().into_iter().filter(|figure| figure.name == name) {
        let rate = path.out.rate;
        let mut world = World::new(path, 1);
        let spec = world.spec(bytes, model);
        world.add(spec);
        let mut sent = 0;
        let mut until = 0;
        while world.transfers[0].finished_at.is_none() {
            until += step;
            world.run(until, |world| world.transfers[0].finished_at.is_some());
            let transfer = &world.transfers[0];
            let status = transfer.sender.status().next().unwrap();
            let offered = (transfer.data_bytes - sent) as f64 / (step as f64 / 1e9) / rate;
            sent = transfer.data_bytes;
            println!(
                "{:7.3} s {:8} offered {offered:6.3} rate {:6.3} under way {:9} rtt {:7.2} waiting {:6.2} arrived {:10} dropped {} lost {}",
                world.now as f64 / 1e9,
                status.phase,
                status.rate / rate,
                status.under_way,
                status.round_trip.as_secs_f64() * 1e3,
                status.waiting.as_secs_f64() * 1e3,
                transfer.arrived_bytes,
                world.out.counters.dropped,
                world.out.counters.lost,
            );
        }
    }
}
