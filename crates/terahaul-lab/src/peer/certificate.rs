//! A certificate for servers that want one. Nobody checks it: the path leads nowhere else.

use std::path::{Path, PathBuf};

use super::PeerError;
use super::rig::write;

/// Files of a certificate and its key, in PEM.
pub(super) struct Certificate {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

/// Makes a certificate for `host` in `folder`.
pub(super) fn make(host: std::net::IpAddr, folder: &Path) -> Result<Certificate, PeerError> {
    let (chain, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec![host.to_string()])
        .map_err(|error| PeerError::file("made", &chain)(std::io::Error::other(error)))?;
    write(&chain, &made.cert.pem())?;
    write(&key, &made.signing_key.serialize_pem())?;
    Ok(Certificate { chain, key })
}
