//! Blocks written into a user's folder: into a staging folder first, under the final names once all is there.

mod basis;
mod dress;
mod folders;
mod manifest;
mod packed;
mod parts;
mod piece;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{AtFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use terahaul_core::{
    BlockContent, BlockShape, ByteCount, Entry, EntryIndex, EntryPath, Hash, Mtime, TransferId,
};
use terahaul_store::{BasisError, BlockSink, BlockWriter, SinkError};

use crate::beneath::{OpenFolders, Purpose, open_child};
use crate::decision::{Decision, Reason};
use crate::failpoint;
use crate::listing::names_in;
use crate::owners::Resolver;
use crate::publish::{Listings, Ready};
use crate::recent::Recent;
use crate::staging::{OpenError, Staging, is_unfinished_name};
use crate::table::{FolderId, RowKind};
use crate::{FileJournal, Journal, Keep, Permissions};
pub use basis::OpenBasis;
pub(crate) use dress::PERMISSIONS;
pub use manifest::AppendError;
use manifest::Manifest;
pub(crate) use manifest::{Mark, StagedAs};

/// Staged folders kept open. A block's files are mostly of one folder or two.
const OPEN_FOLDERS: usize = 32;
/// Large files kept open: one for each channel, and the next one.
const OPEN_FILES: usize = 32;
/// More dirty files than this are not kept open, but synced by one call for the whole file system.
const SYNCED_ALONE: usize = 16;

/// A transfer being received into a folder. Called by all data channels at once.
///
/// Life: [`TreeSink::open`], entries are appended as the manifest arrives, blocks are written, and when all wanted
/// ones are durable, [`TreeSink::publish`] gives everything its final name. At any moment the process may die; opened
/// again, with the same entries appended, the sink goes on from what the journal says is durable.
pub struct TreeSink {
    pub(crate) staging: Staging,
    manifest: RwLock<Manifest>,
    folders: Recent<FolderId, OwnedFd>,
    files: Recent<EntryIndex, OwnedFd>,
    /// Channels that write one large file take turns here; in the kernel they would spin on the inode's lock.
    turns: [Mutex<()>; 16],
    bases: basis::Bases,
    /// New files share with old ones what stays the same.
    pub(crate) shares: AtomicBool,
    /// The longest file that the file system takes, as far as it is known before it says so.
    pub(crate) longest: ByteCount,
    /// The file system keeps of times every other second alone.
    pub(crate) even_seconds: bool,
    /// How files are staged where the file system takes different paths for the same one.
    folded_as: StagedAs,
    /// Held while a folder is made that cannot be made in its place.
    making: Mutex<()>,
    dirty: Mutex<Dirty>,
    /// Held to read by whoever syncs files ahead of a sync, which says what came of that.
    ahead_of_sync: RwLock<()>,
    refused: Mutex<Vec<Refusal>>,
    /// What an interrupted publishing was about to move.
    pub(crate) ready: Ready,
    pub(crate) listings: Mutex<Listings>,
    /// Those in which something was found that stays.
    pub(crate) looked_into: Mutex<OpenFolders>,
    /// What stays, and has another name there: it may be that of an entry that comes later.
    pub(crate) named_otherwise: Mutex<Vec<EntryIndex>>,
    keep: Keep,
    owners: Resolver,
    /// Things that stay and get only metadata.
    touched: Mutex<Vec<EntryIndex>>,
    /// Files among them as they were when publishing began, where that tells later whether somebody has edited them.
    pub(crate) noted: Mutex<HashMap<EntryIndex, Stat>>,
    shortfalls: Mutex<Vec<Refusal>>,
    /// Folders that let this process write only until all is in its place, and their permission bits from before.
    pub(crate) opened: Mutex<Vec<(Box<[u8]>, u32)>>,
    /// Something in the receiving folder was changed, so that it is to be synced.
    changed: AtomicBool,
}

/// Shortfalls that are kept; there may be a million more.
const MOST_SHORTFALLS: usize = 1000;

/// An entry that the receiving file system cannot have under its name. The rest goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which entry.
    pub entry: EntryIndex,
    /// What the system said.
    pub detail: String,
}

/// What the next sync has to make durable.
#[derive(Default)]
struct Dirty {
    /// Files or folders were made, or too many files written: the whole file system is to be synced.
    everything: bool,
    files: DirtyFiles,
    /// Files that were synced ahead of it were not written: it is to say so.
    failed: Option<io::Error>,
}

type DirtyFiles = Vec<(EntryIndex, Arc<OwnedFd>)>;

