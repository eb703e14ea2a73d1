//! One depot for one data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use terahaul_store::make_private_folders;

use crate::DepotError;
use crate::private::{claim, keep_private};

/// Held while a depot uses its data folder; the system lets go of it when the process ends, however it ends.
pub(crate) struct DataLock {
    _file: File,
}

impl DataLock {
    /// Makes `data` if need be and takes its lock.
    pub fn take(data: &Path) -> Result<Self, DepotError> {
        let shown = data.display();
        make_private_folders(data).map_err(DepotError::io(format!("making {shown}")))?;
        claim(data)?;
        // Also where others may look into a folder that was there before: who can open the lock could hold it.
        let path = data.join("depot.lock");
        keep_private(&path);
        let file = OpenOptions::new()
            .mode(0o600)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(DepotError::io(format!("opening {shown}/depot.lock")))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(DepotError::Locked(data.to_owned())),
            Err(TryLockError::Error(error)) => Err(DepotError::io(format!("locking {shown}"))(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_depots_never_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataLock::take(folder.path()).unwrap();
        assert!(matches!(DataLock::take(folder.path()), Err(DepotError::Locked(_))));
        drop(first);
        DataLock::take(folder.path()).unwrap();
    }

    #[test]
    fn in_a_folder_that_others_may_enter_they_cannot_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let _lock = DataLock::take(folder.path()).unwrap();
        let found = folder.path().join("depot.lock").metadata().unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&found) & 0o777, 0o600);
    }
}
