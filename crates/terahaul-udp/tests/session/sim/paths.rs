//! The lab's ready paths (`terahaul lab path list`), as lines.

use super::line::{Ecn, LineSpec, Loss, MILLI, Nanos};

/// A path: the way out, and the way back.
#[derive(Clone, Debug)]
pub struct PathSpec {
    pub out: LineSpec,
    pub back: LineSpec,
}

impl PathSpec {
    /// A clean path with a queue of one bandwidth-delay product.
    pub fn clean(mbits: f64, rtt: Nanos) -> Self {
        let line = line(mbits, rtt);
        Self { out: line.clone(), back: line }
    }

    fn losing(self, loss: Loss) -> Self {
        let line = LineSpec { loss, ..self.out };
        Self { out: line.clone(), back: line }
    }

    /// Bytes a second of TCP payload that the way out carries: C (1 − p) less headers.
    pub fn payload_rate(&self) -> f64 {
        let mtu = self.out.mtu as f64;
        self.out.rate * (1.0 - self.out.loss.mean()) * (mtu - 52.0) / mtu
    }
}

fn line(mbits: f64, rtt: Nanos) -> LineSpec {
    let rate = mbits * 125_000.0;
    LineSpec {
        rate,
        queue: (rate * rtt as f64 / 1e9).max(64.0 * 1500.0),
        policed: false,
        delay: rtt / 2,
        jitter: 0,
        loss: Loss::None,
        reorder: (0.0, 0),
        duplicate: 0.0,
        mtu: 1500,
        down: false,
        ecn: Ecn::Ignores,
        slot: 0,
    }
}

pub fn filesender_100ms() -> PathSpec {
    PathSpec::clean(1_000.0, 100 * MILLI)
}

pub fn transatlantic() -> PathSpec {
    PathSpec::clean(1_000.0, 80 * MILLI).losing(Loss::Uniform(0.0001))
}

pub fn lossy(share: f64) -> PathSpec {
    filesender_100ms().losing(Loss::Uniform(share))
}

pub fn bursty() -> PathSpec {
    filesender_100ms().losing(Loss::Burst(0.0002, 0.05, 0.5))
}

pub fn satellite() -> PathSpec {
    PathSpec::clean(50.0, 600 * MILLI).losing(Loss::Uniform(0.005))
}

pub fn policed() -> PathSpec {
    let mut path = PathSpec::clean(500.0, 40 * MILLI);
    path.out.policed = true;
    path.out.queue = path.out.rate * 0.01;
    path
}

pub fn bloated() -> PathSpec {
    let mut path = PathSpec::clean(100.0, 30 * MILLI);
    path.out.queue = path.out.rate * 4.0;
    path
}

pub fn asymmetric() -> PathSpec {
    let mut path = PathSpec::clean(1_000.0, 50 * MILLI);
    path.back = line(10.0, 50 * MILLI);
    path
}

pub fn lan(mtu: u64) -> PathSpec {
    let mut path = PathSpec::clean(10_000.0, 300_000);
    for line in [&mut path.out, &mut path.back] {
        line.queue = 2e6;
        line.mtu = mtu;
    }
    path
}

/// Where fairness is measured: 1 Gbit/s, 20 ms, one bandwidth-delay product of queue.
pub fn shared() -> PathSpec {
    PathSpec::clean(1_000.0, 20 * MILLI)
}

/// A small path, for tests that look at behaviour and not at speed.
pub fn small() -> PathSpec {
    PathSpec::clean(50.0, 40 * MILLI)
}
