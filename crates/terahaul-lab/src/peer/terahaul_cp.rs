//! `terahaul cp`: OpenSSH starts the far side, the data goes straight to its port.

use std::path::{Path, PathBuf};

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

pub(super) struct TerahaulCp {
    program: PathBuf,
    compress: bool,
}

impl TerahaulCp {
    /// With `compress` where that is faster, as it decides by itself.
    pub(super) fn new(program: &Path, compress: bool) -> Self {
        Self { program: program.to_owned(), compress }
    }
}

impl Peer for TerahaulCp {
    fn name(&self) -> &'static str {
        if self.compress { "terahaul-cp" } else { "terahaul-cp-plain" }
    }

    fn about(&self) -> &'static str {
        if self.compress {
            "terahaul cp, started over OpenSSH, compressed where that is faster, over TCP or UDP by itself, AES-128-GCM, every byte hashed and synced"
        } else {
            "the same with nothing compressed"
        }
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
        // Peers run beside each other on one path.
        let port = if self.compress { 2206 } else { 2208 };
        let sshd = Sshd::start(self.name(), port, rig)?;
        Ok(Box::new(Running { sshd, program: self.program.clone(), compress: self.compress }))
    }
}

struct Running {
    sshd: Sshd,
    program: PathBuf,
    compress: bool,
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let program = quoted(&self.program);
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.sshd.far(&cargo.target)),
            Direction::Get => (self.sshd.far(&cargo.source), quoted(&cargo.target)),
        };
        let plain = if self.compress { "" } else { " -z no" };
        let cp = self.sshd.client(&format!("{program} cp -a{plain} --quiet --far-command {program}"));
        Ok(Some(vec![Phase::near(format!("{cp} {from} {to}/"))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.sshd.server.processor_seconds()
    }
}
