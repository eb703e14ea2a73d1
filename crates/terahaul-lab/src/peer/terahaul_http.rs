//! Terahaul over HTTP as its page speaks it: chunks of whole blocks, six requests at once, with curl as the browser.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::process::quoted;
use super::rig::write;
use super::terahaul::Depot;
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::{Content, Direction};

const PORT: u16 = 8751;
/// Eight blocks.
const CHUNK: u64 = 32 << 20;
/// What browsers keep open to one host.
const CONNECTIONS: u32 = 6;

pub(super) struct TerahaulHttp {
    program: PathBuf,
}

impl TerahaulHttp {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.to_owned() }
    }
}

impl Peer for TerahaulHttp {
    fn name(&self) -> &'static str {
        "terahaul-http"
    }

    fn about(&self) -> &'static str {
        "Terahaul's HTTP API as its page uses it, chunks of 32 MiB over six TLS connections, with curl in the browser's place; files only"
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 1] = [Tool::new("curl", "curl", &["--version"])];
        &TOOLS
    }

    fn obstacle(&self) -> Option<String> {
        super::terahaul::Terahaul::new(&self.program, super::terahaul::Transport::Tcp).obstacle()
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let depot = Depot::start(self.name(), &self.program, rig, PORT)?;
        let folder = rig.settings.join(self.name());
        // Beside the work's files: in memory where those are.
        let chunks = rig.data.join(format!(".{}-chunks", self.name()));
        Ok(Box::new(Running { depot, folder, chunks, transfer: RefCell::default() }))
    }
}

struct Running {
    depot: Depot,
    folder: PathBuf,
    chunks: PathBuf,
    /// What the next download is of.
    transfer: RefCell<String>,
}

/// The page's calls in their order. It has one request at a time but for the chunks.
const UPLOAD: &str = r#"
call() { curl --silent --show-error --fail --insecure --http1.1 -H "Authorization: Bearer $TERAHAUL_TOKEN" "$@"; }
json() { call -H 'Content-Type: application/json' "$@"; }
made=$(json "$API/transfers" -d "$TRANSFER")
id=$(sed 's/.*"id":"\([a-z2-7]*\)".*/\1/' <<<"$made")
sed "s/@ID@/$id/" "$CHUNKS" >"$CHUNKS.now"
call -H 'Content-Type: application/octet-stream' -H 'Expect:' --parallel --parallel-max "$CONNECTIONS" --config "$CHUNKS.now" >/dev/null
call -X POST "$API/transfers/$id/finish" >/dev/null
"#;

impl Running {
    /// curl sends whole files only, so the file is cut beforehand.
    fn cut(&self, source: &Path) -> Result<(), PeerError> {
        crate::work::remove_all(&self.chunks);
        std::fs::create_dir_all(&self.chunks).map_err(PeerError::file("created", &self.chunks))?;
        let mut file = File::open(source).map_err(PeerError::file("opened", source))?;
        let mut buffer = vec![0; CHUNK as usize];
        let (mut list, mut address) = (String::new(), 0_u64);
        loop {
            let mut filled = 0;
            while filled < buffer.len() {
                match file.read(&mut buffer[filled..]).map_err(PeerError::file("read", source))? {
                    0 => break,
                    more => filled += more,
                }
            }
            if filled == 0 {
                return write(&self.folder.join("chunks"), &list);
            }
            let chunk = self.chunks.join(address.to_string());
            let mut out = File::create(&chunk).map_err(PeerError::file("created", &chunk))?;
            out.write_all(&buffer[..filled]).map_err(PeerError::file("written", &chunk))?;
            let url = format!("{}/transfers/@ID@/bytes/{address}", self.depot.api);
            let _ = writeln!(list, "upload-file = \"{}\"\nurl = \"{url}\"", chunk.display());
            address += filled as u64;
        }
    }
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        if cargo.is_tree {
            return Ok(None);
        }
        let api = &self.depot.api;
        let command = match cargo.direction {
            Direction::Put => {
                let script = self.folder.join("upload.sh");
                write(&script, UPLOAD)?;
                let name = cargo.source.file_name().unwrap_or_default().to_string_lossy();
                let entry = json!({ "path": name, "kind": "file", "size": cargo.bytes });
                let transfer = json!({ "name": "lab", "entries": [entry], "seal": true }).to_string();
                format!(
                    "API={api} CONNECTIONS={CONNECTIONS} CHUNKS={} TRANSFER={} bash -e -o pipefail {}",
                    quoted(self.folder.join("chunks")),
                    quoted(&transfer),
                    quoted(&script),
                )
            }
            Direction::Get => format!(
                "curl --silent --show-error --fail --insecure --http1.1 -H \"Authorization: Bearer $TERAHAUL_TOKEN\" \
                 --output {} {api}/transfers/{}/files/0",
                quoted(cargo.destination()),
                self.transfer.borrow(),
            ),
        };
        Ok(Some(vec![Phase::near(command).with_secrets(self.depot.secrets())]))
    }

    fn prepare(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<(), PeerError> {
        match cargo.direction {
            _ if cargo.is_tree => Ok(()),
            Direction::Put => self.cut(&cargo.source),
            Direction::Get => {
                let link = self.depot.stock(rig, &cargo.source)?;
                let id =
                    link.split_once("/t/").map_or("", |(_, rest)| rest.split('#').next().unwrap_or(rest));
                self.transfer.replace(id.to_owned());
                Ok(())
            }
        }
    }

    fn arrived(&self, rig: &Rig<'_>, cargo: &Cargo) -> Result<Option<Content>, PeerError> {
        match cargo.direction {
            Direction::Put => self.depot.content(rig).map(Some),
            Direction::Get => Ok(None),
        }
    }

    fn clear(&self, rig: &Rig<'_>) -> Result<(), PeerError> {
        crate::work::remove_all(&self.chunks);
        self.depot.clear(rig)
    }

    fn processor_seconds(&self) -> f64 {
        self.depot.processor_seconds()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        crate::work::remove_all(&self.chunks);
    }
}
