//! What is to be copied, and how.

use terahaul_net::LocalAddresses;
use terahaul_net::client::Options;

use crate::rules::{Rules, Selection};

/// How to copy.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Which entries.
    pub selection: Selection,
    /// What is done with what is there.
    pub rules: Rules,
    /// Channels and limit.
    pub options: Options,
    /// Addresses of this machine that the data leaves from, or arrives at.
    pub local: LocalAddresses,
    /// Ports that the far side may listen on.
    pub ports: Option<(u16, u16)>,
    /// The data goes through ssh even where the port can be reached.
    pub through_ssh: bool,
    /// Where the other host lacks the program, or has another version, it is given this one.
    pub install: bool,
}
