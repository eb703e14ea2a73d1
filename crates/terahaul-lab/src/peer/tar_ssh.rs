//! `tar | ssh tar`: the old way to move many small files over one stream.

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

pub(super) struct TarSsh {
    /// By Zstandard, at its own default level.
    pub(super) compress: bool,
}

impl Peer for TarSsh {
    fn name(&self) -> &'static str {
        if self.compress { "tar-ssh-zstd" } else { "tar-ssh" }
    }

    fn about(&self) -> &'static str {
        if self.compress {
            "the same, compressed: tar --zstd"
        } else {
            "tar piped through OpenSSH into tar, one connection, AES-128-GCM"
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 4] =
            [Tool::new("tar", "tar", &["--version"]), SSH, SSHD, Tool::new("zstd", "zstd", &["--version"])];
        if self.compress { &TOOLS } else { &TOOLS[..3] }
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let port = if self.compress { 2210 } else { 2204 };
        let sshd = Sshd::start(self.name(), port, rig)?;
        Ok(Box::new(Running { sshd, flag: if self.compress { "--zstd " } else { "" } }))
    }
}

struct Running {
    sshd: Sshd,
    /// Tar's, with a space behind it.
    flag: &'static str,
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let folder = cargo.source.parent().unwrap_or(&cargo.source);
        let name = cargo.source.file_name().unwrap_or_default();
        let Self { sshd, flag } = self;
        let pack = format!("tar {flag}-cf - -C {} {}", quoted(folder), quoted(name));
        let unpack = format!("tar {flag}-xf - -C {}", quoted(&cargo.target));
        let ssh = format!("{} {}", sshd.client("ssh"), sshd.host());
        let command = match cargo.direction {
            Direction::Put => format!("{pack} | {ssh} \"{unpack}\""),
            Direction::Get => format!("{ssh} \"{pack}\" | {unpack}"),
        };
        Ok(Some(vec![Phase::near(command)]))
    }

    fn processor_seconds(&self) -> f64 {
        self.sshd.server.processor_seconds()
    }
}
