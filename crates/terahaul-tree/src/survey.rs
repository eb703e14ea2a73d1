//! Looks at what is in the places of a batch of entries, by several threads, and decides what becomes of each.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::fs::{AtFlags, CWD, Mode, Stat};
use rustix::io::Errno;
use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Extra};

use crate::beneath::{OpenFolders, Purpose, is_blocked, is_within, open_folder, split};
use crate::contents::hash_file;
use crate::decision::{
    Decision, Differs, Found, FoundKind, MakeWay, Reason, Refused, Rules, decide, decide_name, decide_top,
    is_same,
};
use crate::listing::{Status, is_file, is_one, look_at, mode_of, mtime_of};
use crate::owners::{Ids, LastOwner, Owners, Resolver};
use crate::publish::in_moving_order;
use crate::rights;
use crate::staging::{is_fat, is_unfinished_name};
use crate::sweep::{Cleared, InTheWay, clear};
use crate::xattrs;
use crate::{Filter, Keep, Permissions, Sweep, Sweeping, Swept, Top};

mod alike;
mod linked;

pub use alike::{Alike, FolderPrints};
use linked::{Linked, Staying};

/// Fewer entries than this are not worth a thread of their own.
const LEAST_A_THREAD: usize = 64;

/// The receiving folder as it is now. Nothing is written, and the folder need not exist.
pub struct Survey {
    root: Option<OwnedFd>,
    /// As it was before anything was placed in it.
    root_stat: Option<Stat>,
    rules: Rules,
    keep: Keep,
    /// What its rules leave out stays.
    spared: Filter,
    owners: Resolver,
    /// Of what is here.
    found_owners: Owners,
    /// Made once: making them anew for each batch takes as long as some hundreds of looks.
    pub(crate) threads: ThreadPool,
    /// Folders that make way for something else with all that is in them.
    yielding: Mutex<Vec<Box<[u8]>>>,
    /// Those that make way for other names of files, in the manifest's order, as they get their places after all else.
    yielding_to_names: Mutex<Vec<Box<[u8]>>>,
    /// Files with several names that are replaced: what is linked to them now is linked to what they become.
    replaced: Mutex<HashSet<Box<[u8]>>>,
    staying: Staying,
    settled: Mutex<Settled>,
}