impl TreeSink {
    /// Starts or resumes receiving `transfer` into `dir`.
    ///
    /// `bound_to` is a value that stays the same for the transfer, such as the depot's key; blocks staged under another
    /// one are not used.
    pub fn open(dir: &Path, transfer: TransferId, bound_to: Hash) -> Result<(Self, Journal), OpenError> {
        let staging = Staging::open(dir, transfer)?;
        let journal = Journal::open(&staging, transfer, bound_to).map_err(|error| staging.given_up(error))?;
        let mut sink = Self::over(staging, Keep::default());
        let left = Ready::read(&sink.staging).and_then(|ready| sink.close_left_open().map(|()| ready));
        sink.ready = left.map_err(|source| sink.unreadable(source))?;
        Ok((sink, journal))
    }

    /// Starts or resumes a copy into `dir`. Its manifest may be another one each time: the journal names files, and
    /// [`salvage`](Self::salvage) tells what is here of each. What is not complete lies in `partial`, where that is given.
    pub fn open_copy(
        dir: &Path,
        partial: Option<&Path>,
        copy: TransferId,
        keep: Keep,
    ) -> Result<(Self, FileJournal), OpenError> {
        let mut staging = Staging::open_in(dir, partial.unwrap_or(dir), copy)?;
        let journal = FileJournal::open(&staging, keep).map_err(|error| staging.given_up(error))?;
        if partial.is_some_and(|partial| partial != dir) {
            staging.look_apart();
        }
        staging.forget_indices()?;
        let sink = Self { folded_as: StagedAs::Key, ..Self::over(staging, keep) };
        // The folder that something waits in may be one of those that are closed again.
        let left = sink.clear_left_beside().and_then(|()| sink.close_left_open());
        left.map_err(|source| sink.unreadable(source))?;
        Ok((sink, journal))
    }

    fn unreadable(&self, source: io::Error) -> OpenError {
        OpenError::Unwritable { path: self.staging.path.clone(), source }
    }

    fn over(staging: Staging, keep: Keep) -> Self {
        let (shares_files, longest) = (staging.shares_files(), staging.longest_file());
        Self {
            longest,
            even_seconds: staging.is_fat(),
            staging,
            manifest: RwLock::default(),
            folders: Recent::new(OPEN_FOLDERS),
            files: Recent::new(OPEN_FILES),
            turns: Default::default(),
            bases: basis::Bases::default(),
            shares: AtomicBool::new(shares_files),
            folded_as: StagedAs::Index,
            making: Mutex::default(),
            dirty: Mutex::default(),
            ahead_of_sync: RwLock::default(),
            ready: Ready::default(),
            listings: Mutex::default(),
            looked_into: Mutex::default(),
            named_otherwise: Mutex::default(),
            refused: Mutex::default(),
            owners: Resolver::new(keep.numeric_ids),
            keep,
            touched: Mutex::default(),
            noted: Mutex::default(),
            shortfalls: Mutex::default(),
            opened: Mutex::default(),
            changed: AtomicBool::new(false),
        }
    }

    pub(crate) fn manifest(&self) -> RwLockReadGuard<'_, Manifest> {
        self.manifest.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn manifest_mut(&self) -> RwLockWriteGuard<'_, Manifest> {
        self.manifest.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The manifest's next entry. A path may come again only once the earlier entry has failed, so on a resume each
    /// failed entry is appended, reported to [`fail`](Self::fail), and then the next is appended.
    ///
    /// What has the name of a staging folder, or is in one, is refused: the next transfer of that name would believe what it
    /// finds there.
    pub fn append(&self, entry: &Entry) -> Result<EntryIndex, AppendError> {
        let folded = self.staging.folds_names.then_some(self.folded_as);
        let index = self.manifest_mut().append(entry, folded)?;
        if entry.path.components().any(is_unfinished_name) {
            let detail =
                "folders of that name are for what is not complete: leave it out, or give it another";
            self.refuse(Refusal { entry: index, detail: detail.into() });
        }
        if entry.file_size().is_some_and(|size| size > self.longest) {
            self.refuse(Refusal { entry: index, detail: TOO_LONG.into() });
        }
        Ok(index)
    }

    /// The entry failed at the sender: what is staged of it is removed, and it is not published.
    pub fn fail(&self, entry: EntryIndex) {
        self.manifest_mut().mark_lost(entry);
        self.files.remove(entry);
        // Only to free the space early; publishing leaves it out in any case.
        if let Err(error) = self.remove_staged(entry) {
            tracing::debug!(%entry, %error, "a failed entry's staged file stays until the end");
        }
    }

