//! The folder that is received into, as the session sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{
    BlockNumber, BlockProof, BlockRun, BlockSet, BlockShape, ByteCount, Entry, EntryIndex, EntryKind,
    EntryPath, Receiver, TransferId, take_below,
};
use terahaul_net::client::{Destination, DestinationError, Taken};
use terahaul_net::failures::from_failed;
use terahaul_store::{EntryFailure, Inbound, Ledger, LedgerError};
use terahaul_tree::{
    Collision, Existing, Filter, Journal, NoRoom, Overwrite, Refusal, RestoreError, Room, TreeSink,
    staging_folder,
};
use terahaul_wire::{Batch, Failed};

use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, printable, printable_path};

/// Things in the way that are named; there may be a million more.
pub(super) const MOST_NAMED: usize = 20;

/// The failure's code where something else has an entry's name.
pub const COLLISION: &str = "collision";

/// Where a transfer is received to.
pub struct Folder {
    pub(super) inbound: Arc<Inbound>,
    pub(super) journal: Arc<Journal>,
    // Dropped behind what is open in its folder: some file systems have that there until it is closed.
    pub(super) sink: Arc<TreeSink>,
    dir: PathBuf,
    filter: Filter,
    overwrite: Overwrite,
    output: Output,
    /// How many entries are offered.
    entries: u32,
    /// An earlier run has made blocks durable.
    is_resumed: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Entries that did not come, and what is to be said of each.
    failed: BTreeMap<EntryIndex, String>,
    /// Those of them that the depot had.
    lost: BTreeSet<EntryIndex>,
    /// Their paths: a later entry of the same path stands for them, and so does a file or a link where a folder above them was.
    failed_paths: BTreeMap<EntryPath, EntryIndex>,
    superseded: BTreeSet<EntryIndex>,
    /// Declined because they are here already, by kind, size and time.
    skipped: BTreeSet<EntryIndex>,
    /// Folders that are here already.
    dressed: u64,
    /// Declined because of the globs, or because this folder cannot have them.
    unwanted: BTreeSet<EntryIndex>,
    wanted_bytes: ByteCount,
    room: Room,
    /// Blocks that an earlier run has made durable, and of which it is not known yet whether they are still here.
    unseen: BlockSet,
    /// The last folder at the top, and whether the receiving folder has something of its name.
    top: Option<(Box<[u8]>, bool)>,
}

