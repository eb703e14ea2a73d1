//! Beside others: what each gets of a line.

use crate::figures::{background, model};
use crate::sim::*;

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
fn beside(
    law: fn(std::time::Duration) -> Box<dyn terahaul_udp::rate::RateLaw>,
    ours: Nanos,
    other: TcpFlow,
) -> (f64, f64) {
    let mut world = World::new(paths::shared(), 1);
    let spec = TransferSpec { starts: ours, ..world.spec(1 << 40, law) };
    world.add(spec);
    world.add_other(other);
    let (ours, others) = shares(&mut world, 5 * SECOND, 25 * SECOND);
    (ours[0], others[0])
}

#[test]
fn beside_cubic_both_go_on() {
    let (ours, theirs) = beside(model, 0, TcpFlow::cubic(3 * SECOND));
    assert!(ours > 0.35 && theirs > 0.35, "ours {ours}, theirs {theirs}");
    // CUBIC was here first and keeps some of what it had: it fills the queue slowly and empties it never.
    let (ours, theirs) = beside(model, 3 * SECOND, TcpFlow::cubic(0));
    assert!(ours > 0.18 && theirs > 0.35, "ours {ours}, theirs {theirs}");
}

#[test]
fn beside_bbr_both_go_on() {
    for (ours, theirs) in [(0, 3 * SECOND), (3 * SECOND, 0)] {
        let (ours, theirs) = beside(model, ours, TcpFlow::bbr(theirs));
        assert!(ours > 0.28 && theirs > 0.35, "ours {ours}, theirs {theirs}");
    }
}

#[test]
fn in_the_background_others_hardly_notice() {
    for other in [TcpFlow::cubic(0), TcpFlow::bbr(0)] {
        let (ours, theirs) = beside(background, 3 * SECOND, other);
        assert!(theirs > 0.85, "ours {ours}, theirs {theirs}");
    }
}

#[test]
fn transfers_of_ours_share_a_line_evenly() {
    for (count, rtt) in [(2, 20), (4, 20), (2, 100), (4, 100), (8, 100)] {
        let mut world = World::new(PathSpec::clean(400.0, rtt * MILLI), 1);
        for number in 0..count {
            let spec = TransferSpec { starts: number * SECOND / 2, ..world.spec(1 << 40, model) };
            world.add(spec);
        }
        let (ours, _) = shares(&mut world, 10 * SECOND, 30 * SECOND);
        let total: f64 = ours.iter().sum();
        assert!(jain(&ours) > 0.95 && total > 0.9, "{count} over {rtt} ms: {ours:.3?}");
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
    world.add_other(if bbr { TcpFlow::bbr(0) } else { TcpFlow::cubic(0) });
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

#[test]
#[ignore = "prints a table"]
fn shares_beside_others() {
    for (name, other) in [("cubic", TcpFlow::cubic as fn(Nanos) -> TcpFlow), ("bbr", TcpFlow::bbr)] {
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
            let mut world = World::new(PathSpec::clean(400.0, rtt * MILLI), 1);
            for number in 0..count {
                let spec = TransferSpec { starts: number * SECOND / 2, ..world.spec(1 << 40, model) };
                world.add(spec);
            }
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
