//! Why a comparison ended early.

use std::path::PathBuf;

use crate::LabError;
use crate::path::SpecError;
use crate::work::WorkError;

/// Why a comparison ended early. What was measured before is in its results.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The user asked to stop.
    #[error("interrupted: what was measured is kept")]
    Interrupted,
    /// No ready path has that name.
    #[error(
        "'{0}' is not a path: 'terahaul lab path list' has their names; change one as in filesender-100ms+loss=1%+rtt=50ms"
    )]
    UnknownPath(String),
    /// A value of a path cannot be used.
    #[error("the path '{text}' cannot be used: {source}")]
    Path {
        /// As it was given.
        text: String,
        /// What is wrong.
        source: SpecError,
    },
    /// No peer has that name.
    #[error("'{0}' is not a peer: 'terahaul lab compare --list' has their names")]
    UnknownPeer(String),
    /// No peer of the plan can run.
    #[error(
        "none of the peers can run on this machine ({0}): 'terahaul lab compare --list' has those that can"
    )]
    NobodyHere(String),
    /// The scratch folder's path has characters that mean something else in the settings of some server.
    #[error(
        "'{0}' has characters that not every server's settings can hold: give --scratch a folder whose path is of plain letters, digits and /._-+:=@,"
    )]
    OddScratch(PathBuf),
    /// The lab's namespaces failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The work could not be made.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The results could not be written or read.
    #[error("{path} could not be {action} ({source}): {remedy}", remedy = remedy(action))]
    File {
        /// What was tried, in the past participle.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of results is not one, or of another version.
    #[error(
        "{path} holds no results that this version can read ({detail}): measure again, or use the version that wrote it"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// Only what is written takes space.
fn remedy(action: &str) -> &'static str {
    match action {
        "created" | "written" => "check its path, its permissions and the free space",
        _ => "check its path and its permissions",
    }
}

impl CompareError {
    /// For `map_err`: what was tried, and on what.
    pub(crate) fn file(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
