//! Beside others: what each gets of a line.

use std::time::Duration;

use terahaul_core::Rate;
use terahaul_udp::rate::RateLaw;

use crate::figures::{background, model};
use crate::sim::*;

type Law = fn(Duration) -> Box<dyn RateLaw>;
/// A flow that begins then.
type Other = fn(Nanos) -> TcpFlow;

/// What ours is put beside in the tables.
const OTHERS: [(&str, Other); 3] =
    [("cubic", TcpFlow::cubic), ("cubic in a buffer", TcpFlow::cubic_in_a_buffer), ("bbr", TcpFlow::bbr)];

/// Bytes a second that each of our transfers and each of the others got from `from` to `until`.
fn shares(world: &mut World, from: Nanos, until: Nanos) -> (Vec<f64>, Vec<f64>) {
    world.run(from, |_| false);
    let count = |world: &World| -> (Vec<u64>, Vec<u64>) {
        (
            world.transfers.iter().map(Transfer::acknowledged).collect(),
            world.others.iter().map(|flow| flow.delivered * 1_500).collect(),
        )
    };
    let before = count(world);
    world.run(until, |_| false);
    let after = count(world);
    let seconds = (until - from) as f64 / 1e9;
    let rate = world.out.spec.rate;
    let share = |before: Vec<u64>, after: Vec<u64>| {
        before.iter().zip(&after).map(|(b, a)| (a - b) as f64 / seconds / rate).collect()
    };
    (share(before.0, after.0), share(before.1, after.1))
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// One of ours from `ours`, and one other from `theirs` on: what each gets of the line.
fn beside(law: Law, ours: Nanos, other: TcpFlow) -> (f64, f64) {
    let mut world = World::new(paths::shared(), 1);
    let spec = TransferSpec { starts: ours, ..world.spec(1 << 40, law) };
    world.add(spec);
    world.add_other(other);
    let (ours, others) = shares(&mut world, 5 * SECOND, 25 * SECOND);
    (ours[0], others[0])
}

/// Whoever of the two begins first.
fn both_go_on(other: Other) {
    for (ours, theirs) in [(0, 3 * SECOND), (3 * SECOND, 0)] {
        let (ours, theirs) = beside(model, ours, other(theirs));
        assert!(ours > 0.35 && theirs > 0.35, "ours {ours}, theirs {theirs}");
    }
}

#[test]
fn beside_cubic_both_go_on() {
    both_go_on(TcpFlow::cubic);
    both_go_on(TcpFlow::cubic_in_a_buffer);
}

#[test]
fn beside_bbr_both_go_on() {
    both_go_on(TcpFlow::bbr);
}

#[test]
fn in_the_background_others_hardly_notice() {
    for other in [TcpFlow::cubic(0), TcpFlow::bbr(0)] {
        let (ours, theirs) = beside(background, 3 * SECOND, other);
        assert!(theirs > 0.85, "ours {ours}, theirs {theirs}");
    }
}

/// What it sends below its limit says nothing of what the path carries, so nothing is learnt from it that others would have to pay for.
#[test]
fn a_background_that_a_limit_held_for_long_yields_as_soon_as_others_come() {
    for other in [TcpFlow::cubic(30 * SECOND), TcpFlow::bbr(30 * SECOND)] {
        let mut world = World::new(paths::shared(), 1);
        let half = Rate::per_second((world.out.spec.rate / 2.0) as u64);
        let spec = TransferSpec { max_rate: half, ..world.spec(1 << 40, background) };
        world.add(spec);
        world.add_other(other);
        // It has to begin anew, so that it is long before it pauses by itself again.
        world.run(2 * SECOND, |_| false);
        (world.out.spec.down, world.back.spec.down) = (true, true);
        world.run(3 * SECOND, |_| false);
        (world.out.spec.down, world.back.spec.down) = (false, false);
        let (alone, _) = shares(&mut world, 20 * SECOND, 30 * SECOND);
        assert!(alone[0] > 0.45, "{alone:?}");
        let (ours, theirs) = shares(&mut world, 35 * SECOND, 50 * SECOND);
        assert!(theirs[0] > 0.8, "ours {ours:?}, theirs {theirs:?}");
    }
}

/// A transfer of ours for each of these starts.
fn ours_on(path: PathSpec, seed: u64, starts: impl IntoIterator<Item = Nanos>) -> World {
    let mut world = World::new(path, seed);
    for starts in starts {
        let spec = TransferSpec { starts, ..world.spec(1 << 40, model) };
        world.add(spec);
    }
    world
}

#[test]
fn transfers_of_ours_share_a_line_evenly() {
    for (count, rtt) in [(2, 20), (4, 20), (8, 20), (2, 100), (4, 100), (8, 100)] {
        let starts = (0..count).map(|number| number * SECOND / 2);
        let mut world = ours_on(PathSpec::clean(400.0, rtt * MILLI), 1, starts);
        let (ours, _) = shares(&mut world, 10 * SECOND, 30 * SECOND);
        let total: f64 = ours.iter().sum();
        assert!(jain(&ours) > 0.95 && total > 0.9, "{count} over {rtt} ms: {ours:.3?}");
    }
}

/// Eight of ours, which begin half a second over `closer` apart.
fn eight_together(seed: u64, closer: u64) -> World {
    ours_on(paths::shared(), seed, starts(8, seed).into_iter().map(|starts| starts / closer))
}

/// What each of ours gets of the line from `from` to `until`, and which part of the packets is dropped meanwhile.
fn shares_and_drops(world: &mut World, from: Nanos, until: Nanos) -> (Vec<f64>, f64) {
    world.run(from, |_| false);
    let before = (world.out.counters.sent, world.out.counters.dropped);
    let (ours, _) = shares(world, from, until);
    let after = (world.out.counters.sent, world.out.counters.dropped);
    (ours, (after.1 - before.1) as f64 / (after.0 - before.0) as f64)
}

/// What they get of the line from 10 to 20 s, and which part of the packets is dropped meanwhile.
fn begin_together(seed: u64, closer: u64) -> (Vec<f64>, f64) {
    shares_and_drops(&mut eight_together(seed, closer), 10 * SECOND, 20 * SECOND)
}

/// Whoever meets a queue that others have filled at the same moment takes it for the path's length, and what overflows for
/// the path's loss.
#[test]
fn transfers_that_begin_together_share_a_line_evenly_and_lose_little() {
    for (seed, closer) in [(2, 10), (3, 1_000), (5, 10), (17, 10), (19, 50), (23, 10)] {
        let (ours, dropped) = begin_together(seed, closer);
        let total: f64 = ours.iter().sum();
        assert!(jain(&ours) > 0.95 && total > 0.9, "seed {seed}: {ours:.3?}");
        assert!(dropped < 0.15, "seed {seed}: {dropped:.3} of the packets are dropped");
    }
}

/// What a transfer of ours does beside another, every second.
#[test]
#[ignore = "prints a trace"]
fn trace_beside() {
    let bbr = std::env::var("TRACE").is_ok_and(|name| name == "bbr");
    let mut world = World::new(paths::shared(), 1);
    let spec = TransferSpec { starts: 3 * SECOND, ..world.spec(1 << 40, model) };
    world.add(spec);
    world.add_other(if bbr { TcpFlow::bbr(0) } else { TcpFlow::cubic_in_a_buffer(0) });
    let mut before = (0, 0);
    for step in 1..=80 {
        let at = 3 * SECOND + step * SECOND / 4;
        world.run(at, |_| false);
        let after = (world.transfers[0].acknowledged(), world.others[0].delivered * 1_500);
        let status = world.transfers[0].sender.status().next().unwrap();
        println!(
            "{:6.2} {:8} ours {:.3} theirs {:.3} waiting {:6.2} rtt {:6.2} under way {} lost {} dropped {}",
            at as f64 / 1e9,
            status.phase,
            (after.0 - before.0) as f64 / 0.25 / 125e6,
            (after.1 - before.1) as f64 / 0.25 / 125e6,
            status.waiting.as_secs_f64() * 1e3,
            status.round_trip.as_secs_f64() * 1e3,
            status.under_way,
            world.transfers[0].sender.lost_bytes(),
            world.out.counters.dropped,
        );
        before = after;
    }
}

/// Starts of `count` transfers: half a second apart, give or take a quarter, by `seed`.
fn starts(count: u64, seed: u64) -> Vec<Nanos> {
    let mut chance = chance::Chance::new(seed, 99);
    (0..count).map(|number| number * SECOND / 2 + (chance.share() * 0.25 * SECOND as f64) as Nanos).collect()
}

/// Jain's index of `count` of ours, and what they get of the line in all.
fn among_ours(count: u64, rtt_ms: u64, seed: u64) -> (f64, f64) {
    let mut world = ours_on(PathSpec::clean(400.0, rtt_ms * MILLI), seed, starts(count, seed));
    let (ours, _) = shares(&mut world, 10 * SECOND, 30 * SECOND);
    (jain(&ours), ours.iter().sum())
}

fn median_and_worst(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}

/// `SEEDS=8 ONLY=cubic`: what each gets, with other moments of starting for each seed.
#[test]
#[ignore = "prints a table; takes minutes"]
fn shares_by_seed() {
    let number = std::env::var("SEEDS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(8);
    let only = std::env::var("ONLY").unwrap_or_default();
    println!("| beside | ours: median | worst | theirs: median | worst |\n|---|---|---|---|---|");
    let laws: [(&str, Law); 2] = [("fair", model), ("background", background)];
    for (law_name, law) in laws {
        for (name, other) in OTHERS {
            for ours_first in [true, false] {
                let title = format!("{law_name}, {name} {}", if ours_first { "later" } else { "first" });
                if !title.contains(&only) {
                    continue;
                }
                let (ours, theirs): (Vec<f64>, Vec<f64>) = (1..=number)
                    .map(|seed| {
                        let later = 3 * SECOND + starts(1, seed)[0];
                        let (ours, theirs) = if ours_first { (0, later) } else { (later, 0) };
                        beside(law, ours, other(theirs))
                    })
                    .unzip();
                let (ours, theirs) = (median_and_worst(ours), median_and_worst(theirs));
                println!("| {title} | {:.3} | {:.3} | {:.3} | {:.3} |", ours.0, ours.1, theirs.0, theirs.1);
            }
        }
    }
    for closer in [10, 50, 1_000] {
        let title = format!("8 of ours, {} ms apart", 500 / closer);
        if title.contains(&only) {
            let (fair, dropped): (Vec<f64>, Vec<f64>) = (1..=number)
                .map(|seed| begin_together(seed, closer))
                .map(|(ours, dropped)| (jain(&ours), -dropped))
                .unzip();
            let (fair, dropped) = (median_and_worst(fair), median_and_worst(dropped));
            println!(
                "| {title} | Jain {:.3} | {:.3} | dropped {:.3} | {:.3} |",
                fair.0, fair.1, -dropped.0, -dropped.1
            );
        }
    }
    for (count, rtt) in [(2, 20), (4, 20), (8, 20), (2, 100), (4, 100), (8, 100), (2, 600), (8, 600)] {
        let title = format!("{count} of ours, {rtt} ms");
        if !title.contains(&only) {
            continue;
        }
        let (fair, all): (Vec<f64>, Vec<f64>) = (1..=number).map(|seed| among_ours(count, rtt, seed)).unzip();
        let (fair, all) = (median_and_worst(fair), median_and_worst(all));
        println!("| {title} | Jain {:.3} | {:.3} | in all {:.3} | {:.3} |", fair.0, fair.1, all.0, all.1);
    }
}

#[test]
#[ignore = "prints a table"]
fn shares_beside_others() {
    for (name, other) in OTHERS {
        let mut world = World::new(paths::shared(), 1);
        world.add_other(other(0));
        world.add_other(other(2 * SECOND));
        let (_, others) = shares(&mut world, 5 * SECOND, 30 * SECOND);
        println!("two {name}: {others:.3?}");
        let mut world = World::new(paths::shared(), 1);
        world.add_other(other(0));
        let (_, others) = shares(&mut world, 5 * SECOND, 30 * SECOND);
        println!("one {name}: {others:.3?}");
        for starts in [0, 3 * SECOND] {
            let mut world = World::new(paths::shared(), 1);
            let spec = TransferSpec { starts: 3 * SECOND - starts, ..world.spec(1 << 40, model) };
            world.add(spec);
            world.add_other(other(starts));
            let (ours, others) = shares(&mut world, 5 * SECOND, 35 * SECOND);
            println!("{name} from {starts}: ours {ours:.3?} theirs {others:.3?}");
        }
    }
    for count in [2, 3, 4, 8] {
        for rtt in [20, 100] {
            let starts = (0..count).map(|number| number * SECOND / 2);
            let mut world = ours_on(PathSpec::clean(400.0, rtt * MILLI), 1, starts);
            let (ours, _) = shares(&mut world, 10 * SECOND, 30 * SECOND);
            let total: f64 = ours.iter().sum();
            println!(
                "{count} of ours, {rtt} ms: Jain {:.3}, in all {total:.3}, {ours:.3?}, most waiting {:.1} ms",
                jain(&ours),
                world.out.counters.wait_peak as f64 / 1e6
            );
        }
    }
}

#[test]
#[ignore = "prints a trace"]
fn trace_together() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut world = eight_together(number("SEED").unwrap_or(1), number("CLOSER").unwrap_or(10));
    let mut before = [(0, 0); 8];
    for step in 1..=80 {
        world.run(step * SECOND / 4, |_| false);
        print!("{:6.2}", step as f64 / 4.0);
        for (transfer, before) in world.transfers.iter().zip(&mut before) {
            let Some(path) = transfer.sender.status().next() else { continue };
            let lost = 1.0 - (path.arrived - before.1) as f64 / (path.sent - before.0).max(1) as f64;
            *before = (path.sent, path.arrived);
            let waiting = path.waiting.as_secs_f64() * 1e3;
            print!(
                " | {:.2} {:3.0} MB/s {:3.0} % lost {waiting:4.1} ms",
                path.phase,
                path.rate / 1e6,
                lost * 100.0
            );
        }
        println!();
    }
}

/// Jain's index of `count` of ours on a near path in three seconds from `from` on, and which part of the packets is dropped meanwhile.
fn nearby(path: PathSpec, count: u64, seed: u64, from: Nanos) -> (f64, f64) {
    let mut world = ours_on(path, seed, starts(count, seed).into_iter().map(|starts| starts / 4));
    let (ours, dropped) = shares_and_drops(&mut world, from, from + 3 * SECOND);
    (jain(&ours), dropped)
}

/// What all of them would keep waiting is more than the queue holds.
#[test]
fn transfers_on_a_near_path_lose_little_to_each_other() {
    for (count, seed) in [(4, 1), (8, 2)] {
        let (fair, dropped) = nearby(paths::lan(9_000), count, seed, 2 * SECOND);
        assert!(
            fair > 0.9 && dropped < 0.01,
            "{count}: Jain {fair:.3}, {dropped:.3} of the packets are dropped"
        );
    }
}

/// `SEEDS=8`: the same on two paths, by seed.
#[test]
#[ignore = "prints a table; takes minutes"]
fn shares_nearby() {
    let number = std::env::var("SEEDS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(8);
    println!("| path | Jain: median | worst | dropped: median | most |\n|---|---|---|---|---|");
    for (name, path) in [("lan", paths::lan(9_000)), ("4 ms", PathSpec::clean(1_000.0, 4 * MILLI))] {
        for (count, from) in [(2, 2), (4, 2), (8, 2), (16, 12)] {
            let (fair, dropped): (Vec<f64>, Vec<f64>) = (1..=number)
                .map(|seed| nearby(path.clone(), count, seed, from * SECOND))
                .map(|(fair, lost)| (fair, -lost))
                .unzip();
            let (fair, dropped) = (median_and_worst(fair), median_and_worst(dropped));
            println!(
                "| {count} of ours, {name} | {:.3} | {:.3} | {:.4} | {:.4} |",
                fair.0, fair.1, -dropped.0, -dropped.1
            );
        }
    }
}
