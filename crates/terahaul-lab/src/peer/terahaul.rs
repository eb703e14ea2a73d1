//! Terahaul itself: a depot at the far end, `send` and `receive` at the near one.

use std::cell::RefCell;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Deserialize;

use super::process::{Server, quoted};
use super::{Cargo, End, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::{Content, Direction, heed};

pub(super) struct Terahaul {
    program: PathBuf,
    transport: Transport,
}

/// What blocks travel by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    Auto,
}

impl Terahaul {
    pub(super) fn new(program: &Path, transport: Transport) -> Self {
        Self { program: program.to_owned(), transport }
    }
}

impl Peer for Terahaul {
    fn name(&self) -> &'static str {
        match self.transport {
            Transport::Tcp => "terahaul",
            Transport::Udp => "terahaul-udp",
            Transport::Auto => "terahaul-auto",
        }
    }

    fn about(&self) -> &'static str {
        match self.transport {
            Transport::Tcp => {
                "Terahaul over TCP, parallel connections, AES-128-GCM, every byte hashed and synced; ends with a signed receipt"
            }
            Transport::Udp => {
                "Terahaul over UDP, AES-128-GCM, every byte hashed and synced; ends with a signed receipt"
            }
            Transport::Auto => {
                "Terahaul by itself: over TCP at once, and over UDP where that carries more, AES-128-GCM, every byte hashed and synced; ends with a signed receipt"
            }
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 1] = [Tool::new("curl", "curl", &[])];
        &TOOLS
    }

    fn obstacle(&self) -> Option<String> {
        (!self.program.is_file())
            .then(|| format!("{} is missing: cargo build --release -p terahaul", self.program.display()))
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        // Peers run beside each other on one path.
        let port = match self.transport {
            Transport::Tcp => 8750,
            Transport::Udp => 8752,
            Transport::Auto => 8754,
        };
        let depot = Depot::start(self.name(), &self.program, rig, port)?;
        let (transport, addresses) = (self.transport, rig.near.addresses());
        Ok(Box::new(Running { depot, link: RefCell::default(), transport, addresses }))
    }
}

/// A depot that runs at the far end, with its data among the scratch files.
pub(super) struct Depot {
    peer: &'static str,
    server: Server,
    program: PathBuf,
    data: PathBuf,
    /// Without the fragment.
    pub(super) api: String,
    secrets: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Ready {
    url: String,
    token: String,
}

#[derive(Deserialize)]
struct Listing {
    entries: Vec<Listed>,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Listed {
    path: PathBuf,
    kind: String,
    size: u64,
    address: Option<u64>,
    target_hex: Option<String>,
}

impl Depot {
    pub(super) fn start(
        peer: &'static str,
        program: &Path,
        rig: &Rig<'_>,
        port: u16,
    ) -> Result<Self, PeerError> {
        let folder = rig.settings_of(peer)?;
        let data = rig.data.join(format!(".{peer}"));
        crate::work::remove_all(&data);
        let address = rig.address(port);
        let (listen, at) = (address.to_string(), data.display().to_string());
        let arguments = ["serve", "--json", "--listen", &listen, "--data", &at];
        let mut server = Server::start(peer, rig.far, program, &arguments, &folder.join("log"))?;
        // It says so once it listens.
        let ready = |said: String| said.lines().find_map(|line| serde_json::from_str::<Ready>(line).ok());
        let ready = server.wait_until(address, |server| ready(server.said()))?;
        let api = format!("https://{address}/api/v1");
        let secrets =
            vec![("TERAHAUL_URL".to_owned(), ready.url), ("TERAHAUL_TOKEN".to_owned(), ready.token)];
        Ok(Self { peer, server, program: program.to_owned(), data, api, secrets })
    }

    pub(super) fn secrets(&self) -> Vec<(String, String)> {
        self.secrets.clone()
    }

    /// Runs the client at the far end, beside the depot, where the path does not slow it.
    pub(super) fn beside(&self, rig: &Rig<'_>, arguments: &str) -> Result<String, PeerError> {
        rig.run(self.peer, End::Far, &format!("{} {arguments}", quoted(&self.program)), &self.secrets)
    }

    /// Puts what is to be received into the depot, and returns the link.
    pub(super) fn stock(&self, rig: &Rig<'_>, source: &Path) -> Result<String, PeerError> {
        let said = self.beside(rig, &format!("send --quiet {}", quoted(source)))?;
        Ok(said.lines().last().unwrap_or_default().to_owned())
    }