/// Why nobody can look.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The folder cannot be opened.
    #[error("the folder cannot be opened: {0}")]
    Folder(#[source] io::Error),
    /// This machine has no threads for it, whatever the folder is.
    #[error("threads cannot be started: {0}")]
    Threads(#[source] io::Error),
}

/// What later decisions depend on.
#[derive(Default)]
struct Settled {
    /// Folders that are not entered although something is in their place: what is in them is not touched.
    closed: HashSet<Box<[u8]>>,
    /// Folders that could not be looked at. Nothing is put into them: it could be that they are not there, and then they would be made
    /// without being what the sender has.
    unseen: HashSet<Box<[u8]>>,
    /// Files that are not what the sender has under their names, and their sizes there: what it has other names for is not linked to them.
    foreign: HashMap<Box<[u8]>, ByteCount>,
}

/// What was found in the places of some entries.
pub struct Places(Vec<io::Result<Seen>>);

impl Places {
    /// Forgets those of the first entries.
    pub fn drop_first(&mut self, entries: usize) {
        self.0.drain(..entries);
    }
}

/// What was found out about an entry's place.
enum Seen {
    Decided(Decision),
    /// What is there has other names, which may be in the places of other entries.
    Linked(Decision, Linked),
    /// The place of another name of a file, which is to be written there unless what is there is that file by itself.
    Name {
        decision: Decision,
        found: Found,
        differs: Differs,
    },
    /// Something above it is not a folder: what becomes of that decides.
    Blocked,
}

impl Survey {
    /// Looks into `dir` with `threads` threads at once.
    pub fn open(dir: &Path, rules: Rules, keep: Keep, threads: usize) -> Result<Self, SurveyError> {
        let failed = |errno: Errno| SurveyError::Folder(errno.into());
        let root = match rustix::fs::openat(CWD, dir, Purpose::Pass.flags(), Mode::empty()) {
            Ok(root) => Some(root),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(errno)),
        };
        let root_stat = root.as_ref().map(rustix::fs::fstat).transpose().map_err(failed)?;
        let rules = Rules { even_seconds: root.as_ref().is_some_and(is_fat), ..rules };
        let named = |at| format!("look-{at}");
        let pool = ThreadPoolBuilder::new().num_threads(threads.max(1)).thread_name(named).build();
        Ok(Self {
            root,
            root_stat,
            rules,
            keep,
            spared: Filter::default(),
            owners: Resolver::new(keep.numeric_ids),
            found_owners: Owners::new(keep.numeric_ids),
            threads: pool.map_err(|error| SurveyError::Threads(io::Error::other(error)))?,
            yielding: Mutex::default(),
            yielding_to_names: Mutex::default(),
            replaced: Mutex::default(),
            staying: Staying::default(),
            settled: Mutex::default(),
        })
    }

    /// What these rules leave out does not make way.
    pub fn sparing(self, spared: Filter) -> Self {
        Self { spared, ..self }
    }

    /// Tells what would be removed to make way for what was decided until now, at most `most` files and folders. Returns
    /// the paths that would have to give up, too.
    pub fn clear(&self, most: Option<u64>, tell: &mut dyn FnMut(Swept<'_>)) -> (Sweeping, Vec<Box<[u8]>>) {
        let taken = |paths: &Mutex<Vec<Box<[u8]>>>| {
            std::mem::take(&mut *paths.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut paths = taken(&self.yielding);
        paths.sort_unstable_by(|one, other| in_moving_order(one, other));
        paths.append(&mut taken(&self.yielding_to_names));
        let rules = Sweep { filter: &self.spared, top: false, most, dry_run: true };
        let (mut done, mut limited) = (Sweeping::default(), Vec::new());
        for path in paths {
            let (folder, name) = split(&path);
            let cleared = self
                .root()
                .and_then(|root| open_folder(root, folder, Purpose::Pass).ok())
                .map(|above| done.clear(InTheWay { above: above.as_fd(), name, path: &path }, &rules, tell));
            // Of others that do not go now, something has changed since they were looked at.
            if let Some(Ok(Cleared::TooMuch)) = cleared {
                limited.push(path);
            }
        }
        (done, limited)
    }

    /// Looks at the places of entries, which need not be the next ones.
    pub fn look(&self, entries: &[Entry]) -> Places {
        let share = entries.len().div_ceil(self.threads.current_num_threads()).max(LEAST_A_THREAD);
        let look = |some: &[Entry]| Look::new(self).look_at_all(some);
        if entries.len() <= share {
            return Places(look(entries));
        }
        let seen: Vec<_> = self.threads.install(|| entries.par_chunks(share).map(look).collect());
        Places(seen.into_iter().flatten().collect())
    }

    /// Decides for the manifest's next entries, in order. An error says why an entry's place cannot be looked at.
    pub fn decide(&self, entries: &[Entry], places: Places) -> Vec<io::Result<Decision>> {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settle = |(entry, seen): (&Entry, io::Result<Seen>)| {
            let decided = seen.and_then(|seen| self.settle(entry, seen, &settled));
            settled.note(entry, decided.as_ref().ok(), self.keep.hard_links);
            decided
        };
        entries.iter().zip(places.0).map(&mut settle).collect()
    }

    /// What becomes of the receiving folder itself, which `top` is kept of. An error says why its attributes cannot be looked at.
    pub fn decide_top(&self, top: &Top) -> io::Result<Decision> {
        let (Some(root), Some(stat)) = (self.root(), &self.root_stat) else {
            return Ok(decide_top(top, None, Differs::default(), &self.rules));
        };
        let user = rustix::process::geteuid();
        if self.keep == Keep::default() && !user.is_root() && stat.st_uid != user.as_raw() {
            // Only its owner could give it a time, and nobody has asked for that.
            return Ok(Decision::Skip(Reason::Exists));
        }
        let extra = top.extra.as_deref();
        let owner = extra.and_then(|extra| extra.owner.as_ref()).filter(|_| self.keep.owner);
        let wanted = owner.map_or_else(Ids::default, |owner| self.owners.resolve(owner));
        let differs = self.compare(extra, wanted, root, b".", stat)?;
        let kind = FoundKind::Folder { yields: false };
        let found = Found { kind, mtime: mtime_of(stat), mode: mode_of(stat) };
        Ok(decide_top(top, Some(&found), differs, &self.rules))
    }

    /// The receiving folder, if there is one.
    pub(crate) fn root(&self) -> Option<BorrowedFd<'_>> {
        self.root.as_ref().map(AsFd::as_fd)
    }

    /// In the manifest's order, since what becomes of a folder decides about what is in it.
    fn settle(&self, entry: &Entry, seen: Seen, settled: &Settled) -> io::Result<Decision> {
        if is_in_any(&settled.unseen, entry.path.as_bytes()) {
            return Err(io::Error::other("nor can the folder that it is in"));
        }
        let decision = match &seen {
            Seen::Linked(decision, linked) if !self.may_stay(linked) => {
                let decision = decision.replacing();
                self.note_replaced(entry, decision);
                decision
            }
            Seen::Decided(decision) | Seen::Linked(decision, _) | Seen::Name { decision, .. } => *decision,
            Seen::Blocked if is_in_any(&settled.closed, entry.path.as_bytes()) => match self.rules {
                Rules { only_new: true, .. } => Decision::Skip(Reason::Exists),
                Rules { only_existing: true, .. } => Decision::Skip(Reason::Missing),
                _ => Decision::Refuse(Refused::NotAFolder),
            },
            Seen::Blocked => decide(entry, None, Differs::default(), &self.rules),
        };
        let Some(first) = self.first_name(entry).map(EntryPath::as_bytes) else { return Ok(decision) };
        let decision = match decision {
            Decision::Write(_) if let Some(size) = settled.foreign.get(first) => match &seen {
                Seen::Name { found, differs, .. } if self.is_alone(entry, *size, found, *differs) => {
                    Decision::Skip(Reason::Same)
                }
                _ => Decision::Refuse(Refused::FirstName),
            },
            Decision::Skip(Reason::Same) if self.is_replaced(first) => decision.replacing(),
            decision => decision,
        };
        if let Seen::Name { found, .. } = &seen {
            self.note_yielding(entry, found, decision, &self.yielding_to_names);
        }
        Ok(decision)
    }

    /// Whether what is in the place of another name is that file by itself, of `size` bytes: the entry says nothing of that.
    fn is_alone(&self, entry: &Entry, size: ByteCount, found: &Found, differs: Differs) -> bool {
        let entry = Entry { kind: EntryKind::File { size }, ..entry.clone() };
        is_same(&entry, found, differs, &self.rules)
    }

    fn is_replaced(&self, path: &[u8]) -> bool {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    /// Of a file that has several names.
    fn note_replaced(&self, entry: &Entry, decision: Decision) {
        if self.keep.hard_links && matches!(decision, Decision::Write(_)) {
            let path = entry.path.as_bytes().into();
            self.replaced.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
        }
    }

    /// The name of which the entry's is another one, where that is kept.
    fn first_name<'a>(&self, entry: &'a Entry) -> Option<&'a EntryPath> {
        entry.extra.as_ref()?.same_as.as_ref().filter(|_| self.keep.hard_links)
    }
}

impl Settled {
    /// `None`: the entry's place could not be looked at.
    fn note(&mut self, entry: &Entry, decision: Option<&Decision>, hard_links: bool) {
        let stays = match decision {
            Some(Decision::Skip(reason)) => *reason != Reason::Same,
            Some(Decision::Refuse(_)) | None => true,
            Some(_) => false,
        };
        let path = || entry.path.as_bytes().into();
        match entry.kind {
            EntryKind::Directory if decision.is_none() => {
                self.unseen.insert(path());
            }
            EntryKind::Directory if stays && decision != Some(&Decision::Skip(Reason::Missing)) => {
                self.closed.insert(path());
            }
            EntryKind::File { size } if stays && hard_links => {
                self.foreign.insert(path(), size);
            }
            _ => {}
        }
    }
}

fn is_in_any(folders: &HashSet<Box<[u8]>>, path: &[u8]) -> bool {
    !folders.is_empty() && (0..path.len()).any(|at| path[at] == b'/' && folders.contains(&path[..at]))
}

/// One thread's looks.
struct Look<'a> {
    survey: &'a Survey,
    open: OpenFolders,
    /// A folder that is not there, so that nothing in it is.
    absent: Option<Vec<u8>>,
    last_owner: LastOwner,
}

