//! The folder in which everything happens, and which is gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use super::CompareError;

const PREFIX: &str = "terahaul-lab-";

/// A folder of this run's own. Removed when dropped; what a crashed run has left is removed by the next.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes one in `parent`.
    pub fn make(parent: &Path) -> Result<Self, CompareError> {
        let parent = parent.canonicalize().map_err(CompareError::file("found", parent))?;
        remove_leftovers(&parent);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(&parent)
            .map_err(CompareError::file("created", &parent))?
            .keep();
        let scratch = Self { folder };
        for folder in [scratch.data(), scratch.settings(), scratch.target()] {
            fs::create_dir_all(&folder).map_err(CompareError::file("created", &folder))?;
        }
        Ok(scratch)
    }

    /// All of it.
    pub fn root(&self) -> &Path {
        &self.folder
    }

    /// What servers serve.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where files arrive. Below [`Self::data`].
    pub fn target(&self) -> PathBuf {
        self.folder.join("data").join("target")
    }

    /// Where peers keep their settings.
    pub fn settings(&self) -> PathBuf {
        self.folder.join("settings")
    }

    /// Makes the target empty again.
    pub fn empty_target(&self) -> Result<(), CompareError> {
        let target = self.target();
        crate::work::remove_all(&target);
        fs::create_dir_all(&target).map_err(CompareError::file("created", &target))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        crate::work::remove_all(&self.folder);
    }
}

/// Removes folders whose process has ended: a killed run cannot remove its own.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            crate::work::remove_all(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_removes_what_a_killed_one_left() {
        let parent = tempfile::tempdir().unwrap();
        // No process has the largest number.
        let dead = parent.path().join(format!("{PREFIX}4294967295-x"));
        let other = parent.path().join("mine");
        fs::create_dir_all(dead.join("data")).unwrap();
        fs::create_dir_all(&other).unwrap();
        let first = Scratch::make(parent.path()).unwrap();
        let second = Scratch::make(parent.path()).unwrap();
        assert!(!dead.exists() && other.exists() && first.data().exists());
        drop((first, second));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
