//! The folder in which everything happens, and which is gone afterwards.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::CompareError;
use crate::work::HeldFolder;
/// A folder of this run's own. Removed when dropped; what a crashed run has left is removed by the next.
#[derive(Debug)]
pub struct Scratch {
    folder: HeldFolder,
}

impl Scratch {
    /// Makes one in `parent`.
    pub fn make(parent: &Path) -> Result<Self, CompareError> {
        let parent = parent.canonicalize().map_err(CompareError::file("found", parent))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@,".contains(c);
        if !parent.to_str().is_some_and(|path| path.chars().all(plain)) {
            return Err(CompareError::OddScratch(parent));
        }
        // Nobody else's to enter: a tree of the user's may be copied into it.
        let folder =
            HeldFolder::make(&parent, "terahaul-lab-").map_err(CompareError::file("created", &parent))?;
        let scratch = Self { folder };
        for folder in [scratch.data(), scratch.settings(), scratch.target()] {
            fs::create_dir_all(&folder).map_err(CompareError::file("created", &folder))?;
        }
        Ok(scratch)
    }

    /// All of it.
    pub fn root(&self) -> &Path {
        &self.folder.path
    }

    /// What servers serve.
    pub fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    /// Where files arrive. Below [`Self::data`].
    pub fn target(&self) -> PathBuf {
        self.data().join("target")
    }

    /// Where peers keep their settings.
    pub fn settings(&self) -> PathBuf {
        self.root().join("settings")
    }

    /// Makes the target empty again.
    pub fn empty_target(&self) -> Result<(), CompareError> {
        let target = self.target();
        crate::work::remove_all(&target);
        fs::create_dir_all(&target).map_err(CompareError::file("created", &target))
    }

    /// Returns when what was written there is on the disk, so that the next who syncs does not pay for it.
    pub fn settle(&self) -> Result<(), CompareError> {
        let settle = || Ok(rustix::fs::syncfs(File::open(self.root())?)?);
        settle().map_err(CompareError::file("synced", self.root()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_may_enter() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(parent.path()).unwrap();
        let mode = fs::metadata(scratch.root()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn the_next_run_removes_what_a_killed_one_left() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("terahaul-lab-dead");
        let other = parent.path().join("mine");
        fs::create_dir_all(dead.join("data")).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        fs::create_dir_all(&other).unwrap();
        let first = Scratch::make(parent.path()).unwrap();
        let second = Scratch::make(parent.path()).unwrap();
        assert!(!dead.exists() && other.exists() && first.data().exists());
        drop((first, second));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_settings_of_servers_cannot_name_is_refused() {
        let parent = tempfile::Builder::new().prefix("two words").tempdir().unwrap();
        let refusal = Scratch::make(parent.path()).unwrap_err().to_string();
        assert!(refusal.contains("--scratch"), "{refusal}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
