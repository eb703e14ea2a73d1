//! Lines that mark packets (ECN) for a reason or for none, or drop those that may be marked.

use std::net::SocketAddr;

use crate::sim::line::{Ecn, Loss};
use crate::sim::*;

const LAWS: [Law; 3] = [laws::model, laws::cubic, laws::background];

fn path(ecn: Ecn, loss: f64) -> PathSpec {
    let mut path = PathSpec::clean(100.0, 40 * MILLI);
    for line in [&mut path.out, &mut path.back] {
        line.ecn = ecn;
        line.loss = if loss > 0.0 { Loss::Uniform(loss) } else { Loss::None };
    }
    path
}

fn carry(law: Law, path: PathSpec, seed: u64) -> World {
    let mut world = World::new(path, seed);
    let spec = TransferSpec { channels: 2, ..world.spec(60_000_000, law) };
    world.add(spec);
    world.finish(200 * SECOND);
    world
}

/// Over a line that does this to what may be marked, and may lose packets beside that, each law gets what it would without.
fn costs_nothing(ecn: Ecn, laws: &[Law]) {
    for loss in [0.0, 0.001] {
        for law in laws {
            for seed in [1, 2] {
                let [without, with] = [Ecn::Ignores, ecn].map(|ecn| carry(*law, path(ecn, loss), seed));
                let part = with.transfers[0].goodput() / without.transfers[0].goodput();
                let status = with.transfers[0].sender.status().next().unwrap();
                // Where packets are lost, other ones are.
                let least = if loss > 0.0 { 0.9 } else { 0.95 };
                assert!(part > least, "{part:.3} of the rate, {ecn:?}, {loss} lost, seed {seed}: {status}");
            }
        }
    }
}

#[test]
fn a_line_that_marks_every_packet_costs_nothing() {
    costs_nothing(Ecn::Marks(1.0), &LAWS);
    costs_nothing(Ecn::MarksAll, &LAWS);
}

#[test]
fn a_line_that_marks_many_packets_whatever_waits_costs_nothing() {
    costs_nothing(Ecn::Marks(0.5), &LAWS);
    costs_nothing(Ecn::Marks(0.1), &LAWS);
}

#[test]
fn a_line_that_drops_what_may_be_marked_is_no_filter_for_udp() {
    costs_nothing(Ecn::Drops, &LAWS);
}

/// Another route, without another address.
#[test]
fn a_route_that_comes_to_drop_what_may_be_marked_costs_a_moment() {
    for seed in [1, 2, 3] {
        let mut world = scenes::alone(laws::model, path(Ecn::Ignores, 0.0), seed);
        world.at(5 * SECOND, |world| world.out.spec.ecn = Ecn::Drops);
        let got = world.shares(7 * SECOND, 12 * SECOND).total();
        assert!(got > 0.95, "{got:.2}, seed {seed}");
    }
}

#[test]
fn a_path_that_was_down_may_mark_again() {
    for seed in [1, 2, 3] {
        let mut world = scenes::alone(laws::model, path(Ecn::Ignores, 0.0), seed);
        world.at(5 * SECOND, |world| (world.out.spec.down, world.back.spec.down) = (true, true));
        world.at(8 * SECOND, |world| (world.out.spec.down, world.back.spec.down) = (false, false));
        assert!(markable(&mut world, 12 * SECOND) > 0.9, "seed {seed}");
    }
}

#[test]
fn a_new_address_is_tested_anew() {
    for (ecn, seed) in [(Ecn::Drops, 1), (Ecn::Drops, 2), (Ecn::MarksAll, 1), (Ecn::MarksAll, 2)] {
        let mut world = scenes::alone(laws::model, path(ecn, 0.0), seed);
        assert_eq!(markable(&mut world, 4 * SECOND), 0.0, "{ecn:?}, seed {seed}");
        world.at(5 * SECOND, |world| {
            world.transfers[0].receiver_addresses[0] = SocketAddr::from(([192, 0, 2, 9], 2_000));
            world.out.spec.ecn = Ecn::Ignores;
        });
        assert!(markable(&mut world, 7 * SECOND) > 0.9, "{ecn:?}, seed {seed}");
    }
}

/// Which part of what is sent in the second after `from` may be marked.
fn markable(world: &mut World, from: Nanos) -> f64 {
    world.run(from, |_| false);
    let before = world.out.counters.clone();
    world.run(from + SECOND, |_| false);
    let after = &world.out.counters;
    (after.markable - before.markable) as f64 / (after.sent - before.sent) as f64
}

#[test]
fn a_line_that_marks_those_that_wait_has_a_short_queue() {
    for (law, least) in LAWS.into_iter().zip([0.7, 0.7, 0.4]) {
        for seed in [1, 2] {
            let unmarked = path(Ecn::Ignores, 0.0);
            let above = unmarked.out.rate * 0.005;
            let world = carry(law, path(Ecn::MarksAbove(above), 0.0), seed);
            let (got, counters) =
                (world.transfers[0].goodput() / unmarked.payload_rate(), &world.out.counters);
            let waited = counters.wait_mean();
            assert!(got > least, "{got:.3} of the line, seed {seed}");
            assert!(counters.marked > 100 && counters.dropped == 0, "{counters:?}, seed {seed}");
            assert!(waited < 4 * MILLI, "a queue of {waited} ns, seed {seed}");
        }
    }
}
