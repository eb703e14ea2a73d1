//! Addresses as people paste them: a depot's and a link's.
//!
//! `https://HOST:PORT/#sha256=HEX` is a depot whose certificate is pinned; without the fragment the system's roots
//! are trusted. `https://HOST:PORT/t/ID#SECRET&fp=HEX` is a link. What follows `#` never reaches a server.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use rustls::pki_types::ServerName;
use terahaul_core::TransferId;

use crate::tls::Fingerprint;

/// A depot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The only certificate that is trusted, if one was given.
    pub pin: Option<Fingerprint>,
}

/// What recipients are given.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    /// The depot.
    pub endpoint: Endpoint,
    /// The transfer.
    pub transfer: TransferId,
    /// `thl_…`: opens this transfer, for reading.
    pub secret: String,
}

/// Why an address cannot be used. Never repeats the text, which may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address of a depot.
    #[error(
        "that is not a depot's address: it looks like https://host:port/#sha256=…, as 'terahaul serve' prints it"
    )]
    Endpoint,
    /// In the clear.
    #[error(
        "a depot is reached over https: give the address that 'terahaul serve' prints under TERAHAUL_URL"
    )]
    Clear,
    /// Not a link.
    #[error(
        "that is not a link: it looks like https://host:port/t/…#thl_…, as 'terahaul send' prints it, and must be quoted in a shell"
    )]
    Link,
    /// The name has no address.
    #[error("the host {0} has no address: check its spelling and the network")]
    Unknown(String),
}

impl Endpoint {
    /// The addresses that the name stands for.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, EndpointError> {
        let addresses: Vec<_> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|_| EndpointError::Unknown(self.host.clone()))?
            .collect();
        if addresses.is_empty() { Err(EndpointError::Unknown(self.host.clone())) } else { Ok(addresses) }
    }

    /// The name that the certificate must have, where it is not pinned.
    pub fn server_name(&self) -> Result<ServerName<'static>, EndpointError> {
        ServerName::try_from(self.host.clone()).map_err(|_| EndpointError::Endpoint)
    }

    /// `https://host:port`, for HTTP requests.
    pub fn base_url(&self) -> String {
        format!("https://{}", self.authority())
    }

    /// `host:port`, with brackets where the host is an address of IPv6.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// `https://host[:port]` at the front of `text`: host, port and the rest.
fn split_authority(text: &str) -> Result<(String, u16, &str), EndpointError> {
    if text.starts_with("http://") {
        return Err(EndpointError::Clear);
    }
    let rest = text.strip_prefix("https://").ok_or(EndpointError::Endpoint)?;
    let end = rest.find(['/', '#', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6.split_once(']').ok_or(EndpointError::Endpoint)?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err(EndpointError::Endpoint),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Ok(443), str::parse).map_err(|_| EndpointError::Endpoint)?;
    // Refuses user names, stray brackets and whatever else is no name and no address.
    ServerName::try_from(host).map_err(|_| EndpointError::Endpoint)?;
    Ok((host.to_owned(), port, rest))
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, port, rest) = split_authority(text.trim())?;
        let (path, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if !matches!(path, "" | "/") {
            return Err(EndpointError::Endpoint);
        }
        let pin = match fragment.strip_prefix("sha256=") {
            Some(hex) => Some(hex.parse().map_err(|_| EndpointError::Endpoint)?),
            None if fragment.is_empty() => None,
            None => return Err(EndpointError::Endpoint),
        };
        Ok(Self { host, port, pin })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.base_url())?;
        self.pin.map_or(Ok(()), |pin| write!(f, "#sha256={pin}"))
    }
}

impl FromStr for Link {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, port, rest) = split_authority(text.trim()).map_err(|_| EndpointError::Link)?;
        let (path, fragment) = rest.split_once('#').ok_or(EndpointError::Link)?;
        let id = path.strip_prefix("/t/").ok_or(EndpointError::Link)?;
        let transfer = id.trim_end_matches('/').parse().map_err(|_| EndpointError::Link)?;
        let (mut secret, mut pin) = (None, None);
        for part in fragment.split('&') {
            if part.starts_with("thl_") {
                // base64url, as the depot writes it; anything else was damaged on its way here.
                if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                    return Err(EndpointError::Link);
                }
                secret = Some(part.to_owned());
            } else if let Some(hex) = part.strip_prefix("fp=") {
                pin = Some(hex.parse().map_err(|_| EndpointError::Link)?);
            }
        }
        let secret = secret.ok_or(EndpointError::Link)?;
        Ok(Self { endpoint: Endpoint { host, port, pin }, transfer, secret })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/t/{}#{}", self.endpoint.base_url(), self.transfer, self.secret)?;
        self.endpoint.pin.map_or(Ok(()), |pin| write!(f, "&fp={pin}"))
    }
}

impl fmt::Debug for Link {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({}/t/{})", self.endpoint.base_url(), self.transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serve_prints_reads_back() {
        let hex = "ab".repeat(32);
        for text in [
            format!("https://127.0.0.1:8750/#sha256={hex}"),
            "https://depot.example:443/".to_owned(),
            format!("https://[::1]:9/#sha256={hex}"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        let link = format!("https://127.0.0.1:8750/t/{}#thl_abc&fp={hex}", TransferId([3; 16]));
        assert_eq!(link.parse::<Link>().unwrap().to_string(), link);
    }

    #[test]
    fn a_link_with_a_damaged_secret_is_none() {
        for secret in ["thl_a% b", "thl_a%20b", "thl_ä"] {
            let link = format!("https://h/t/{}#{secret}", TransferId([3; 16]));
            assert_eq!(link.parse::<Link>(), Err(EndpointError::Link), "{secret}");
        }
    }

    #[test]
    fn addresses_that_would_leak_or_mislead_are_refused() {
        for text in [
            "http://127.0.0.1:1/",
            "ftp://x",
            "https://",
            "https://u:p@host/",
            "https://h/x",
            "https://h/#sha256=zz",
            "https://[[6]",
            "https://[::1]junk",
            "https://[::1",
            "https://a b/",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        assert!("https://h/t/abc#thl_x".parse::<Link>().is_err());
        let link = format!("https://h/t/{}#thl_secret", TransferId([3; 16])).parse::<Link>().unwrap();
        assert!(!format!("{link:?}").contains("secret"), "a link's secret does not get into logs");
    }
}
