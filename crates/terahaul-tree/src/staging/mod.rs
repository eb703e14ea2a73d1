//! The folder beside the final names in which a transfer is received: `DIR/.terahaul-<transfer id>/`.
//!
//! | in it | is |
//! |---|---|
//! | `journal` | which blocks are durable; made first, removed first, so the rest means nothing without it |
//! | `tree/` | files at their paths |
//! | `again/` | files named by their entry's index, where the path itself cannot be used twice; those of a copy by their path's key, where the file system takes different paths for the same one |
//! | `making` | a folder on its way into `tree/` |
//! | `ready` | publishing has begun: which entries were staged whole |
//! | `beside` | a folder in which something waits beside its name: on another file system, or as a further name of a file |
//! | `open` | folders that let this process write until publishing ends, and the bits that they are to have then |
//!
//! It lies in DIR so that publishing is a rename, and only its owner may look inside.

mod file_system;
mod guard;
mod handed_on;
mod look;
mod removal;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::{Mtime, TransferId};
use terahaul_store::{is_full, is_no_place, remedy_of_too_many_files};

use crate::beneath::{Purpose, is_blocked, open_child};
use crate::failpoint;
use crate::listing::{is_one, mtime_of, names_in};
use crate::read_only::{
    TO_CHANGE, closed_mode, make_folders, make_open, make_opening_up, open_own, open_up_made, opening_up,
};
use crate::sink::{remove_all, times};
use file_system::{Probed, probe};
pub(crate) use file_system::{is_fat, is_in_user_space};
use guard::{Guard, made_unprivate};
use handed_on::hand_on_as_in;
pub(crate) use handed_on::{hand_list_on, hand_on, hands_on_the_same};
pub(crate) use look::Staged;

/// Why a transfer cannot be received into a folder.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be made or written to.
    #[error("{path} cannot be written to ({source}): {}", remedy(source))]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else made it, or others may write to it.
    #[error("{0} was not made by you, or others can enter it: remove it, or choose another folder")]
    NotOurs(PathBuf),
    /// Its file system keeps no permissions, and everybody may write.
    #[error(
        "{0} could be written to by others, because its file system does not give what is made there the owner and permissions that are asked for: mount it for you alone (uid=, umask=077), or receive on another one, where cp's --partial-dir may be, too"
    )]
    Unguarded(PathBuf),
    /// Another process receives this transfer into this folder.
    #[error(
        "{0} is in use, as this transfer is being received into this folder already: wait for that to end (within an hour it does by itself once its other side is gone), or end that 'terahaul'"
    )]
    Busy(PathBuf),
    /// Its file system has no locks.
    #[error(
        "{path} cannot be locked ({source}), and unlocked two runs could receive into it at once: mount its file system with locks (Lustre: with the option flock, NFS: with its lock service), or receive on another one, where cp's --partial-dir may be, too"
    )]
    Unlockable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is in it belongs to something else.
    #[error("{0} holds parts of another version of this transfer: remove it and run the same command again")]
    Stale(PathBuf),
}

fn remedy(unwritable: &io::Error) -> String {
    if let Some(remedy) = remedy_of_too_many_files(unwritable) {
        return remedy.to_owned();
    }
    // Full of bytes, or of names, of which some file systems have so many.
    let remedy = match unwritable.kind() {
        _ if is_full(unwritable) => "remove what is not needed there",
        io::ErrorKind::ReadOnlyFilesystem => "mount its file system for writing",
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "give a folder, as this is a file, or a link that leads nowhere"
        }
        _ if Errno::from_io_error(unwritable) == Some(Errno::LOOP) => "remove that link",
        _ if is_no_place(unwritable) => "check its permissions",
        _ => "check its disk, and what is mounted there",
    };
    format!("{remedy}, or choose another folder")
}

