//! Alone on lines that are not what they were, or never quite the same: what they still carry is got.

use std::net::SocketAddr;

use crate::sim::*;

/// What one transfer, alone, gets from 5 to 20 s, and the mean that its packets wait in milliseconds, jitter not counted.
fn gets(law: Law, path: PathSpec, seed: u64) -> (f64, f64) {
    let mut world = scenes::alone(law, path, seed);
    let shares = world.shares(5 * SECOND, 20 * SECOND);
    (shares.total(), world.out.counters.wait_mean() as f64 / 1e6)
}

/// Wi-Fi, mobile networks and satellites hold packets back for reasons of their own.
#[test]
fn a_line_that_holds_packets_back_is_used_all_the_same() {
    for (rtt, jitter, slot) in [(20, 5_000, 0), (20, 0, 5_000), (40, 0, 10_000)] {
        for seed in [1, 2] {
            let path = scenes::unsteady(100.0, rtt, jitter, slot);
            let (fair, waits) = gets(laws::model, path.clone(), seed);
            let (back, _) = gets(laws::background, path, seed);
            let title = format!("{rtt} ms, jitter {jitter} us, slots {slot} us, seed {seed}");
            assert!(fair > 0.8 && back > 0.5, "{title}: {fair:.2}, in the background {back:.2}");
            assert!(waits < rtt as f64 / 4.0, "{title}: a queue of {waits} ms");
        }
    }
}

/// What is sent beyond what it still carries only fills its queue, and is dropped there.
#[test]
fn a_line_that_becomes_much_slower_is_not_flooded() {
    for (from, to, rtt, queue) in
        [(100.0, 20.0, 10, 50.0), (100.0, 10.0, 10, 200.0), (100.0, 10.0, 30, 1000.0), (50.0, 5.0, 30, 200.0)]
    {
        let path = PathSpec::clean(from, rtt * MILLI);
        // It needs a second to notice.
        let shares = scenes::becoming(laws::model, path, to, queue).shares(11 * SECOND, 41 * SECOND);
        let (got, dropped) = (shares.total(), shares.dropped);
        let title = format!("{from} to {to} Mbit/s, {rtt} ms, queue {queue} ms");
        assert!(got > 0.85 && dropped < 0.03, "{title}: got {got:.2}, dropped {dropped:.3}");
    }
}

/// It looks like a queue that never runs empty, whatever is sent.
#[test]
fn a_route_that_becomes_longer_is_no_queue() {
    for (out, back) in [(50, 50), (100, 0), (10, 0)] {
        let path = PathSpec::clean(100.0, 20 * MILLI);
        let shares = scenes::lengthening(laws::model, path, out, back, 1).shares(14 * SECOND, 30 * SECOND);
        let (got, dropped) = (shares.total(), shares.dropped);
        assert!(got > 0.85 && dropped < 0.01, "{out} and {back} ms: got {got:.2}, dropped {dropped:.4}");
    }
}

/// It is not noticed as what waits, and not for half a minute by the shortest round trip.
#[test]
fn a_way_back_that_becomes_longer_costs_nothing() {
    for seed in [1, 2] {
        let path = PathSpec::clean(100.0, 20 * MILLI);
        let shares = scenes::lengthening(laws::model, path, 0, 100, seed).shares(13 * SECOND, 30 * SECOND);
        let (got, dropped) = (shares.total(), shares.dropped);
        assert!(got > 0.95 && dropped < 0.002, "got {got:.2}, dropped {dropped:.4}, seed {seed}");
    }
}

/// From Wi-Fi to a mobile network, whose way back holds packets back: none of that is a queue on the way out.
#[test]
fn a_receiver_that_moves_to_a_longer_path_gets_what_that_carries() {
    for seed in [1, 2, 3] {
        let mut world = scenes::alone(laws::model, PathSpec::clean(100.0, 20 * MILLI), seed);
        world.at(5 * SECOND, |world| {
            world.transfers[0].receiver_addresses[0] = SocketAddr::from(([192, 0, 2, 9], 2_000));
            world.out.spec.delay += 30 * MILLI;
            world.back.spec.jitter = 20 * MILLI;
        });
        let shares = world.shares(7 * SECOND, 15 * SECOND);
        assert!(shares.total() > 0.7, "{:.2}, seed {seed}", shares.total());
    }
}

/// Not a burst that is long enough to measure it by fits into its queue: nothing ever waits long, and what is lost says nothing until
/// less is sent.
#[test]
fn a_line_with_hardly_any_queue_is_used_and_not_flooded() {
    for (mbits, rtt) in [(4.0, 20), (4.0, 40), (10.0, 20)] {
        let mut path = PathSpec::clean(mbits, rtt * MILLI);
        path.out.queue = 5.0 * 1_500.0;
        let line = path.payload_rate();
        let mut world = World::new(path, 1);
        let bytes = (mbits * 125_000.0 * 10.0) as u64;
        let spec = world.spec(bytes, laws::model);
        world.add(spec);
        world.finish(100 * SECOND);
        let (share, overhead) = (world.transfers[0].goodput() / line, world.transfers[0].overhead());
        let title = format!("{mbits} Mbit/s, {rtt} ms");
        assert!(share > 0.8 && overhead < 0.15, "{title}: {share:.2} of the line, {overhead:.2} sent again");
    }
}

/// What waits there behind the first packet of a burst is as much as a queue on a nearer or faster line.
#[test]
fn a_slow_line_that_is_far_is_taken_at_once() {
    let mut world = World::new(PathSpec::clean(10.0, 2 * SECOND), 1);
    // Ten seconds of it, and two round trips.
    let spec = world.spec(12_500_000, laws::model);
    world.add(spec);
    world.finish(18 * SECOND);
}
