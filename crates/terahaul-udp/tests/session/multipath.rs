//! Several paths between the same two ends: their rates add up, and one of them may go dark.

use std::time::Duration;

use proptest::prelude::*;
use terahaul_udp::ChannelState;
use terahaul_udp::rate::{Fixed, RateLaw};

use crate::recovery::hostile_path;
use crate::sim::*;

const MB: u64 = 1_000_000;

/// A network of these paths, and what all of them carry together.
fn network(paths: &[PathSpec], seed: u64) -> (World, f64) {
    let mut world = World::new(paths[0].clone(), seed);
    paths[1..].iter().for_each(|path| world.add_path(path.clone()));
    (world, paths.iter().map(PathSpec::payload_rate).sum())
}

/// Sends `bytes` over `paths`: the share of what they carry together.
fn carry(paths: &[PathSpec], bytes: u64, seed: u64, receiver_greets: bool) -> (f64, World) {
    let (mut world, sum) = network(paths, seed);
    let spec = TransferSpec { receiver_greets, ..world.spec(bytes, laws::model) };
    world.add(spec);
    world.finish(120 * SECOND);
    (world.transfers[0].goodput() / sum, world)
}

fn set_down(world: &mut World, path: usize, down: bool) {
    for line in world.path(path) {
        line.spec.down = down;
    }
}

fn states(transfer: &Transfer, channel: usize) -> Vec<ChannelState> {
    let of_it = transfer.channel_events.iter().filter(|(_, number, _)| usize::from(*number) == channel);
    of_it.map(|(_, _, state)| *state).collect()
}

#[test]
fn two_equal_paths_carry_nine_tenths_of_their_sum() {
    let path = PathSpec::clean(500.0, 40 * MILLI);
    for (seed, greets) in [(1, false), (2, true)] {
        let (share, world) = carry(&[path.clone(), path.clone()], 500 * MB, seed, greets);
        assert!(share >= 0.9, "{share:.3} of the sum, seed {seed}");
        let waited = world.out.counters.wait_mean().max(world.beside[0][0].counters.wait_mean());
        assert!(waited < 10 * MILLI, "a queue of {waited} ns, seed {seed}");
    }
}

#[test]
fn unequal_paths_add_up_too_and_the_slow_one_does_not_hold_the_end() {
    let paths = [PathSpec::clean(500.0, 20 * MILLI), PathSpec::clean(100.0, 100 * MILLI)];
    let swapped = [paths[1].clone(), paths[0].clone()];
    for (seed, paths) in [(3, paths), (4, swapped)] {
        let (share, world) = carry(&paths, 300 * MB, seed, false);
        assert!(share >= 0.93, "{share:.3} of the sum, seed {seed}");
        let overhead = world.transfers[0].overhead();
        assert!(overhead < 0.01, "{overhead:.4} sent needlessly, seed {seed}");
    }
}

/// Thirty times the round trip that was expected: what is reported so late is not taken for dark for ever.
#[test]
fn a_path_through_a_satellite_helps_a_short_one() {
    let paths = [PathSpec::clean(50.0, 20 * MILLI), PathSpec::clean(50.0, 600 * MILLI)];
    let (share, world) = carry(&paths, 100 * MB, 5, false);
    assert!(share >= 0.8, "{share:.3} of the sum, seed 5");
    assert_eq!(states(&world.transfers[0], 1).last(), Some(&ChannelState::Alive));
}

