//! The receiver's half of a copy, at whichever end it is: decides what is wanted, and where it goes.
//!
//! What the sender offers is taken only if it was asked for: nothing above or beside the names that the sources have.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{
    BLOCK_SIZE, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, FailureCause, Hash, Receiver, TransferId,
};
use terahaul_net::channel::Placement;
use terahaul_net::client::{Destination, DestinationError, Taken};
use terahaul_net::failures::from_failed;
use terahaul_net::session::Telling;
use terahaul_store::{EntryFailure, Inbound, InboundError, MemoryLedger, Nowhere};
use terahaul_tree::decision::{Decision, MakeWay, Refused};
use terahaul_tree::{
    EntryTable, FileJournal, Filter, NamePattern, NoRoom, Pieces, Places, Room, Survey, Top, TreeSink,
};
use terahaul_wire::{Batch, Failed};

use crate::bases::Bases;
use crate::error::CopyError;
use crate::greeting::Name;
use crate::naming::Base;
use crate::notes::{Changed, Item, Note, Removed};
use crate::pull::blocking;
use crate::rules::{Rules, Selection};
use crate::skipped::Walked;
use crate::summary::{Failure, Landed};

mod finishing;

/// Threads that look at what is there, at most: a disk that answers slowly is asked several things at once.
const MOST_LOOKING: usize = 8;

/// What may come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The names that the sources have, in whatever order. Empty: a source stands for its content, whose names only its host knows.
    pub names: Vec<Name>,
    /// Those of them that the sending host may have expanded.
    pub patterns: Vec<NamePattern>,
    /// Of the only source, where that is so: what is kept of the folder itself.
    pub top: Option<Top>,
}

pub(crate) struct Landing {
    base: Base,
    asked: Asked,
    rules: Rules,
    filter: Filter,
    survey: Survey,
    /// `None` in a dry run.
    staged: Option<(Arc<TreeSink>, Arc<FileJournal>)>,
    /// The receiving folder was not there before.
    made: bool,
    /// The folder for what is not complete, if it was not there before.
    made_partial: Option<PathBuf>,
    inbound: Arc<Inbound>,
    /// What is told of files that are replaced.
    bases: Option<Bases>,
    state: Mutex<State>,
    /// Held while things get their names.
    publishing: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The manifest of a dry run; any other's is the sink's.
    planned: EntryTable,
    /// Where the entries end that are appended.
    known: EntryIndex,
    wanted: ByteCount,
    /// A session's sender wants to hear what is in files that are replaced.
    telling: bool,
    /// What is wanted of files that may share with what they replace.
    may_share: ByteCount,
    room: Room,
    landed: Landed,
    /// Entries that will not arrive.
    failed: BTreeMap<EntryIndex, Failure>,
    /// What went wrong at the end.
    late: Vec<Failure>,
    /// What of the source is not in the manifest, once the sender has said so.
    walked: Option<Walked>,
    /// What is changed, where that is to be told.
    changed: Vec<Changed>,
    removed: Vec<Removed>,
}

/// What is made of some entries.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub declined: Vec<EntryIndex>,
    pub failed: Vec<EntryFailure>,
    pub durable: Vec<BlockRun>,
}

impl Judged {
    /// With what is made of those behind them.
    fn and(mut self, next: Self) -> Self {
        self.declined.extend(next.declined);
        self.failed.extend(next.failed);
        self.durable.extend(next.durable);
        self
    }
}

/// A batch whose places were looked at.
pub(crate) struct Looked {
    batch: Batch,
    places: Places,
}

impl Looked {
    /// Where in the manifest it ends.
    pub(crate) fn end(&self) -> EntryIndex {
        self.batch.end()
    }
}

/// What becomes of an entry.
enum Fate {
    /// Its bytes are wanted.
    Sent,
    /// It is wanted, and of its bytes only what is not here.
    SentInPart(BTreeMap<u32, Hash>),
    /// It is wanted, and here.
    Here,
    /// It is not wanted.
    Kept,
    Refused(String),
}

