//! Whatever the path does to packets, every block arrives, once and whole, and nothing grows without bound.
//!
//! At a fixed rate: nothing here depends on a law of rate control.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use terahaul_core::Rate;
use terahaul_udp::ChannelState;
use terahaul_udp::rate::{Fixed, RateLaw};

use crate::sim::line::Loss;
use crate::sim::*;

/// 80 % of [`paths::small`].
fn fixed(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Fixed::new(5e6, rtt))
}

const MB: u64 = 1_000_000;

fn one(path: PathSpec, seed: u64, bytes: u64) -> World {
    let mut world = World::new(path, seed);
    let spec = world.spec(bytes, fixed);
    world.add(spec);
    world
}

/// Where the network sees the sender's first channel from now on.
fn move_sender(world: &mut World, host: u8, port: u16) {
    world.transfers[0].sender_addresses[0] = SocketAddr::from(([192, 0, 2, host], port));
}

fn move_receiver(world: &mut World, host: u8, port: u16) {
    world.transfers[0].receiver_addresses[0] = SocketAddr::from(([192, 0, 2, host], port));
}

pub fn set_down(world: &mut World, down: bool) {
    world.out.spec.down = down;
    world.back.spec.down = down;
}

#[test]
fn a_clean_path_carries_the_fixed_rate_and_nothing_twice() {
    let mut world = one(paths::small(), 1, 50 * MB);
    world.finish(30 * SECOND);
    let transfer = &world.transfers[0];
    assert!(transfer.goodput() > 4.7e6, "{}", transfer.goodput());
    // The copies of the last half of a round trip.
    assert!(transfer.overhead() < 0.01, "{}", transfer.overhead());
}

/// Over 600 ms, what is lost of the last round trip costs a small part of one more.
#[test]
fn what_is_lost_at_the_end_is_repaired_and_not_waited_for() {
    const ROUND_TRIP: Nanos = 600 * MILLI;
    let seconds = |loss: f64, seed: u64| {
        let mut path = PathSpec::clean(50.0, ROUND_TRIP);
        path.out.loss = Loss::Uniform(loss);
        let mut world = one(path, seed, 20 * MB);
        world.finish(60 * SECOND);
        let end = world.transfers[0].finished_at.unwrap();
        // The lost bytes themselves take the line's time.
        end as f64 / 1e9 - 20e6 * loss / 5e6
    };
    let without = seconds(0.0, 1);
    for (loss, seed) in [(0.001, 1), (0.005, 2), (0.01, 3), (0.05, 4), (0.1, 5)] {
        let more = seconds(loss, seed) - without;
        assert!(more < 0.2 * 0.6, "{loss}, seed {seed}: {more} s more");
    }
}

