//! What is for the depot's user alone. It is made so; a restore without modes, or a `chmod -R`, may have left it otherwise.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::DepotError;

/// What a group and all others may do.
const OTHERS: u32 = 0o077;
/// What of that changes something.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder with this, everybody has files of his own.
const STICKY: u32 = 0o1000;

/// What of a data folder decides what the depot trusts.
const TRUSTED: [&str; 13] = [
    "depot.lock",
    "depot.db",
    "depot.db-wal",
    "depot.db-shm",
    "owner-token",
    "keys",
    "keys/depot.secret",
    "keys/signing.seed",
    "keys/tls-cert.pem",
    "keys/tls-key.pem",
    "store",
    "store/incoming",
    "store/published",
];

/// Makes a data folder the depot's alone, as far as it can. Refuses one of which something belongs to another user than the depot's or root:
/// who made it before, where anybody could, has chosen what the depot trusts, and can exchange it at any time. Of a link both the link's
/// owner and that of what it leads to count.
pub(crate) fn claim(data: &Path) -> Result<(), DepotError> {
    // Before anything is looked at, which is there to stay then.
    keep_from_writing(data)?;
    check_own(data)?;
    // Of keys that others could write until now, once more.
    keep_folder_private(&data.join("keys"));
    check_own(data)
}

fn check_own(data: &Path) -> Result<(), DepotError> {
    let user = rustix::process::geteuid().as_raw();
    for path in std::iter::once(data.to_owned()).chain(TRUSTED.iter().map(|name| data.join(name))) {
        let found = [path.symlink_metadata(), path.metadata()];
        let mut owners = found.iter().flatten().map(MetadataExt::uid);
        if let Some(owner) =
            owners.find(|owner| ![user, 0].contains(owner) && !is_shown_for_us(&path, *owner))
        {
            return Err(DepotError::NotOwn { path, owner });
        }
    }
    Ok(())
}

/// Whether the file system shows this owner for whatever the depot makes, as a server does that lets nobody be root, or a mount that knows
/// no owners.
fn is_shown_for_us(path: &Path, owner: u32) -> bool {
    // A part of the data folder may be on another one.
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    tempfile::tempfile_in(folder).and_then(|made| made.metadata()).is_ok_and(|made| made.uid() == owner)
}

/// Takes a file or folder away from everyone but its owner, where there is one. Somebody else's cannot be, and is no reason not to start.
pub(crate) fn keep_private(path: &Path) {
    take_away(path, OTHERS, "go=");
}

/// The same of a folder and what is in it.
pub(crate) fn keep_folder_private(folder: &Path) {
    keep_private(folder);
    for inside in fs::read_dir(folder).into_iter().flatten().flatten() {
        keep_private(&inside.path());
    }
}

/// Lets nobody but its owner put something else in the place of what is in a folder. Others may look into it, as its owner likes. Where that is
/// root, the depot may be in the group that it lets write. One that has files of others, as `/tmp`, stays open to them and is refused.
pub(crate) fn keep_from_writing(folder: &Path) -> Result<(), DepotError> {
    let Ok(found) = folder.metadata() else { return Ok(()) };
    let mode = found.permissions().mode();
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    let is_open = if is_own { mode & STICKY != 0 && mode & OTHERS_WRITE != 0 } else { mode & 0o002 != 0 };
    if is_open && !is_a_depots(folder) {
        return Err(DepotError::Shared(folder.to_owned()));
    }
    if is_own {
        // The folder may be named by a link.
        take_away(&folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), OTHERS_WRITE, "go-w");
    } else if is_open {
        let folder = folder.display();
        tracing::warn!(
            "everybody may make files in {folder}, which is not the depot's user's: run chown on it"
        );
    }
    Ok(())
}

/// Whether a folder has nothing but what a depot makes there, or nothing yet, as a new tmpfs that is open to all.
fn is_a_depots(folder: &Path) -> bool {
    let made = || TRUSTED.iter().filter(|name| !name.starts_with("keys/"));
    let is_name_of = |path: &str, name: &OsStr| Path::new(path).file_name() == Some(name);
    let is_made = |found: io::Result<fs::DirEntry>| {
        found.is_ok_and(|found| made().any(|path| is_name_of(path, &found.file_name())))
    };
    fs::read_dir(folder).is_ok_and(|mut found| found.all(is_made))
}

fn take_away(path: &Path, which: u32, change: &str) {
    let close = || -> io::Result<()> {
        // What a link leads to is nothing of the depot's making.
        let found = path.symlink_metadata()?;
        if found.is_symlink() {
            return Ok(());
        }
        let mode = found.permissions().mode();
        let taken = mode & which;
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
        let set = |name, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        let open = || Depot::open(DepotConfig::new(folder.path()));
        for (before, kept) in [(0o777, 0o755), (0o770, 0o750)] {
            for name in ["", "store"] {
                set(name, before);
            }
            let depot = open().await.unwrap();
            assert_eq!(["", "store"].map(mode), [kept; 2]);
            depot.close().await;
        }
        for shared in ["", "store"] {
            set(shared, 0o1777);
            open().await.unwrap().close().await;
            assert_eq!(mode(shared), 0o1755);
            set(shared, 0o1777);
            fs::write(at(shared).join("another's"), "").unwrap();
            let refused = open().await.err().unwrap();
            assert!(matches!(&refused, DepotError::Shared(path) if *path == at(shared)), "{refused}");
            assert_eq!(mode(shared), 0o1777, "it is for others, too");
            fs::remove_file(at(shared).join("another's")).unwrap();
        }
    }

    /// Whoever had made the folder first had chosen the depot's keys, and what a start as root wrote to was where the links led.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_data_folder_that_somebody_else_has_made_is_not_used() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to others");
            return;
        }
        let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        fs::set_permissions(target.path(), Permissions::from_mode(0o644)).unwrap();
        for name in [".", "depot.lock", "keys", "keys/signing.seed", "store"] {
            let data = folder.path().join("data");
            let path = if name == "." { data.clone() } else { data.join(name) };
            for folder in ["keys", "store"] {
                fs::create_dir_all(data.join(folder)).unwrap();
            }
            match name {
                "depot.lock" => std::os::unix::fs::symlink(target.path(), &path).unwrap(),
                "keys/signing.seed" => fs::write(&path, [0; 32]).unwrap(),
                _ => {}
            }
            std::os::unix::fs::lchown(&path, Some(12345), None).unwrap();
            let refused = Depot::open(DepotConfig::new(&data)).await.err().unwrap();
            let is_named =
                matches!(&refused, DepotError::NotOwn { path: named, owner: 12345 } if *named == path);
            assert!(is_named, "{name}: {refused}");
            fs::remove_dir_all(data).unwrap();
        }
        assert_eq!(target.path().metadata().unwrap().permissions().mode() & 0o777, 0o644);
    }
}