impl<'a> Look<'a> {
    fn new(survey: &'a Survey) -> Self {
        Self { survey, open: OpenFolders::default(), absent: None, last_owner: LastOwner::default() }
    }

    fn look_at_all(mut self, entries: &[Entry]) -> Vec<io::Result<Seen>> {
        entries.iter().map(|entry| self.look(entry)).collect()
    }

    fn look(&mut self, entry: &Entry) -> io::Result<Seen> {
        if entry.path.components().any(is_unfinished_name) {
            return Ok(Seen::Decided(Decision::Refuse(Refused::StagingName)));
        }
        let rules = &self.survey.rules;
        let nothing = || Ok(Seen::Decided(decide(entry, None, Differs::default(), rules)));
        let (folder, name) = entry.path.split();
        let folder = folder.unwrap_or_default();
        let Some(root) = &self.survey.root else { return nothing() };
        if self.absent.as_ref().is_some_and(|absent| is_within(folder, absent)) {
            return nothing();
        }
        let wanted = self.wanted_ids(entry);
        let (path, folder) = (folder, self.open.reach(root.as_fd(), folder));
        // Whatever is in it is looked at again once it is opened up to be written to.
        let is_closed = |error: &io::Error| {
            error.kind() == io::ErrorKind::PermissionDenied && is_closed_to_its_owner(root.as_fd(), path)
        };
        let folder = match folder {
            Ok(opened) => opened,
            Err(error) => {
                return match error {
                    _ if error.kind() == io::ErrorKind::NotFound => {
                        self.absent = Some(path.to_vec());
                        nothing()
                    }
                    _ if is_blocked(&error) => Ok(Seen::Blocked),
                    _ if is_closed(&error) => nothing(),
                    _ => Err(error),
                };
            }
        };
        let (stat, status) = match look_at(folder, name) {
            Ok(looked) => looked,
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_closed(&error) => return nothing(),
            Err(error) => return Err(error),
        };
        let yielding = InTheWay { above: folder, name, path: entry.path.as_bytes() };
        let found = self.survey.found(yielding, status, &stat, entry)?;
        let differs = || self.survey.compare(entry.extra.as_deref(), wanted, folder, name, &stat);
        if let Some(first) = self.survey.first_name(entry) {
            let linked = is_same_file(root.as_fd(), first.as_bytes(), &stat)?;
            return Ok(match decide_name(entry, Some(&found), linked, rules) {
                decision @ Decision::Write(_) => Seen::Name { decision, found, differs: differs()? },
                decision => Seen::Decided(decision),
            });
        }
        let differs = differs()?;
        let mut decision = decide(entry, Some(&found), differs, rules);
        if matches!(entry.kind, EntryKind::File { .. }) && self.survey.lends(entry, wanted, differs, &stat) {
            decision = decision.replacing();
        }
        self.survey.note_yielding(entry, &found, decision, &self.survey.yielding);
        let decision = match (&decision, entry.extra.as_ref().and_then(|extra| extra.content)) {
            (Decision::Compare(_), Some(content)) => {
                // What cannot be read is replaced, as it is where nobody looks into it.
                decision.with_content(hash_file(folder, name).is_ok_and(|hash| hash == content))
            }
            _ => decision,
        };
        if is_file(&stat) && stat.st_nlink > 1 {
            self.survey.note_replaced(entry, decision);
        }
        Ok(match self.survey.linked(entry, &stat, decision) {
            Some(linked) => Seen::Linked(decision, linked),
            None => Seen::Decided(decision),
        })
    }

