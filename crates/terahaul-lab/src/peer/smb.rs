//! SMB 3: Samba's server and smbclient, in three degrees of protection.

use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::{Cargo, End, Peer, PeerError, Phase, Rig, Session, SmallFiles, Tool};
use crate::work::Direction;

const SMBD: Tool = Tool::new("smbd", "samba", &["--version"]);
const USER: &str = "root";
/// Sessions of guests cannot be signed, so there is a user; it exists in the lab's namespace and for a run only.
const PASSWORD: &str = "lab";

/// How the bytes are protected on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    Plain,
    Signed,
    Encrypted,
}

pub(super) struct Smb {
    pub(super) protection: Protection,
}

impl Peer for Smb {
    fn name(&self) -> &'static str {
        match self.protection {
            Protection::Plain => "smb",
            Protection::Signed => "smb-signed",
            Protection::Encrypted => "smb-encrypted",
        }
    }

    fn about(&self) -> &'static str {
        match self.protection {
            Protection::Plain => {
                "Samba with smbclient, SMB 3.1.1, one connection, neither signed nor encrypted"
            }
            Protection::Signed => "Samba with smbclient, SMB 3.1.1, one connection, signed",
            Protection::Encrypted => "Samba with smbclient, SMB 3.1.1, one connection, encrypted",
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 3] =
            [SMBD, Tool::new("smbclient", "smbclient", &[]), Tool::new("smbpasswd", "samba-common-bin", &[])];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        // One port each, so that all three can run on one path.
        let address = rig.address(match self.protection {
            Protection::Plain => 445,
            Protection::Signed => 446,
            Protection::Encrypted => 447,
        });
        let (signing, encryption) = match self.protection {
            Protection::Plain => ("disabled", "off"),
            Protection::Signed => ("mandatory", "off"),
            Protection::Encrypted => ("auto", "required"),
        };
        let settings = folder.join("smb.conf");
        let own = folder.display();
        write(
            &settings,
            &format!(
                "[global]\nserver role = standalone server\nserver min protocol = SMB3\nclient max protocol = SMB3\n\
                 server signing = {signing}\nserver smb encrypt = {encryption}\nbind interfaces only = yes\n\
                 interfaces = {}/24\nsmb ports = {}\ndisable netbios = yes\nload printers = no\nprinting = bsd\n\
                 printcap name = /dev/null\nlog level = 0\nlogging = file\nlog file = {own}/smbd.log\n\
                 private dir = {own}/private\nstate directory = {own}/state\ncache directory = {own}/cache\n\
                 lock directory = {own}/lock\npid directory = {own}/pid\nncalrpc dir = {own}/rpc\n\
                 passdb backend = tdbsam:{own}/passdb.tdb\n\
                 [data]\npath = {}\nread only = no\ncase sensitive = yes\nfollow symlinks = yes\n",
                address.ip(),
                address.port(),
                rig.data.display(),
            ),
        )?;
        for name in ["private", "state", "cache", "lock", "pid", "rpc"] {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).map_err(PeerError::file("created", &path))?;
        }
        let add = format!(
            "printf '{PASSWORD}\\n{PASSWORD}\\n' | smbpasswd -c {} -L -s -a {USER}",
            quoted(&settings)
        );
        rig.run(self.name(), End::Far, &add, &[])?;
        let program = SMBD.find().unwrap_or_else(|| SMBD.program.into());
        let arguments =
            ["--foreground", "--no-process-group", &format!("--configfile={}", settings.display())];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        let protection = match self.protection {
            Protection::Plain => "off",
            Protection::Signed => "sign",
            Protection::Encrypted => "encrypt",
        };
        let client = format!(
            "smbclient //{}/data -p {} -U {USER} -m SMB3 --configfile={} --client-protection={protection}",
            address.ip(),
            address.port(),
            quoted(&settings),
        );
        Ok(Box::new(Running { server, client, data: rig.data.to_owned(), folder }))
    }
}

struct Running {
    server: Server,
    client: String,
    data: PathBuf,
    folder: PathBuf,
}

impl Running {
    /// A path of the share, as smbclient writes it.
    fn served(&self, path: &Path) -> String {
        path.strip_prefix(&self.data).unwrap_or(path).display().to_string().replace('/', "\\")
    }

    fn client(&self, commands: &str) -> Phase {
        self.phase(&format!("{} -c '{commands}'", self.client))
    }

    fn script(&self, name: &str, commands: &str) -> Result<Phase, PeerError> {
        let file = self.folder.join(name);
        write(&file, commands)?;
        Ok(self.phase(&format!("{} <{}", self.client, quoted(&file))))
    }

    /// smbclient ends with 0 although a file failed, so what it says counts too.
    fn phase(&self, client: &str) -> Phase {
        let command = format!("{client} 2>&1 | {{ ! grep ^NT_STATUS_; }}");
        Phase::near(command).with_secrets(self.secrets())
    }

    fn secrets(&self) -> Vec<(String, String)> {
        vec![("PASSWD".to_owned(), PASSWORD.to_owned())]
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let name = cargo.source.file_name().unwrap_or_default().to_string_lossy();
        let above = cargo.source.parent().unwrap_or(&cargo.source);
        let (local, share) = match cargo.direction {
            Direction::Put => (above, cargo.target.as_path()),
            Direction::Get => (cargo.target.as_path(), above),
        };
        let there = format!("lcd {}; cd \"{}\"", quoted(local), self.served(share));
        let verb = match (cargo.direction, cargo.is_tree) {
            (Direction::Put, false) => format!("put {name}"),
            (Direction::Get, false) => format!("get {name}"),
            (Direction::Put, true) => format!("recurse on; prompt off; mput {name}"),
            (Direction::Get, true) => format!("recurse on; prompt off; mget {name}"),
        };
        Ok(Some(vec![self.client(&format!("{there}; {verb}"))]))
    }

    fn small_files(&self, work: &SmallFiles) -> Result<Option<Vec<Phase>>, PeerError> {
        let cd = format!("cd \"{}\"\n", self.served(&work.target));
        let put = format!("lcd {}\n{cd}", quoted(&work.source)) + &work.lines(|name| format!("put {name}"));
        let stat = cd.clone() + &work.lines(|name| format!("allinfo {name}"));
        let remove = cd.clone() + &work.lines(|name| format!("rm {name}"));
        Ok(Some(vec![
            self.script("create", &put)?.named("create").leaving(work.names.len()),
            self.script("stat", &stat)?.named("stat"),
            self.script("list", &format!("{cd}ls\n"))?.named("list"),
            self.script("remove", &remove)?.named("remove").leaving(0),
        ]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
