//! MyData's way to upload an instrument's folder: for each file its MD5 sum and then an scp of its own, eight at a time.

use super::process::quoted;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

/// Uploads at a time, from MyData's notes on upload speed.
const AT_A_TIME: u32 = 8;

pub(super) struct MyData;

impl Peer for MyData {
    fn name(&self) -> &'static str {
        "mydata"
    }

    fn about(&self) -> &'static str {
        "MyData's way: MD5 of each file, then OpenSSH scp, eight files at a time, AES-128-GCM"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [SSH, Tool::new("scp", "openssh-client", &[]), SSHD];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        Ok(Box::new(Running(Sshd::start(self.name(), 2207, rig)?)))
    }
}

struct Running(Sshd);

impl Session for Running {
    /// Only uploads, and only of a folder's own files: it makes no folders.
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let has_folders = || {
            std::fs::read_dir(&cargo.source)
                .is_ok_and(|mut all| all.any(|one| one.is_ok_and(|one| one.path().is_dir())))
        };
        if cargo.direction == Direction::Get || !cargo.is_tree || has_folders() {
            return Ok(None);
        }
        let (ssh, scp) = (self.0.client("ssh"), self.0.client("scp"));
        let destination = cargo.destination();
        let host = self.0.host();
        let upload = format!("md5sum \"$0\" >/dev/null && {scp} -q \"$0\" {}/", self.0.far(&destination));
        Ok(Some(vec![Phase::near(format!(
            "{ssh} {host} mkdir -p {} && find {} -type f -print0 | xargs -0 -n 1 -P {AT_A_TIME} bash -c {}",
            quoted(&destination),
            quoted(&cargo.source),
            quoted(&upload)
        ))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.0.server.processor_seconds()
    }
}
