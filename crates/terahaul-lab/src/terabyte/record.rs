//! How long the runs of one terabyte took so far, kept between them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terahaul_core::ByteCount;

const FILE: &str = "terabyte.json";

/// What a folder of state says about the runs in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// How much is sent.
    pub size: ByteCount,
    /// What the bytes are made from.
    pub seed: u64,
    /// Time that the runs took, without the pauses between them.
    pub seconds: f64,
    /// Bytes that the runs have moved: a stop costs some that were under way.
    pub moved: ByteCount,
    /// Runs so far, the present one included.
    pub runs: u32,
    /// The signed root over all that arrived, once all has and it is what it has to be.
    pub root: Option<String>,
    /// What was signed, as long as that is not compared yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
}

impl Record {
    /// Nothing has been sent.
    pub fn new(size: ByteCount, seed: u64) -> Self {
        Self { size, seed, seconds: 0.0, moved: ByteCount(0), runs: 0, root: None, signed: None }
    }

    /// What `folder` holds; `None` in one that is new.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(Into::into),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces what `folder` holds.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&file, self)?;
        file.persist(folder.join(FILE))?;
        Ok(())
    }

    /// Bytes a second, start to receipt.
    pub fn bytes_per_second(&self) -> f64 {
        self.size.0 as f64 / self.seconds.max(1e-9)
    }

    /// How long one terabyte takes at this rate.
    pub fn time_for_a_terabyte(&self) -> Duration {
        Duration::from_secs_f64(1e12 / self.bytes_per_second().max(1e-3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), None);
        let record = Record { seconds: 7.5, runs: 2, ..Record::new(ByteCount(5), 9) };
        record.write(dir.path()).unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), Some(record));
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Record::read(dir.path()).is_err());
    }

    #[test]
    fn the_time_for_a_terabyte_is_that_of_a_part_in_proportion() {
        let record = Record { seconds: 4.0, ..Record::new(ByteCount(4_000_000_000), 1) };
        assert_eq!(record.time_for_a_terabyte().as_secs(), 1000);
    }
}
