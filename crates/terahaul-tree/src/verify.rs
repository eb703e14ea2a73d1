//! Re-reading a folder and comparing it with what a receipt says arrived.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{CWD, Mode};
use terahaul_core::{
    BLOCK_SIZE, BlockContent, BlockHasher, BlockNumber, BlockShape, ByteCount, Entry, EntryIndex, EntryKind,
    Hash, file_hash_from_values,
};
use terahaul_store::remedy_of_too_many_files;

use crate::beneath::{Purpose, is_blocked, open_folder, open_to_read};
use crate::listing::{Status, is_file, is_removed, size_of_file, status_of};
use crate::positional::read_up_to;

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is there, as it arrived.
    Same,
    /// Nothing has its name.
    Missing,
    /// Something else has its name; the text says what.
    OtherKind(&'static str),
    /// The file's length differs.
    OtherSize(ByteCount),
    /// The file's bytes differ.
    OtherContent(Hash),
    /// The link leads elsewhere.
    OtherTarget(Box<[u8]>),
    /// It could not be read.
    Unreadable(String),
}

impl Verdict {
    /// Whether the entry is as it arrived.
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

/// Why not everything could be compared. It says nothing of what was not.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The folder cannot be opened.
    #[error("the folder cannot be opened: {0}")]
    Folder(#[source] io::Error),
    /// No thread can be started.
    #[error("no thread can be started: {0}")]
    Thread(#[source] io::Error),
    /// Too many files are open for one more.
    #[error("a file cannot be opened: {0}")]
    TooManyFiles(#[source] io::Error),
}

/// Blocks of a large file that one thread hashes at a time.
const BLOCKS_AT_ONCE: usize = 16;
/// Entries that one thread takes at a time: a lock for each would cost more than a small file's hash.
const ENTRIES_AT_ONCE: usize = 32;
const BUFFER: usize = 256 << 10;
/// Verdicts that wait for the caller.
const MOST_WAITING: usize = 1024;

/// Compares `entries`, each with its hash when it is a file, with what is in `dir`, on `threads` threads (at least one).
///
/// `report` is called on this thread for each of them, in no particular order, with the number counted from 0. Links
/// are compared by their text and never followed; modes and times are not compared.
pub fn verify(
    dir: &Path,
    entries: impl Iterator<Item = (Entry, Option<Hash>)> + Send,
    threads: usize,
    mut report: impl FnMut(usize, &Entry, Verdict),
) -> Result<(), VerifyError> {
    let root = rustix::fs::openat(CWD, dir, Purpose::Pass.flags(), Mode::empty())
        .map_err(|errno| VerifyError::Folder(errno.into()))?;
    if is_removed(root.as_fd()) {
        return Err(VerifyError::Folder(io::ErrorKind::NotFound.into()));
    }
    let too_many_files = OnceLock::new();
    let queue = Mutex::new(Queue { entries: entries.enumerate(), large: None, held: None });
    let (verdicts, reported) = sync_channel(MOST_WAITING);
    std::thread::scope(|scope| {
        for number in 0..threads.max(1) {
            let verdicts = verdicts.clone();
            let worker = Worker { root: &root, queue: &queue, verdicts, too_many_files: &too_many_files };
            // One of them is enough.
            match std::thread::Builder::new().spawn_scoped(scope, move || worker.run()) {
                Err(error) if number == 0 => return Err(VerifyError::Thread(error)),
                _ => {}
            }
        }
        drop(verdicts);
        for (at, entry, verdict) in reported {
            report(at, &entry, verdict);
        }
        Ok(())
    })?;
    too_many_files.into_inner().map_or(Ok(()), |error| Err(VerifyError::TooManyFiles(error)))
}

struct Queue<I> {
    entries: std::iter::Enumerate<I>,
    /// A large file whose blocks are being handed out, and the next block.
    large: Option<(Arc<Large>, usize)>,
    /// The next entry, when it was looked at and not taken.
    held: Option<Numbered>,
}

/// A large file that several threads hash.
struct Large {
    at: usize,
    entry: Entry,
    size: u64,
    expected: Option<Hash>,
    file: OwnedFd,
    state: Mutex<LargeState>,
}

struct LargeState {
    values: Vec<Hash>,
    left: usize,
    failed: Option<String>,
}

/// An entry, its number and its hash.
type Numbered = (usize, (Entry, Option<Hash>));

enum Task {
    Entries(Vec<Numbered>),
    Blocks(Arc<Large>, std::ops::Range<usize>),
}

struct Worker<'a, I> {
    root: &'a OwnedFd,
    queue: &'a Mutex<Queue<I>>,
    verdicts: SyncSender<(usize, Entry, Verdict)>,
    /// Once one could not be opened for that: nobody goes on.
    too_many_files: &'a OnceLock<io::Error>,
}

impl<I> Queue<I> {
    fn hand_out(&mut self, large: Arc<Large>, next: usize) -> Task {
        let count = large.size.div_ceil(BLOCK_SIZE) as usize;
        let end = count.min(next + BLOCKS_AT_ONCE);
        if end < count {
            self.large = Some((Arc::clone(&large), end));
        }
        Task::Blocks(large, next..end)
    }
}

impl Large {
    fn state(&self) -> MutexGuard<'_, LargeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Iterator<Item = (Entry, Option<Hash>)>> Worker<'_, I> {
    fn run(self) {
        let mut buffer = vec![0; BUFFER];
        while let Some(task) = self.next_task() {
            match task {
                Task::Entries(entries) => {
                    entries.into_iter().for_each(|numbered| self.check(numbered, &mut buffer));
                }
                Task::Blocks(large, blocks) => self.hash_blocks(&large, blocks, &mut buffer),
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<I>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_task(&self) -> Option<Task> {
        if self.too_many_files.get().is_some() {
            return None;
        }
        let mut queue = self.queue();
        if let Some((large, next)) = queue.large.take() {
            return Some(queue.hand_out(large, next));
        }
        let mut entries = Vec::with_capacity(ENTRIES_AT_ONCE);
        while entries.len() < ENTRIES_AT_ONCE
            && let Some(next) = queue.held.take().or_else(|| queue.entries.next())
        {
            if next.1.0.file_size().is_none_or(|size| size.0 < BLOCK_SIZE) {
                entries.push(next);
            } else if !entries.is_empty() {
                queue.held = Some(next);
                break;
            } else if let Some(large) = self.open_large(next) {
                // Opened while the queue is locked: nobody may think that there is no more to do.
                return Some(queue.hand_out(Arc::new(large), 0));
            }
        }
        (!entries.is_empty()).then_some(Task::Entries(entries))
    }

    fn open_large(&self, (at, (entry, expected)): Numbered) -> Option<Large> {
        match self.look(&entry, expected, &mut []) {
            Ok(Look::Large(file, size)) => {
                let values = vec![Hash::default(); size.div_ceil(BLOCK_SIZE) as usize];
                let state = Mutex::new(LargeState { left: values.len(), values, failed: None });
                return Some(Large { at, entry, size, expected, file, state });
            }
            Ok(Look::Done(verdict)) => self.report(at, entry, verdict),
            Err(error) => self.handle_unread(at, entry, error),
        }
        None
    }

    fn report(&self, at: usize, entry: Entry, verdict: Verdict) {
        // The receiving end outlives the workers; nothing is lost if it does not.
        let _ = self.verdicts.send((at, entry, verdict));
    }

    fn check(&self, (at, (entry, expected)): Numbered, buffer: &mut [u8]) {
        let verdict = match self.look(&entry, expected, buffer) {
            Ok(Look::Done(verdict)) => verdict,
            // Only entries that are declared large come back as large, and those are not checked here.
            Ok(Look::Large(_, size)) => Verdict::OtherSize(ByteCount(size)),
            Err(error) => return self.handle_unread(at, entry, error),
        };
        self.report(at, entry, verdict);
    }

    fn handle_unread(&self, at: usize, entry: Entry, error: io::Error) {
        match remedy_of_too_many_files(&error) {
            // Where others have failed for that, too, one of them says it.
            Some(_) => drop(self.too_many_files.set(error)),
            None => self.report(at, entry, unread(&error)),
        }
    }

    fn look(&self, entry: &Entry, expected: Option<Hash>, buffer: &mut [u8]) -> io::Result<Look> {
        let (folder, name) = entry.path.split();
        let folder = open_folder(self.root.as_fd(), folder.unwrap_or_default(), Purpose::Pass)?;
        let size = match &entry.kind {
            EntryKind::File { size } => size.0,
            EntryKind::Directory | EntryKind::Symlink { .. } => {
                return Ok(Look::Done(compare(&entry.kind, status_of(folder.as_fd(), name)?)));
            }
        };
        let file = match open_to_read(&folder, name) {
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => {
                return Ok(Look::Done(compare(&entry.kind, status_of(folder.as_fd(), name)?)));
            }
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&file)?;
        if !is_file(&stat) {
            return Ok(Look::Done(compare(&entry.kind, status_of(folder.as_fd(), name)?)));
        }
        if size_of_file(&stat) != size {
            return Ok(Look::Done(Verdict::OtherSize(ByteCount(size_of_file(&stat)))));
        }
        if size >= BLOCK_SIZE {
            return Ok(Look::Large(file, size));
        }
        let found = hash_small(&file, size as usize, buffer)?;
        Ok(Look::Done(content_verdict(expected, found)))
    }

    fn hash_blocks(&self, large: &Arc<Large>, blocks: std::ops::Range<usize>, buffer: &mut [u8]) {
        for block in blocks.clone() {
            match hash_block(&large.file, large.size, block as u64, buffer) {
                Ok(value) => large.state().values[block] = value,
                Err(error) => large.state().failed = Some(error.to_string()),
            }
        }
        let mut state = large.state();
        state.left -= blocks.len();
        if state.left > 0 {
            return;
        }
        let verdict = match (state.failed.take(), file_hash_from_values(ByteCount(large.size), &state.values))
        {
            (None, Some(found)) => content_verdict(large.expected, found),
            (failed, _) => Verdict::Unreadable(failed.unwrap_or_default()),
        };
        drop(state);
        self.report(large.at, large.entry.clone(), verdict);
    }
}

enum Look {
    Done(Verdict),
    Large(OwnedFd, u64),
}

fn compare(expected: &EntryKind, found: Status) -> Verdict {
    match (expected, found) {
        (
            EntryKind::Symlink { target: wanted },
            Status::Entry { kind: EntryKind::Symlink { target }, .. },
        ) => {
            if *wanted == target {
                Verdict::Same
            } else {
                Verdict::OtherTarget(target)
            }
        }
        (EntryKind::Directory, Status::Entry { kind: EntryKind::Directory, .. }) => Verdict::Same,
        (_, Status::Entry { kind: EntryKind::File { .. }, .. }) => Verdict::OtherKind("a file"),
        (_, Status::Entry { kind: EntryKind::Directory, .. }) => Verdict::OtherKind("a folder"),
        (_, Status::Entry { kind: EntryKind::Symlink { .. }, .. }) => Verdict::OtherKind("a symbolic link"),
        (_, Status::Special(what)) => Verdict::OtherKind(what),
    }
}

fn unread(error: &io::Error) -> Verdict {
    // Also below a folder that has become a link.
    if error.kind() == io::ErrorKind::NotFound || is_blocked(error) {
        return Verdict::Missing;
    }
    Verdict::Unreadable(error.to_string())
}

fn content_verdict(expected: Option<Hash>, found: Hash) -> Verdict {
    if expected == Some(found) { Verdict::Same } else { Verdict::OtherContent(found) }
}

fn hash_small(file: &OwnedFd, size: usize, buffer: &mut [u8]) -> io::Result<Hash> {
    if size <= buffer.len() {
        read_exact_at(file, &mut buffer[..size], 0)?;
        return Ok(Hash(*blake3::hash(&buffer[..size]).as_bytes()));
    }
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        let take = buffer.len().min(size - at);
        read_exact_at(file, &mut buffer[..take], at as u64)?;
        hasher.update(&buffer[..take]);
        at += take;
    }
    Ok(Hash(*hasher.finalize().as_bytes()))
}

/// A block's value, as the transfer computed it.
fn hash_block(file: &OwnedFd, size: u64, block: u64, buffer: &mut [u8]) -> io::Result<Hash> {
    let offset = block * BLOCK_SIZE;
    let len = (size - offset).min(BLOCK_SIZE) as usize;
    let content = BlockContent::Piece { entry: EntryIndex(0), offset, file_size: ByteCount(size) };
    let mut hasher = BlockHasher::new(&BlockShape { number: BlockNumber(0), len: len as u32, content });
    let mut done = 0;
    while done < len {
        let take = buffer.len().min(len - done);
        read_exact_at(file, &mut buffer[..take], offset + done as u64)?;
        hasher.update(&buffer[..take]);
        done += take;
    }
    Ok(hasher.finish().value())
}

fn read_exact_at(file: &OwnedFd, buffer: &mut [u8], at: u64) -> io::Result<()> {
    match read_up_to(file, buffer, at)? == buffer.len() {
        true => Ok(()),
        false => Err(io::Error::other("it became shorter while it was read")),
    }
}