impl Folder {
    /// Receives `entries` into `sink` from where `journal` says an earlier run stopped.
    pub fn new(
        dir: PathBuf,
        (sink, journal): (TreeSink, Journal),
        entries: u32,
        filter: Filter,
        overwrite: Overwrite,
        output: Output,
    ) -> std::io::Result<Self> {
        let (sink, journal) = (Arc::new(sink), Arc::new(journal));
        let inbound = Arc::new(Inbound::start(Receiver::default(), sink.clone(), journal.clone())?);
        let unseen = journal.blocks();
        let is_resumed = !unseen.is_empty();
        let state = Mutex::new(State { unseen, ..State::default() });
        Ok(Self { dir, sink, journal, inbound, filter, overwrite, output, entries, is_resumed, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an earlier run left something.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether no block is here.
    pub fn is_empty(&self) -> bool {
        self.inbound.with(|receiver| receiver.received().is_empty())
    }

    /// Makes durable what is here and stops taking more.
    pub fn close(&self) {
        self.inbound.close();
    }

    /// Stops and removes the staging folder. If that fails it does no harm: the next run goes on from it.
    pub fn discard(&self) {
        self.close();
        if let Err(error) = self.sink.discard() {
            tracing::debug!("the staging folder stays: {error}");
        }
    }

    /// Entries that the globs leave out, or that are known not to go into this folder.
    pub fn unwanted(&self) -> BTreeSet<EntryIndex> {
        self.state().unwanted.clone()
    }

    /// Entries that were here already.
    pub fn skipped(&self) -> BTreeSet<EntryIndex> {
        self.state().skipped.clone()
    }

    /// Folders that were here already, and only got their time and permissions.
    pub fn dressed(&self) -> u64 {
        self.state().dressed
    }

    /// Entries that the sender could not send: they are no part of what was signed.
    pub fn failed_at_sender(&self) -> BTreeSet<EntryIndex> {
        let state = self.state();
        state.failed.keys().filter(|index| !state.lost.contains(index)).copied().collect()
    }

    /// Entries that the depot has signed and cannot read any more.
    pub fn lost_at_depot(&self) -> BTreeSet<EntryIndex> {
        self.state().lost.clone()
    }

    /// A block's proof, as it was recorded when the block became durable.
    pub fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        self.journal.proof(shape)
    }

    /// Names every entry that did not arrive; returns how many.
    pub fn name_failures(&self, output: &Output) -> u64 {
        let name = |entry: EntryIndex, cause: &str, message: &str| {
            let path = match self.sink.entry(entry) {
                Some(entry) => PathText::from(&entry.path),
                None => PathText::from(entry.to_string().as_bytes()),
            };
            output.emit(&Event::Failure { path, cause, message });
        };
        let mut count = 0;
        let state = self.state();
        let is_asked_for = |entry: EntryIndex| {
            !state.superseded.contains(&entry)
                && self.sink.entry(entry).is_some_and(|entry| self.filter.selects(&entry))
        };
        for (entry, message) in state.failed.iter().filter(|(entry, _)| is_asked_for(**entry)) {
            name(*entry, "failed", message);
            count += 1;
        }
        // One that never was to be had is not missing because of this folder.
        let here =
            |refusal: &Refusal| is_asked_for(refusal.entry) && !state.failed.contains_key(&refusal.entry);
        for refusal in self.sink.refusals().into_iter().filter(here) {
            let message = format!("cannot be kept here ({}): receive it elsewhere", refusal.detail);
            name(refusal.entry, "refused", &message);
            count += 1;
        }
        drop(state);
        // Its content is here, and is what was sent.
        for shortfall in self.sink.shortfalls() {
            if let Some(entry) = self.sink.entry(shortfall.entry) {
                output.notice(format!("{} was received, but {}", entry.path, shortfall.detail));
            }
        }
        count
    }
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Wanted,
    /// A folder that is there already: it gets its time and permissions all the same.
    Dressed,
    Skipped,
    Declined,
    InTheWay(Obstacle),
}

const MOVE: &str = "move it away";

/// What keeps an entry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    /// Behind the entry's path.
    why: String,
    /// What to do about it.
    remedy: &'static str,
}

impl Fate {
    /// Of an entry with this in its place.
    pub(super) fn of(entry: &Entry, existing: Existing, overwrite: Overwrite) -> Self {
        let is_folder = entry.kind == EntryKind::Directory;
        let replaces = overwrite == Overwrite::Replace && !is_folder;
        match existing {
            Existing::Absent => Self::Wanted,
            Existing::Same if is_folder => Self::Dressed,
            Existing::Same if replaces => Self::Wanted,
            Existing::Same => Self::Skipped,
            Existing::Elsewhere { same: true } | Existing::Mounted { same: true } if !replaces => {
                Self::Skipped
            }
            Existing::Mounted { .. } => {
                Self::kept_out("has something mounted onto it", "unmount that, leave it out (--exclude)")
            }
            Existing::Folder => Self::kept_out("exists already as a folder", MOVE),
            Existing::Blocked => Self::kept_out("would be below what exists already and is no folder", MOVE),
            Existing::Elsewhere { .. } => Self::kept_out(
                "would be on another file system or mount than the folder that receives",
                "receive into a new folder on that one and move what is in it from there",
            ),
            Existing::Other(_) if replaces => Self::Wanted,
            Existing::Other(what) => {
                let remedy = if is_folder { MOVE } else { "--overwrite replaces files" };
                Self::kept_out(format!("exists already as {what}"), remedy)
            }
        }
    }