#[test]
fn when_one_path_goes_dark_the_other_carries_all_and_takes_it_back_in_when_it_returns() {
    let path = PathSpec::clean(100.0, 40 * MILLI);
    for (seed, dark, greets) in [(6, 0, false), (7, 1, false), (8, 0, true), (9, 1, true)] {
        let (mut world, sum) = network(&[path.clone(), path.clone()], seed);
        let spec = TransferSpec { receiver_greets: greets, ..world.spec(100 * MB, laws::model) };
        world.add(spec);
        world.run(2 * SECOND, |_| false);
        set_down(&mut world, dark, true);
        for step in 1..=20 {
            let before = world.transfers[0].acknowledged();
            world.run(2 * SECOND + step * SECOND / 10, |_| false);
            let arrived = world.transfers[0].acknowledged() - before;
            assert!(arrived > MB, "{arrived} bytes in tenth {step} of darkness, seed {seed}");
        }
        set_down(&mut world, dark, false);
        world.finish(60 * SECOND);
        let transfer = &world.transfers[0];
        let expected = [ChannelState::Alive, ChannelState::Silent, ChannelState::Alive];
        assert_eq!(states(transfer, dark), expected, "seed {seed}");
        // Two seconds on one path, and at most one and a half until the other is found again.
        let least = transfer.bytes as f64 / sum + 1.0;
        let took = world.now as f64 / 1e9;
        assert!(took < least + 1.0, "{took} s in place of {least}, seed {seed}");
    }
}

#[test]
fn a_path_that_is_dark_for_an_hour_takes_no_more_memory_than_for_a_minute_and_is_taken_back_in() {
    let path = PathSpec::clean(100.0, 40 * MILLI);
    let (mut world, _) = network(&[path.clone(), path], 11);
    let spec = world.spec(50 * MB, laws::model);
    world.add(spec);
    world.at(SECOND, |world| set_down(world, 1, true));
    let mut under_way_at = |seconds: u64| {
        world.run(seconds * SECOND, |_| false);
        world.transfers[0].sender.status().nth(1).unwrap().under_way
    };
    let (minutes, hour) = (under_way_at(100), under_way_at(3_600));
    assert!(0 < hour && hour < minutes + minutes / 10, "{hour} bytes, {minutes} after the first minutes");
    set_down(&mut world, 1, false);
    world.run(3_605 * SECOND, |_| false);
    assert_eq!(states(&world.transfers[0], 1).last(), Some(&ChannelState::Alive));
}

/// The worst moment: nothing else is under way any more that could show that others arrive.
#[test]
fn a_path_that_goes_dark_with_the_last_packets_costs_a_few_round_trips() {
    let path = PathSpec::clean(100.0, 40 * MILLI);
    let (_, undisturbed) = carry(&[path.clone(), path.clone()], 20 * MB, 10, false);
    for before in [5, 20, 35, 50] {
        let (mut world, _) = network(&[path.clone(), path.clone()], 10);
        let spec = world.spec(20 * MB, laws::model);
        world.add(spec);
        world.at(undisturbed.now - before * MILLI, |world| set_down(world, 1, true));
        world.finish(10 * SECOND);
        let later = world.now.saturating_sub(undisturbed.now) / MILLI;
        assert!(later < 200, "{later} ms later when dark {before} ms before the end");
    }
}

/// 40 Mbit/s on each path.
fn fixed(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Fixed::new(5e6, rtt))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// Paths of any kind, one of which goes dark and may come back.
    #[test]
    fn every_block_arrives_once_over_any_paths(
        paths in proptest::collection::vec(hostile_path(), 2..4),
        seed: u64,
        bytes in 1u64..10 * MB,
        channels in 1usize..4,
        max_blocks in 1u32..6,
        greets: bool,
        dark in 0usize..3,
        from in 0u64..2_000,
        lasts in prop_oneof![Just(None), (0u64..3_000).prop_map(Some)],
    ) {
        let (mut world, _) = network(&paths, seed);
        let channels = channels * paths.len();
        let spec = world.spec(bytes, fixed);
        world.add(TransferSpec { channels, max_blocks, receiver_greets: greets, ..spec });
        let dark = dark % paths.len();
        world.at(from * MILLI, move |world| set_down(world, dark, true));
        if let Some(lasts) = lasts {
            world.at((from + lasts) * MILLI, move |world| set_down(world, dark, false));
        }
        world.finish(300 * SECOND);
        prop_assert_eq!(world.transfers[0].arrived_bytes, bytes);
    }
}
