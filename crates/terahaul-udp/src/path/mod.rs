//! What is known of a network path, however many channels share it.

mod allowance;
mod burst_room;
mod capacity;
mod ecn;
mod held;
mod mtu;
mod pacer;
mod queue_delay;
mod round_trip;
mod standing_queue;
mod windowed_min;

use std::time::Duration;

/// On shorter paths a round trip is not worth any work to save it.
pub const LONG: Duration = Duration::from_millis(10);
/// On paths as long as this each round trip is worth saving, and whoever begins does not do so often: what a law tries on shorter ones to be
/// certain costs more here than it may gain.
pub const FAR: Duration = Duration::from_millis(50);

pub(crate) use allowance::Allowance;
pub use burst_room::BurstRoom;
pub use capacity::{Capacity, Passage};
pub use ecn::Ecn;
pub use held::Held;
pub use mtu::{MtuSearch, MtuState};
pub use pacer::Pacer;
pub use queue_delay::QueueDelay;
pub use round_trip::RoundTrip;
pub use standing_queue::StandingQueue;
pub use windowed_min::WindowedMin;
