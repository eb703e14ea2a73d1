//! iperf3: what TCP carries on the path with this kernel's buffers when there are no files. Who uses several connections, or
//! UDP, may carry more.

use super::process::Server;
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool};
use crate::work::Direction;

const IPERF3: Tool = Tool::new("iperf3", "iperf3", &["--version"]);

pub(super) struct Iperf3 {
    pub(super) streams: u32,
}

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        if self.streams == 1 { "iperf3" } else { "iperf3-8" }
    }

    fn about(&self) -> &'static str {
        if self.streams == 1 {
            "iperf3, one TCP connection from memory to memory, no files: what TCP carries with this kernel's buffers"
        } else {
            "iperf3, eight TCP connections from memory to memory, no files: what TCP carries with this kernel's buffers"
        }
    }

    fn needs(&self) -> &'static [Tool] {
        const TOOLS: [Tool; 1] = [IPERF3];
        &TOOLS
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name())?;
        // One port each, so that both can run on one path.
        let address = rig.address(5200 + self.streams as u16);
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let program = IPERF3.find().unwrap_or_else(|| IPERF3.program.into());
        let arguments = ["--server", "--bind", &host, "--port", &port];
        let mut server = Server::start(self.name(), rig.far, &program, &arguments, &folder.join("log"))?;
        server.wait_until_it_listens(rig.far, address)?;
        Ok(Box::new(Running { server, client: format!("iperf3 -c {host} -p {port} -P {}", self.streams) }))
    }
}

struct Running {
    server: Server,
    client: String,
}

impl Session for Running {
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        let back = match cargo.direction {
            Direction::Put => "",
            Direction::Get => " -R",
        };
        Ok(Some(vec![Phase::near(format!("{} -n {}{back}", self.client, cargo.bytes))]))
    }

    fn moves_files(&self) -> bool {
        false
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
