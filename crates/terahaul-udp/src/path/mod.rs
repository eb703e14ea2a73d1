//! What is known of a network path, however many channels share it.

mod allowance;
mod capacity;
mod held;
mod mtu;
mod pacer;
mod queue_delay;
mod round_trip;
mod standing_queue;
mod windowed_min;

use std::time::Duration;

/// Round trips from here on are by a geostationary satellite: that takes 480 ms at least, and nothing on the ground takes as long.
pub const SATELLITE: Duration = Duration::from_millis(400);

pub(crate) use allowance::Allowance;
pub use capacity::{Capacity, Passage};
pub use held::Held;
pub use mtu::{MtuSearch, MtuState};
pub use pacer::Pacer;
pub use queue_delay::QueueDelay;
pub use round_trip::RoundTrip;
pub use standing_queue::StandingQueue;
pub use windowed_min::WindowedMin;
