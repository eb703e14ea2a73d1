//! Lines with transfers on them that never end: what tests and measurements look at.

use super::{Law, MILLI, Nanos, PathSpec, SECOND, TcpFlow, TransferSpec, World, chance, laws, paths};

/// Somebody else's flow, that begins then.
pub type Other = fn(Nanos) -> TcpFlow;

/// One of ours.
pub fn alone(law: Law, path: PathSpec, seed: u64) -> World {
    let mut world = World::new(path, seed);
    let spec = world.spec(1 << 40, law);
    world.add(spec);
    world
}

/// One of ours on a line whose queue holds so many milliseconds of `to` Mbit/s, which is what it carries from 10 s on.
pub fn becoming(law: Law, mut path: PathSpec, to: f64, queue_ms: f64) -> World {
    path.out.queue = queue_ms * to * 125.0;
    let mut world = alone(law, path, 1);
    world.at(10 * SECOND, move |world| world.out.spec.rate = to * 125_000.0);
    world
}

/// One of ours on a path whose way out and way back take so many milliseconds more from 10 s on.
pub fn lengthening(law: Law, path: PathSpec, out_ms: u64, back_ms: u64, seed: u64) -> World {
    let mut world = alone(law, path, seed);
    world.at(10 * SECOND, move |world| {
        world.out.spec.delay += out_ms * MILLI;
        world.back.spec.delay += back_ms * MILLI;
    });
    world
}

/// One of ours that begins at `starts`, and one other.
pub fn beside(law: Law, starts: Nanos, other: TcpFlow) -> World {
    let mut world = World::new(paths::shared(), 1);
    let spec = TransferSpec { starts, ..world.spec(1 << 40, law) };
    world.add(spec);
    world.add_other(other);
    world
}

/// One of ours for each of these starts.
pub fn ours(path: PathSpec, seed: u64, starts: impl IntoIterator<Item = Nanos>) -> World {
    let mut world = World::new(path, seed);
    for starts in starts {
        let spec = TransferSpec { starts, ..world.spec(1 << 40, laws::model) };
        world.add(spec);
    }
    world
}

/// Starts of `count` transfers: half a second apart, give or take a quarter, by `seed`.
pub fn starts(count: u64, seed: u64) -> Vec<Nanos> {
    let mut chance = chance::Chance::new(seed, 99);
    (0..count).map(|number| number * SECOND / 2 + (chance.share() * 0.25 * SECOND as f64) as Nanos).collect()
}

/// Eight of ours, which begin half a second over `closer` apart.
/// Their clocks are up to 20 ms apart.
pub fn eight_together(path: PathSpec, seed: u64, closer: u64) -> World {
    let mut world = ours(path, seed, starts(8, seed).into_iter().map(|starts| starts / closer));
    let mut chance = chance::Chance::new(seed, 98);
    for transfer in &mut world.transfers {
        transfer.sender_clock.offset += (chance.share() * 20.0 * MILLI as f64) as i64;
    }
    world
}

/// So many of ours on a near path.
pub fn nearby(path: PathSpec, count: u64, seed: u64) -> World {
    ours(path, seed, starts(count, seed).into_iter().map(|starts| starts / 4))
}

/// A path of so many Mbit/s and milliseconds, both ways of which hold packets back for up to so many microseconds: each by another
/// time, or all until the next slot.
pub fn unsteady(mbits: f64, rtt_ms: u64, jitter_us: u64, slot_us: u64) -> PathSpec {
    let mut path = PathSpec::clean(mbits, rtt_ms * MILLI);
    for line in [&mut path.out, &mut path.back] {
        line.jitter = jitter_us * 1_000;
    }
    path.out.slot = slot_us * 1_000;
    path
}
