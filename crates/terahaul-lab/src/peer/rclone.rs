//! rclone, to an SSH server and to its own WebDAV server.

use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::sshd::{SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

const RCLONE: Tool = Tool::new("rclone", "rclone", &["version"]);

pub(super) struct RcloneSftp;

impl Peer for RcloneSftp {
    fn name(&self) -> &'static str {
        "rclone-sftp"
    }

    fn about(&self) -> &'static str {
        "rclone copy over SFTP to OpenSSH, four files at once, compares checksums afterwards, encrypted"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [RCLONE, SSHD, Tool::new("ssh-keygen", "openssh-client", &[])];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let sshd = Sshd::start(self.name(), 2205, rig)?;
        let key = sshd.folder().join("user");
        // The user is the one whose keys sshd knows: whoever runs the lab.
        let remote =
            format!(":sftp,host={},port={},user=root,key_file={}:", sshd.host(), sshd.port(), key.display());
        let client = client(sshd.folder());
        Ok(Box::new(Running { server: sshd.server, remote, root: PathBuf::from("/"), client }))
    }
}

pub(super) struct RcloneWebdav;

impl Peer for RcloneWebdav {
    fn name(&self) -> &'static str {
        "rclone-webdav"
    }

    fn about(&self) -> &'static str {
        "rclone copy to 'rclone serve webdav' over HTTP, four files at once, not encrypted"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 1] = [RCLONE];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        let address = rig.address(8080);
        let program = RCLONE.find().unwrap_or_else(|| RCLONE.program.into());
        let (data, listen) = (rig.data.display().to_string(), address.to_string());
        let settings = folder.join("rclone.conf").display().to_string();
        // No time-outs: the defaults would end transfers after an hour.
        let arguments =
            ["serve", "webdav", &data, "--addr", &listen, "--config", &settings, "--dir-cache-time", "0"];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        let remote = format!(":webdav,url=\"http://{address}\":");
        Ok(Box::new(Running { server, remote, root: rig.data.to_owned(), client: client(&folder) }))
    }
}

/// rclone would look for settings in the user's home, and write them there.
fn client(folder: &Path) -> String {
    format!("rclone --config {} --skip-links --retries 1", quoted(folder.join("client.conf")))
}

struct Running {
    server: Server,
    remote: String,
    /// What the remote's paths are relative to.
    root: PathBuf,
    client: String,
}

impl Running {
    fn far(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let above = if self.root == Path::new("/") { "/" } else { "" };
        format!("'{}{above}{}'", self.remote, below.display())
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        // rclone copies what is in a folder, not the folder.
        let target = if cargo.is_tree { cargo.destination() } else { cargo.target.clone() };
        let (from, to) = match cargo.direction {
            Direction::Put => (quoted(&cargo.source), self.far(&target)),
            Direction::Get => (self.far(&cargo.source), quoted(&target)),
        };
        Ok(Some(vec![Phase::near(format!("{} copy {from} {to}", self.client))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
