//! NFS 4: nfs-ganesha with libnfs's tools, both in user space, so that no kernel module is needed.

use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

const GANESHA: Tool = Tool::new("ganesha.nfsd", "nfs-ganesha", &["-v"]);

pub(super) struct Nfs4;

impl Peer for Nfs4 {
    fn name(&self) -> &'static str {
        "nfs4"
    }

    fn about(&self) -> &'static str {
        "NFS 4 (sec=sys) from nfs-ganesha with libnfs's nfs-cp, one connection, not encrypted; reads files only"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 2] = [GANESHA, Tool::new("nfs-cp", "libnfs-utils", &[])];
        &TOOLS
    }

    fn obstacle(&self) -> Option<String> {
        // The part of ganesha that serves a local file system comes in a package of its own.
        let mut folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let here = folders.any(|folder| folder.path().join("ganesha/libfsalvfs.so").exists());
        (!here).then(|| "ganesha cannot serve a folder: apt-get install nfs-ganesha-vfs".to_owned())
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        let address = rig.address(2049);
        let settings = folder.join("ganesha.conf");
        write(
            &settings,
            &format!(
                "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = {host}; Enable_NLM = false;\n\
                 Enable_RQUOTA = false; Enable_UDP = false; fsid_device = true; }}\n\
                 NFSV4 {{ Grace_Period = 0; Lease_Lifetime = 60; Graceless = true; RecoveryRoot = {own}; RecoveryBackend = fs; }}\n\
                 EXPORT {{ Export_Id = 1; Path = {data}; Pseudo = /data; Access_Type = RW; Squash = No_Root_Squash;\n\
                 SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n",
                host = address.ip(),
                port = address.port(),
                own = folder.display(),
                data = rig.data.display(),
            ),
        )?;
        let program = GANESHA.find().unwrap_or_else(|| GANESHA.program.into());
        let (file, log, pid) =
            (settings.display().to_string(), folder.join("log"), folder.join("pid").display().to_string());
        let said = folder.join("ganesha.log").display().to_string();
        let arguments = ["-F", "-f", &file, "-L", &said, "-p", &pid, "-N", "NIV_WARN"];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &log)?;
        server.wait_until_it_listens(rig.far, address)?;
        Ok(Box::new(Running { server, host: address.ip().to_string(), data: rig.data.to_owned() }))
    }
}

struct Running {
    server: Server,
    host: String,
    data: PathBuf,
}

impl Running {
    fn url(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.data).unwrap_or(path);
        format!("'nfs://{}/data/{}?version=4'", self.host, below.display())
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        // nfs-cp has no recursion, and libnfs 4.0's writes over NFS 4 fail before they reach the server.
        if cargo.is_tree || cargo.direction == Direction::Put {
            return Ok(None);
        }
        let (from, to) = (self.url(&cargo.source), quoted(cargo.destination()));
        Ok(Some(vec![Phase::near(format!("nfs-cp {from} {to}"))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