    fn kept_out(why: impl Into<String>, remedy: &'static str) -> Self {
        Self::InTheWay(Obstacle { why: why.into(), remedy })
    }
}

/// Names an entry that cannot be received, besides the one that [`in_the_way`] is about.
pub(super) fn name_in_the_way(path: &EntryPath, obstacle: &Obstacle, output: &Output) {
    output.emit(&Event::Failure { path: PathText::from(path), cause: "exists", message: &obstacle.why });
}

/// Something is in an entry's place that this run does not replace.
pub(super) fn in_the_way(path: &EntryPath, Obstacle { why, remedy }: &Obstacle) -> Failure {
    let message = format!("{path} {why}, and nothing was changed: {remedy}, or choose another folder");
    Failure { code: COLLISION.into(), ..Failure::usage(message) }
}

/// What has come into the way of entries that had arrived by then: named, and as an error. The first is for people named by that alone.
pub(super) fn came_in_the_way(collisions: &[Collision], output: &Output) -> Failure {
    let said = usize::from(!output.is_json());
    for Collision { path, existing, .. } in collisions.iter().take(MOST_NAMED).skip(said) {
        let (path, message) = (PathText::from(path.as_slice()), format!("exists already as {existing}"));
        output.emit(&Event::Failure { path, cause: "exists", message: &message });
    }
    let first = collisions.first();
    let what = first.map_or_else(
        || "something is in the way".into(),
        |Collision { path, existing, .. }| format!("{} exists already as {existing}", printable(path)),
    );
    let more = match collisions.len() {
        0 | 1 => String::new(),
        // Of many not all are looked for.
        count if count > MOST_NAMED => format!(" (and at least {} more like it)", count - 1),
        count => format!(" (and {} more like it)", count - 1),
    };
    // What is the same as what was sent is in nobody's way in the next run.
    let remedy = match collisions.iter().all(|collision| collision.replaceable) {
        true => {
            "run the same command again, which compares it with what was sent (--overwrite replaces files)"
        }
        false => "move it away, or choose another folder",
    };
    kept_for_the_same(Failure { code: COLLISION.into(), ..Failure::usage(format!("{what}{more}: {remedy}")) })
}

/// Says that another run need not receive again what has arrived.
pub(super) fn kept_for_the_same(failure: Failure) -> Failure {
    let message = format!("{}; what has arrived is kept here for the same command", failure.message);
    Failure { message, ..failure }
}

/// What has arrived of a transfer that is gone stays, as nobody but the user knows that no link to it will be right again.
pub(super) fn naming_what_is_left(failure: Failure, dir: &Path, transfer: TransferId) -> Failure {
    let left = staging_folder(dir, transfer);
    if failure.exit != Exit::NotFound || !left.is_dir() {
        return failure;
    }
    let message = format!(
        "{}; what has arrived of it is in {}, which you may remove if the transfer is gone",
        failure.message,
        printable_path(&left)
    );
    Failure { message, ..failure }
}

impl Folder {
    fn take(&self, index: EntryIndex, entry: &Entry) -> Result<Fate, Failure> {
        let added =
            self.sink.append(entry).map_err(|error| Failure::new(Exit::Unexpected, error.to_string()))?;
        debug_assert_eq!(added, index);
        let mut state = self.state();
        if let Some(earlier) = state.failed_paths.remove(&entry.path) {
            state.superseded.insert(earlier);
        }
        if state.failed.contains_key(&index) {
            state.failed_paths.insert(entry.path.clone(), index);
            drop(state);
            self.sink.fail(index);
            return Ok(Fate::Declined);
        }
        if entry.kind != EntryKind::Directory {
            let displaced = take_below(&mut state.failed_paths, &entry.path);
            state.superseded.extend(displaced);
        }
        // What this folder cannot have would be received in vain, by each run.
        if !self.filter.selects(entry) || self.sink.is_lost(index) {
            state.unwanted.insert(index);
            return Ok(Fate::Declined);
        }
        drop(state);
        let fate = Fate::of(entry, self.existing(index, entry)?, self.overwrite);
        // What was placed by an earlier run is not in its own way, however roughly the file system keeps its time.
        let was_moved = || self.sink.was_moved(index).map_err(|error| self.unreadable(&error));
        Ok(if matches!(fate, Fate::InTheWay(_)) && was_moved()? { Fate::Wanted } else { fate })
    }

    /// What is in the entry's place. Where there is nothing at the top, nothing can be below: one look answers for
    /// all that is in a new folder.
    fn existing(&self, index: EntryIndex, entry: &Entry) -> Result<Existing, Failure> {
        let look = || {
            let failed = |error| {
                Failure::file("looked at", Path::new(OsStr::from_bytes(entry.path.as_bytes())), &error)
            };
            self.sink.existing(index).map(|found| found.unwrap_or(Existing::Absent)).map_err(failed)
        };
        let mut components = entry.path.components();
        let first = components.next().unwrap_or_default();
        if components.next().is_none() && entry.kind != EntryKind::Directory {
            return look();
        }
        if let Some((top, there)) = &self.state().top
            && **top == *first
        {
            return if *there { look() } else { Ok(Existing::Absent) };
        }
        let found = self.dir.join(OsStr::from_bytes(first)).symlink_metadata();
        let there = !found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        self.state().top = Some((first.into(), there));
        if there { look() } else { Ok(Existing::Absent) }
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        Failure::file("looked through", &self.dir, error)
    }

