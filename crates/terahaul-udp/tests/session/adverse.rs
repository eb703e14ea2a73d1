//! The laws that transfers go by, where much goes wrong: a fixed rate, as in [`recovery`](crate::recovery), does not show what they make
//! of it.

use proptest::prelude::*;

use crate::recovery::{hostile_path, set_down};
use crate::sim::line::Loss;
use crate::sim::transfer::Setting;
use crate::sim::*;

const MB: u64 = 1_000_000;
const LAWS: [Law; 2] = [laws::model, laws::background];

fn losing(mut path: PathSpec, share: f64) -> PathSpec {
    path.out.loss = Loss::Uniform(share);
    path.back.loss = Loss::Uniform(share);
    path
}

/// What one transfer of so many bytes gets of what the line still carries.
fn gets(law: Law, path: PathSpec, seed: u64, bytes: u64) -> f64 {
    let line = path.payload_rate();
    let mut world = World::new(path, seed);
    let spec = world.spec(bytes, law);
    world.add(spec);
    world.finish(100 * SECOND);
    world.transfers[0].goodput() / line
}

/// So much loss has to show twice before it is taken for the path's own: that costs the far path's transfer one second of three.
#[test]
fn three_packets_in_ten_may_be_lost_and_the_default_keeps_what_is_left() {
    for (path, bytes, seeds, least) in
        [(paths::small(), 20 * MB, 3, 0.75), (paths::filesender_100ms(), 200 * MB, 1, 0.6)]
    {
        for seed in 1..=seeds {
            let share = gets(laws::model, losing(path.clone(), 0.3), seed, bytes);
            assert!(share > least, "{share:.2} of {bytes} bytes' line, seed {seed}");
        }
    }
}

/// RFC 6817 yields to each loss, whatever it is of.
#[test]
fn three_packets_in_ten_may_be_lost_and_the_background_goes_on() {
    for seed in 1..=3 {
        let share = gets(laws::background, losing(paths::small(), 0.3), seed, MB);
        assert!(share > 0.004, "{share:.4}, seed {seed}");
    }
}

#[test]
fn after_a_blackout_each_law_is_soon_what_it_was() {
    for law in LAWS {
        for seed in 1..=2 {
            let took = |dark: Nanos| {
                let mut world = World::new(paths::small(), seed);
                let spec = world.spec(20 * MB, law);
                world.add(spec);
                if dark > 0 {
                    let from = SECOND + seed * 53 * MILLI;
                    world.at(from, |world| set_down(world, true));
                    world.at(from + dark, |world| set_down(world, false));
                }
                world.finish(100 * SECOND);
                (world.now - dark) as f64 / 1e9
            };
            let without = took(0);
            for dark in [5, 60] {
                let more = took(dark * SECOND) - without;
                assert!(more < 2.0, "{more:.2} s besides {dark} s of darkness, seed {seed}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn by_the_default_every_block_arrives_once_over_any_path(
        path in hostile_path(),
        seed: u64,
        bytes in 1u64..12 * MB,
        channels in 1usize..5,
    ) {
        let mut world = World::new(path, seed);
        let spec = TransferSpec { channels, ..world.spec(bytes, laws::model) };
        world.add(spec);
        world.finish(300 * SECOND);
        prop_assert_eq!(world.transfers[0].arrived_bytes, bytes);
    }
}

const HOUR: i64 = 3_600;

/// Seconds that a transfer takes whose receiver's clock is set by so many, at a moment by `seed`: whenever that is, or just `between` what
/// a report tells of and the report itself.
fn takes(law: Law, seed: u64, by: i64, between: bool) -> f64 {
    let mut world = World::new(paths::small(), seed);
    // It shows more than it is set back by.
    let receiver_clock = Clock { offset: 2 * HOUR * SECOND as i64, ppm: 0.0 };
    let spec = TransferSpec { receiver_clock, ..world.spec(20 * MB, law) };
    world.add(spec);
    world.at(SECOND + seed * 137_031_000, move |world| {
        let now = world.now;
        let transfer = &mut world.transfers[0];
        let next_report = transfer.receiver.poll_timeout().map(|(at, _)| at);
        let from = next_report.filter(|_| between).unwrap_or(transfer.receiver_clock.at(now));
        transfer.receiver_set = Some(Setting { from, by: by * SECOND as i64 });
    });
    world.finish(100 * SECOND);
    world.now as f64 / 1e9
}

#[test]
fn a_receivers_clock_that_is_set_costs_nothing() {
    for law in LAWS {
        for seed in 1..=2 {
            let without = takes(law, seed, 0, false);
            for (by, between) in [(HOUR, false), (-HOUR, false), (HOUR, true), (-HOUR, true)] {
                let took = takes(law, seed, by, between);
                assert!(
                    took < 1.2 * without,
                    "{took:.2} s for {without:.2} s: {by} s, {between}, seed {seed}"
                );
            }
        }
    }
}
