//! What `terahaul login` stored: a file that only its owner can read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use terahaul_net::endpoint::Endpoint;

use crate::exit::Failure;
use crate::settings::same_depot;

/// The stored depots, the last login first.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct LoginFile {
    /// One for each depot.
    depots: Vec<StoredLogin>,
}

/// One depot's address and token.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredLogin {
    /// As it was given, with the certificate's fingerprint.
    pub url: String,
    /// The token.
    pub token: String,
}

impl LoginFile {
    /// Where it is: `$XDG_CONFIG_HOME/terahaul/login.json`, or below `~/.config`.
    pub fn path() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(folder.join("terahaul/login.json"))
    }

    /// What is stored now.
    pub fn stored() -> Result<Self, Failure> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// Reads it; one that is not there is empty.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(Failure::file("read", path, &error)),
        };
        // The parser's own words could quote the token, so they are left out.
        serde_json::from_slice(&text).map_err(|_| {
            Failure::usage(format!(
                "the stored login in {} cannot be read: remove the file and run 'terahaul login' again",
                path.display()
            ))
        })
    }

    /// Adds a login to those in `path`, in place of an older one for the same depot, as the last one.
    pub fn add(path: &Path, url: &str, token: &str) -> Result<(), Failure> {
        let _lock = lock(path).map_err(|error| unwritable(path, &error))?;
        let mut login = Self::read(path)?;
        login.remember(url, token);
        login.write(path)
    }

    /// Writes it, readable by its owner only, in one step; where the user has put a link in its place, what that points to.
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let path = followed(path, geteuid().as_raw())?;
            let folder = made_folder_of(&path)?;
            let mut file = tempfile::Builder::new()
                .prefix("login.")
                .permissions(Permissions::from_mode(0o600))
                .tempfile_in(folder)?;
            let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| unwritable(path, &error))
    }

    /// The login that is used when nothing else is said.
    pub fn last(&self) -> Option<&StoredLogin> {
        self.depots.first()
    }

    /// The login for this depot.
    pub fn find(&self, endpoint: &Endpoint) -> Option<&StoredLogin> {
        let is_it =
            |stored: &&StoredLogin| stored.url.parse().is_ok_and(|other| same_depot(&other, endpoint));
        self.depots.iter().find(is_it)
    }

    /// Adds a login, in place of an older one for the same depot, as the last one.
    pub fn remember(&mut self, url: &str, token: &str) {
        if let Ok(endpoint) = url.parse::<Endpoint>()
            && let Some(old) = self.find(&endpoint).map(|stored| stored.url.clone())
        {
            self.depots.retain(|stored| stored.url != old);
        }
        self.depots.insert(0, StoredLogin { url: url.to_owned(), token: token.to_owned() });
    }
}

/// Nobody has spelled its path: it is where the user's settings are.
fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::unwritable(path, error);
    if !terahaul_store::is_no_place(error) {
        return failure;
    }
    let message = format!(
        "{} could not be written ({error}): make its folder one that you may write to, or name another one in XDG_CONFIG_HOME, or in HOME",
        path.display()
    );
    Failure { message, ..failure }
}

/// The folder that `path` is in, made if need be.
fn made_folder_of(path: &Path) -> io::Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    Ok(folder)
}

/// As long as it is held, no other login changes `path`: each writes what it has read, and its own. Waits until it is free.
fn lock(path: &Path) -> io::Result<File> {
    let place = made_folder_of(path)?.join("login.lock");
    let lock = OpenOptions::new().mode(0o600).write(true).create(true).truncate(false).open(place)?;
    match lock.lock() {
        // Such a one may hold a home all the same, and two logins hardly ever end together.
        Err(error) if !is_without_locks(&error) => Err(error),
        _ => Ok(lock),
    }
}

/// Whether a file system says this because it has no locks; NFS does where its lock service is not there.
fn is_without_locks(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported
        || matches!(Errno::from_io_error(error), Some(Errno::NOLCK | Errno::NOTSUP))
}

/// Links that are followed one after the other, as the system does.
const MOST_LINKS: usize = 40;

