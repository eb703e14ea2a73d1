//! An sshd of the test's own: a port, a host key, a user's key, a configuration in a temporary folder.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::rig::{self, Ran, wait_for_some, wait_until};

/// A running sshd; ended when dropped.
pub struct Sshd {
    pub home: TempDir,
    child: Child,
}

impl Sshd {
    pub fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(home.path().join(key))
                .status()
                .expect("ssh-keygen is installed by 'make test'");
            assert!(made.success());
        }
        fs::copy(home.path().join("user.pub"), home.path().join("authorized")).unwrap();
        // sshd looks for this folder although it separates privileges in another way today.
        let _ = fs::create_dir_all("/run/sshd");
        let far_home = home.path().join("far-home");
        fs::create_dir(&far_home).unwrap();
        let child = wait_for_some("sshd listens", || listening(home.path()));
        Self { home, child }
    }

    /// A path of the test's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A shell script of the test's, which is a program.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// A path of the test's, on the other host.
    pub fn far(&self, name: &str) -> String {
        format!("far:{}", self.path(name).display())
    }

    /// `terahaul cp` with the settings that lead here, without the far side's command.
    pub fn bare(&self, args: &[&str]) -> Command {
        let mut command = rig::terahaul(self.home.path());
        command.arg("cp").args(self.settings(args)).args(args);
        command
    }

    /// The same without settings for ssh.
    pub fn bare_without_settings(&self, args: &[&str]) -> Command {
        let mut command = rig::terahaul(self.home.path());
        command.arg("cp").args(args);
        command
    }

    /// `terahaul cp`.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = rig::terahaul(self.home.path());
        command.arg("cp").args(self.settings(args));
        let program = ["--far-command", env!("CARGO_BIN_EXE_terahaul")];
        command.args(program.into_iter().filter(|_| is_far(args))).args(args);
        command
    }

    /// ssh's, where one of these is on the other host.
    fn settings(&self, args: &[&str]) -> Vec<OsString> {
        let settings = ["-F".into(), self.path("ssh_config").into_os_string()];
        if is_far(args) { settings.into() } else { Vec::new() }
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    /// Runs it, and wants it to succeed; returns what it says at the end.
    pub fn copy(&self, args: &[&str]) -> serde_json::Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        ran.event("done")
    }
}

fn is_far(args: &[&str]) -> bool {
    args.iter().any(|arg| arg.starts_with("far:") || arg.starts_with("ssh://"))
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An sshd with its home there, on a port that was free a moment ago; `None` where somebody else has taken it since.
fn listening(home: &Path) -> Option<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = home.display();
    // Its usual exchange of keys takes a fifth of the tests' processor time.
    let configuration = format!(
        "KexAlgorithms curve25519-sha256\nListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nUseDNS no\nLogLevel ERROR\nSetEnv HOME={at}/far-home\n"
    );
    fs::write(home.join("sshd_config"), configuration).unwrap();
    let client = format!(
        "Host far\nHostName 127.0.0.1\nPort {port}\nIdentityFile {at}/user\nIdentitiesOnly yes\n\
         UserKnownHostsFile {at}/known\nStrictHostKeyChecking yes\nLogLevel ERROR\nBatchMode yes\n"
    );
    fs::write(home.join("ssh_config"), client).unwrap();
    let public = fs::read_to_string(home.join("host.pub")).unwrap();
    fs::write(home.join("known"), format!("[127.0.0.1]:{port} {public}")).unwrap();
    let mut child = Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(home.join("sshd_config"))
        .stderr(Stdio::null())
        .spawn()
        .expect("sshd is installed by 'make test'");
    wait_until("sshd answers or ends", || child.try_wait().unwrap().is_some() || answers(port));
    // Whoever has its port might have answered in its place.
    child.try_wait().unwrap().is_none().then_some(child)
}

fn answers(port: u16) -> bool {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut banner = [0; 4];
    socket.read_exact(&mut banner).is_ok() && &banner == b"SSH-"
}

/// What is in a folder besides what belongs there.
pub fn staging_folders(folder: &Path) -> usize {
    let is_staging = |name: &str| name.starts_with(".terahaul-");
    fs::read_dir(folder).map_or(0, |entries| {
        entries.filter(|entry| is_staging(&entry.as_ref().unwrap().file_name().to_string_lossy())).count()
    })
}
