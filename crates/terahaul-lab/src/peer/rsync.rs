//! rsync over SSH, and rsync's own daemon.

use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

const RSYNC: Tool = Tool::new("rsync", "rsync", &["--version"]);

pub(super) struct RsyncSsh {
    /// `-z`, with what the two rsyncs agree on.
    pub(super) compress: bool,
}

impl Peer for RsyncSsh {
    fn name(&self) -> &'static str {
        if self.compress { "rsync-ssh-z" } else { "rsync-ssh" }
    }

    fn about(&self) -> &'static str {
        if self.compress {
            "the same, compressed: rsync -az"
        } else {
            "rsync -a over OpenSSH, one connection, AES-128-GCM"
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [RSYNC, SSH, SSHD];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let port = if self.compress { 2209 } else { 2203 };
        let sshd = Sshd::start(self.name(), port, rig)?;
        Ok(Box::new(OverSsh { sshd, flags: if self.compress { "-az" } else { "-a" } }))
    }
}

struct OverSsh {
    sshd: Sshd,
    flags: &'static str,
}

impl Session for OverSsh {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.sshd.far(&cargo.target)),
            Direction::Get => (self.sshd.far(&cargo.source), quoted(&cargo.target)),
        };
        let Self { sshd, flags } = self;
        Ok(Some(vec![Phase::near(format!("rsync {flags} -e '{}' {from} {to}/", sshd.client("ssh")))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.sshd.server.processor_seconds()
    }
}

pub(super) struct Rsyncd;

impl Peer for Rsyncd {
    fn name(&self) -> &'static str {
        "rsyncd"
    }

    fn about(&self) -> &'static str {
        "rsync -a to rsync's own daemon, one connection, not encrypted"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 1] = [RSYNC];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        let settings = folder.join("rsyncd.conf");
        // A daemon that does not change its root rewrites what links lead to unless it is told not to.
        write(
            &settings,
            &format!(
                "use chroot = no\nmunge symlinks = no\nuid = root\ngid = root\n[data]\npath = {}\nread only = no\n",
                rig.data.display()
            ),
        )?;
        let address = rig.address(873);
        let program = RSYNC.find().unwrap_or_else(|| RSYNC.program.into());
        let arguments = [
            "--daemon",
            "--no-detach",
            &format!("--address={}", address.ip()),
            &format!("--port={}", address.port()),
            &format!("--config={}", settings.display()),
            &format!("--log-file={}", folder.join("rsyncd.log").display()),
        ];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        Ok(Box::new(Daemon { server, host: rig.host().to_string(), data: rig.data.to_owned() }))
    }
}

struct Daemon {
    server: Server,
    host: String,
    data: PathBuf,
}

impl Daemon {
    fn far(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.data).unwrap_or(path);
        format!("rsync://{}/data/{}", self.host, quoted(below))
    }
}

impl Session for Daemon {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.far(&cargo.target)),
            Direction::Get => (self.far(&cargo.source), quoted(&cargo.target)),
        };
        Ok(Some(vec![Phase::near(format!("rsync -a {from} {to}/"))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