pub(crate) struct Staging {
    /// The user's folder.
    pub(crate) root: OwnedFd,
    /// By this path, when it was opened.
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
    /// Where the staging folder is: by path it might be another's by the time it is removed.
    parent: OwnedFd,
    name: String,
    /// Locked as long as it is open: one process at a time receives a transfer into a folder.
    pub(crate) folder: OwnedFd,
    /// A file in it that is locked, too: between machines, NFS locks files and no folders.
    lock: Option<OwnedFd>,
    pub(crate) tree: Arc<OwnedFd>,
    pub(crate) again: Arc<OwnedFd>,
    /// No earlier run has left anything.
    pub(crate) anew: bool,
    /// Which permission bits a new file gets of those asked for (the umask, or what a default ACL grants).
    pub(crate) granted: u32,
    /// The file system takes different names for the same one (case, or Unicode composition).
    pub(crate) folds_names: bool,
    /// What is said of a link would be done to what it leads to, wherever that is: links get no times and owners.
    pub(crate) follows_links: bool,
    /// What it failed to write it says of each file alone.
    pub(crate) answers_by_file: bool,
    /// It was to be removed and something in it could not be.
    stays: AtomicBool,
    /// When this run began, by its file system's clock.
    pub(crate) begun: Mtime,
    /// The time of the folder that it was made in: before that, and after it.
    parent_times: (Mtime, Mtime),
}

/// Of what nobody else is to look into.
pub(crate) const PRIVATE: u32 = 0o700;
/// A process that was just told to end may still be making durable what it has.
const PATIENCE: Duration = Duration::from_secs(5);

impl Staging {
    /// Opens or makes the staging folder of `transfer` in `dir`, which is made too.
    pub(crate) fn open(dir: &Path, transfer: TransferId) -> Result<Self, OpenError> {
        Self::open_in(dir, dir, transfer)
    }

