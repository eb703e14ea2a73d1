//! What is known of a network path, however many channels share it.

mod capacity;
mod held;
mod mtu;
mod pacer;
mod queue_delay;
mod round_trip;
mod windowed_min;

pub use capacity::{Capacity, Passage};
pub use held::Held;
pub use mtu::{MtuSearch, MtuState};
pub use pacer::Pacer;
pub use queue_delay::QueueDelay;
pub use round_trip::RoundTrip;
pub use windowed_min::WindowedMin;
