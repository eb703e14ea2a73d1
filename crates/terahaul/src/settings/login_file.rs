//! What `terahaul login` stored: a file that only its owner can read, and that nobody else has a hand in.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags, openat, readlinkat, statat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use terahaul_net::endpoint::Endpoint;

use crate::exit::Failure;
use crate::output::printable_path;
use crate::settings::same_depot;

/// What a mode lets others than the owner write. Where an access list names somebody who may, the group's bit is set.
const OTHERS_WRITE: u32 = 0o022;

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
        let config = || Some(absolute("HOME")?.join(".config"));
        Some(absolute("XDG_CONFIG_HOME").or_else(config)?.join("terahaul/login.json"))
    }

    /// What is stored now.
    pub fn stored() -> Result<Self, Failure> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// Reads it; one that is not there is empty.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let read = || -> io::Result<Vec<u8>> {
            let folder = opened_folder_of(path)?;
            let name = followed(&folder, Path::new(path.file_name().unwrap_or_default()), is_trusted)?;
            let mut text = Vec::new();
            opened(&folder, &name, OFlags::RDONLY, path)?.read_to_end(&mut text)?;
            Ok(text)
        };
        let text = match read() {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(error.downcast().unwrap_or_else(|error| Failure::file("read", path, &error)));
            }
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
        let _lock = lock(path).map_err(|error| unwritable(path, error))?;
        let mut login = Self::read(path)?;
        login.remember(url, token);
        login.write(path)
    }

    /// Writes it, readable by its owner only, in one step; where the user has put a link in its place, what that points to.
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            // As root not those of another user, in whose folder it may be logging in: they could lead to any file of the system.
            let path = followed(CWD, path, |owner| owner == geteuid().as_raw())?;
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
        write().map_err(|error| unwritable(path, error))
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

/// The folder that this variable names, if it is one for settings.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Whether a login may be of this user's making. It says where files go, so it has to be the user's own, or of root, who can do
/// everything anyway. Root may be told to take the settings of somebody else: `sudo -E` keeps their HOME, and a container has it mounted.
/// They are then whoever has that folder, and not who else could write into it.
fn is_trusted(owner: u32) -> bool {
    let user = geteuid();
    let is_named = || {
        let named = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME"));
        named.is_some_and(|folder| fs::metadata(folder).is_ok_and(|there| there.uid() == owner))
    };
    owner == 0 || owner == user.as_raw() || user.is_root() && is_named()
}

/// Refuses what somebody else has made or may write, as ssh does with its settings.
fn check_own(opened: &File, path: &Path) -> io::Result<()> {
    let there = opened.metadata()?;
    let shown = printable_path(path);
    if !is_trusted(there.uid()) {
        return Err(refusal(format!(
            "{shown} belongs to user {}, who could have your files sent elsewhere: move it away and run 'terahaul login' again, or name a folder of your own in XDG_CONFIG_HOME",
            there.uid()
        )));
    }
    if there.mode() & OTHERS_WRITE != 0 && !is_read_only(opened) {
        return Err(refusal(format!(
            "others may write {shown}, and could have your files sent elsewhere: look at what it holds, and run 'chmod go-w {shown}', or, where that has no effect, name a folder of your own in XDG_CONFIG_HOME, or the depot in TERAHAUL_URL and TERAHAUL_TOKEN"
        )));
    }
    Ok(())
}