impl Landing {
    /// Opens the destination. Blocks.
    pub(crate) fn open(
        base: Base,
        mut asked: Asked,
        key: [u8; 16],
        rules: &Rules,
        selection: &Selection,
    ) -> Result<Self, CopyError> {
        // Each entry's is looked up.
        asked.names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let keep = rules.kept.keep();
        let looking =
            std::thread::available_parallelism().map_or(2, |count| (count.get() * 2).min(MOST_LOOKING));
        let survey = Survey::open(&base.folder, rules.decision_rules(), keep, looking)
            .map_err(CopyError::file(&base.folder, "opened"))?;
        let filter = selection.filter()?;
        let survey = survey.sparing(filter.clone());
        let receiver = Receiver::resuming(Placement::Accepted.layout(), Default::default(), []);
        let failed = |error: io::Error| CopyError::Local(format!("a thread could not be started: {error}"));
        let (mut made, mut made_partial) = (false, None);
        let (staged, inbound) = if rules.dry_run {
            let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default()));
            (None, Arc::new(inbound.map_err(failed)?))
        } else {
            let partial = rules
                .partial_dir
                .as_ref()
                .map(|Name(name)| base.folder.join(std::ffi::OsStr::from_bytes(name)));
            made = make_folder(&base.folder, asked.top.as_ref());
            made_partial = partial.clone().filter(|partial| partial.symlink_metadata().is_err());
            let (sink, journal) =
                TreeSink::open_copy(&base.folder, partial.as_deref(), TransferId(key), keep)?;
            let (sink, journal) = (Arc::new(sink), Arc::new(journal));
            let inbound = Inbound::start(receiver, sink.clone(), journal.clone()).map_err(failed)?;
            let inbound = Arc::new(inbound);
            journal.bind(&inbound, &sink);
            (Some((sink, journal)), inbound)
        };
        let resumed = staged.as_ref().is_some_and(|(_, journal)| journal.is_resumed());
        let state = State { landed: Landed { resumed, ..Landed::default() }, ..State::default() };
        let rules = rules.clone();
        let bases = staged.as_ref().map(|(sink, _)| Bases::new(sink, &inbound));
        Ok(Self {
            base,
            asked,
            rules,
            filter,
            survey,
            staged,
            made,
            made_partial,
            inbound,
            bases,
            state: Mutex::new(state),
            publishing: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what was changed, or in a dry run would be.
    pub(crate) fn tell_items(&self, tell: &mut dyn FnMut(Item<'_>)) {
        let (changed, removed) = self.take_changes();
        let entry = |index| self.entry(index);
        Note::Changed(changed).read(&entry, tell);
        Note::Removed(removed).read(&entry, tell);
    }

    /// The same for a sender elsewhere.
    pub(crate) fn take_notes(&self) -> Vec<Vec<u8>> {
        let (changed, removed) = self.take_changes();
        Note::split(&changed, &removed)
    }

    fn take_changes(&self) -> (Vec<Changed>, Vec<Removed>) {
        let mut state = self.state();
        (std::mem::take(&mut state.changed), std::mem::take(&mut state.removed))
    }

    fn entry(&self, index: EntryIndex) -> Option<Entry> {
        match &self.staged {
            Some((sink, _)) => sink.entry(index),
            None => self.state().planned.entry(index),
        }
    }

    /// What did not arrive.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        let state = self.state();
        state.failed.values().chain(&state.late).cloned().collect()
    }

    /// What of it was found out at the end.
    pub(crate) fn late_failures(&self) -> Vec<Failure> {
        self.state().late.clone()
    }

    /// The sender has walked to the end.
    pub(crate) fn handle_walked(&self, walked: Walked) {
        self.state().walked = Some(walked);
    }

    /// Looks at a batch and appends it at once. Blocks.
    pub(crate) fn take(&self, batch: Batch) -> Result<Judged, CopyError> {
        self.append(self.look(batch)?)
    }

    /// Looks at the places of some of the manifest's entries; those before them may not have been appended yet. Blocks.
    pub(crate) fn look(&self, batch: Batch) -> Result<Looked, CopyError> {
        let entries = batch.entries.into_iter().map(|entry| self.admit(entry)).collect::<Result<_, _>>()?;
        let batch = Batch { entries, ..batch };
        let places = self.survey.look(&batch.entries);
        Ok(Looked { batch, places })
    }

    /// The next entries of the manifest, in order; they are in the layout when this returns. Those that are known
    /// are answered as before: a connection that was lost may have brought some of them, and the walk has gone on since. Blocks.
    pub(crate) fn append(&self, looked: Looked) -> Result<Judged, CopyError> {
        let mut state = self.state();
        let Looked { batch, mut places } = looked;
        let end = batch.end();
        let Batch { first, mut entries, seal } = batch;
        if first > state.known {
            return Err(CopyError::Local(
                "the sender's manifest has a gap: upgrade the older of the two programs".into(),
            ));
        }
        if first < state.known && end <= state.known {
            // The walk may have come to its end since it was first said.
            if seal && end == state.known {
                self.inbound.with(|receiver| receiver.seal());
            }
            return Ok(self.repeat(&state, first, end));
        }
        let before = self.repeat(&state, first, state.known);
        let known = (state.known.0 - first.0) as usize;
        entries.drain(..known);
        places.drop_first(known);
        let first = state.known.0;
        let mut made = Judged::default();
        let mut sizes = Vec::with_capacity(entries.len());
        let mut partial = Vec::new();
        let decisions = self.survey.decide(&entries, places);
        for (at, (entry, decision)) in (first..).zip(entries.iter().zip(decisions)) {
            let index = EntryIndex(at);
            let size = entry.file_size();
            sizes.push(match self.carry_out(&mut state, index, entry, decision)? {
                Fate::Sent => size,
                Fate::SentInPart(pieces) => {
                    partial.push((index, pieces));
                    size
                }
                Fate::Here | Fate::Kept if size.is_none() => None,
                Fate::Here | Fate::Kept => {
                    made.declined.push(index);
                    None
                }
                Fate::Refused(detail) => {
                    made.declined.push(index);
                    let cause = FailureCause::Refused;
                    let failure =
                        Failure { path: entry.path.as_bytes().to_vec(), cause, message: detail.clone() };
                    state.failed.insert(index, failure);
                    made.failed.push(EntryFailure { entry: index, cause, detail });
                    None
                }
            });
        }
        if let Some((_, journal)) = &self.staged {
            // Before bytes can come for these.
            journal.settle().map_err(InboundError::Ledger)?;
        }
        made.durable = self.place(&sizes, seal, &made.declined, &partial)?;
        // Behind what an earlier run has left: that needs no more room.
        self.check_room(&mut state, &sizes)?;
        state.known = end;
        Ok(before.and(made))
    }

    /// A session begins whose sender wants to hear what is in files that are replaced.
    pub(crate) fn tell_bases(&self) -> Option<Telling> {
        let telling = self.bases.as_ref().map(Bases::start);
        self.state().telling |= telling.is_some();
        telling
    }

    /// The sender waits with these, to be told what is in the files that they replace: each is named once in a session.
    pub(crate) fn held(&self, end: EntryIndex) -> Vec<EntryIndex> {
        self.bases.as_ref().map(|bases| bases.held(end)).unwrap_or_default()
    }

    fn repeat(&self, state: &State, first: EntryIndex, end: EntryIndex) -> Judged {
        let declined = self.inbound.with(|receiver| receiver.declined().range(first..end).copied().collect());
        let failed = state.failed.range(first..end).map(|(&entry, failure)| EntryFailure {
            entry,
            cause: failure.cause,
            detail: failure.message.clone(),
        });
        // What is durable was said when the session began.
        Judged { declined, failed: failed.collect(), durable: Vec::new() }
    }

    /// Refuses what was not asked for, and gives the only file its new name.
    fn admit(&self, entry: Entry) -> Result<Entry, CopyError> {
        let not_asked_for = || CopyError::NotAskedFor(entry.path.to_string());
        let first = entry.path.components().next().unwrap_or_default();
        let Asked { names, patterns, .. } = &self.asked;
        let named = names.is_empty()
            || names.binary_search_by(|name| name.0.as_slice().cmp(first)).is_ok()
            || patterns.iter().any(|pattern| pattern.matches(first));
        if !named || !self.filter.admits(&entry) {
            return Err(not_asked_for());
        }
        match &self.base.rename {
            None => Ok(entry),
            Some(_) if entry.kind == EntryKind::Directory || entry.path.as_bytes() != first => {
                Err(not_asked_for())
            }
            Some(name) => Ok(Entry { path: name.clone(), ..entry }),
        }
    }

    fn carry_out(
        &self,
        state: &mut State,
        index: EntryIndex,
        entry: &Entry,
        decision: io::Result<Decision>,
    ) -> Result<Fate, CopyError> {
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                self.enter(state, index, entry)?;
                if let Some((sink, _)) = &self.staged {
                    sink.decline(index);
                }
                return Ok(Fate::Refused(format!(
                    "cannot be looked at there ({error}): check the permissions there"
                )));
            }
        };
        self.enter(state, index, entry)?;
        if self.rules.itemise {
            state.changed.extend(Changed::of(index, decision));
        }
        let wanted = match &self.staged {
            Some((sink, _)) => sink.carry_out(index, decision),
            None => false,
        };
        match decision {
            Decision::Refuse(refused) => {
                return Ok(Fate::Refused(in_the_way(refused, self.rules.make_way())));
            }
            Decision::Skip(_) if !wanted && entry.kind != EntryKind::Directory => state.landed.unchanged += 1,
            Decision::Metadata(_) if entry.kind != EntryKind::Directory => state.landed.touched += 1,
            _ => {}
        }
        let Some((sink, journal)) = self.staged.as_ref().filter(|_| wanted) else { return Ok(Fate::Kept) };
        let failed = CopyError::file(self.base.folder.join(entry.path.to_string()), "looked at");
        let fate = match sink.salvage(index, entry, journal).map_err(failed)? {
            None => Fate::Sent,
            Some(Pieces::Whole) => return Ok(Fate::Here),
            Some(Pieces::Some(pieces)) => Fate::SentInPart(pieces),
        };
        let replaces = matches!(decision, Decision::Write(changes) if !changes.new && !changes.kind);
        // Of a file all of whose pieces are here nothing is sent, and so nothing is to be waited for.
        let here = if let Fate::SentInPart(pieces) = &fate { pieces.len() as u64 } else { 0 };
        let lacks_some =
            entry.file_size().is_some_and(|size| size.0 >= BLOCK_SIZE && here < size.0.div_ceil(BLOCK_SIZE));
        if let Some(bases) = self.bases.as_ref().filter(|_| replaces && lacks_some) {
            bases.offer(index);
            if state.telling {
                let size = entry.file_size().unwrap_or_default();
                state.may_share = ByteCount(state.may_share.0.saturating_add(size.0));
            }
        }
        Ok(fate)
    }

    /// Makes the entry part of the manifest.
    fn enter(&self, state: &mut State, index: EntryIndex, entry: &Entry) -> Result<(), CopyError> {
        let entered = match &self.staged {
            Some((sink, _)) => sink.append(entry)?,
            None => state.planned.push(entry)?,
        };
        debug_assert_eq!(entered, index);
        Ok(())
    }

    fn check_room(&self, state: &mut State, sizes: &[Option<ByteCount>]) -> Result<(), CopyError> {
        let Some((sink, _)) = &self.staged else { return Ok(()) };
        let more: u64 = sizes.iter().flatten().map(|size| size.0).fold(0, u64::saturating_add);
        state.wanted = ByteCount(state.wanted.0.saturating_add(more));
        // How much of these is shared turns out later: it may be all.
        let shared = if sink.shares_with_bases() { state.may_share } else { ByteCount(0) };
        let wanted = ByteCount(state.wanted.0.saturating_sub(shared.0));
        if more == 0 {
            return Ok(());
        }
        let received = self.inbound.with(|receiver| receiver.received_bytes());
        let checked = state.room.check(sink, wanted, received);
        match checked.map_err(CopyError::file(&self.base.folder, "asked for its free space"))? {
            None => Ok(()),
            Some(NoRoom { apart, free, more }) => {
                let folder = if apart { self.partial_dir() } else { None };
                let folder = folder.unwrap_or_else(|| self.base.folder.clone());
                Err(CopyError::NoRoom { folder, free, more })
            }
        }
    }

    /// Where what is not complete waits, if that was asked for.
    fn partial_dir(&self) -> Option<PathBuf> {
        let Name(name) = self.rules.partial_dir.as_ref()?;
        Some(self.base.folder.join(std::ffi::OsStr::from_bytes(name)))
    }

    /// Gives the entries their addresses; returns the blocks that are here already.
    fn place(
        &self,
        sizes: &[Option<ByteCount>],
        seal: bool,
        declined: &[EntryIndex],
        partial: &[(EntryIndex, BTreeMap<u32, Hash>)],
    ) -> Result<Vec<BlockRun>, CopyError> {
        let mut restored = Vec::new();
        self.inbound.with(|receiver| {
            let placed = receiver.append_batch(sizes.iter().copied(), seal);
            placed.map_err(|error| CopyError::Local(error.to_string()))?;
            receiver.handle_declined(declined.iter().copied());
            for (entry, pieces) in partial {
                let Some((first, count)) = receiver.layout().blocks_of_large(*entry) else { continue };
                for (piece, value) in pieces.iter().filter(|(piece, _)| **piece < count) {
                    let block = terahaul_core::BlockNumber(first.0 + piece);
                    restored.push((block, *value));
                }
            }
            Ok::<_, CopyError>(())
        })?;
        if let Some((_, journal)) = &self.staged {
            restored.iter().for_each(|(block, value)| journal.handle_restored(*block, *value));
        }
        self.inbound.with(|receiver| restored.iter().for_each(|(block, _)| receiver.handle_restored(*block)));
        Ok(restored.into_iter().map(|(first, _)| BlockRun { first, count: 1 }).collect())
    }

    /// These entries will not arrive: the sender says so. Of what it has not offered nothing is kept.
    pub(crate) fn fail(&self, mut failures: Vec<EntryFailure>) {
        let known = self.state().known;
        failures.retain(|failure| failure.entry < known);
        let entries = failures.iter().map(|failure| failure.entry);
        self.inbound.with(|receiver| receiver.handle_failed(entries));
        let mut state = self.state();
        for EntryFailure { entry, cause, detail } in failures {
            let path = match &self.staged {
                Some((sink, _)) => {
                    if let Some(bases) = &self.bases {
                        bases.remove(entry);
                    }
                    sink.fail(entry);
                    match (&self.base.rename, self.asked.names.as_slice()) {
                        // The sender knows it by its old name.
                        (Some(_), [only]) => Some(only.0.clone()),
                        _ => sink.entry(entry).map(|entry| entry.path.as_bytes().to_vec()),
                    }
                }
                None => None,
            };
            let message = if detail.is_empty() {
                cause.describe().to_owned()
            } else {
                format!("{} ({detail})", cause.describe())
            };
            let path = path.unwrap_or_else(|| entry.to_string().into_bytes());
            state.failed.entry(entry).or_insert(Failure { path, cause, message });
        }
    }

    pub(crate) fn inbound(&self) -> &Arc<Inbound> {
        &self.inbound
    }

    /// Makes durable what is here and stops taking more; where nothing has come, nothing stays. Blocks.
    pub(crate) fn close(&self) {
        if let Some(bases) = &self.bases {
            bases.close();
        }
        self.inbound.close();
        // Where things are getting their names, the folder is not empty, or does not stay.
        let Ok(_not_publishing) = self.publishing.try_lock() else { return };
        if let Some((sink, _)) = &self.staged
            && let Err(error) = sink.discard_empty()
        {
            tracing::debug!("an empty folder stays: {error}");
        }
    }
}

