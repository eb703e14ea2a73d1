//! A path between two namespaces: what it is like ([`PathSpec`]), what it does to packets ([`Link`], pure), and the
//! threads that carry them.

mod bottleneck;
mod counters;
mod delay_line;
mod link;
mod loss;
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

use crate::LabError;
use crate::namespace::Namespace;

/// A running path. It ends, with everything that runs in its namespaces, when this is dropped, and also when this
/// process dies in any way.
#[derive(Debug)]
pub struct Path {
    spec: PathSpec,
    near: Namespace,
    far: Namespace,
}

impl Path {
    /// Makes both namespaces and starts to carry packets between them.
    pub fn start(_spec: &PathSpec) -> Result<Self, LabError> {
        Err(LabError::NotPermitted(std::io::ErrorKind::Unsupported.into()))
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
        PathCounters::default()
    }

    /// Sets the counters and the clock of their samples to zero, and returns what they were. Loss goes on in its
    /// sequence.
    pub fn restart_counters(&self) -> PathCounters {
        PathCounters::default()
    }

    /// Ends everything in both namespaces and returns the last counters. Dropping does the same.
    pub fn stop(self) -> PathCounters {
        self.counters()
    }
}
