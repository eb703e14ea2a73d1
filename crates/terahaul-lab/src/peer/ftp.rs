//! FTP and FTPS: vsftpd with lftp.

use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::{Cargo, End, Peer, PeerError, Phase, Rig, Session, SmallFiles, Tool, certificate};
use crate::work::Direction;

const VSFTPD: Tool = Tool::new("vsftpd", "vsftpd", &[]);
/// The package makes this user; vsftpd serves as it, because it refuses to serve as root.
const USER: &str = "ftp";

pub(super) struct Ftp {
    pub(super) encrypted: bool,
}

impl Peer for Ftp {
    fn name(&self) -> &'static str {
        if self.encrypted { "ftps" } else { "ftp" }
    }

    fn about(&self) -> &'static str {
        if self.encrypted {
            "vsftpd with lftp, one data connection a file, control and data over TLS"
        } else {
            "vsftpd with lftp, one data connection a file, not encrypted"
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 2] = [VSFTPD, Tool::new("lftp", "lftp", &["--version"])];
        &TOOLS
    }

    fn obstacle(&self) -> Option<String> {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let here = users.lines().any(|line| line.split(':').next() == Some(USER));
        (!here).then(|| format!("vsftpd's user '{USER}' is missing: apt-get install --reinstall vsftpd"))
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        let address = rig.address(if self.encrypted { 2102 } else { 2101 });
        let empty = folder.join("empty");
        std::fs::create_dir(&empty).map_err(PeerError::file("created", &empty))?;
        let mut settings = format!(
            "listen=YES\nbackground=NO\nlisten_address={}\nlisten_port={}\nanonymous_enable=YES\nlocal_enable=NO\n\
             write_enable=YES\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\nanon_other_write_enable=YES\n\
             anon_umask=022\nanon_world_readable_only=NO\nno_anon_password=YES\nanon_root={}\nftp_username={USER}\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\nxferlog_enable=NO\nmdtm_write=YES\n",
            address.ip(),
            address.port(),
            rig.data.display(),
            empty.display(),
        );
        if self.encrypted {
            let certificate = certificate::make(rig.host(), &folder)?;
            settings += &format!(
                "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\nssl_ciphers=HIGH\n\
                 require_ssl_reuse=NO\nrsa_cert_file={}\nrsa_private_key_file={}\n",
                certificate.chain.display(),
                certificate.key.display(),
            );
        }
        // All of it is below the scratch folder, which is otherwise for its owner alone.
        let scratch = quoted(rig.data.parent().unwrap_or(rig.data));
        let admit = format!("chgrp $(id -g {USER}) {scratch} && chmod 710 {scratch}");
        rig.run(self.name(), End::Far, &admit, &[])?;
        let file = folder.join("vsftpd.conf");
        write(&file, &settings)?;
        let program = VSFTPD.find().unwrap_or_else(|| VSFTPD.program.into());
        let arguments = [&*file.display().to_string()];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        let tls = if self.encrypted {
            "set ftp:ssl-allow-anonymous yes; set ftp:ssl-force yes; set ftp:ssl-protect-data yes; set ssl:verify-certificate no"
        } else {
            "set ftp:ssl-allow no"
        };
        // lftp would try for hours where something is wrong; without `-a` the server leaves out names that begin with a dot.
        let open = format!(
            "set net:max-retries 2; set net:reconnect-interval-base 1; set ftp:list-options -a; {tls}; open ftp://{address}"
        );
        Ok(Box::new(Running { server, open, data: rig.data.to_owned(), folder }))
    }
}

struct Running {
    server: Server,
    open: String,
    data: PathBuf,
    folder: PathBuf,
}

impl Running {
    fn served(&self, path: &Path) -> String {
        format!("/{}", quoted(path.strip_prefix(&self.data).unwrap_or(path)))
    }

    fn client(&self, commands: &str) -> Phase {
        Phase::near(format!("lftp --norc -c \"set cmd:fail-exit yes; {}; {commands}\"", self.open))
    }

    fn script(&self, name: &str, commands: &str) -> Result<Phase, PeerError> {
        let file = self.folder.join(name);
        write(&file, &format!("set cmd:fail-exit yes\n{}\n{commands}", self.open.replace("; ", "\n")))?;
        Ok(Phase::near(format!("lftp --norc -f {} >/dev/null", quoted(&file))))
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let (source, target, whole) = (&cargo.source, &cargo.target, cargo.destination());
        let command = match (cargo.direction, cargo.is_tree) {
            (Direction::Put, false) => format!("put -O {} {}", self.served(target), quoted(source)),
            (Direction::Get, false) => format!("get -O {} {}", quoted(target), self.served(source)),
            (Direction::Put, true) => {
                format!("mirror -R --no-symlinks {} {}", quoted(source), self.served(&whole))
            }
            (Direction::Get, true) => format!("mirror {} {}", self.served(source), quoted(&whole)),
        };
        Ok(Some(vec![self.client(&command)]))
    }

    fn small_files(&self, work: &SmallFiles) -> Result<Option<Vec<Phase>>, PeerError> {
        let target = self.served(&work.target);
        let put = format!("lcd {}\ncd {target}\n", quoted(&work.source))
            + &work.lines(|name| format!("put {name}"));
        let stat = format!("cd {target}\n") + &work.lines(|name| format!("quote MDTM {name}"));
        let remove = format!("cd {target}\n") + &work.lines(|name| format!("rm {name}"));
        Ok(Some(vec![
            self.script("create", &put)?.named("create").leaving(work.names.len()),
            self.script("stat", &stat)?.named("stat"),
            self.script("list", &format!("cls -l {target}\n"))?.named("list"),
            self.script("remove", &remove)?.named("remove").leaving(0),
        ]))
    }

    fn prepare(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<(), PeerError> {
        if cargo.direction == Direction::Put {
            rig.run("ftp", End::Far, &format!("chown -R {USER} {}", quoted(&cargo.target)), &[])?;
        }
        Ok(())
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
