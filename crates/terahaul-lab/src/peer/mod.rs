//! The programs that are compared, each with its real server.
//!
//! A [`Peer`] starts its server on the far end and says which command lines the near end runs. What it needs is named,
//! so that a peer that is not on this machine is reported with the package that brings it.

mod certificate;
mod driven;
mod error;
mod ftp;
mod https;
mod iperf3;
mod mydata;
mod nfs4;
mod process;
mod rclone;
mod rig;
mod rsync;
mod scp;
mod sftp;
mod smb;
mod sshd;
mod tar_ssh;
mod terahaul;
mod terahaul_cp;
mod terahaul_http;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::PeerError;
pub(crate) use process::{
    ATTENTION, confined, end_process, kill, last_lines, output_unless, processor_seconds_of_children, quoted,
};
pub use rig::Rig;

use crate::namespace::in_a_user_namespace;
use crate::work::{Content, Direction};

/// A program that moves files, as it can be compared.
pub trait Peer: Send + Sync {
    /// As the command line and the tables have it.
    fn name(&self) -> &'static str;
    /// One line on what it is, and how the bytes are protected on the way.
    fn about(&self) -> &'static str;
    /// The programs that it needs, at both ends.
    fn needs(&self) -> &'static [Tool];
    /// Why it cannot run here although its programs are there.
    fn obstacle(&self) -> Option<String> {
        None
    }
    /// Starts its server on the far end of `rig`, and returns when it answers.
    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError>;
}

/// A peer whose server runs. Dropping it stops the server and waits for its end.
pub trait Session {
    /// What moves `cargo`, or `None` where the protocol has no way to.
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError>;

    /// What creates, stats, lists and removes small files one by one, where the protocol can.
    fn small_files(&self, work: &SmallFiles) -> Result<Option<Vec<Phase>>, PeerError> {
        let _ = work;
        Ok(None)
    }

    /// Does what has to be done before each run and is not measured.
    fn prepare(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<(), PeerError> {
        let _ = (rig, cargo);
        Ok(())
    }

    /// What arrived, where it is not in the target folder. Is not measured.
    fn arrived(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<Option<Content>, PeerError> {
        let _ = (rig, cargo);
        Ok(None)
    }

    /// Removes what a run has left outside the target folder. Is not measured.
    fn clear(&self, rig: &Rig<'_>) -> Result<(), PeerError> {
        let _ = rig;
        Ok(())
    }

    /// Whether files are moved. A probe of the path only moves bytes.
    fn moves_files(&self) -> bool {
        true
    }

    /// Processor seconds that the server's processes have used so far.
    fn processor_seconds(&self) -> f64;
}

/// What is to be moved.
#[derive(Clone, Debug)]
pub struct Cargo {
    /// Which way.
    pub direction: Direction,
    /// A file, or a folder with all that is in it.
    pub source: PathBuf,
    /// The folder in which it is to appear under its own name.
    pub target: PathBuf,
    /// Whether it is a folder.
    pub is_tree: bool,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Cargo {
    /// Where it appears.
    pub fn destination(&self) -> PathBuf {
        self.target.join(self.source.file_name().unwrap_or_default())
    }
}

/// Small files to create, stat, list and remove one by one at the far end.
#[derive(Clone, Debug)]
pub struct SmallFiles {
    /// The folder at the near end that has them.
    pub source: PathBuf,
    /// The empty folder at the far end.
    pub target: PathBuf,
    /// Their names, which are plain words.
    pub names: Vec<String>,
}

impl SmallFiles {
    /// One line for each file, made by `line`.
    fn lines(&self, line: impl Fn(&str) -> String) -> String {
        self.names.iter().map(|name| line(name) + "\n").collect()
    }
}

/// At which end of the path a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Where the clients are.
    Near,
    /// Where the servers are.
    Far,
}

/// One measured step: a command line for bash.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What it does, as `send` or `unpack`.
    pub name: &'static str,
    /// Where it runs.
    pub end: End,
    /// The command line. Never holds a secret.
    pub command: String,
    /// What the command finds in its environment: secrets.
    pub secrets: Vec<(String, String)>,
    /// How many files the target has to hold afterwards, where that proves the step.
    pub leaves: Option<usize>,
}

impl Phase {
    /// A step at the near end that moves everything.
    pub fn near(command: String) -> Self {
        Self { name: "transfer", end: End::Near, command, secrets: Vec::new(), leaves: None }
    }

    /// The same under another name.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The same with secrets in its environment.
    pub fn with_secrets(self, secrets: Vec<(String, String)>) -> Self {
        Self { secrets, ..self }
    }

    /// The same with a proof of what it did.
    pub fn leaving(self, files: usize) -> Self {
        Self { leaves: Some(files), ..self }
    }
}

/// A program and the Debian package that brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The program.
    pub program: &'static str,
    /// The package.
    pub package: &'static str,
    /// What makes it print its version; none where it has no such way.
    pub version: &'static [&'static str],
}

