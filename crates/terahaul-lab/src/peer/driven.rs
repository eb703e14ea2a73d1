//! UDT (libudt) and QUIC (quinn). Both are libraries and not programs, so each runs under a small driver of this project's, in
//! `perf/udt` and `perf/quinn`; `make drivers` builds them.

use super::process::{Server, quoted};
use super::{Cargo, Peer, PeerError, Phase, Rig, Session, Tool, find};
use crate::work::Direction;

/// A library under its driver.
pub(super) struct Driven {
    name: &'static str,
    about: &'static str,
    driver: &'static str,
    port: u16,
}

pub(super) const UDT: Driven = Driven {
    name: "udt",
    about: "UDT 4 (libudt) under a small driver, not encrypted, not hashed",
    driver: "terahaul-bench-udt",
    port: 5301,
};

pub(super) const QUIC: Driven = Driven {
    name: "quic",
    about: "QUIC (quinn, its own CUBIC) under a small driver, one stream, AES-128-GCM, not hashed",
    driver: "terahaul-bench-quinn",
    port: 5302,
};

impl Peer for Driven {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    /// None from a package of Debian: see [`Self::obstacle`].
    fn needs(&self) -> &'static [Tool] {
        &[]
    }

    fn obstacle(&self) -> Option<String> {
        let driver = self.driver;
        let missing = || {
            format!(
                "{driver} is not on the PATH: 'make drivers' in Terahaul's source builds it into perf/bin"
            )
        };
        find(driver).is_none().then(missing)
    }

    fn start(&self, rig: &Rig<'_>) -> Result<Box<dyn Session>, PeerError> {
        let folder = rig.settings_of(self.name)?;
        let address = rig.address(self.port);
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let program = find(self.driver).unwrap_or_else(|| self.driver.into());
        let log = folder.join("log");
        let mut server = Server::start(self.name, rig.far, &program, &["serve", &host, &port], &log)?;
        // Nothing can be connected to: it says so itself.
        server.wait_until(address, |server| (!server.said().is_empty()).then_some(()))?;
        Ok(Box::new(Running { server, client: format!("{} send {host} {port}", self.driver) }))
    }
}

struct Running {
    server: Server,
    client: String,
}

impl Session for Running {
    /// Only one file, and only there.
    fn transfer(&self, cargo: &Cargo) -> Result<Option<Vec<Phase>>, PeerError> {
        if cargo.direction == Direction::Get || cargo.is_tree {
            return Ok(None);
        }
        let (source, target) = (quoted(&cargo.source), quoted(cargo.destination()));
        Ok(Some(vec![Phase::near(format!("{} {source} {target}", self.client))]))
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds()
    }
}