    /// Whose the entry shall be, where that is kept.
    fn wanted_ids(&mut self, entry: &Entry) -> Ids {
        let Survey { keep, owners, .. } = self.survey;
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_ref());
        match owner.filter(|_| keep.owner) {
            Some(owner) => self.last_owner.resolve(owners, owner),
            None => Ids::default(),
        }
    }
}

/// Whether the folder at `path`, or one above it, is this user's own and does not let its owner enter.
fn is_closed_to_its_owner(root: BorrowedFd<'_>, path: &[u8]) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.chain([path.len()]).any(|end| {
        let (above, name) = split(&path[..end]);
        let stat = open_folder(root, above, Purpose::Pass)
            .and_then(|above| Ok(rustix::fs::statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?));
        stat.is_ok_and(|stat| stat.st_uid == user && mode_of(&stat) & 0o100 == 0)
    })
}

impl Survey {
    fn found(&self, place: InTheWay<'_>, status: Status, stat: &Stat, entry: &Entry) -> io::Result<Found> {
        let kind = match status {
            Status::Entry { kind: EntryKind::File { size }, .. } => FoundKind::File { size },
            Status::Entry { kind: EntryKind::Symlink { target }, .. } => FoundKind::Symlink { target },
            Status::Special(what) => FoundKind::Special(what),
            Status::Entry { kind: EntryKind::Directory, .. } => {
                // Where all that is there stays, nobody needs to know whether it may go.
                let stays = entry.kind == EntryKind::Directory || self.rules.only_new;
                FoundKind::Folder { yields: stays || self.yields(place)? }
            }
        };
        Ok(Found { kind, mtime: mtime_of(stat), mode: mode_of(stat) })
    }

