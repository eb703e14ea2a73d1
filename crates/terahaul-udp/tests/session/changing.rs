//! Alone on lines that are not what they were, or never quite the same: what they still carry is got.

use std::time::Duration;

use terahaul_udp::rate::RateLaw;

use crate::figures::{background, cubic, model};
use crate::sim::*;

type Law = fn(Duration) -> Box<dyn RateLaw>;

/// What one transfer, alone, gets of the line from `from` to `until`, and which part of the packets is dropped meanwhile.
fn alone(world: &mut World, from: Nanos, until: Nanos) -> (f64, f64) {
    let count = |world: &World| {
        let counters = &world.out.counters;
        (world.transfers[0].acknowledged(), counters.sent, counters.dropped)
    };
    world.run(from, |_| false);
    let before = count(world);
    world.run(until, |_| false);
    let after = count(world);
    let seconds = (until - from) as f64 / 1e9;
    let got = (after.0 - before.0) as f64 / seconds / world.out.spec.rate;
    (got, (after.2 - before.2) as f64 / (after.1 - before.1).max(1) as f64)
}

/// A path of so many Mbit/s and milliseconds, both ways of which hold packets back for up to so many microseconds: each by another
/// time, or all until the next slot.
fn unsteady(mbits: f64, rtt_ms: u64, jitter_us: u64, slot_us: u64) -> PathSpec {
    let mut path = PathSpec::clean(mbits, rtt_ms * MILLI);
    for line in [&mut path.out, &mut path.back] {
        line.jitter = jitter_us * 1_000;
    }
    path.out.slot = slot_us * 1_000;
    path
}

/// What it gets from 5 s on, for so many seconds, and the mean that its packets wait, jitter not counted.
fn gets(law: Law, path: PathSpec, seed: u64, seconds: u64) -> (f64, f64) {
    let mut world = World::new(path, seed);
    let spec = world.spec(1 << 40, law);
    world.add(spec);
    let (got, _) = alone(&mut world, 5 * SECOND, (5 + seconds) * SECOND);
    (got, world.out.counters.wait_mean() as f64 / 1e6)
}

/// Wi-Fi, mobile networks and satellites hold packets back for reasons of their own.
#[test]
fn a_line_that_holds_packets_back_is_used_all_the_same() {
    for (rtt, jitter, slot) in [(20, 5_000, 0), (20, 0, 5_000), (40, 0, 10_000)] {
        for seed in [1, 2] {
            let path = unsteady(100.0, rtt, jitter, slot);
            let (fair, waits) = gets(model, path.clone(), seed, 15);
            let (back, _) = gets(background, path, seed, 15);
            let title = format!("{rtt} ms, jitter {jitter} us, slots {slot} us, seed {seed}");
            assert!(fair > 0.8 && back > 0.5, "{title}: {fair:.2}, in the background {back:.2}");
            assert!(waits < rtt as f64 / 4.0, "{title}: a queue of {waits} ms");
        }
    }
}

/// `ONLY=20 SECONDS=30`: what each law gets, and how long packets wait for it.
#[test]
#[ignore = "prints a table; takes minutes"]
fn shares_of_unsteady_lines() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    println!("| line | model | waits | background | waits | cubic |\n|---|---|---|---|---|---|");
    for rtt in [20, 40, 100] {
        for mbits in [20.0, 100.0, 500.0] {
            for (jitter, slot) in
                [(0, 0), (0, 2_000), (0, 5_000), (0, 10_000), (2_000, 0), (5_000, 0), (10_000, 0)]
            {
                let title = format!(
                    "{mbits} Mbit/s, {rtt} ms, jitter {} ms, slots {} ms",
                    jitter / 1_000,
                    slot / 1_000
                );
                if !title.contains(&only) {
                    continue;
                }
                let path = unsteady(mbits, rtt, jitter, slot);
                let [fair, back, cubic] =
                    [model, background, cubic].map(|law: Law| gets(law, path.clone(), 1, seconds));
                println!(
                    "| {title} | {:.2} | {:.1} ms | {:.2} | {:.1} ms | {:.2} |",
                    fair.0, fair.1, back.0, back.1, cubic.0
                );
            }
        }
    }
}

