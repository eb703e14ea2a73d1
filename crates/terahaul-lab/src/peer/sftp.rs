//! OpenSSH's sftp, with its commands in a file.

use super::process::quoted;
use super::rig::write;
use super::sshd::{SSH, SSHD, Sshd};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, SmallFiles, Tool};
use crate::work::Direction;

pub(super) struct Sftp;

impl Peer for Sftp {
    fn name(&self) -> &'static str {
        "sftp"
    }

    fn about(&self) -> &'static str {
        "OpenSSH sftp, one connection, AES-128-GCM"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] = [SSH, Tool::new("sftp", "openssh-client", &[]), SSHD];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        Ok(Box::new(Running(Sshd::start(self.name(), 2202, rig)?)))
    }
}

struct Running(Sshd);

impl Running {
    fn batch(&self, name: &str, commands: &str) -> Result<String, PeerError> {
        let file = self.0.folder().join(name);
        write(&file, commands)?;
        Ok(format!("{} -q -b {} {} >/dev/null", self.0.client("sftp"), quoted(&file), self.0.host()))
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let verb = match cargo.direction {
            Direction::Put => "put",
            Direction::Get => "get",
        };
        let flags = if cargo.is_tree { " -Rp" } else { "" };
        let commands = format!("{verb}{flags} {} {}/\n", quoted(&cargo.source), quoted(&cargo.target));
        Ok(Some(vec![Phase::near(self.batch("batch", &commands)?)]))
    }

    fn small_files(&self, work: &SmallFiles) -> Result<Option<Vec<Phase>>, PeerError> {
        let (source, target) = (quoted(&work.source), quoted(&work.target));
        let put = format!("lcd {source}\ncd {target}\n") + &work.lines(|name| format!("put {name}"));
        let stat = format!("cd {target}\n") + &work.lines(|name| format!("ls -l {name}"));
        let remove = format!("cd {target}\n") + &work.lines(|name| format!("rm {name}"));
        Ok(Some(vec![
            Phase::near(self.batch("create", &put)?).named("create").leaving(work.names.len()),
            Phase::near(self.batch("stat", &stat)?).named("stat"),
            Phase::near(self.batch("list", &format!("ls -l {target}\n"))?).named("list"),
            Phase::near(self.batch("remove", &remove)?).named("remove").leaving(0),
        ]))
    }

    fn processor_seconds(&self) -> f64 {
        self.0.server.processor_seconds()
    }
}
