//! What a peer is given: the two ends of a path, and folders.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use super::process::{confined, end_process, last_lines, output_unless};
use super::{End, PeerError};
use crate::Namespace;

/// The two ends of a path, and the folder that both see.
#[derive(Clone, Copy)]
pub struct Rig<'a> {
    /// Where clients run.
    pub near: &'a Namespace,
    /// Where servers run.
    pub far: &'a Namespace,
    /// What servers serve: the work's files and the targets. An absolute path.
    pub data: &'a Path,
    /// Where peers keep their settings, keys and logs, each in a folder of its own.
    pub settings: &'a Path,
    /// Becomes true when the user wants to stop: what is under way ends then.
    pub stop: &'a AtomicBool,
}

impl Rig<'_> {
    /// The far end's address, the only one that servers listen on.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.host(), port)
    }

    /// The same without a port.
    pub fn host(&self) -> IpAddr {
        self.far.address()
    }

    /// A peer's own folder for settings, made empty.
    pub fn settings_of(&self, peer: &str) -> Result<PathBuf, PeerError> {
        let folder = self.settings.join(peer);
        crate::work::remove_all(&folder);
        fs::create_dir_all(&folder).map_err(PeerError::file("created", &folder))?;
        Ok(folder)
    }

    /// Runs a command line that is not measured to its end, and returns what it wrote on stdout.
    pub fn run(
        &self,
        peer: &'static str,
        end: End,
        command: &str,
        secrets: &[(String, String)],
    ) -> Result<String, PeerError> {
        let log = self.settings.join(format!("{peer}.prepare.log"));
        let errors = fs::File::create(&log).map_err(PeerError::file("created", &log))?;
        let namespace = match end {
            End::Near => self.near,
            End::Far => self.far,
        };
        let ran = confined(namespace, Path::new("bash"))
            .args(["-o", "pipefail", "-c", command])
            .envs(secrets.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .and_then(|child| output_unless(self.stop, child, end_process))
            .map_err(PeerError::file("started", Path::new("bash")))?;
        if !ran.status.success() {
            return Err(PeerError::Preparing { peer, command: command.to_owned(), said: last_lines(&log) });
        }
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }
}

/// A file of settings.
pub(super) fn write(path: &Path, text: &str) -> Result<(), PeerError> {
    fs::write(path, text).map_err(PeerError::file("written", path))
}
