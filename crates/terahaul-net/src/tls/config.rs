//! TLS settings: version 1.3 where the native protocol speaks, AES-128-GCM first.
//!
//! The cipher order is a measurement: AES-128-GCM seals 15 % more bytes a second than AES-256-GCM and is what scp
//! users pick for speed; both are far beyond reach of an attacker. ChaCha20 is for processors without AES.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use terahaul_wire::{ALPN_CONTROL, ALPN_DATA};

use super::pin::{Fingerprint, PinnedServer};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    /// rustls refused the settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The system has no root certificates.
    #[error(
        "this system has no trusted root certificates{0}: install the ca-certificates package, or use an address with a #sha256= fingerprint"
    )]
    NoRoots(String),
    /// Where the environment has them looked for, there are none.
    #[error(
        "there are no trusted root certificates where the environment says that they are, by {named}{detail}: name a PEM file that has some, or leave that unset, or use an address with a #sha256= fingerprint"
    )]
    NoNamedRoots {
        /// The variables.
        named: String,
        /// What could not be read.
        detail: String,
    },
    /// Certificates have dates.
    #[error("this machine's clock says that it is before 1970, and TLS needs to know the time: set it")]
    Clock,
}

/// The library takes for granted that it is later.
fn check_clock(now: SystemTime) -> Result<(), TlsConfigError> {
    now.duration_since(SystemTime::UNIX_EPOCH).map(drop).map_err(|_| TlsConfigError::Clock)
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        rustls::CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    });
    Arc::new(provider)
}

/// A server's settings, one for each protocol that ALPN can choose.
#[derive(Clone)]
pub struct ServerTls {
    /// Browsers and other HTTP clients; no h2, which halves upload speed.
    pub http: Arc<ServerConfig>,
    /// Control channels.
    pub control: Arc<ServerConfig>,
    /// Data channels, whose keys are taken out of rustls.
    pub data: Arc<ServerConfig>,
}

impl ServerTls {
    /// From a certificate chain, leaf first, and its key.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsConfigError> {
        check_clock(SystemTime::now())?;
        let base = |versions: &[&'static rustls::SupportedProtocolVersion]| {
            let mut config = ServerConfig::builder_with_provider(provider())
                .with_protocol_versions(versions)?
                .with_no_client_auth()
                .with_single_cert(chain.clone(), key.clone_key())?;
            config.ignore_client_order = true;
            Ok::<_, rustls::Error>(config)
        };
        let mut http = base(rustls::ALL_VERSIONS)?;
        http.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut control = base(&[&rustls::version::TLS13])?;
        control.alpn_protocols = vec![ALPN_CONTROL.to_vec()];
        control.send_tls13_tickets = 0;
        let mut data = base(&[&rustls::version::TLS13])?;
        data.alpn_protocols = vec![ALPN_DATA.to_vec()];
        data.enable_secret_extraction = true;
        data.send_tls13_tickets = 0;
        Ok(Self { http: Arc::new(http), control: Arc::new(control), data: Arc::new(data) })
    }
}

/// A client's settings.
#[derive(Clone)]
pub struct ClientTls {
    /// The HTTP API.
    pub http: Arc<ClientConfig>,
    /// Control channels.
    pub control: Arc<ClientConfig>,
    /// Data channels.
    pub data: Arc<ClientConfig>,
}

impl ClientTls {
    /// Trusts the server with this fingerprint, or, without one, what the system trusts.
    pub fn new(pin: Option<Fingerprint>) -> Result<Self, TlsConfigError> {
        check_clock(SystemTime::now())?;
        let roots = match pin {
            Some(_) => RootCertStore::empty(),
            None => system_roots()?,
        };
        let base = |alpn: &[u8]| {
            let builder = ClientConfig::builder_with_provider(provider())
                .with_protocol_versions(&[&rustls::version::TLS13])?;
            let mut config = match pin {
                Some(pin) => builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(PinnedServer::new(pin, provider())))
                    .with_no_client_auth(),
                None => builder.with_root_certificates(roots.clone()).with_no_client_auth(),
            };
            config.alpn_protocols = vec![alpn.to_vec()];
            Ok::<_, rustls::Error>(config)
        };
        let mut control = base(ALPN_CONTROL)?;
        control.resumption = Resumption::disabled();
        let mut data = base(ALPN_DATA)?;
        data.enable_secret_extraction = true;
        data.resumption = Resumption::disabled();
        Ok(Self { http: Arc::new(base(b"http/1.1")?), control: Arc::new(control), data: Arc::new(data) })
    }
}

pub(super) fn system_roots() -> Result<RootCertStore, TlsConfigError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let detail = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
    Err(match named_roots() {
        Some(named) => TlsConfigError::NoNamedRoots { named, detail },
        None => TlsConfigError::NoRoots(detail),
    })
}

/// What the environment names in place of the system's root certificates.
pub(crate) fn named_roots() -> Option<String> {
    let names_none = |paths: &OsStr| std::env::split_paths(paths).all(|path| path.as_os_str().is_empty());
    let file = std::env::var_os("SSL_CERT_FILE").map(|path| ("SSL_CERT_FILE", path));
    // Empty, it is taken for not set.
    let dir = std::env::var_os("SSL_CERT_DIR").filter(|paths| !names_none(paths));
    let all = file.into_iter().chain(dir.map(|paths| ("SSL_CERT_DIR", paths)));
    let all: Vec<_> = all.map(|(name, path)| format!("{name}={}", path.display())).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use std::time::Duration;

    use super::*;
    use crate::tls::Certificate;

    /// It ended in a panic of the library's.
    #[test]
    fn a_clock_before_1970_is_named_as_what_is_wrong() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert!(check_clock(epoch).is_ok() && check_clock(SystemTime::now()).is_ok());
        let error = check_clock(epoch - Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("clock"), "{error}");
    }

    /// Each is a packet, and where it is lost, the answer waits behind it until it has come again.
    #[test]
    fn no_session_ticket_goes_before_a_control_channels_answer() {
        let certificate = Certificate::for_one_session().unwrap();
        let pin = certificate.fingerprint();
        let theirs = ServerTls::new(certificate.chain, certificate.key).unwrap();
        let ours = ClientTls::new(Some(pin)).unwrap();
        let mut server = ServerConnection::new(theirs.control).unwrap();
        let mut client = ClientConnection::new(ours.control, "localhost".try_into().unwrap()).unwrap();
        let mut flight = Vec::new();
        client.write_tls(&mut flight).unwrap();
        server.read_tls(&mut flight.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        flight.clear();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        client.read_tls(&mut flight.as_slice()).unwrap();
        client.process_new_packets().unwrap();
        flight.clear();
        while client.wants_write() {
            client.write_tls(&mut flight).unwrap();
        }
        server.read_tls(&mut flight.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        assert!(!server.is_handshaking());
        assert!(!server.wants_write(), "it has something to send after the handshake");
    }
}