    /// Which blocks an earlier run has left of those that the manifest holds whole by now: all of these may come from now on. That run may
    /// have wanted other files.
    fn restore(&self) -> Result<Vec<BlockRun>, Failure> {
        let mut state = self.state();
        let shapes: Vec<_> = self.inbound.with(|receiver| {
            let layout = receiver.layout();
            let known = BlockRun { first: BlockNumber(0), count: layout.block_count() as u32 };
            let blocks = state.unseen.common_with(known).flat_map(BlockRun::blocks);
            // Large files' are behind the open one as well.
            let whole = blocks.filter(|block| layout.open_block() != Some(*block));
            whole.filter_map(|block| layout.shape(block)).collect()
        });
        shapes.iter().for_each(|shape| {
            state.unseen.remove(shape.number);
        });
        drop(state);
        let restored = self.sink.restore(&self.journal, &shapes).map_err(|error| match error {
            RestoreError::Unreadable(error) => self.unreadable(&error),
            RestoreError::Record(error) => record_failure(&error),
        })?;
        let runs: Vec<_> = restored.runs().collect();
        self.inbound.with(|receiver| {
            runs.iter().flat_map(|run| run.blocks()).for_each(|block| receiver.handle_restored(block));
        });
        Ok(runs)
    }

    fn check_room(&self, more: ByteCount) -> Result<(), Failure> {
        let received = self.inbound.with(|receiver| receiver.received_bytes());
        let mut state = self.state();
        state.wanted_bytes += more;
        let wanted = state.wanted_bytes;
        let checked = state.room.check(&self.sink, wanted, received);
        match checked.map_err(|error| Failure::file("asked for its free space", &self.dir, &error))? {
            None => Ok(()),
            Some(NoRoom { free, more, .. }) => Err(Failure::new(
                Exit::NoSpace,
                format!(
                    "{} has {free} free, and at least {more} are still to be received: free some space, or receive elsewhere",
                    printable_path(&self.dir)
                ),
            )),
        }
    }
}

/// The record of what has arrived cannot be kept or read.
pub fn record_failure(error: &LedgerError) -> Failure {
    Failure::new(if error.is_full() { Exit::NoSpace } else { Exit::Unexpected }, error.to_string())
}

impl Destination for Folder {
    fn handle_entries(&self, batch: Batch) -> Result<Taken, DestinationError> {
        let (mut declined, mut blocked, mut bytes) = (Vec::new(), Vec::new(), ByteCount(0));
        for (at, entry) in (batch.first.0..).zip(&batch.entries) {
            let index = EntryIndex(at);
            match self.take(index, entry)? {
                Fate::Wanted => bytes += entry.file_size().unwrap_or_default(),
                Fate::Dressed => self.state().dressed += 1,
                Fate::InTheWay(obstacle) => blocked.push((&entry.path, obstacle)),
                fate @ (Fate::Skipped | Fate::Declined) => {
                    if fate == Fate::Skipped {
                        self.state().skipped.insert(index);
                    }
                    self.sink.decline(index);
                    declined.push(index);
                }
            }
        }
        if let Some((path, obstacle)) = blocked.first() {
            // For people the first is named at the end, by the error.
            let said = usize::from(!self.output.is_json());
            for (path, obstacle) in blocked.iter().take(MOST_NAMED).skip(said) {
                name_in_the_way(path, obstacle, &self.output);
            }
            return Err(in_the_way(path, obstacle).into());
        }
        let durable = self.restore()?;
        self.check_room(bytes)?;
        Ok(Taken { declined, durable })
    }

