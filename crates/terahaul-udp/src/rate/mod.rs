//! How fast to send: one law for each path, whatever the number of its channels.
//!
//! Rates are plain `f64`, bytes a second, and not core's `Rate`: that one is a whole number above zero, as people set and read it, while laws
//! multiply by fractions in every round and what they round off would add up.

mod background;
mod cubic;
mod fixed;
mod model;

pub use background::Background;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use model::{Eagerness, Model};

use std::fmt;
use std::time::Duration;

use crate::Time;

/// What a report says of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathReport {
    /// The round trip that ended with this report, without the receiver's own delay.
    pub round_trip: Duration,
    /// The shortest of late.
    pub shortest: Duration,
    /// How long packets wait on the way out: the least that any packet of this report waited, less what jitter makes all of them wait.
    pub waiting: Duration,
    /// What of that may be more jitter.
    pub jitter: Duration,
    /// How long a queue keeps packets waiting: the same as `waiting`, where there is no jitter.
    pub standing: Duration,
    /// How long the ends hold back, in the mean, the news that a packet arrived: until the next report, and until a thread is free.
    pub held: Duration,
    /// Bytes a second that arrived over the last round trip, if there was one.
    pub arrival_rate: Option<f64>,
    /// What the narrowest line carries, in bytes a second, if bursts have shown it.
    pub capacity: Option<f64>,
    /// Bytes that this report acknowledges for the first time.
    pub arrived: u64,
    /// Bytes that this report shows to be lost.
    pub lost: u64,
    /// Packets that routers marked (ECN) since the last report, as far as that is believed ([`crate::path::Ecn`]).
    pub congested: u64,
    /// Bytes under way, after this report.
    pub under_way: u64,
    /// Round trips so far: counts when the first packet of a round arrives. What is sent now belongs to it.
    pub round: u64,
    /// There was not always something to send, so nothing can be said of what the path carries.
    pub sender_limited: bool,
    /// The size of a full datagram.
    pub datagram: u32,
}

/// The packets that were sent during one round trip, now that it is known of each what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// The round in which they were sent.
    pub round: u64,
    /// Bytes that arrived.
    pub arrived: u64,
    /// Bytes that were lost.
    pub lost: u64,
}

impl Cohort {
    /// The share that was lost, from 0 to 1.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / ((self.arrived + self.lost) as f64).max(1.0)
    }
}

/// A law of rate control. Rates and windows are of whole datagrams.
pub trait RateLaw: fmt::Debug + Send {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// A report came.
    fn handle_report(&mut self, now: Time, report: &PathReport);

    /// All packets of a round are settled. Comes before the report that settled the last of them.
    fn handle_cohort(&mut self, now: Time, cohort: &Cohort);

    /// Nothing was heard for several round trips. What was under way counts neither as arrived nor as lost.
    fn handle_silence(&mut self, now: Time);

    /// Packets go another way from now on: what was measured is void.
    fn handle_new_path(&mut self, now: Time, round_trip: Duration);

    /// Whether the last report has shown that what was taken for a queue is the length of another route: what was measured is void, and
    /// [`Self::handle_new_path`] is called.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Bytes a second to send.
    fn rate(&self) -> f64;

    /// Most bytes under way.
    fn window(&self) -> u64;

    /// What it is doing, in a word.
    fn phase(&self) -> &'static str;
}
