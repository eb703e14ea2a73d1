//! HTTPS: nginx with curl, each direction a peer of its own, as the names have it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::process::{Server, quoted};
use super::rig::write;
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool, certificate};
use crate::work::Direction;

const NGINX: Tool = Tool::new("nginx", "nginx", &["-v"]);
/// What browsers keep open to one host.
const CONNECTIONS: u32 = 6;

pub(super) struct Https {
    pub(super) direction: Direction,
}

impl Peer for Https {
    fn name(&self) -> &'static str {
        match self.direction {
            Direction::Get => "https-get",
            Direction::Put => "https-put",
        }
    }

    fn about(&self) -> &'static str {
        match self.direction {
            Direction::Get => {
                "curl from nginx over TLS 1.3, AES-128-GCM; one connection for a file, six for a tree"
            }
            Direction::Put => {
                "curl to nginx (WebDAV PUT) over TLS 1.3, AES-128-GCM; one connection for a file, six for a tree"
            }
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 2] = [NGINX, Tool::new("curl", "curl", &["--version"])];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        let certificate = certificate::make(rig.host(), &folder)?;
        // One port each, so that both can run on one path.
        let address = rig.address(if self.direction == Direction::Get { 443 } else { 444 });
        // What is being received is kept beside where it will be, so that nginx can rename it.
        let bodies = rig.data.join(format!(".{}", self.name()));
        let settings = folder.join("nginx.conf");
        write(
            &settings,
            &format!(
                "daemon off; user root; worker_processes auto; error_log stderr warn; pid {pid};\n\
                 events {{ worker_connections 256; }}\n\
                 http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n\
                 client_max_body_size 0; client_body_temp_path {bodies};\n\
                 proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n\
                 server {{ listen {address} ssl; ssl_protocols TLSv1.3; ssl_certificate {chain}; ssl_certificate_key {key};\n\
                 ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; root {data};\n\
                 dav_methods PUT DELETE; create_full_put_path on; }} }}\n",
                pid = folder.join("pid").display(),
                folder = folder.display(),
                bodies = bodies.display(),
                chain = certificate.chain.display(),
                key = certificate.key.display(),
                data = rig.data.display(),
            ),
        )?;
        let program = NGINX.find().unwrap_or_else(|| NGINX.program.into());
        let prefix = folder.display().to_string();
        let arguments = ["-e", "stderr", "-p", &prefix, "-c", &settings.display().to_string()];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        let url = format!("https://{address}");
        let certificate = certificate.chain;
        Ok(Box::new(Running {
            server,
            direction: self.direction,
            url,
            certificate,
            data: rig.data.to_owned(),
            bodies,
            folder,
        }))
    }
}

struct Running {
    server: Server,
    direction: Direction,
    url: String,
    certificate: PathBuf,
    data: PathBuf,
    bodies: PathBuf,
    folder: PathBuf,
}

impl Running {
    fn url(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.data).unwrap_or(path).display().to_string();
        let mut url = format!("{}/", self.url);
        for byte in below.bytes() {
            if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
                url.push(char::from(byte));
            } else {
                let _ = write!(url, "%{byte:02X}");
            }
        }
        url
    }

    /// A file for curl that names every file below the source, each with its address.
    fn list(&self, cargo: &Cargo) -> Result<PathBuf, PeerError> {
        let mut text = String::new();
        let (source, destination) = (&cargo.source, cargo.destination());
        let names = crate::work::listing(source)?;
        for name in names.iter().filter(|name| !source.join(name).is_symlink()) {
            let (from, to) = (source.join(name), destination.join(name));
            let local = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
            let _ = match cargo.direction {
                Direction::Get => {
                    writeln!(text, "url = \"{}\"\noutput = \"{}\"", self.url(&from), local(&to))
                }
                Direction::Put => {
                    writeln!(text, "upload-file = \"{}\"\nurl = \"{}\"", local(&from), self.url(&to))
                }
            };
        }
        let list = self.folder.join("files");
        write(&list, &text)?;
        Ok(list)
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        if cargo.direction != self.direction {
            return Ok(None);
        }
        let curl =
            format!("curl --silent --show-error --fail --http1.1 --cacert {}", quoted(&self.certificate));
        let (source, destination) = (&cargo.source, cargo.destination());
        let command = match (cargo.is_tree, cargo.direction) {
            (true, _) => {
                let list = quoted(&self.list(cargo)?);
                format!("{curl} --parallel --parallel-max {CONNECTIONS} --create-dirs --config {list}")
            }
            (false, Direction::Get) => {
                format!("{curl} --output {} {}", quoted(&destination), self.url(source))
            }
            (false, Direction::Put) => {
                format!("{curl} --upload-file {} {}", quoted(source), self.url(&destination))
            }
        };
        Ok(Some(vec![Phase::near(command)]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        crate::work::remove_all(&self.bodies);
    }
}
