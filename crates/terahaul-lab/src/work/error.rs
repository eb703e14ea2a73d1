//! Why work could not be prepared.

use std::path::PathBuf;

use terahaul_core::ByteCount;

/// Why work could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The text names no work.
    #[error(
        "'{0}' is not work: give file[:SIZE], tree[:FILES|:FOLDER], tar[:…], update[:…], again[:…], edited[:SIZE], inserted[:SIZE], \
         small[:FILES], batch[:FILESxSIZE] or meta[:FILES], such as file:1GB"
    )]
    Unreadable(String),
    /// Debian's kernel source is not here.
    #[error(
        "{0} has no linux-source-*.tar.xz, which the tree is made from: apt-get install linux-source, or give a folder as tree:FOLDER"
    )]
    NoLinuxSource(PathBuf),
    /// The source could be another's choice.
    #[error(
        "{0} belongs to another user, or others may write it: set XDG_CACHE_HOME to a folder of your own, or take that from them (chmod go-w)"
    )]
    NotOwn(PathBuf),
    /// The archive could not be unpacked.
    #[error(
        "{archive} could not be unpacked ({said}): check the free space in {cache}, or install the package again"
    )]
    Unpacking {
        /// What was to be unpacked.
        archive: PathBuf,
        /// Where to.
        cache: PathBuf,
        /// What tar said.
        said: String,
    },
    /// There is no room for the files and their copies.
    #[error(
        "{work} needs {needed} in {folder}, which has {free}: choose a smaller size, or another folder with --scratch"
    )]
    NoRoom {
        /// The work.
        work: String,
        /// Bytes that its files and copies take.
        needed: ByteCount,
        /// Bytes that are free.
        free: ByteCount,
        /// Where.
        folder: PathBuf,
    },
    /// A file of the work could not be made or read.
    #[error("{path} could not be {action} ({source}): check the disk and its permissions")]
    File {
        /// What was tried, in the past participle.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl WorkError {
    /// For `map_err`: what was tried, and on what.
    pub(crate) fn file(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