/// Whether nobody may write it whatever its mode is, as in a volume of secrets that a container has.
fn is_read_only(opened: &File) -> bool {
    rustix::fs::fstatvfs(opened).is_ok_and(|volume| volume.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn refusal(message: String) -> io::Error {
    io::Error::other(Failure::usage(message))
}

/// The folder that `path` is in, if nobody else may put anything there.
fn opened_folder_of(path: &Path) -> io::Result<File> {
    let folder = folder_of(path);
    let place = followed(CWD, folder, is_trusted)?;
    // It need not be readable. A link that was not followed is opened itself, and refused as its owner's.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = File::from(retry_on_intr(|| openat(CWD, &place, flags, Mode::empty()))?);
    check_own(&opened, folder)?;
    Ok(opened)
}

/// The regular file `name` of `folder`, which is `path`, if nobody else may write it. What was opened is judged, as another may have its
/// name by then. A pipe in its place is not waited for.
fn opened(folder: &File, name: &Path, flags: OFlags, path: &Path) -> io::Result<File> {
    let other = || {
        let shown = printable_path(path);
        refusal(format!("{shown} is no regular file of yours: move it away, and run 'terahaul login' again"))
    };
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match retry_on_intr(|| openat(folder, name, flags, Mode::RUSR | Mode::WUSR)) {
        Ok(file) => File::from(file),
        // A link, a socket, a folder.
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(other()),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(other());
    }
    check_own(&file, path)?;
    Ok(file)
}

/// Nobody has spelled its path: it is where the user's settings are.
fn unwritable(path: &Path, error: io::Error) -> Failure {
    let error = match error.downcast() {
        Ok(refusal) => return refusal,
        Err(error) => error,
    };
    let failure = Failure::unwritable(path, &error);
    if !terahaul_store::is_no_place(&error) {
        return failure;
    }
    let message = format!(
        "{} could not be written ({error}): make its folder one that you may write to, or name another one in XDG_CONFIG_HOME, or in HOME",
        path.display()
    );
    Failure { message, ..failure }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// The folder that `path` is in, made if need be.
fn made_folder_of(path: &Path) -> io::Result<&Path> {
    let folder = folder_of(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    Ok(folder)
}

/// Beside the login.
const LOCK: &str = "login.lock";

/// As long as it is held, no other login changes `path`: each writes what it has read, and its own. Waits until it is free.
fn lock(path: &Path) -> io::Result<File> {
    let place = made_folder_of(path)?.join(LOCK);
    let lock = opened(&opened_folder_of(path)?, Path::new(LOCK), OFlags::RDWR | OFlags::CREATE, &place)?;
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

/// Where `path` in `folder` leads by links of those who are trusted, whether anything is there or not.
fn followed(folder: impl AsFd, path: &Path, is_trusted: impl Fn(u32) -> bool) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_LINKS {
        let there = retry_on_intr(|| statat(&folder, &path, AtFlags::SYMLINK_NOFOLLOW));
        let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
        if !there.is_ok_and(|there| is_link(there.st_mode) && is_trusted(there.st_uid)) {
            return Ok(path);
        }
        let target = readlinkat(&folder, &path, Vec::new())?;
        path = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(target.as_bytes()));
    }
    Err(Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// What is said of a login at `path` when it is read, and when another is to be added.
    fn refused(path: &Path) -> String {
        let read = LoginFile::read(path).err().unwrap();
        let before = fs::read(path).ok();
        let added = LoginFile::add(path, "https://b:1/", "tht_b").unwrap_err();
        assert_eq!((read.exit, &read, fs::read(path).ok()), (crate::exit::Exit::Usage, &added, before));
        read.message
    }

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
        for file in [&path, &kept] {
            made_folder_of(file).unwrap();
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
        let follow = |user| followed(CWD, &link, |owner| owner == user);
        symlink(&target, &link).unwrap();
        assert_eq!([user, user + 1].map(|user| follow(user).unwrap()), [target.clone(), link.clone()]);
        symlink(&link, &target).unwrap();
        assert_eq!(follow(user).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    /// Whoever could write it, or put another in its place, chose the depot that files went to.
    #[test]
    fn a_login_that_others_may_write_is_refused_until_they_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/terahaul/login.json");
        LoginFile::add(&path, "https://a:1/", "tht_a").unwrap();
        for place in [path.as_path(), folder_of(&path), &folder_of(&path).join(LOCK)] {
            let kept = fs::metadata(place).unwrap().permissions();
            for open in [0o020, 0o002, 0o1002] {
                set_mode(place, kept.mode() & 0o7777 | open);
                let said = match place.ends_with(LOCK) {
                    false => refused(&path),
                    true => LoginFile::add(&path, "https://b:1/", "tht_b").unwrap_err().message,
                };
                assert!(said.contains(&format!("'chmod go-w {}'", place.display())), "{said}");
            }
            fs::set_permissions(place, kept).unwrap();
            assert_eq!(LoginFile::read(&path).unwrap().last().unwrap().token, "tht_a");
        }
        for readable in [path.as_path(), folder_of(&path)] {
            set_mode(readable, 0o755);
        }
        LoginFile::add(&path, "https://b:1/", "tht_b").unwrap();
    }

    /// The token of whoever logged in went into a folder of another's, and files to the depot that was named there.
    #[test]
    fn what_somebody_else_has_put_there_is_no_login() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/terahaul/login.json");
        let folder = folder_of(&path);
        let good = dir.path().join("good/login.json");
        LoginFile::add(&good, "https://a:1/", "tht_a").unwrap();
        let is_named =
            |said: &str, place: &Path| said.contains(&format!("{} belongs to user 12345,", place.display()));
        made_folder_of(&path).unwrap();
        lchown(folder, Some(12345), None).unwrap();
        assert!(is_named(&refused(&path), folder), "before anybody is asked for a token");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        fs::copy(&good, &path).unwrap();
        assert!(is_named(&refused(&path), folder));
        lchown(folder, Some(0), None).unwrap();
        lchown(&path, Some(12345), None).unwrap();
        assert!(is_named(&refused(&path), &path));
        // What a link leads to may be the user's own, as everything is that was received.
        fs::remove_file(&path).unwrap();
        symlink(&good, &path).unwrap();
        assert!(LoginFile::read(&path).is_ok());
        lchown(&path, Some(12345), None).unwrap();
        assert!(refused(&path).contains("no regular file of yours"));
        fs::remove_dir_all(folder).unwrap();
        symlink(folder_of(&good), folder).unwrap();
        assert!(LoginFile::read(&path).is_ok());
        lchown(folder, Some(12345), None).unwrap();
        assert!(is_named(&refused(&path), folder));
    }

    /// A link made a file elsewhere, and a pipe was waited for.
    #[test]
    fn what_is_no_file_is_neither_read_nor_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terahaul/login.json");
        let folder = made_folder_of(&path).unwrap();
        let [lock, elsewhere] = [LOCK, "elsewhere"].map(|name| folder.join(name));
        symlink(&elsewhere, &lock).unwrap();
        let add = || LoginFile::add(&path, "https://a:1/", "tht_a");
        let is_named = |said: &str, place: &Path| {
            said.starts_with(&format!("{} is no regular file of yours", place.display()))
        };
        assert!(is_named(&add().unwrap_err().message, &lock));
        assert!(!elsewhere.exists());
        fs::remove_file(&lock).unwrap();
        let make_pipe = |place: &Path| rustix::fs::mkfifoat(CWD, place, Mode::from_raw_mode(0o600)).unwrap();
        make_pipe(&lock);
        assert!(is_named(&add().unwrap_err().message, &lock));
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(is_named(&refused(&path), &path));
        fs::remove_dir(&path).unwrap();
        make_pipe(&path);
        assert!(is_named(&LoginFile::read(&path).err().unwrap().message, &path));
        assert!(is_named(&add().unwrap_err().message, &path));
    }

    #[test]
    fn a_damaged_login_is_refused_without_quoting_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terahaul/login.json");
        made_folder_of(&path).unwrap();
        fs::write(&path, "{\"depots\":[{\"token\":\"tht_secret\" oops").unwrap();
        set_mode(&path, 0o600);
        let error = LoginFile::read(&path).err().unwrap();
        assert!(!error.message.contains("secret") && error.message.contains("terahaul login"));
    }
}
