//! What this machine can do alone with each part of a transfer, so that a table can say "of the limit".
//!
//! Each part is repeated for a while, and the median of the repetitions counts: what else the machine does then
//! disturbs some of them and not the figure.

mod disk;
mod hash;
mod loopback;
mod measured;
mod noise;
mod threads;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use measured::{Measured, repeat};
pub use threads::on_all_threads;

use crate::LabError;

/// Where Linux keeps files in memory.
pub const MEMORY_FOLDER: &str = "/dev/shm";

/// One part of a transfer, measured alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// A stable name, such as `hash` or `tcp-loopback`.
    pub part: String,
    /// In words.
    pub what: String,
    /// The folder, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Threads that worked at once.
    pub threads: usize,
    /// How fast.
    #[serde(flatten)]
    pub measured: Measured,
    /// Datagrams that did not arrive, of those sent; of UDP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<f64>,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Folders to write to and read from.
    pub folders: Vec<PathBuf>,
    /// How long each part is repeated, at least.
    pub time: Duration,
}

impl Limit {
    fn new(part: &str, what: impl Into<String>, threads: usize, measured: Measured) -> Self {
        Self { part: part.into(), what: what.into(), folder: None, threads, measured, lost: None }
    }

    fn of_folder(part: &str, what: &str, folder: &Path, measured: Measured) -> Self {
        let what = format!("{what} {}", folder.display());
        Self { folder: Some(folder.to_owned()), ..Self::new(part, what, 1, measured) }
    }
}

/// Measures one part after the other; `on_limit` hears of each at once. Blocks.
pub fn measure(plan: &Plan, on_limit: &mut dyn FnMut(&Limit)) -> Result<Vec<Limit>, LabError> {
    let mut limits = Vec::new();
    let mut keep = |limit: Limit| {
        on_limit(&limit);
        limits.push(limit);
    };
    hash::measure(plan.time, &mut keep);
    for folder in &plan.folders {
        disk::measure(folder, plan.time, &mut keep)?;
    }
    loopback::measure(plan.time, &mut keep)?;
    Ok(limits)
}

/// Bytes a second that `folder` takes, the sync included, and gives: once each, in about two seconds at the most. Blocks.
pub fn taste_folder(folder: &Path) -> Result<(f64, f64), LabError> {
    disk::taste(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_measured_and_nothing_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { folders: vec![folder.path().to_owned()], time: Duration::from_millis(1) };
        let mut heard = 0;
        let limits = measure(&plan, &mut |_| heard += 1).unwrap();
        let parts: Vec<&str> = limits.iter().map(|limit| limit.part.as_str()).collect();
        assert_eq!(
            parts,
            ["hash", "hash-all", "write", "write-synced", "read", "tcp-loopback", "udp-loopback"]
        );
        assert!(limits.iter().all(|limit| limit.measured.bytes_per_second > 0.0), "{limits:?}");
        assert_eq!(heard, parts.len());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let missing = Path::new("/nowhere/at/all");
        let error = taste_folder(missing).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }
}
