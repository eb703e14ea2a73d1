//! `terahaul cp`: OpenSSH starts the far side, the data goes straight to its port.

use std::path::{Path, PathBuf};

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

pub(super) struct TerahaulCp {
    program: PathBuf,
}

impl TerahaulCp {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.to_owned() }
    }
}

impl Peer for TerahaulCp {
    fn name(&self) -> &'static str {
        "terahaul-cp"
    }

    fn about(&self) -> &'static str {
        "terahaul cp, started over OpenSSH, data over TCP, parallel connections, AES-128-GCM, every byte hashed and synced"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 2] = [SSH, SSHD];
        &TOOLS
    }

    fn obstacle(&self) -> Option<String> {
        (!self.program.is_file())
            .then(|| format!("{} is missing: cargo build --release -p terahaul", self.program.display()))
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let sshd = Sshd::start(self.name(), 2206, rig)?;
        Ok(Box::new(Running { sshd, program: self.program.clone() }))
    }
}

struct Running {
    sshd: Sshd,
    program: PathBuf,
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let program = quoted(&self.program);
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.sshd.far(&cargo.target)),
            Direction::Get => (self.sshd.far(&cargo.source), quoted(&cargo.target)),
        };
        let cp = self.sshd.client(&format!("{program} cp -a --quiet --far-command {program}"));
        Ok(Some(vec![Phase::near(format!("{cp} {from} {to}/"))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.sshd.server.processor_seconds()
    }
}