    fn compare(
        &self,
        extra: Option<&Extra>,
        wanted: Ids,
        folder: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
    ) -> io::Result<Differs> {
        let keep = &self.keep;
        let mut differs = Differs {
            user: wanted.user.is_some_and(|user| user != stat.st_uid),
            group: wanted.group.is_some_and(|group| group != stat.st_gid),
            ..Differs::default()
        };
        if keep.xattrs || keep.acls {
            let wanted = extra.map_or(&[][..], |extra| &extra.xattrs);
            (differs.acl, differs.xattrs) = xattrs::differ(folder, name, wanted, *keep)?;
        }
        Ok(differs)
    }

    /// Whether what is there would have [rights lent](crate::rights) to it.
    fn lends(&self, entry: &Entry, wanted: Ids, differs: Differs, stat: &Stat) -> bool {
        let mode = if self.rules.permissions == Permissions::Exact { entry.mode } else { 0 };
        let given = entry.extra.as_ref().is_some_and(|extra| rights::has_capabilities(&extra.xattrs));
        let capabilities = self.keep.xattrs && given && (differs.xattrs || differs.user);
        rights::lends(mode, capabilities, wanted, stat)
    }

    /// Whether a folder may make way for what is none.
    fn yields(&self, folder: InTheWay<'_>) -> io::Result<bool> {
        if self.rules.make_way == MakeWay::Empty {
            return is_empty(folder.above, folder.name);
        }
        let rules = Sweep { filter: &self.spared, top: false, most: None, dry_run: true };
        Ok(matches!(clear(folder, &rules, &mut |_| {})?, Cleared::Gone(_)))
    }

    fn note_yielding(
        &self,
        entry: &Entry,
        found: &Found,
        decision: Decision,
        yielding: &Mutex<Vec<Box<[u8]>>>,
    ) {
        let replaced = matches!(found.kind, FoundKind::Folder { .. }) && entry.kind != EntryKind::Directory;
        if replaced && self.rules.make_way == MakeWay::Whole && matches!(decision, Decision::Write(_)) {
            let path = entry.path.as_bytes().into();
            yielding.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        }
    }
}

fn is_empty(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    let opened = crate::beneath::open_child(folder, name, Purpose::List)?;
    for found in rustix::fs::Dir::new(opened)? {
        if !matches!(found?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the file at `path` below `root` is the one with this status.
fn is_same_file(root: BorrowedFd<'_>, path: &[u8], stat: &Stat) -> io::Result<bool> {
    let (folder, name) = split(path);
    let Ok(folder) = open_folder(root, folder, Purpose::Pass) else { return Ok(false) };
    match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(first) => Ok(is_file(&first) && is_one(&first, stat)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{ByteCount, Mtime};

    use super::*;

    /// A folder was made there for it, as new, of which the sender had told nothing.
    #[test]
    fn nothing_is_put_into_a_folder_that_could_not_be_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let survey = Survey::open(dir.path(), Rules::default(), Keep::default(), 1).unwrap();
        let entry = |path: &str, kind| {
            let path = EntryPath::new(path.as_bytes()).unwrap();
            Entry { path, kind, mtime: Mtime::default(), mode: 0o755, extra: None }
        };
        let file = EntryKind::File { size: ByteCount(1) };
        let entries = [
            entry("s", EntryKind::Directory),
            entry("s/t", EntryKind::Directory),
            entry("s/t/file", file.clone()),
            entry("sibling", file),
        ];
        let mut places = survey.look(&entries);
        places.0[0] = Err(Errno::IO.into());
        let decided = survey.decide(&entries, places);
        let is_decided: Vec<_> = decided.iter().map(Result::is_ok).collect();
        assert_eq!(is_decided, [false, false, false, true]);
        assert_eq!(decided[0].as_ref().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
}
