//! What a transfer may travel by.

use std::time::Duration;

use crate::{ChannelCount, Priority};

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP only.
    #[default]
    Tcp,
    /// UDP only; where it does not get through, the transfer fails.
    Udp,
    /// TCP, and on paths long enough for that to pay whichever delivers more, or both.
    Auto,
    /// Whichever delivers more, or both, on any path.
    Both,
}

impl Transport {
    /// Whether UDP is asked for at all. On a short path TCP's windows and its recovery are never what limits, and a second
    /// way only costs processor time. Who is to yield to others needs UDP on any path.
    pub fn wants_udp(self, round_trip: Duration, priority: Priority) -> bool {
        match self {
            Self::Tcp => false,
            Self::Udp | Self::Both => true,
            Self::Auto => round_trip >= ChannelCount::LONG || priority == Priority::Background,
        }
    }
}

/// What carries blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// TCP channels.
    Tcp,
    /// UDP channels.
    Udp,
    /// Both.
    Both,
}

impl Carrier {
    /// As users read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Both => "tcp+udp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_itself_udp_is_tried_on_long_paths_only() {
        let (short, long) = (Duration::from_millis(2), Duration::from_millis(20));
        assert!(!Transport::Auto.wants_udp(short, Priority::Fair));
        assert!(Transport::Auto.wants_udp(long, Priority::Fair));
        assert!(Transport::Auto.wants_udp(short, Priority::Background), "TCP would not yield");
        assert!(Transport::Both.wants_udp(short, Priority::Fair));
        assert!(!Transport::Tcp.wants_udp(long, Priority::Background));
    }
}