    /// As [`open`](Self::open), with the staging folder in `above`, which is made too.
    pub(crate) fn open_in(dir: &Path, above: &Path, transfer: TransferId) -> Result<Self, OpenError> {
        let root = make_and_open(dir)?;
        if above != dir {
            // What cannot be made is found out, and said, when it is opened.
            let _ = make_opening_up(above);
        }
        let parent = make_and_open(above)?;
        let unwritable = |source: io::Error| OpenError::Unwritable { path: above.into(), source };
        let time_before = time_of(&parent).map_err(unwritable)?;
        let name = staging_name(transfer);
        let path = above.join(&name);
        // In that one everything is its owner's: the other is open for no longer than it takes to make it.
        let in_parent = parent.as_fd();
        // Where it is of no use nobody needs it, if it was made now.
        let remove_made = || {
            let remove = || Ok(rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR)?);
            let _ = opening_up(in_parent, remove);
        };
        let (folder, lock) = loop {
            let made = opening_up(in_parent, || make_folder(&parent, name.as_bytes()));
            let folder = made.map_err(|error| match is_blocked(&error) {
                true => OpenError::NotOurs(path.clone()),
                false => unwritable(error),
            })?;
            failpoint::point().map_err(unwritable)?;
            let stat = rustix::fs::fstat(&folder).map_err(|errno| unwritable(errno.into()))?;
            match Guard::of(&stat) {
                Guard::Private => {}
                guard => {
                    let unprivate = opening_up(in_parent, || made_unprivate(&parent));
                    match (guard, unprivate.map_err(unwritable)?) {
                        (_, false) => return Err(OpenError::NotOurs(path)),
                        // Whoever may read there may read what is received, too, once it has its names.
                        (Guard::Readable, true) => {}
                        (_, true) => {
                            remove_made();
                            return Err(OpenError::Unguarded(path));
                        }
                    }
                }
            }
            let locked = lock(&folder).inspect_err(|_| remove_made());
            if !locked.map_err(|errno| unlocked(&path, errno))? {
                return Err(OpenError::Busy(path));
            }
            // Whoever had it until now may have come to its end meanwhile, and removed it.
            let is_still_there = || Ok(is_still(&parent, name.as_bytes(), &folder)?);
            if !opening_up(in_parent, is_still_there).map_err(unwritable)? {
                continue;
            }
            let made = make_lock(&folder).inspect_err(|_| remove_made());
            let Some(file) = made.map_err(|errno| unwritable(errno.into()))? else { continue };
            let locked = lock(&file).inspect_err(|_| {
                remove_unused(&folder);
                remove_made();
            });
            if !locked.map_err(|errno| unlocked(&path, errno))? {
                return Err(OpenError::Busy(path));
            }
            if is_still(&folder, LOCK.as_bytes(), &file).map_err(|errno| unwritable(errno.into()))? {
                break (folder, Some(file));
            }
        };
        let content = Content::open(&folder, (above != dir).then_some(&root));
        let content = content.inspect_err(|_| {
            if !failpoint::is_past() {
                remove_unused(&folder);
                remove_made();
            }
        });
        let Content { anew, tree, again, probed, begun } = content.map_err(unwritable)?;
        let Probed { granted, folds: folds_names, follows: follows_links } = probed;
        let (stays, answers_by_file) = (AtomicBool::new(false), Self::answers_by_file(&folder));
        let parent_times = (time_before, time_of(&parent).map_err(unwritable)?);
        Ok(Self {
            root,
            dir: dir.into(),
            path,
            parent,
            name,
            folder,
            lock,
            answers_by_file,
            tree,
            again,
            anew,
            granted,
            folds_names,
            follows_links,
            stays,
            begun,
            parent_times,
        })
    }

    /// The user's folder, where its path leads to another by now, or to none. Where that cannot be told, it is taken to be as it was.
    pub(crate) fn moved_from(&self) -> Option<&Path> {
        let is_another = match (rustix::fs::stat(&self.dir), rustix::fs::fstat(&self.root)) {
            (Ok(named), Ok(held)) => !is_one(&named, &held),
            (Err(Errno::NOENT | Errno::NOTDIR), _) => true,
            _ => false,
        };
        is_another.then_some(&self.dir)
    }

    /// How names and links are treated in the receiving folder, where what is staged is elsewhere: some file systems fold names in some
    /// folders. One that cannot be written to gets nothing. The journal is there: without it nobody would believe that the folder is open.
    pub(crate) fn look_apart(&mut self) {
        let root = self.root.as_fd();
        let probed = || -> io::Result<Probed> {
            let before = time_of(&self.root)?;
            if let Some(mode) = closed_mode(root, TO_CHANGE)? {
                self.note_open(b"", mode, true)?;
            }
            let probed = opening_up(root, || {
                let probed = probe(&self.root, &format!("{}.", self.name))?;
                failpoint::point()?;
                Ok(probed)
            })?;
            // It may be somebody else's.
            let _ = set_time(&self.root, before);
            Ok(probed)
        };
        match probed() {
            Ok(apart) => {
                self.folds_names |= apart.folds;
                self.follows_links |= apart.follows;
            }
            Err(error) => {
                tracing::debug!("how names are treated where they are to be given is not known: {error}");
            }
        }
    }

    /// Nothing is received into it after all, for this reason: where nothing was, nothing stays.
    pub(crate) fn given_up(&self, reason: OpenError) -> OpenError {
        if self.anew
            && let Err(error) = self.remove_empty()
        {
            tracing::debug!("{} stays: {error}", self.path.display());
        }
        reason
    }

    /// A copy's manifest is made anew each time, so what was named by the indices of an earlier one's entries says nothing.
    pub(crate) fn forget_indices(&self) -> Result<(), OpenError> {
        let forget = || {
            let names = names_in(self.again.as_fd(), b"")?;
            let mut indices = names.iter().filter(|name| name.len() != KEY_NAME);
            indices.try_for_each(|name| remove_all(self.again.as_fd(), name))
        };
        forget().map_err(|source| OpenError::Unwritable { path: self.path.clone(), source })
    }

    /// What an earlier run has left in a file of this name; nothing where there is none.
    pub(crate) fn read_left(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut left = Vec::new();
        match open_own(&self.folder, name.as_bytes(), OFlags::RDONLY) {
            Err(Errno::NOENT) => {}
            opened => drop(File::from(opened?).read_to_end(&mut left)?),
        }
        Ok(left)
    }
}

/// What is in a staging folder.
struct Content {
    /// No earlier run has left anything.
    anew: bool,
    tree: Arc<OwnedFd>,
    again: Arc<OwnedFd>,
    probed: Probed,
    /// The time by the file system's clock.
    begun: Mtime,
}