pub fn hostile_path() -> impl Strategy<Value = PathSpec> {
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..0.3).prop_map(Loss::Uniform),
        (0.0001..0.01, 0.02..0.5, 0.3..1.0).prop_map(|(enter, leave, loss)| Loss::Burst(enter, leave, loss)),
    ];
    let side = (loss, 0u64..20, 0.0..0.1, 0u64..30, 0.0..0.05);
    (1u64..150, 0.05..3.0f64, side.clone(), side).prop_map(|(rtt_ms, queue, out, back)| {
        let mut path = PathSpec::clean(50.0, rtt_ms * MILLI);
        for (line, (loss, jitter, reordered, by, duplicated)) in
            [(&mut path.out, out), (&mut path.back, back)]
        {
            line.queue = (line.queue * queue).max(6_000.0);
            line.loss = loss;
            line.jitter = jitter * MILLI;
            line.reorder = (reordered, by * MILLI);
            line.duplicate = duplicated;
        }
        path
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Loss alone and in bursts, reordering, duplication, jitter, any queue, on both ways.
    #[test]
    fn every_block_arrives_once_over_any_path(
        path in hostile_path(),
        seed: u64,
        bytes in 1u64..12 * MB,
        channels in 1usize..5,
        max_blocks in 1u32..6,
        ppm in -200.0..200.0,
        disk in prop_oneof![Just(f64::INFINITY), (1e6..2e7)],
        greets: bool,
        declines in 0u32..3,
    ) {
        let mut world = World::new(path, seed);
        let spec = TransferSpec {
            channels,
            max_blocks,
            disk,
            receiver_greets: greets,
            receiver_clock: Clock { offset: seed as i64 & 0xff_ffff_ffff, ppm },
            ..world.spec(bytes, fixed)
        };
        world.add(spec);
        world.transfers[0].declines = declines;
        world.finish(300 * SECOND);
        let transfer = &world.transfers[0];
        prop_assert_eq!(transfer.arrived_bytes, bytes);
        prop_assert!(transfer.most_buffers <= max_blocks as usize);
    }
}

#[test]
fn three_packets_in_ten_may_be_lost() {
    let mut path = paths::small();
    path.out.loss = Loss::Uniform(0.3);
    path.back.loss = Loss::Uniform(0.3);
    let mut world = one(path, 3, 20 * MB);
    world.finish(20 * SECOND);
    let transfer = &world.transfers[0];
    // Nearly all of what arrives at 5 MB/s is new.
    assert!(transfer.goodput() > 0.9 * 0.7 * 4.8e6, "{}", transfer.goodput());
}

#[test]
fn it_goes_on_after_a_blackout() {
    for seconds in [5, 60] {
        let mut world = one(paths::small(), 4, 20 * MB);
        world.at(2 * SECOND, |world| set_down(world, true));
        world.at((2 + seconds) * SECOND, |world| set_down(world, false));
        world.finish(100 * SECOND);
        let took = world.now - seconds * SECOND;
        assert!(took < 7 * SECOND, "{took} ns besides {seconds} s of darkness");
    }
}

#[test]
fn a_path_that_becomes_narrower_is_noticed() {
    let mut world = one(paths::small(), 5, 20 * MB);
    world.at(2 * SECOND, |world| world.out.spec.mtu = 1_400);
    world.finish(10 * SECOND);
    let mtu = world.transfers[0].sender.status().next().unwrap().datagram;
    assert!((1_356..=1_372).contains(&mtu), "{mtu}");
}

#[test]
fn another_address_is_another_way_to_the_same_session() {
    // A NAT forgets the sender; the receiver moves to another network.
    let moves: [fn(&mut World); 2] =
        [|world| move_sender(world, 1, 40_000), |world| move_receiver(world, 9, 2_000)];
    for (number, moved) in moves.into_iter().enumerate() {
        let mut world = one(paths::small(), 6, 20 * MB);
        world.at(SECOND, moved);
        world.finish(20 * SECOND);
        assert!(world.now < 5 * SECOND, "{} ({number})", world.now);
    }
}

#[test]
fn a_filtered_channel_costs_little_and_a_channel_that_is_filtered_half_way_too() {
    for from_the_start in [true, false] {
        let mut world = World::new(paths::small(), 7);
        let spec = TransferSpec { channels: 4, ..world.spec(40 * MB, fixed) };
        world.add(spec);
        let at = if from_the_start { 0 } else { 2 * SECOND };
        world.at(at, |world| world.transfers[0].passes[2] = 0);
        world.at(5 * SECOND, |world| world.transfers[0].passes[2] = u64::MAX);
        world.finish(30 * SECOND);
        let transfer = &world.transfers[0];
        assert!(transfer.goodput() > 4.6e6, "{} {from_the_start}", transfer.goodput());
        assert!(transfer.overhead() < 0.03, "{}", transfer.overhead());
        let states: Vec<ChannelState> = transfer
            .channel_events
            .iter()
            .filter(|(_, channel, _)| *channel == 2)
            .map(|(_, _, state)| *state)
            .collect();
        assert_eq!(states.last(), Some(&ChannelState::Alive), "it is used again");
        assert!(states.contains(&ChannelState::Silent));
    }
}

#[test]
fn a_channel_that_is_filtered_in_the_middle_of_a_burst_falls_silent_too() {
    for passes in 1..40 {
        let mut world = World::new(paths::small(), 7);
        let spec = TransferSpec { channels: 4, ..world.spec(10 * MB, fixed) };
        world.add(spec);
        world.transfers[0].passes[2] = passes;
        world.finish(30 * SECOND);
        let transfer = &world.transfers[0];
        assert!(transfer.goodput() > 4e6, "{} after {passes}", transfer.goodput());
        assert!(transfer.overhead() < 0.05, "{} after {passes}", transfer.overhead());
    }
}

/// What tells of that is a burst of the other channel, and the next on this one is already under way.
#[test]
fn a_burst_that_loses_its_end_does_not_cost_the_one_behind_it() {
    // A burst of six packets each eight tenths of a round trip. So many that what is sent twice at the end does not matter.
    let slowly = |rtt| -> Box<dyn RateLaw> { Box::new(Fixed::new(6.0 * 1_472.0 / 0.08, rtt)) };
    let mut world = World::new(PathSpec::clean(50.0, 100 * MILLI), 7);
    let spec = TransferSpec { channels: 2, ..world.spec(16 * MB, slowly) };
    world.add(spec);
    world.transfers[0].cuts_one_in = 10;
    world.finish(200 * SECOND);
    let overhead = world.transfers[0].overhead();
    assert!(overhead < 0.03, "{overhead}, of which the loss is a sixtieth");
}

#[test]
fn a_receiver_that_writes_slowly_is_not_flooded() {
    let mut world = World::new(paths::small(), 8);
    let spec = TransferSpec { disk: 2e6, max_blocks: 4, ..world.spec(30 * MB, fixed) };
    world.add(spec);
    world.finish(60 * SECOND);
    let transfer = &world.transfers[0];
    assert!(transfer.goodput() > 0.95 * 2e6, "{}", transfer.goodput());
    assert!(transfer.overhead() < 0.01, "{}", transfer.overhead());
    assert!(transfer.most_buffers <= 4);
}

/// After a second without any news TCP is tried beside UDP, and after ten UDP is given up.
#[test]
fn a_low_limit_is_not_taken_for_a_path_that_is_dead() {
    for (kbits, longest) in [(20, 2 * SECOND), (64, SECOND), (200, SECOND)] {
        let mut world = World::new(paths::small(), 12);
        let rate = kbits * 125;
        let spec = TransferSpec { max_rate: Rate::per_second(rate), ..world.spec(20 * rate, fixed) };
        world.add(spec);
        world.finish(25 * SECOND);
        let silence = world.transfers[0].told.longest_silence(world.now);
        assert!(silence < longest, "{} ms without news at {kbits} kbit/s", silence / MILLI);
    }
}

/// A receiver cannot know whether there was anything to send, and takes a second without news for trouble.
#[test]
fn who_receives_hears_of_an_idle_sender_every_second() {
    for rtt in [40, 600] {
        let mut world = one(PathSpec::clean(50.0, rtt * MILLI), 13, MB);
        world.finish(10 * SECOND);
        world.run(70 * SECOND, |_| false);
        let silence = world.transfers[0].came.longest_silence(world.now);
        assert!(silence < SECOND, "{} ms without news over {rtt} ms", silence / MILLI);
    }
}

#[test]
fn packets_that_overtake_each_other_are_not_taken_for_lost() {
    let mut path = paths::small();
    path.out.reorder = (0.02, 15 * MILLI);
    path.back.reorder = (0.02, 15 * MILLI);
    let mut world = one(path, 9, 50 * MB);
    world.finish(30 * SECOND);
    let transfer = &world.transfers[0];
    assert!(transfer.overhead() < 0.015, "{}", transfer.overhead());
}

#[test]
fn the_last_bytes_cost_hardly_more_than_a_round_trip() {
    let mut path = PathSpec::clean(50.0, 200 * MILLI);
    path.out.loss = Loss::Uniform(0.05);
    path.back.loss = Loss::Uniform(0.05);
    let took: Vec<f64> = (0..20u64)
        .map(|seed| -> f64 {
            let mut world = one(path.clone(), seed, 4 * MB);
            world.finish(30 * SECOND);
            let transfer = &world.transfers[0];
            // The manifest's way there and back, the bytes, and theirs.
            let least = 0.2 + 4e6 / (5e6 * 0.95 * 0.967) + 0.2;
            (transfer.finished_at.unwrap() as f64 / 1e9 - least) / 0.2
        })
        .collect();
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    assert!(mean < 1.0, "{mean} round trips more than without loss: {took:?}");
}
