//! What one transfer alone is to get of each of the lab's paths.

use super::{Law, PathSpec, SECOND, World, paths};

/// So many bytes over a path, and the least share of what the line carries.
pub struct Figure {
    pub name: &'static str,
    pub path: PathSpec,
    pub bytes: u64,
    pub least: f64,
}

pub fn figures() -> Vec<Figure> {
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

impl Figure {
    /// The network before its transfer begins.
    pub fn world(&self, law: Law, seed: u64) -> World {
        let mut world = World::new(self.path.clone(), seed);
        let spec = world.spec(self.bytes, law);
        world.add(spec);
        world
    }

    /// Transfers it: its share of what the line carries, and the network afterwards.
    pub fn carry(&self, law: Law, seed: u64) -> (f64, World) {
        let mut world = self.world(law, seed);
        world.finish(600 * SECOND);
        (world.transfers[0].goodput() / self.path.payload_rate(), world)
    }
}
