//! A path between two namespaces: what it is like ([`PathSpec`]), what it does to packets ([`Link`], pure), and the
//! threads that carry them.

mod bottleneck;
mod burst;
mod counters;
mod delay_line;
mod link;
mod loss;
mod pump;
pub mod ready;
mod seeded;
mod spec;
mod text;

pub use bottleneck::Bottleneck;
pub use counters::{LinkCounters, PathCounters, SAMPLE};
pub use delay_line::DelayLine;
pub use link::{Direction, Link, Verdict};
pub use loss::Loss;
pub use ready::ReadyPath;
pub use spec::{LossSpec, PathSpec, QueueSpec, ReorderSpec};
pub use text::{DurationText, SpecError, parse_duration, read_duration};

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::LabError;
use crate::namespace::{Keeper, Namespace, Tun};
use pump::{Clock, Pump};

/// A running path. It ends, with everything that runs in its namespaces, when this is dropped, and also when this
/// process dies in any way.
#[derive(Debug)]
pub struct Path {
    spec: PathSpec,
    clock: Clock,
    // In the order in which they end: first what runs inside, then what carries its packets.
    _keeper: Keeper,
    lanes: Vec<Lane>,
    near: Namespace,
    far: Namespace,
    /// What the devices had dropped when the counters were last started.
    dropped_before: Mutex<[u64; 2]>,
}

/// One of the paths side by side.
#[derive(Debug)]
struct Lane {
    out: Pump,
    back: Pump,
}

impl Lane {
    fn start(number: u8, clock: Clock, spec: &PathSpec, near: Tun, far: Tun) -> Result<Self, LabError> {
        let spec = PathSpec { seed: spec.seed.wrapping_add(u64::from(number)), ..spec.clone() };
        let (near, far) = (Arc::new(near), Arc::new(far));
        let out = Link::new(&spec, Direction::Out);
        let back = Link::new(&spec, Direction::Back);
        Ok(Self {
            out: Pump::start("path-out", clock, out, near.clone(), far.clone())?,
            back: Pump::start("path-back", clock, back, far, near)?,
        })
    }

    fn counters(&self, look: impl Fn(&mut Link) -> LinkCounters) -> PathCounters {
        PathCounters { near_to_far: self.out.link(&look), far_to_near: self.back.link(&look) }
    }
}

/// Reserved for measuring (RFC 2544); only the two namespaces know them. The near end has one for each path.
fn near_address(path: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, path, 1)
}
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

impl Path {
    /// Makes both namespaces and starts to carry packets between them.
    pub fn start(spec: &PathSpec) -> Result<Self, LabError> {
        spec.check()?;
        let out: Vec<_> = (0..spec.paths).map(|path| (near_address(path), FAR)).collect();
        let back: Vec<_> = out.iter().map(|&(near, far)| (far, near)).collect();
        let (near, near_devices) = Namespace::make(spec, &out)?;
        let (far, far_devices) = Namespace::make(spec, &back)?;
        let keeper = Keeper::start(&near, &far)?;
        let clock = Clock::start();
        let devices = (0..).zip(near_devices.into_iter().zip(far_devices));
        let lanes = devices.map(|(number, (near, far))| Lane::start(number, clock, spec, near, far));
        let lanes = lanes.collect::<Result<_, _>>()?;
        let dropped_before = Mutex::default();
        Ok(Self { spec: spec.clone(), clock, _keeper: keeper, lanes, near, far, dropped_before })
    }

    /// What it was started as.
    pub fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// The end where a user would sit.
    pub fn near(&self) -> &Namespace {
        &self.near
    }

    /// The end where a server would be.
    pub fn far(&self) -> &Namespace {
        &self.far
    }

    /// What has happened to packets since the start, or since [`Self::restart_counters`].
    pub fn counters(&self) -> PathCounters {
        self.with_dropped(self.sum(|link| link.counters()), false)
    }

    /// Sets the counters and the clock of their samples to zero, and returns what they were. Loss goes on in its
    /// sequence.
    pub fn restart_counters(&self) -> PathCounters {
        let now = self.clock.now();
        self.with_dropped(self.sum(|link| link.restart_counters(now)), true)
    }

    /// Over all paths side by side.
    fn sum(&self, look: impl Fn(&mut Link) -> LinkCounters) -> PathCounters {
        let mut sum = PathCounters::default();
        self.lanes.iter().for_each(|lane| sum.add(lane.counters(&look)));
        sum
    }

    /// Ends everything in both namespaces and returns the last counters. Dropping does the same.
    pub fn stop(self) -> PathCounters {
        self.end_processes();
        self.counters()
    }

    fn end_processes(&self) {
        for namespace in [&self.near, &self.far] {
            // What cannot be ended, as a process that waits for a dead disk, is nothing that a caller could end.
            let _ = namespace.kill_all();
        }
    }

    fn with_dropped(&self, mut counters: PathCounters, restart: bool) -> PathCounters {
        let dropped = [self.near.dropped_by_device(), self.far.dropped_by_device()];
        let mut before = self.dropped_before.lock().unwrap_or_else(PoisonError::into_inner);
        counters.near_to_far.missed += dropped[0].saturating_sub(before[0]);
        counters.far_to_near.missed += dropped[1].saturating_sub(before[1]);
        if restart {
            *before = dropped;
        }
        counters
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.end_processes();
    }
}