/// Closes a landing when it is dropped, as it is when the user stops: what has arrived by then is kept. Closing waits for the disk,
/// and so does whoever drops this.
pub(crate) struct Closing(pub(crate) Arc<Landing>);

impl Closing {
    /// Closes it where waiting holds nobody up.
    pub(crate) async fn close(self) -> Result<(), CopyError> {
        blocking(move || {
            drop(self);
            Ok(())
        })
        .await
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Makes the receiving folder where it is not there, as closed to others as the one that it is a copy of. What stands against
/// that is found out, and said, when it is opened.
fn make_folder(folder: &Path, top: Option<&Top>) -> bool {
    let Some(top) = top.filter(|_| folder.symlink_metadata().is_err()) else { return false };
    if let Some(above) = folder.parent() {
        let _ = std::fs::create_dir_all(above);
    }
    std::fs::DirBuilder::new().mode(top.mode & 0o777 | 0o700).create(folder).is_ok()
}

fn in_the_way(refused: Refused, make_way: MakeWay) -> String {
    match refused {
        Refused::FolderInTheWay if make_way == MakeWay::Whole => {
            "exists already as a folder in which something stays, such as what a rule leaves out: move it away"
        }
        Refused::FolderInTheWay => {
            "exists already as a folder in which something stays, such as what a rule leaves out: move it away, or give --force or --delete"
        }
        Refused::InPlaceOfFolder => {
            "exists already as something else, so nothing that is in it is copied: move that away, or leave --ignore-existing out"
        }
        Refused::FirstName => {
            "is another name of a file that stays as it is there: copy without -H to have this one changed"
        }
        Refused::StagingName => {
            "has a name that folders for what is not complete have: leave it out, or give it another"
        }
        Refused::NotAFolder => "is in what is no folder there: move that away, or give --force or --delete",
    }
    .into()
}

impl Destination for Landing {
    fn handle_entries(&self, batch: Batch) -> Result<Taken, DestinationError> {
        let Judged { declined, durable, .. } = self.take(batch)?;
        Ok(Taken { declined, durable })
    }

    fn handle_failed(&self, failed: Vec<Failed>) {
        self.fail(failed.into_iter().map(from_failed).collect());
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }

    fn tell_bases(&self) -> Option<Telling> {
        self.tell_bases()
    }

    fn held(&self, end: EntryIndex) -> Vec<EntryIndex> {
        self.held(end)
    }
}

#[cfg(test)]
mod tests;
