//! Which way blocks go: TCP, UDP, or both.

use std::time::{Duration, Instant};

use super::error::ClientError;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP only.
    #[default]
    Tcp,
    /// UDP only; where it does not get through, the transfer fails.
    Udp,
}

/// How long the other end's datagrams are waited for where there is no other way.
const PATIENCE: Duration = Duration::from_secs(15);

/// Watches the UDP channels of one session.
#[derive(Debug)]
pub(crate) struct UdpWatch {
    began: Instant,
    alive: bool,
}

impl UdpWatch {
    /// The session begins now.
    pub fn new(now: Instant) -> Self {
        Self { began: now, alive: false }
    }

    /// `heard` once anything came over UDP; `None` if the UDP channels ended.
    pub fn check(&mut self, now: Instant, heard: Option<bool>, host: &str) -> Result<(), ClientError> {
        self.alive |= heard == Some(true);
        match heard {
            Some(_) if self.alive || now < self.began + PATIENCE => Ok(()),
            Some(_) => Err(ClientError::NoUdp {
                host: host.to_owned(),
                detail: "no datagram came back in fifteen seconds: a firewall drops them".to_owned(),
            }),
            None => Ok(()),
        }
    }
}
