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
pub use text::{DurationText, RateText, SpecError, parse_duration, read_duration};

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::LabError;
use crate::namespace::{Keeper, Namespace};
use pump::{Clock, Pump};

/// A running path. It ends, with everything that runs in its namespaces, when this is dropped, and also when this
/// process dies in any way.
#[derive(Debug)]
pub struct Path {
    spec: PathSpec,
    clock: Clock,
    // In the order in which they end: first what runs inside, then what carries its packets.
    _keeper: Keeper,
    out: Pump,
    back: Pump,
    near: Namespace,
    far: Namespace,
    /// What the devices had dropped when the counters were last started.
    dropped_before: Mutex<[u64; 2]>,
}

/// Reserved for measuring (RFC 2544); only the two namespaces know them.
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

impl Path {
    /// Makes both namespaces and starts to carry packets between them.
    pub fn start(spec: &PathSpec) -> Result<Self, LabError> {
        spec.check()?;
        let (near, near_device) = Namespace::make(spec, NEAR, FAR)?;
        let (far, far_device) = Namespace::make(spec, FAR, NEAR)?;
        let keeper = Keeper::start(&near, &far)?;
        let (near_device, far_device) = (Arc::new(near_device), Arc::new(far_device));
        let clock = Clock::start();
        let link = |direction| Link::new(spec, direction);
        let out =
            Pump::start("path-out", clock, link(Direction::Out), near_device.clone(), far_device.clone())?;
        let back = Pump::start("path-back", clock, link(Direction::Back), far_device, near_device)?;
        let dropped_before = Mutex::default();
        Ok(Self { spec: spec.clone(), clock, _keeper: keeper, out, back, near, far, dropped_before })
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
        self.with_dropped(
            [self.out.link(|link| link.counters()), self.back.link(|link| link.counters())],
            false,
        )
    }

    /// Sets the counters and the clock of their samples to zero, and returns what they were. Loss goes on in its
    /// sequence.
    pub fn restart_counters(&self) -> PathCounters {
        let now = self.clock.now();
        let restart = |pump: &Pump| pump.link(|link| link.restart_counters(now));
        self.with_dropped([restart(&self.out), restart(&self.back)], true)
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

    fn with_dropped(&self, [mut out, mut back]: [LinkCounters; 2], restart: bool) -> PathCounters {
        let dropped = [self.near.dropped_by_device(), self.far.dropped_by_device()];
        let mut before = self.dropped_before.lock().unwrap_or_else(PoisonError::into_inner);
        out.missed += dropped[0].saturating_sub(before[0]);
        back.missed += dropped[1].saturating_sub(before[1]);
        if restart {
            *before = dropped;
        }
        PathCounters { near_to_far: out, far_to_near: back }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.end_processes();
    }
}