    fn handle_failed(&self, failed: Vec<Failed>) {
        for EntryFailure { entry: index, cause, detail } in failed.into_iter().map(from_failed) {
            // They are told before the manifest is, whose length was offered.
            if index.0 >= self.entries {
                continue;
            }
            self.sink.fail(index);
            let mut state = self.state();
            // Every session begins with all that has failed so far, and by then its entry is known.
            if state.failed.contains_key(&index) {
                continue;
            }
            // What its sender could not read is told before the manifest.
            let had = self.sink.entry(index).map(|entry| entry.path);
            let message = match (&had, detail.is_empty()) {
                (Some(_), false) => format!(
                    "could not be had from the depot ({detail}): run the same command again; if that stays so, ask its sender to send it again, and the depot's owner to check its disk"
                ),
                (_, true) => format!("was not sent: {}", cause.describe_elsewhere()),
                (None, false) => format!("was not sent: {} ({detail})", cause.describe_elsewhere()),
            };
            if let Some(path) = had {
                state.failed_paths.insert(path, index);
                state.lost.insert(index);
            }
            state.failed.insert(index, message);
        }
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use terahaul_core::{BLOCK_SIZE, Hash, Mtime};
    use terahaul_wire::Cause;

    use super::*;
    use crate::cli::GlobalArgs;

    const STAGING: &str = ".terahaul-4hqlid5ux4civg54m6z5h62rfm/of another";

    fn folder(dir: &Path, entries: u32, exclude: &[&str]) -> Folder {
        let staged = TreeSink::open(dir, TransferId([1; 16]), Hash([2; 32])).unwrap();
        let filter = Filter::new(&[], exclude).unwrap();
        let output = Output::new(GlobalArgs { json: false, quiet: true });
        Folder::new(dir.into(), staged, entries, filter, Overwrite::Refuse, output).unwrap()
    }

    fn offer(folder: &Folder, first: u32, files: &[(&str, u64)]) -> Taken {
        let entry = |&(name, size): &(&str, u64)| Entry {
            path: EntryPath::new(name.as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(size) },
            mtime: Mtime::default(),
            mode: 0o644,
            extra: None,
        };
        let entries: Vec<_> = files.iter().map(entry).collect();
        // As the session does.
        folder.inbound.with(|receiver| {
            entries.iter().for_each(|entry| {
                receiver.append(entry.file_size()).unwrap();
            });
        });
        let batch = Batch { first: EntryIndex(first), entries, seal: false };
        folder.handle_entries(batch).unwrap_or_else(|_| panic!("it is refused"))
    }

    /// What is declined of these files, once `failed` of them have failed at the sender, and how many are named at the end.
    fn declined(names: &[&str], exclude: &[&str], failed: &[u32]) -> (Vec<EntryIndex>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), names.len() as u32, exclude);
        let gone = |&entry| Failed { entry, cause: Cause::Vanished, detail: String::new() };
        folder.handle_failed(failed.iter().map(gone).collect());
        let files: Vec<_> = names.iter().map(|name| (*name, 7)).collect();
        let Taken { declined, .. } = offer(&folder, 0, &files);
        (declined, folder.name_failures(&folder.output))
    }

    /// It was received in vain, by each run.
    #[test]
    fn what_the_folder_cannot_have_is_not_asked_for_and_named_once() {
        assert_eq!(declined(&["a", STAGING], &[], &[]), (vec![EntryIndex(1)], 1));
        assert_eq!(declined(&["a", STAGING], &[], &[1]), (vec![EntryIndex(1)], 1));
    }

    /// No `--exclude` led to a run that ended well.
    #[test]
    fn what_the_folder_cannot_have_is_not_missed_where_it_is_excluded() {
        assert_eq!(declined(&["a", STAGING], &["of another"], &[]), (vec![EntryIndex(1)], 0));
    }

    /// A large file's blocks are behind that of small files which is still open, and are sent before it is closed. The record had them all
    /// the while: what another interruption left of the file, with holes, was believed, and ended up as verified.
    #[test]
    fn of_blocks_behind_the_open_one_it_is_found_out_before_they_come_again_whether_they_are_here() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("a", 7), ("large", 2 * BLOCK_SIZE), ("other", BLOCK_SIZE)];
        let large = BlockRun { first: BlockNumber(1), count: 2 };
        let other = BlockRun { first: BlockNumber(3), count: 1 };
        let first = folder(dir.path(), 3, &[]);
        offer(&first, 0, &files);
        for block in large.blocks().chain(other.blocks()) {
            let mut arrival = first.inbound.begin(block, BLOCK_SIZE).unwrap();
            arrival.write(&[IoSlice::new(&vec![1; BLOCK_SIZE as usize])]).unwrap();
            arrival.finish(None).unwrap();
        }
        first.inbound.flush().unwrap();
        drop(first);
        std::fs::remove_file(staging_folder(dir.path(), TransferId([1; 16])).join("tree/large")).unwrap();
        let second = folder(dir.path(), 3, &[]);
        assert_eq!(second.journal.blocks().runs().collect::<Vec<_>>(), [BlockRun { count: 3, ..large }]);
        assert_eq!(offer(&second, 0, &files[..2]).durable, []);
        assert_eq!(second.journal.blocks().runs().collect::<Vec<_>>(), [other], "the others are forgotten");
        assert_eq!(offer(&second, 2, &files[2..]).durable, [other]);
    }
}