    fn transfers(&self, rig: &Rig<'_>) -> Result<Vec<String>, PeerError> {
        #[derive(Deserialize)]
        struct Transfer {
            id: String,
        }
        let said = self.beside(rig, "list --json")?;
        Ok(said
            .lines()
            .filter_map(|line| serde_json::from_str::<Transfer>(line).ok())
            .map(|found| found.id)
            .collect())
    }

    /// Removes every transfer.
    pub(super) fn clear(&self, rig: &Rig<'_>) -> Result<(), PeerError> {
        let transfers = self.transfers(rig)?;
        if !transfers.is_empty() {
            self.beside(rig, &format!("remove --quiet {}", transfers.join(" ")))?;
        }
        Ok(())
    }

    /// Reads what has arrived out of the depot's store, by the addresses of its manifest: what the depot says of
    /// hashes is not asked for.
    pub(super) fn content(&self, rig: &Rig<'_>) -> Result<Content, PeerError> {
        let mut content = Content::default();
        for id in self.transfers(rig)? {
            let object = self.data.join("store/published").join(format!("{id}.data"));
            let store = File::open(&object).map_err(PeerError::file("opened", &object))?;
            let mut from = Some(0);
            while let Some(first) = from {
                let page = self.listing(rig, &id, first)?;
                from = page.next;
                for entry in page.entries {
                    if let Some(target) = entry.target_hex.as_deref().and_then(bytes_of_hex) {
                        content.links.insert(entry.path, std::ffi::OsString::from_vec(target).into());
                    } else if entry.kind == "file" {
                        let start = entry.address.unwrap_or_default();
                        let hash = hash_at(&store, start, entry.size, rig.stop);
                        let hash = hash.map_err(PeerError::file("read", &object))?;
                        content.files.insert(entry.path, (entry.size, hash));
                    }
                }
            }
        }
        Ok(content)
    }

    fn listing(&self, rig: &Rig<'_>, id: &str, first: u64) -> Result<Listing, PeerError> {
        let command = format!(
            "curl --silent --show-error --fail --insecure -H \"Authorization: Bearer $TERAHAUL_TOKEN\" \
             '{}/transfers/{id}/entries?from={first}&limit=1000'",
            self.api,
        );
        let said = rig.run(self.peer, End::Far, &command, &self.secrets)?;
        serde_json::from_str(&said).map_err(|error| PeerError::Preparing {
            peer: self.peer,
            command,
            said: error.to_string(),
        })
    }

    pub(super) fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        crate::work::remove_all(&self.data);
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn hash_at(store: &File, start: u64, size: u64, stop: &AtomicBool) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; size.min(1 << 20) as usize];
    let mut done = 0;
    while done < size {
        heed(stop)?;
        let now = (size - done).min(buffer.len() as u64) as usize;
        store.read_exact_at(&mut buffer[..now], start + done)?;
        hasher.update(&buffer[..now]);
        done += now as u64;
    }
    Ok(hasher.finalize())
}

struct Running {
    depot: Depot,
    /// What the next `receive` is to follow.
    link: RefCell<String>,
    transport: Transport,
    /// Of the near end, where it has several.
    addresses: Vec<IpAddr>,
}

impl Running {
    fn flags(&self) -> String {
        let transport = match self.transport {
            Transport::Tcp => " --transport tcp",
            Transport::Udp => " --transport udp",
            Transport::Auto => "",
        };
        let bind: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let bind = if bind.len() > 1 { format!(" --bind {}", bind.join(",")) } else { String::new() };
        format!("--quiet{transport}{bind}")
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let program = quoted(&self.depot.program);
        let flags = self.flags();
        let mut secrets = self.depot.secrets();
        let command = match cargo.direction {
            Direction::Put => format!("{program} send {flags} {}", quoted(&cargo.source)),
            Direction::Get => {
                secrets.push(("LINK".to_owned(), self.link.borrow().clone()));
                format!("{program} receive {flags} --overwrite \"$LINK\" {}", quoted(&cargo.target))
            }
        };
        Ok(Some(vec![Phase::near(command).with_secrets(secrets)]))
    }

    fn prepare(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<(), PeerError> {
        if cargo.direction == Direction::Get {
            self.link.replace(self.depot.stock(rig, &cargo.source)?);
        }
        Ok(())
    }

    fn arrived(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<Option<Content>, PeerError> {
        match cargo.direction {
            Direction::Put => self.depot.content(rig).map(Some),
            Direction::Get => Ok(None),
        }
    }

    fn clear(&self, rig: &Rig<'_>) -> Result<(), PeerError> {
        self.depot.clear(rig)
    }

    fn processor_seconds(&self) -> f64 {
        self.depot.processor_seconds()
    }
}
