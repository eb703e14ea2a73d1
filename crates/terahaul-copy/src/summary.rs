//! What came of a copy.

use serde::{Deserialize, Serialize};
use terahaul_core::ByteCount;
use terahaul_net::client::PathProgress;

use crate::failures::Failures;
use crate::near::Way;

/// What a copy came to.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// What the receiver made of it.
    pub landed: Landed,
    /// Bytes that went over data channels.
    pub moved: ByteCount,
    /// What was not copied.
    pub failures: Failures,
    /// Which way the bytes went.
    pub way: Way,
    /// What each path carried, where addresses to leave from were named.
    pub paths: Vec<PathProgress>,
    /// What they travelled by at the end.
    pub transport: terahaul_net::client::Way,
}

/// What a receiver made of what it was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    /// Files that have their names now and had not before.
    pub files: u64,
    /// Folders that were made.
    pub folders: u64,
    /// Symbolic links that were made.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: ByteCount,
    /// Files and links that were there already, and those that were to be left.
    pub unchanged: u64,
    /// Files and links that only got metadata.
    pub touched: u64,
    /// What the source has not, and was removed.
    pub removed: u64,
    /// More was there to remove than was allowed.
    pub limited: bool,
    /// Files, or parts of them, that an interrupted run had left.
    pub resumed: bool,
    /// Bytes of files that were sent.
    #[serde(default)]
    pub literal: ByteCount,
    /// Bytes that were not sent, but copied out of the files that were replaced.
    #[serde(default)]
    pub matched: ByteCount,
}