    /// Whether the entry [failed](Self::fail) at the sender, or was [refused](Self::refusals), which may be while it is written.
    pub fn is_lost(&self, entry: EntryIndex) -> bool {
        self.manifest().marks.get(entry.0 as usize).is_some_and(|mark| mark.lost)
    }

    /// The receiver does not want the entry, for instance because it is [there already](Self::existing).
    pub fn decline(&self, entry: EntryIndex) {
        self.manifest_mut().mark_unwanted(entry);
    }

    /// The folder is in the receiving folder already: it only gets its time at the end, and if it is the `same` and nothing in
    /// the receiving folder was changed, not even that.
    fn keep_folder(&self, entry: EntryIndex, same: bool) {
        if let Some(mark) = self.manifest_mut().marks.get_mut(entry.0 as usize) {
            (mark.there, mark.same) = (true, same);
        }
    }

    /// Does as was decided about an entry: what is not wanted is declined, and what stays gets its metadata at the end.
    /// Returns whether its bytes are wanted.
    pub fn carry_out(&self, entry: EntryIndex, decision: Decision) -> bool {
        let (is_folder, first, is_wanted) = {
            let manifest = self.manifest();
            let table = &manifest.table;
            let is_folder = table.row(entry).is_some_and(|row| row.kind == RowKind::Directory);
            (is_folder, table.same_as(entry), manifest.is_wanted(entry))
        };
        let is_there = match decision {
            Decision::Skip(Reason::Same | Reason::Newer | Reason::Exists) | Decision::Metadata(_) => true,
            Decision::Skip(Reason::Missing)
            | Decision::Write(_)
            | Decision::Compare(_)
            | Decision::Refuse(_) => false,
        };
        if is_there && self.is_second_name(entry) {
            return false;
        }
        match decision {
            Decision::Write(_) | Decision::Compare(_) => return is_wanted,
            Decision::Skip(Reason::Same) if is_folder => self.keep_folder(entry, true),
            Decision::Metadata(_) if is_folder => self.keep_folder(entry, false),
            // The file that it is another name of now is about to be replaced.
            Decision::Skip(Reason::Same) if first.is_some_and(|first| self.manifest().is_wanted(first)) => {
                return true;
            }
            Decision::Metadata(_) => {
                self.decline(entry);
                self.touched.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            }
            Decision::Skip(_) | Decision::Refuse(_) => self.decline(entry),
        }
        false
    }

    pub(crate) fn touched(&self) -> Vec<EntryIndex> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Entries that have arrived without something that was to be kept, the first thousand of them.
    pub fn shortfalls(&self) -> Vec<Refusal> {
        self.shortfalls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_shortfall(&self, shortfall: Refusal) {
        let mut shortfalls = self.shortfalls.lock().unwrap_or_else(PoisonError::into_inner);
        if shortfalls.len() < MOST_SHORTFALLS && !shortfalls.contains(&shortfall) {
            shortfalls.push(shortfall);
        }
    }

    /// Goes on where only `what` of an entry cannot be set; any other error is returned.
    pub(crate) fn fall_short_of(&self, entry: EntryIndex, what: &str, error: io::Error) -> io::Result<()> {
        if !Errno::from_io_error(&error).is_some_and(|errno| METADATA_ERRORS.contains(&errno)) {
            return Err(error);
        }
        self.note_shortfall(Refusal { entry, detail: format!("{what} could not be set ({error})") });
        Ok(())
    }

    /// Something in the receiving folder was changed.
    pub(crate) fn handle_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Goes on without the entry, unless nobody waits for it any more.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        if !self.manifest_mut().mark_lost(refusal.entry) {
            return;
        }
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(refusal);
    }

