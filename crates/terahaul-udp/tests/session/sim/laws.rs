//! The laws that are compared, each for a path of which a round trip is guessed.

use std::time::Duration;

use terahaul_udp::rate::{Background, Cubic, Eagerness, Model, RateLaw};

pub type Law = fn(Duration) -> Box<dyn RateLaw>;

pub fn model(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Model::new(Eagerness::Fair, rtt))
}

pub fn cubic(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Cubic::new(rtt))
}

pub fn background(rtt: Duration) -> Box<dyn RateLaw> {
    Box::new(Background::new(rtt))
}
