//! OpenSSH's scp, which speaks SFTP since version 9.

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

pub(super) struct Scp;

impl Peer for Scp {
    fn name(&self) -> &'static str {
        "scp"
    }

    fn about(&self) -> &'static str {
        "OpenSSH scp, one connection, AES-128-GCM"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [SSH, Tool::new("scp", "openssh-client", &[]), SSHD];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        Ok(Box::new(Running(Sshd::start(self.name(), 2201, rig)?)))
    }
}

struct Running(Sshd);

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let recursive = if cargo.is_tree { " -rp" } else { "" };
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.0.far(&cargo.target)),
            Direction::Get => (self.0.far(&cargo.source), quoted(&cargo.target)),
        };
        Ok(Some(vec![Phase::near(format!("{} -q{recursive} {from} {to}/", self.0.client("scp")))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.0.server.processor_seconds()
    }
}