impl Content {
    /// Opens or makes it. `apart`: the user's folder, where the staging folder is in another one.
    fn open(folder: &OwnedFd, apart: Option<&OwnedFd>) -> io::Result<Self> {
        let journal = rustix::fs::statat(folder, "journal", AtFlags::SYMLINK_NOFOLLOW);
        let anew = matches!(journal, Err(Errno::NOENT));
        if anew {
            for left_over in ["tree", "again", "making", "ready", OPEN] {
                remove_all(folder.as_fd(), left_over.as_bytes())?;
            }
        }
        failpoint::point()?;
        let tree = Arc::new(make_folder(folder, b"tree")?);
        let again = Arc::new(make_folder(folder, b"again")?);
        if let Some(root) = apart {
            for (name, staged) in [("tree", &tree), ("again", &again)] {
                if let Err(error) = hand_on_as_in(root, folder, name, staged) {
                    tracing::debug!("what is new has not what it would have in the user's folder: {error}");
                }
            }
        }
        failpoint::point()?;
        let probed = probe(folder, "")?;
        make_probe(folder)?;
        // The probe has just come and gone.
        Ok(Self { anew, tree, again, probed, begun: time_of(folder)? })
    }
}

/// Removes what is in a staging folder that nothing was received into, where it cannot be: of an earlier run there is a journal, and all stays.
fn remove_unused(folder: &OwnedFd) {
    let journal = rustix::fs::statat(folder, "journal", AtFlags::SYMLINK_NOFOLLOW);
    if !matches!(journal, Err(Errno::NOENT)) {
        return;
    }
    for name in ["tree", "again"] {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
    }
    for name in [PROBE, LOCK] {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

/// Longer than an index has digits.
const KEY_NAME: usize = 32;

/// How a file is named in `again/` by its path's key, whatever the file system makes of upper and lower case.
pub(crate) fn key_name(path: &[u8]) -> Vec<u8> {
    let mut name = blake3::hash(path).to_hex().as_bytes().to_vec();
    name.truncate(KEY_NAME);
    name
}

/// The file that says which folders let this process write until publishing ends.
pub(crate) const OPEN: &str = "open";

/// The file that says in which folder on another file system something waits for its name.
pub(crate) const BESIDE: &str = "beside";

/// The file that whoever has the folder holds locked.
const LOCK: &str = "lock";

/// An empty file, by which is found out where a rename leads. It is made while there is room for it.
pub(crate) const PROBE: &str = "probe";

const PREFIX: &str = ".terahaul-";

/// Where what has arrived of a transfer is kept until all has, in the folder that receives it.
pub fn staging_folder(dir: &Path, transfer: TransferId) -> PathBuf {
    dir.join(staging_name(transfer))
}

fn staging_name(transfer: TransferId) -> String {
    format!("{PREFIX}{transfer}")
}

/// What is not complete and waits beside its final name has that of the staging folder with this.
pub(crate) const PART: &str = ".part";

/// Whether a folder of this name in a receiving folder is somebody's staging folder: also where upper and lower case are one to its file
/// system, which may leave out dots and spaces at a name's end, too.
pub(crate) fn is_staging_name(name: &[u8]) -> bool {
    let Some((prefix, id)) = name.split_at_checked(PREFIX.len()) else { return false };
    if !prefix.eq_ignore_ascii_case(PREFIX.as_bytes()) {
        return false;
    }
    let id = id.to_ascii_lowercase();
    let id = str::from_utf8(&id).map(|id| id.trim_end_matches(['.', ' ']));
    id.is_ok_and(|id| id.parse::<TransferId>().is_ok())
}

/// A name without the dots and spaces at its end, which some file systems leave out.
pub(crate) fn without_ending(name: &[u8]) -> &[u8] {
    let ending = name.iter().rev().take_while(|byte| matches!(byte, b'.' | b' ')).count();
    &name[..name.len() - ending]
}

/// Whether what has this name in a receiving folder is not complete: a staging folder, or a part that waited there when its process was
/// killed.
pub(crate) fn is_unfinished_name(name: &[u8]) -> bool {
    let name = without_ending(name);
    let without = name.len().checked_sub(PART.len()).map(|at| name.split_at(at));
    let part = without.filter(|(_, end)| end.eq_ignore_ascii_case(PART.as_bytes()));
    is_staging_name(part.map_or(name, |(name, _)| name))
}

/// Whether this is what has the name in the folder.
fn is_still(folder: &OwnedFd, name: &[u8], it: &OwnedFd) -> rustix::io::Result<bool> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok(is_one(&there, &rustix::fs::fstat(it)?)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Makes the probe, if it is not there.
pub(crate) fn make_probe(folder: &OwnedFd) -> rustix::io::Result<()> {
    make_file(folder, PROBE).map(drop)
}

fn make_file(folder: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    open_own(folder, name.as_bytes(), OFlags::CREATE | OFlags::RDWR)
}

/// The file to be locked; `None` where the folder is being removed.
fn make_lock(folder: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    match make_file(folder, LOCK) {
        Err(Errno::NOENT) => Ok(None),
        made => made.map(Some),
    }
}

/// Whether this process has the folder for itself now.
fn lock(folder: &OwnedFd) -> rustix::io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(PATIENCE / 250),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// Why it has not.
fn unlocked(path: &Path, errno: Errno) -> OpenError {
    let (path, source) = (path.to_owned(), errno.into());
    match errno {
        Errno::NOSYS | Errno::NOLCK | Errno::NOTSUP => OpenError::Unlockable { path, source },
        _ => OpenError::Unwritable { path, source },
    }
}

fn make_and_open(dir: &Path) -> Result<OwnedFd, OpenError> {
    let unwritable = |source: io::Error| OpenError::Unwritable { path: dir.into(), source };
    make_folders(dir).map_err(unwritable)?;
    let open = |purpose: Purpose| rustix::fs::openat(CWD, dir, purpose.flags(), Mode::empty());
    let opened = match open(Purpose::List) {
        // A drop box: who may put things into it need not be able to list it.
        Err(Errno::ACCESS) => open(Purpose::Pass),
        opened => opened,
    };
    opened.map_err(|errno| unwritable(errno.into()))
}

/// Whether [`Staging::open`] would find that nothing can be staged in `dir`, or in what it would be made in, as far as that shows without
/// a change: a folder of this user's own would be opened up.
pub fn foretell_unwritable(dir: &Path) -> Result<(), OpenError> {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let above = dir.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let Some(there) = above.into_iter().find(is_there) else { return Ok(()) };
    let refused = match rustix::fs::accessat(CWD, there, TO_CHANGE, AtFlags::EACCESS) {
        Err(errno @ Errno::ROFS) => errno,
        Err(errno @ Errno::ACCESS) if !is_own(there) => errno,
        Ok(()) | Err(_) => return Ok(()),
    };
    Err(OpenError::Unwritable { path: dir.into(), source: refused.into() })
}

fn is_own(folder: &Path) -> bool {
    rustix::fs::stat(folder).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
}

pub(crate) fn time_of(folder: &OwnedFd) -> io::Result<Mtime> {
    Ok(mtime_of(&rustix::fs::fstat(folder)?))
}

/// Whether it is open to be listed or to be passed through alone.
pub(crate) fn set_time(folder: &OwnedFd, time: Mtime) -> rustix::io::Result<()> {
    rustix::fs::utimensat(folder, ".", &times(time), AtFlags::empty())
}

fn make_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let open = || open_child(parent.as_fd(), name, Purpose::List);
    match make_open(parent, name, PRIVATE) {
        Ok(()) => open().inspect_err(|_| {
            // Nothing is in it that anybody needs.
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }),
        Err(Errno::EXIST) => {
            open_up_made(parent.as_fd(), name);
            open()
        }
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// On NFS what is open keeps the folder from going.
    #[test]
    fn a_staging_folder_that_cannot_be_removed_yet_is_no_error_and_goes_once_it_can_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::open(dir.path(), TransferId([8; 16])).unwrap();
        let path = dir.path().join(&staging.name);
        // Another one in its place, which does not go while something is in it.
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".nfs01"), "").unwrap();
        staging.remove().unwrap();
        assert!(path.exists());
        std::fs::remove_file(path.join(".nfs01")).unwrap();
        let time = Mtime { seconds: 1_000_000_000, nanos: 5 };
        rustix::fs::futimens(&staging.root, &times(time)).unwrap();
        drop(staging);
        assert!(!path.exists());
        let found = rustix::fs::stat(dir.path()).unwrap();
        assert_eq!((found.st_mtime, found.st_mtime_nsec as u32), (time.seconds, time.nanos));
    }

    /// The receiving folder had the time at which an empty staging folder went, and had been given its own before.
    #[test]
    fn an_empty_staging_folder_that_goes_late_goes_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::open(dir.path(), TransferId([8; 16])).unwrap();
        let time = Mtime { seconds: 1_000_000_000, nanos: 5 };
        rustix::fs::futimens(&staging.root, &times(time)).unwrap();
        staging.remove_empty().unwrap();
        assert!(!dir.path().join(&staging.name).exists());
        assert_eq!(time_of(&staging.root).unwrap(), time);
    }

    /// They stayed open once a run had failed with everything in its place.
    #[test]
    fn a_staging_folder_that_says_which_folders_are_to_be_closed_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::open(dir.path(), TransferId([9; 16])).unwrap();
        let at = |name: &str| dir.path().join(&staging.name).join(name);
        std::fs::write(at("journal"), "blocks").unwrap();
        std::fs::write(at(OPEN), "a folder").unwrap();
        staging.remove_empty().unwrap();
        assert!(at("journal").exists() && at(OPEN).exists());
        std::fs::remove_file(at(OPEN)).unwrap();
        staging.remove_empty().unwrap();
        assert!(!at("").exists());
    }

    #[test]
    fn who_has_a_full_disk_is_not_sent_to_look_at_permissions() {
        let said =
            |errno: Errno| OpenError::Unwritable { path: "d".into(), source: errno.into() }.to_string();
        assert!(said(Errno::NOSPC).ends_with("): remove what is not needed there, or choose another folder"));
        assert!(said(Errno::ACCESS).ends_with("): check its permissions, or choose another folder"));
        assert!(said(Errno::ROFS).contains("): mount its file system for writing, or choose"));
        assert!(
            said(Errno::EXIST)
                .contains("): give a folder, as this is a file, or a link that leads nowhere, or choose")
        );
        for broken in [Errno::IO, Errno::NOTCONN] {
            assert!(said(broken).contains("): check its disk, and what is mounted there, or choose"));
        }
    }

    /// Its user was told to give a folder, as this were a file.
    #[test]
    fn a_receiving_folder_that_cannot_be_looked_at_is_not_called_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let itself = dir.path().join("itself");
        std::os::unix::fs::symlink("itself", &itself).unwrap();
        let Err(refused) = Staging::open(&itself, TransferId([6; 16])) else { panic!("it was opened") };
        let says = |errno: Errno| refused.to_string().contains(&io::Error::from(errno).to_string());
        assert!(says(Errno::LOOP) && !says(Errno::EXIST), "{refused}");
    }

    /// They were told to check permissions.
    #[test]
    fn who_has_a_file_system_without_locks_is_told_how_to_mount_it() {
        for errno in [Errno::NOSYS, Errno::NOLCK, Errno::NOTSUP] {
            let said = unlocked(Path::new("d"), errno).to_string();
            assert!(said.contains("d cannot be locked (") && said.contains("flock"), "{said}");
            assert!(!said.contains("permissions"), "{said}");
        }
        assert!(unlocked(Path::new("d"), Errno::ACCESS).to_string().contains("check its permissions"));
    }

    /// Two runs of one command: the second waits, and the first ends as it should.
    #[test]
    fn a_folder_that_goes_with_its_last_owner_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let transfer = TransferId([7; 16]);
        let first = Staging::open(dir.path(), transfer).unwrap();
        let path = dir.path().canonicalize().unwrap().join(&first.name);
        let handles = || {
            let links =
                std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.ok()?.path().read_link().ok());
            links.filter(|link| *link == path).count()
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Staging::open(dir.path(), transfer));
            // Once it has the first one's folder open, that one goes.
            while handles() < 2 {
                std::thread::yield_now();
            }
            first.remove().unwrap();
            rustix::fs::flock(&first.folder, FlockOperation::Unlock).unwrap();
            let second = second.join().unwrap().unwrap();
            assert!(path.join("tree").is_dir() && path.join("again").is_dir());
            assert!(second.anew);
        });
    }
}