/// Where `path` leads by links of `user`, whether anything is there or not. One of somebody else's, in whose folder root may be logging
/// in, could lead to any file of the system.
fn followed(path: &Path, user: u32) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink() && there.uid() == user) {
            return Ok(path);
        }
        path = path.parent().unwrap_or(Path::new(".")).join(fs::read_link(&path)?);
    }
    Err(Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_login_is_kept_where_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/terahaul/login.json");
        assert!(LoginFile::read(&path).unwrap().last().is_none());
        let mut login = LoginFile::default();
        login.remember("https://a:1/", "tht_old");
        login.remember("https://b:1/", "tht_b");
        login.remember("https://A:1/", "tht_new");
        login.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o077, 0);
        let read = LoginFile::read(&path).unwrap();
        assert_eq!(read.depots.len(), 2, "the same depot is stored once");
        assert_eq!(read.last().unwrap().token, "tht_new");
    }

    /// It was replaced by a file, and what it pointed to, in a folder with all settings of its user, stayed as it was.
    #[test]
    fn a_login_that_is_kept_elsewhere_stays_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kept) =
            (dir.path().join("config/terahaul/login.json"), dir.path().join("dotfiles/login.json"));
        for folder in [&path, &kept] {
            fs::create_dir_all(folder.parent().unwrap()).unwrap();
        }
        symlink("../../dotfiles/login.json", &path).unwrap();
        let mut login = LoginFile::default();
        for token in ["tht_first", "tht_second"] {
            login.remember("https://a:1/", token);
            login.write(&path).unwrap();
            assert!(path.is_symlink());
            let stored = fs::symlink_metadata(&kept).unwrap();
            assert!(stored.is_file() && stored.permissions().mode() & 0o777 == 0o600);
            assert_eq!(LoginFile::read(&kept).unwrap().last().unwrap().token, token);
        }
    }

    /// The spelling of a path was to be checked that nobody has spelled.
    #[test]
    fn a_folder_for_settings_that_cannot_be_made_is_named_by_what_says_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for path in [dir.path().join("file/terahaul/login.json"), "/proc/none/terahaul/login.json".into()] {
            let failure = LoginFile::add(&path, "https://a:1/", "tht_x").unwrap_err();
            assert_eq!(failure.exit, crate::exit::Exit::Unexpected);
            assert!(failure.message.contains("HOME") && !failure.message.contains("spelling"), "{failure}");
            assert!(failure.message.contains(&path.display().to_string()), "{failure}");
        }
    }

    #[test]
    fn of_logins_that_end_together_none_is_lost() {
        const ROUNDS: usize = 20;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/terahaul/login.json");
        std::thread::scope(|scope| {
            for host in ["a", "b"] {
                let path = &path;
                scope.spawn(move || {
                    for port in 1..=ROUNDS {
                        LoginFile::add(path, &format!("https://{host}:{port}/"), "tht_x").unwrap();
                    }
                });
            }
        });
        assert_eq!(LoginFile::read(&path).unwrap().depots.len(), 2 * ROUNDS);
    }

    #[test]
    fn a_home_without_a_lock_service_takes_logins() {
        let says = |errno: Errno| is_without_locks(&errno.into());
        assert!([Errno::NOLCK, Errno::NOTSUP, Errno::NOSYS].into_iter().all(says) && !says(Errno::IO));
    }

    #[test]
    fn only_the_users_own_links_are_followed_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "target"].map(|name| dir.path().join(name));
        let user = fs::metadata(dir.path()).unwrap().uid();
        symlink(&target, &link).unwrap();
        assert_eq!(
            (followed(&link, user).unwrap(), followed(&link, user + 1).unwrap()),
            (target.clone(), link.clone())
        );
        symlink(&link, &target).unwrap();
        assert_eq!(followed(&link, user).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_damaged_login_is_refused_without_quoting_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("login.json");
        fs::write(&path, "{\"depots\":[{\"token\":\"tht_secret\" oops").unwrap();
        let error = LoginFile::read(&path).err().unwrap();
        assert!(!error.message.contains("secret") && error.message.contains("terahaul login"));
    }
}
