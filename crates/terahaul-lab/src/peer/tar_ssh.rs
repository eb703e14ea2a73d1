//! `tar | ssh tar`: the old way to move many small files over one stream.

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

pub(super) struct TarSsh;

impl Peer for TarSsh {
    fn name(&self) -> &'static str {
        "tar-ssh"
    }

    fn about(&self) -> &'static str {
        "tar piped through OpenSSH into tar, one connection, AES-128-GCM"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [Tool::new("tar", "tar", &["--version"]), SSH, SSHD];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        Ok(Box::new(Running(Sshd::start(self.name(), 2204, rig)?)))
    }
}

struct Running(Sshd);

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let folder = cargo.source.parent().unwrap_or(&cargo.source);
        let name = cargo.source.file_name().unwrap_or_default();
        let pack = format!("tar cf - -C {} {}", quoted(folder), quoted(name));
        let unpack = format!("tar xf - -C {}", quoted(&cargo.target));
        let ssh = format!("{} {}", self.0.client("ssh"), self.0.host());
        let command = match cargo.direction {
            Direction::Put => format!("{pack} | {ssh} \"{unpack}\""),
            Direction::Get => format!("{ssh} \"{pack}\" | {unpack}"),
        };
        Ok(Some(vec![Phase::near(command)]))
    }

    fn processor_seconds(&self) -> f64 {
        self.0.server.processor_seconds()
    }
}