    /// What is in a folder that was refused has not arrived either, and the folder's refusal says how much that is.
    pub(crate) fn lose_below_refused(&self) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let below = self.manifest_mut().lose_below(refused.iter().map(|refusal| refusal.entry));
        for (refusal, below) in refused.iter_mut().zip(below) {
            match below {
                0 => {}
                1 => refusal.detail.push_str("; nor can what is in it"),
                more => refusal.detail.push_str(&format!("; nor can the {more} things in it")),
            }
        }
    }

    fn mark_written(&self, entries: impl Iterator<Item = EntryIndex>) {
        let mut manifest = self.manifest_mut();
        for entry in entries {
            if let Some(mark) = manifest.marks.get_mut(entry.0 as usize) {
                mark.written = true;
            }
        }
    }

    pub(crate) fn name_in_again(&self, entry: EntryIndex) -> Option<Vec<u8>> {
        self.manifest().name_in_again(entry)
    }

    /// Entries that this file system could not have under their names, so far. They count as declined.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Goes on without the entry if it is its name that the file system does not take; any other error is returned.
    pub(crate) fn refuse_name(&self, entry: EntryIndex, error: SinkError) -> Result<(), SinkError> {
        let source = match &error {
            SinkError::Io(source) => source,
            SinkError::Full(_)
            | SinkError::TooLong(_)
            | SinkError::Denied(_)
            | SinkError::DeniedAt { .. }
            | SinkError::TooManyFiles(_)
            | SinkError::Tampered { .. }
            | SinkError::At { .. }
            | SinkError::Gone { .. }
            | SinkError::Store(_) => {
                return Err(error);
            }
        };
        if !Errno::from_io_error(source).is_some_and(|errno| NAME_ERRORS.contains(&errno)) {
            return Err(error.at(|| self.path_text(entry)));
        }
        self.refuse(Refusal { entry, detail: source.to_string() });
        Ok(())
    }

    /// Goes on without the file if the file system takes none that long; any other error is returned.
    pub(crate) fn refuse_length(&self, entry: EntryIndex, error: SinkError) -> Result<(), SinkError> {
        let SinkError::TooLong(source) = error else { return Err(error.at(|| self.path_text(entry))) };
        self.refuse(Refusal { entry, detail: format!("{TOO_LONG}: {source}") });
        self.files.remove(entry);
        // Only to free the space early.
        if let Err(error) = self.remove_staged(entry) {
            tracing::debug!(%entry, %error, "what is staged of a file that is too long stays until the end");
        }
        Ok(())
    }

    /// How many entries were appended.
    pub fn entry_count(&self) -> usize {
        self.manifest().table.len()
    }

    /// An entry of the manifest.
    pub fn entry(&self, index: EntryIndex) -> Option<Entry> {
        self.manifest().table.entry(index)
    }

    /// The latest entry of the manifest at `path`.
    pub fn entry_at(&self, path: &[u8]) -> Option<EntryIndex> {
        self.manifest().table.find(&EntryPath::new(path).ok()?)
    }

    /// An entry of the manifest, unless it is not to be in its place.
    pub(crate) fn wanted_entry(&self, index: EntryIndex) -> Option<Entry> {
        let manifest = self.manifest();
        if manifest.is_wanted(index) { manifest.table.entry(index) } else { None }
    }

    /// What the receiving folder's file system still takes.
    pub fn available(&self) -> io::Result<ByteCount> {
        self.staging.available()
    }

    /// What is staged takes so much of it. Looks at all that is staged.
    pub fn taken(&self) -> io::Result<ByteCount> {
        self.staging.taken()
    }

    /// Gives up: removes all that is staged. What was published stays.
    pub fn discard(&self) -> io::Result<()> {
        self.staging.remove()
    }

    /// Removes the staging folder if nothing was received into it: nobody would come back for it.
    pub fn discard_empty(&self) -> io::Result<()> {
        self.staging.remove_empty()
    }

    pub(crate) fn path_text(&self, entry: EntryIndex) -> String {
        self.manifest().table.path(entry).map_or_else(|| format!("entry {entry}"), |path| path.to_string())
    }

    /// The permission bits that an entry's file gets.
    pub(crate) fn applied_mode(&self, mode: u32) -> u32 {
        match self.keep.permissions {
            Permissions::Basic => mode & 0o777,
            Permissions::Exact => mode & 0o7777,
        }
    }

    pub(crate) fn permissions(&self) -> Permissions {
        self.keep.permissions
    }

    pub(crate) fn keeps_hard_links(&self) -> bool {
        self.keep.hard_links
    }

    /// Held while the entry's file is written to.
    fn turn(&self, entry: EntryIndex) -> MutexGuard<'_, ()> {
        self.turns[entry.0 as usize % self.turns.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dirty {
    /// `alone`: each has to be synced, whatever else is. Returns those that are to be synced now, since no more are kept open.
    fn add(&mut self, entry: EntryIndex, file: Arc<OwnedFd>, alone: bool) -> DirtyFiles {
        if self.everything && !alone || self.files.iter().any(|(other, _)| *other == entry) {
            return Vec::new();
        }
        self.files.push((entry, file));
        if self.files.len() <= SYNCED_ALONE {
            return Vec::new();
        }
        let files = std::mem::take(&mut self.files);
        if alone {
            return files;
        }
        self.everything = true;
        Vec::new()
    }
}

/// Makes what was written to these durable. Where the file system [answers by file](Staging::answers_by_file) it may do so, and say what it
/// could not write, only when a file is closed; a second descriptor is enough for that.
fn sync_files(files: &DirtyFiles, answers_by_file: bool) -> io::Result<()> {
    files.iter().try_for_each(|(_, file)| {
        rustix::fs::fdatasync(file)?;
        if answers_by_file { close(file.try_clone()?) } else { Ok(()) }
    })
}

/// Closes a file that was written to, and returns what the system says of that.
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    failpoint::close()?;
    // Whatever is said, also that it was interrupted, it is closed.
    Ok(nix::unistd::close(file)?)
}