impl Tool {
    const fn new(program: &'static str, package: &'static str, version: &'static [&'static str]) -> Self {
        Self { program, package, version }
    }

    /// Whether it is on this machine, and where.
    pub fn find(&self) -> Option<PathBuf> {
        find(self.program)
    }

    /// The first line of what it says of its version.
    pub fn version_text(&self) -> Option<String> {
        if self.version.is_empty() {
            return None;
        }
        let ran = std::process::Command::new(self.find()?)
            .args(self.version)
            .stdin(std::process::Stdio::null())
            .output()
            .ok()?;
        let said = if ran.stdout.is_empty() { ran.stderr } else { ran.stdout };
        let line =
            String::from_utf8_lossy(&said).lines().find(|line| !line.trim().is_empty())?.trim().to_owned();
        Some(line.split(", Jens").next().unwrap_or(&line).chars().take(90).collect())
    }
}

/// Where `program` is on this machine. Servers are not on the `PATH` of users.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// Whether a peer can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Here,
    /// It cannot, and why, with what to install.
    NotHere(String),
}

/// Servers that change users, groups or what the kernel lets only the system's root do.
const NEED_ROOT: [&str; 5] = ["sshd", "vsftpd", "rsync", "smbd", "ganesha.nfsd"];

/// Whether `peer` can run here.
pub fn availability(peer: &dyn Peer) -> Availability {
    let missing: Vec<&Tool> = peer.needs().iter().filter(|tool| tool.find().is_none()).collect();
    if !missing.is_empty() {
        let mut programs: Vec<&str> = missing.iter().map(|tool| tool.program).collect();
        let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
        programs.dedup();
        packages.sort_unstable();
        packages.dedup();
        let verb = if programs.len() == 1 { "is" } else { "are" };
        let (programs, packages) = (programs.join(", "), packages.join(" "));
        return Availability::NotHere(format!("{programs} {verb} missing: apt-get install {packages}"));
    }
    let needs_root = peer.needs().iter().find(|tool| NEED_ROOT.contains(&tool.program));
    if let Some(tool) = needs_root.filter(|_| in_a_user_namespace()) {
        let program = tool.program;
        return Availability::NotHere(format!(
            "{program} as a server needs the system's root, and here is only that of a user namespace: run the lab as root"
        ));
    }
    peer.obstacle().map_or(Availability::Here, Availability::NotHere)
}

/// Whether what is put to the peer of this name stays in its depot, which keeps it as one object and makes no files of it.
pub fn keeps_to_itself(peer: &str, direction: Direction) -> bool {
    const DEPOTS: [&str; 4] = ["terahaul", "terahaul-udp", "terahaul-auto", "terahaul-http"];
    direction == Direction::Put && DEPOTS.contains(&peer)
}

/// Whether the peer of this name may send fewer bytes than files have.
pub fn may_compress(peer: &str) -> bool {
    const AS_ASKED: [&str; 2] = ["rsync-ssh-z", "tar-ssh-zstd"];
    const WHILE_IT_HELPS: [&str; 4] = ["terahaul", "terahaul-udp", "terahaul-auto", "terahaul-cp"];
    AS_ASKED.contains(&peer) || WHILE_IT_HELPS.contains(&peer)
}

/// Every peer that the lab knows, in the order of the help. `terahaul` is the program to measure.
pub fn all(terahaul: &Path) -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(scp::Scp),
        Box::new(sftp::Sftp),
        Box::new(rsync::RsyncSsh { compress: false }),
        Box::new(rsync::RsyncSsh { compress: true }),
        Box::new(rsync::Rsyncd),
        Box::new(tar_ssh::TarSsh { compress: false }),
        Box::new(tar_ssh::TarSsh { compress: true }),
        Box::new(mydata::MyData),
        Box::new(ftp::Ftp { encrypted: false }),
        Box::new(ftp::Ftp { encrypted: true }),
        Box::new(nfs4::Nfs4),
        Box::new(smb::Smb { protection: smb::Protection::Plain }),
        Box::new(smb::Smb { protection: smb::Protection::Signed }),
        Box::new(smb::Smb { protection: smb::Protection::Encrypted }),
        Box::new(rclone::RcloneSftp),
        Box::new(rclone::RcloneWebdav),
        Box::new(https::Https { direction: Direction::Get }),
        Box::new(https::Https { direction: Direction::Put }),
        Box::new(iperf3::Iperf3 { streams: 1 }),
        Box::new(iperf3::Iperf3 { streams: 8 }),
        Box::new(driven::UDT),
        Box::new(driven::QUIC),
        Box::new(terahaul::Terahaul::new(terahaul, terahaul::Transport::Tcp)),
        Box::new(terahaul::Terahaul::new(terahaul, terahaul::Transport::Udp)),
        Box::new(terahaul::Terahaul::new(terahaul, terahaul::Transport::Auto)),
        Box::new(terahaul_http::TerahaulHttp::new(terahaul)),
        Box::new(terahaul_cp::TerahaulCp::new(terahaul, true)),
        Box::new(terahaul_cp::TerahaulCp::new(terahaul, false)),
    ]
}