/// What it gets in 30 s of a line from a second after it has become another, and which part of the packets is dropped meanwhile.
fn after(from: f64, to: f64, rtt_ms: u64, queue_ms: f64) -> (f64, f64) {
    let mut path = PathSpec::clean(from, rtt_ms * MILLI);
    path.out.queue = queue_ms * to * 125.0;
    let mut world = World::new(path, 1);
    let spec = world.spec(1 << 40, model);
    world.add(spec);
    world.run(10 * SECOND, |_| false);
    world.out.spec.rate = to * 125_000.0;
    alone(&mut world, 11 * SECOND, 41 * SECOND)
}

/// What is sent beyond what it still carries only fills its queue, and is dropped there.
#[test]
fn a_line_that_becomes_much_slower_is_not_flooded() {
    for (from, to, rtt, queue) in
        [(100.0, 20.0, 10, 50.0), (100.0, 10.0, 10, 200.0), (100.0, 10.0, 30, 1000.0), (50.0, 5.0, 30, 200.0)]
    {
        let (got, dropped) = after(from, to, rtt, queue);
        let title = format!("{from} to {to} Mbit/s, {rtt} ms, queue {queue} ms");
        assert!(got > 0.85 && dropped < 0.03, "{title}: got {got:.2}, dropped {dropped:.3}");
    }
}

#[test]
#[ignore = "prints a table; takes a minute"]
fn shares_of_lines_that_become_slower() {
    let mut many = 0;
    for (from, to) in [
        (100.0, 50.0),
        (100.0, 30.0),
        (100.0, 20.0),
        (100.0, 10.0),
        (500.0, 100.0),
        (1000.0, 300.0),
        (1000.0, 100.0),
        (50.0, 5.0),
    ] {
        for rtt in [10, 30, 100] {
            for queue in [50.0, 200.0, 1000.0] {
                let (got, dropped) = after(from, to, rtt, queue);
                many += u32::from(dropped > 0.03);
                println!(
                    "{from} to {to} Mbit/s, {rtt} ms, queue {queue} ms: got {got:.2}, dropped {dropped:.3}"
                );
            }
        }
    }
    println!("{many} of 72 drop more than 3 %");
}

/// `TRACE=100,10,10,200`: Mbit/s before and after, the round trip and the queue in milliseconds; `TO_RTT`: another round trip from then on;
/// `JITTER`, `SLOT`: microseconds; `LAW`.
#[test]
#[ignore = "prints a trace"]
fn trace_changing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Ok(trace) = std::env::var("TRACE") else { return };
    let numbers: Vec<f64> = trace.split(',').filter_map(|text| text.parse().ok()).collect();
    let [from, to, rtt, queue] = numbers[..] else { return };
    let mut path = unsteady(from, rtt as u64, number("JITTER").unwrap_or(0), number("SLOT").unwrap_or(0));
    path.out.queue = queue * to * 125.0;
    let law: Law = match std::env::var("LAW").as_deref() {
        Ok("background") => background,
        Ok("cubic") => cubic,
        _ => model,
    };
    let mut world = World::new(path, 1);
    let spec = world.spec(1 << 40, law);
    world.add(spec);
    let to_rtt = number("TO_RTT").unwrap_or(rtt as u64);
    world.at(10 * SECOND, move |world| {
        world.out.spec.rate = to * 125_000.0;
        (world.out.spec.delay, world.back.spec.delay) = (to_rtt * MILLI / 2, to_rtt * MILLI / 2);
    });
    let step = number("STEP_MS").unwrap_or(500) * MILLI;
    for at in 1..=number("SECONDS").unwrap_or(30) * SECOND / step {
        let (got, dropped) = alone(&mut world, (at - 1) * step, at * step);
        let status = world.transfers[0].sender.status().next().unwrap();
        println!(
            "{:6.2} {:8} got {got:.3} dropped {dropped:.3} rate {:7.3} MB/s capacity {:7.3} waiting {:6.1} rtt {:6.1} under way {}",
            world.now as f64 / 1e9,
            status.phase,
            status.rate / 1e6,
            status.capacity.unwrap_or(0.0) / 1e6,
            status.waiting.as_secs_f64() * 1e3,
            status.round_trip.as_secs_f64() * 1e3,
            status.under_way,
        );
    }
}
