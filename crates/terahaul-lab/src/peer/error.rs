//! Why a peer could not do its part.

use std::path::{Path, PathBuf};

use crate::LabError;
use crate::work::WorkError;

/// Why a peer could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The server did not come up.
    #[error(
        "the server of {peer} did not answer on {address} ({said}): try its command by hand with 'terahaul lab path'"
    )]
    NotReady {
        /// The peer.
        peer: &'static str,
        /// Where it was to listen.
        address: std::net::SocketAddr,
        /// The last lines of its log.
        said: String,
    },
    /// A step that is not measured failed.
    #[error("{peer} could not be prepared ({said}): try '{command}' by hand with 'terahaul lab path'")]
    Preparing {
        /// The peer.
        peer: &'static str,
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// A peer's file could not be written or read.
    #[error(
        "{path} could not be {action} ({source}): check the free space and the permissions of the scratch folder"
    )]
    File {
        /// What was tried, in the past participle.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The lab's namespaces failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// What arrived could not be read.
    #[error(transparent)]
    Work(#[from] WorkError),
}

impl PeerError {
    /// For `map_err`: what was tried, and on what.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
