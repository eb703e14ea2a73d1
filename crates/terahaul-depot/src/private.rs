//! What is for the depot's user alone. It is made so; a restore without modes, or a `chmod -R`, may have left it otherwise.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// What a group and all others may do.
const OTHERS: u32 = 0o077;
/// What of that changes something.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder with this, nobody may take the place of what is another's.
const STICKY: u32 = 0o1000;

/// Takes a file or folder away from everyone but its owner, where there is one. Somebody else's cannot be, and is no reason not to start.
pub(crate) fn keep_private(path: &Path) {
    take_away(path, |_| OTHERS, "go=");
}

/// The same of a folder and what is in it.
pub(crate) fn keep_folder_private(folder: &Path) {
    keep_private(folder);
    for inside in fs::read_dir(folder).into_iter().flatten().flatten() {
        keep_private(&inside.path());
    }
}

/// Lets nobody but its owner put something else in the place of what is in a folder. Others may look into it, as its owner likes. Where that is
/// somebody else, the depot may be one of those whom it lets write.
pub(crate) fn keep_from_writing(folder: &Path) {
    let is_own = |folder: fs::Metadata| folder.uid() == rustix::process::geteuid().as_raw();
    if !folder.metadata().is_ok_and(is_own) {
        return;
    }
    take_away(folder, |mode| if mode & STICKY == 0 { OTHERS_WRITE } else { 0 }, "go-w");
}

fn take_away(path: &Path, which: impl Fn(u32) -> u32, change: &str) {
    let close = || -> io::Result<()> {
        let mode = path.metadata()?.permissions().mode();
        let taken = mode & which(mode);
        if taken == 0 { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode & !taken)) }
    };
    match close() {
        // On a read-only disk nothing could change it, and nothing can be written either.
        Err(error)
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem) =>
        {
            let path = path.display();
            tracing::warn!(
                "{path} is open to others than the depot's user, which could not be changed ({error}): run chmod {change} {path} as whom it belongs to"
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Depot, DepotConfig};

    /// Whoever could enter the folder had the depot's keys and all names in it, start after start.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_restore_without_modes_left_open_is_private_once_the_depot_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Depot::open(DepotConfig::new(folder.path()));
        open().await.unwrap().close().await;
        let at = |name: &str| folder.path().join(name);
        fs::write(at("keys/tls-key.pem"), "of another module").unwrap();
        let secret =
            ["keys", "keys/depot.secret", "keys/signing.seed", "keys/tls-key.pem", "depot.db", "depot.lock"];
        let mode = |name: &&str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        for name in secret {
            fs::set_permissions(at(name), Permissions::from_mode(mode(&name) | 0o044)).unwrap();
        }
        let _depot = open().await.unwrap();
        assert_eq!(secret.each_ref().map(mode), [0o700, 0o600, 0o600, 0o600, 0o600, 0o600]);
        assert_eq!(mode(&"depot.db-wal"), 0o600);
    }

    /// Whoever could write there could put other keys in the place of the depot's.
    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_else_may_write_into_the_folders_once_the_depot_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("store")).unwrap();
        let mode = |name| at(name).metadata().unwrap().permissions().mode() & 0o7777;
        for (open, kept) in [(0o777, 0o755), (0o770, 0o750), (0o1777, 0o1777)] {
            for name in ["", "store"] {
                fs::set_permissions(at(name), Permissions::from_mode(open)).unwrap();
            }
            let depot = Depot::open(DepotConfig::new(folder.path())).await.unwrap();
            assert_eq!(["", "store"].map(mode), [kept; 2]);
            depot.close().await;
        }
    }
}