/// Sets the modification time, and the access time to now, as rsync does: some file systems in user space set neither where one is left alone.
pub(crate) fn times(mtime: Mtime) -> Timestamps {
    const LAST_NANOSECOND: u32 = 999_999_999;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        // Larger values have meanings of their own to the system, such as "now".
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.min(LAST_NANOSECOND) as _ },
    }
}

/// Of files of which the file system takes none that long.
const TOO_LONG: &str =
    "this file system, or a limit that this process has (ulimit -f), takes no file that long";

/// What a system says of names that it does not take.
pub(crate) const NAME_ERRORS: [Errno; 3] = [Errno::INVAL, Errno::NAMETOOLONG, Errno::ILSEQ];

/// What it says of a time, a mode or an owner that it does not take.
const METADATA_ERRORS: [Errno; 9] = [
    Errno::PERM,
    Errno::ACCESS,
    Errno::ROFS,
    Errno::NOENT,
    Errno::NOTDIR,
    Errno::LOOP,
    Errno::NOTSUP,
    Errno::NOSYS,
    Errno::INVAL,
];

/// What it says of a name that was to be made in `folder`, where shares of Windows, and exFAT in user space, say that there is none, as
/// if the folder had gone.
pub(crate) fn said_of_name(folder: &OwnedFd, errno: Errno) -> Errno {
    let is_there = || rustix::fs::fstat(folder).is_ok_and(|stat| stat.st_nlink > 0);
    if errno == Errno::NOENT && is_there() { Errno::INVAL } else { errno }
}

/// Removes what may be a folder, unless it is one. Returns what was said of one, or of a file that is not to be removed: POSIX has one word for
/// both.
pub(crate) fn remove_unless_folder(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Errno>> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(errno @ (Errno::ISDIR | Errno::PERM)) => Ok(Some(errno)),
        Err(errno) => Err(errno.into()),
    }
}

/// Why it stays that could not be opened as a folder: what was `said` when it was to be removed, where it is none.
pub(crate) fn unless_no_folder(opening: io::Error, said: Errno) -> io::Error {
    match Errno::from_io_error(&opening) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => said.into(),
        _ => opening,
    }
}

/// Removes `name` from `folder`, with all that is in it; no link is followed.
pub(crate) fn remove_all(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let Some(said) = remove_unless_folder(folder, name)? else { return Ok(()) };
    let opened = open_child(folder, name, Purpose::List).map_err(|error| unless_no_folder(error, said))?;
    for inner in names_in(folder, name)? {
        remove_all(opened.as_fd(), &inner)?;
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

/// One call makes durable whatever was written to the file system that `folder` is on.
pub(crate) fn sync_file_system(folder: &OwnedFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::syncfs(folder) {
        // It could not be opened to be read.
        Err(Errno::BADF) => rustix::fs::sync(),
        synced => synced?,
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        rustix::fs::sync();
    }
    Ok(())
}

impl BlockSink for TreeSink {
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        match &shape.content {
            BlockContent::Piece { entry, offset, .. } => Ok(Box::new(self.begin_piece(*entry, *offset)?)),
            BlockContent::Packed { files, .. } => Ok(Box::new(self.begin_packed(files)?)),
        }
    }

    fn read_basis(&self, shape: &BlockShape, from: u64, buffer: &mut [u8]) -> Result<(), BasisError> {
        match &shape.content {
            BlockContent::Piece { entry, .. } => self.copy_from_basis(*entry, from, buffer),
            BlockContent::Packed { .. } => Err(BasisError::Outside),
        }
    }

    fn sync(&self) -> Result<(), SinkError> {
        let Dirty { everything, files, failed } = {
            // What others sync of it just now is awaited: it would be called durable.
            let _all = self.ahead_of_sync.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *self.dirty())
        };
        // Where everything is synced by one call, no files are kept but those that have to be synced each.
        let synced = failed
            .map_or(Ok(()), Err)
            .and_then(|()| sync_files(&files, self.staging.answers_by_file))
            .and_then(|()| if everything { sync_file_system(&self.staging.folder) } else { Ok(()) });
        synced.map_err(|error| {
            // The blocks will arrive again; their names may still be unsynced.
            self.dirty().everything = true;
            SinkError::from(error)
        })
    }
}
