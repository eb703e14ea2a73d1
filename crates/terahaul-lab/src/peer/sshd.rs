//! The SSH server that several peers use, each with one of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::{PeerError, Rig, Tool};

/// AES-128-GCM is what its users choose for speed: OpenSSH's own first choice is slower.
const CIPHER: &str = "aes128-gcm@openssh.com";

pub(super) const SSHD: Tool = Tool::new("sshd", "openssh-server", &[]);
pub(super) const SSH: Tool = Tool::new("ssh", "openssh-client", &["-V"]);

/// A running sshd with keys of its own.
pub(super) struct Sshd {
    pub(super) server: Server,
    folder: PathBuf,
    host: String,
    port: u16,
}

impl Sshd {
    /// On a port of the peer's own, so that all of them can run on one path.
    pub(super) fn start(peer: &'static str, port: u16, rig: &Rig<'_>) -> Result<Self, PeerError> {
        let folder = rig.settings_of(peer)?;
        for key in ["host", "user"] {
            let generate = format!("ssh-keygen -q -t ed25519 -N '' -f {}", quoted(folder.join(key)));
            rig.run(peer, super::End::Far, &generate, &[])?;
        }
        let authorized = folder.join("authorized");
        fs::copy(folder.join("user.pub"), &authorized).map_err(PeerError::file("written", &authorized))?;
        // sshd looks for this folder although it separates privileges in another way today.
        let _ = fs::create_dir_all("/run/sshd");
        let address = rig.address(port);
        let settings = folder.join("sshd_config");
        write(
            &settings,
            &format!(
                "ListenAddress {address}\nHostKey {host}\nAuthorizedKeysFile {authorized}\nStrictModes no\nUsePAM no\n\
                 PermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n\
                 UseDNS no\nMaxStartups 100\nLogLevel ERROR\nSetEnv HOME={home}\n",
                // What a shell of this machine's user does when it starts is nobody's protocol.
                home = folder.display(),
                host = folder.join("host").display(),
                authorized = authorized.display(),
            ),
        )?;
        let program = SSHD.find().unwrap_or_else(|| SSHD.program.into());
        let arguments = ["-D", "-e", "-f", &settings.display().to_string()];
        let mut server = Server::start(peer, rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        let client = folder.join("ssh_config");
        // In a file, so that command lines stay readable; IPQoS is left as it is by default.
        write(
            &client,
            &format!(
                "Port {port}\nIdentityFile {key}\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile {known}\n\
                 LogLevel ERROR\nCiphers {CIPHER}\nBatchMode yes\n",
                key = folder.join("user").display(),
                known = folder.join("known_hosts").display(),
            ),
        )?;
        let known = folder.join("known_hosts");
        let public = fs::read_to_string(folder.join("host.pub")).unwrap_or_default();
        write(&known, &format!("[{}]:{port} {public}", rig.host()))?;
        fs::set_permissions(&client, fs::Permissions::from_mode(0o600))
            .map_err(PeerError::file("changed", &client))?;
        Ok(Self { server, folder, host: rig.host().to_string(), port })
    }

    /// `scp`, `ssh` or `sftp` with the settings that lead here.
    pub(super) fn client(&self, program: &str) -> String {
        format!("{program} -F {}", quoted(self.folder.join("ssh_config")))
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path at the far end, as scp and rsync name it.
    pub(super) fn far(&self, path: &Path) -> String {
        format!("{}:{}", self.host, quoted(path))
    }
}
