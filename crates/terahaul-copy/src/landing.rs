//! The receiver's half of a copy, at whichever end it is: decides what is wanted, and where it goes.
//!
//! What the sender offers is taken only if it was asked for: nothing above or beside the names that the sources have.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{
    BlockRun, BlockShape, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, FailureCause, Hash, Layout,
    Receiver, TransferId,
};
use terahaul_net::client::{Destination, Taken};
use terahaul_store::{BlockSink, BlockWriter, EntryFailure, Inbound, MemoryLedger, SinkError};
use terahaul_tree::{Decision, FileJournal, Overwrite, Pieces, Published, There, TreeSink, decide};
use terahaul_wire::Failed;

use crate::error::CopyError;
use crate::greeting::{Name, Rules};
use crate::naming::Base;
use crate::summary::{Failure, Landed};

/// What may come: the names that the sources have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Empty: a source stands for its content, whose names only its host knows.
    pub names: Vec<Name>,
}

pub(crate) struct Landing {
    base: Base,
    asked: Asked,
    /// `None` in a dry run.
    staged: Option<(Arc<TreeSink>, Arc<FileJournal>)>,
    inbound: Arc<Inbound>,
    state: Mutex<State>,
}

struct State {
    there: There,
    known: u32,
    wanted: ByteCount,
    landed: Landed,
    /// Entries that will not arrive.
    failed: BTreeMap<EntryIndex, Failure>,
    /// What a session was ended for from this side.
    error: Option<CopyError>,
    /// Paths that would be copied, in a dry run or for `-v`.
    listed: Option<Vec<Entry>>,
}

/// What is made of some entries.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub declined: Vec<EntryIndex>,
    pub failed: Vec<EntryFailure>,
    pub durable: Vec<BlockRun>,
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
    pub(crate) fn open(base: Base, asked: Asked, key: [u8; 16], rules: &Rules) -> Result<Self, CopyError> {
        let there = There::open(&base.folder).map_err(CopyError::file(&base.folder, "opened"))?;
        let receiver = Receiver::resuming(Layout::new(), Default::default(), []);
        let failed =
            |error: std::io::Error| CopyError::Local(format!("a thread could not be started: {error}"));
        let (staged, inbound) = if rules.dry_run {
            let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default()));
            (None, Arc::new(inbound.map_err(failed)?))
        } else {
            let (sink, journal) =
                TreeSink::open_copy(&base.folder, TransferId(key), terahaul_tree::Keep::default())?;
            let (sink, journal) = (Arc::new(sink), Arc::new(journal));
            let inbound = Inbound::start(receiver, sink.clone(), journal.clone()).map_err(failed)?;
            let inbound = Arc::new(inbound);
            journal.bind(&inbound, &sink);
            (Some((sink, journal)), inbound)
        };
        let resumed = staged.as_ref().is_some_and(|(_, journal)| journal.is_resumed());
        let state = State {
            there,
            known: 0,
            wanted: ByteCount(0),
            landed: Landed { resumed, ..Landed::default() },
            failed: BTreeMap::new(),
            error: None,
            listed: rules.dry_run.then(Vec::new),
        };
        Ok(Self { base, asked, staged, inbound, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the session was ended from this side.
    pub(crate) fn take_error(&self) -> Option<CopyError> {
        self.state().error.take()
    }

    /// What would be copied, of a dry run.
    pub(crate) fn take_listed(&self) -> Vec<Entry> {
        self.state().listed.take().unwrap_or_default()
    }

    /// What did not arrive.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.state().failed.values().cloned().collect()
    }

    /// The next entries of the manifest, in order; they are in the layout when this returns. Those that are known
    /// are answered as before. Blocks.
    pub(crate) fn append(&self, first: u32, entries: Vec<Entry>, seal: bool) -> Result<Judged, CopyError> {
        let mut state = self.state();
        let end = first + entries.len() as u32;
        if first > state.known || (first < state.known && end > state.known) {
            return Err(CopyError::Local(
                "the sender's manifest has a gap: upgrade the older of the two programs".into(),
            ));
        }
        if end == state.known && first < end {
            return Ok(self.repeat(&state, EntryIndex(first), EntryIndex(end)));
        }
        let mut made = Judged::default();
        let mut sizes = Vec::with_capacity(entries.len());
        let mut partial = Vec::new();
        for (at, entry) in (first..).zip(entries) {
            let index = EntryIndex(at);
            let entry = self.admit(entry)?;
            let size = entry.file_size();
            sizes.push(match self.judge(&mut state, index, &entry)? {
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
        self.check_room(&mut state, &sizes)?;
        made.durable = self.place(&sizes, seal, &made.declined, &partial)?;
        state.known = end;
        Ok(made)
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
        if !self.asked.names.is_empty() && !self.asked.names.iter().any(|name| name.0 == first) {
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

    fn judge(&self, state: &mut State, index: EntryIndex, entry: &Entry) -> Result<Fate, CopyError> {
        let failed = || CopyError::file(shown(&self.base.folder, &entry.path), "looked at");
        let found = state.there.look(&entry.path).map_err(failed())?;
        let decision = decide(entry, &found);
        if decision == Decision::Take
            && let Some(listed) = &mut state.listed
        {
            listed.push(entry.clone());
        }
        let Some((sink, journal)) = &self.staged else {
            return Ok(match decision {
                Decision::Take => Fate::Sent,
                Decision::Keep => {
                    state.landed.unchanged += u64::from(entry.kind != EntryKind::Directory);
                    Fate::Kept
                }
                Decision::Refuse(what) => Fate::Refused(in_the_way(what)),
            });
        };
        let added = sink.append(entry)?;
        debug_assert_eq!(added, index);
        match decision {
            Decision::Keep if entry.kind == EntryKind::Directory => {
                sink.keep_folder(index);
                Ok(Fate::Kept)
            }
            Decision::Keep => {
                sink.decline(index);
                state.landed.unchanged += 1;
                Ok(Fate::Kept)
            }
            Decision::Refuse(what) => {
                sink.decline(index);
                Ok(Fate::Refused(in_the_way(what)))
            }
            Decision::Take => Ok(match sink.salvage(index, entry, journal).map_err(failed())? {
                None => Fate::Sent,
                Some(Pieces::Whole) => Fate::Here,
                Some(Pieces::Some(pieces)) => Fate::SentInPart(pieces),
            }),
        }
    }

    fn check_room(&self, state: &mut State, sizes: &[Option<ByteCount>]) -> Result<(), CopyError> {
        let Some((sink, _)) = &self.staged else { return Ok(()) };
        let more: u64 = sizes.iter().flatten().map(|size| size.0).fold(0, u64::saturating_add);
        state.wanted = ByteCount(state.wanted.0.saturating_add(more));
        let free =
            sink.available().map_err(CopyError::file(&self.base.folder, "asked for its free space"))?;
        let here = self.inbound.with(|receiver| receiver.received_bytes());
        if more > 0 && state.wanted.0 > free.0.saturating_add(here.0) {
            let message = format!(
                "{} has {free} free, and at least {} are to be copied: free some space, or copy elsewhere",
                self.base.folder.display(),
                state.wanted
            );
            let full = std::io::Error::new(std::io::ErrorKind::StorageFull, message);
            return Err(CopyError::File { path: self.base.folder.clone(), action: "filled", source: full });
        }
        Ok(())
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
            for size in sizes {
                receiver.append(*size).map_err(|error| CopyError::Local(error.to_string()))?;
            }
            if seal {
                receiver.seal();
            }
            declined.iter().for_each(|entry| receiver.handle_declined(*entry));
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

    /// These entries will not arrive: the sender says so.
    pub(crate) fn fail(&self, failures: Vec<EntryFailure>) {
        self.inbound.with(|receiver| {
            for failure in &failures {
                receiver.handle_failed(failure.entry);
            }
        });
        let mut state = self.state();
        for EntryFailure { entry, cause, detail } in failures {
            let path = match &self.staged {
                Some((sink, _)) => {
                    sink.fail(entry);
                    sink.entry(entry).map(|entry| entry.path.as_bytes().to_vec())
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

    /// Everything has arrived: makes it durable and gives it its names. Blocks.
    pub(crate) fn finish(&self) -> Result<Landed, CopyError> {
        let Some((sink, journal)) = &self.staged else { return Ok(self.state().landed) };
        self.inbound.flush()?;
        if !self.inbound.with(|receiver| receiver.is_complete()) {
            return Err(CopyError::Local("not everything has arrived: run the same command again".into()));
        }
        if journal.is_resumed() {
            sink.clear_strays()
                .map_err(CopyError::file(&self.base.folder, "cleared of what an earlier run left"))?;
        }
        let Published { files, folders, links } = sink.publish(Overwrite::Replace)?;
        let bytes = self.inbound.with(|receiver| receiver.wanted_bytes()).0;
        let mut state = self.state();
        for refusal in sink.refusals() {
            let path =
                sink.entry(refusal.entry).map(|entry| entry.path.as_bytes().to_vec()).unwrap_or_default();
            let message = format!("cannot be kept under this name here ({})", refusal.detail);
            state.failed.insert(refusal.entry, Failure { path, cause: FailureCause::Refused, message });
        }
        state.landed = Landed { files, folders, links, bytes, ..state.landed };
        Ok(state.landed)
    }

    pub(crate) fn inbound(&self) -> &Arc<Inbound> {
        &self.inbound
    }

    /// Makes durable what is here and stops taking more. Blocks.
    pub(crate) fn close(&self) {
        self.inbound.close();
    }
}

fn shown(folder: &Path, path: &EntryPath) -> PathBuf {
    folder.join(path.to_string())
}

fn in_the_way(what: &str) -> String {
    format!("exists already {what}: move it away, or copy elsewhere")
}

impl Destination for Landing {
    fn handle_entries(&self, first: EntryIndex, entries: Vec<Entry>, seal: bool) -> Result<Taken, String> {
        match self.append(first.0, entries, seal) {
            Ok(Judged { declined, durable, .. }) => Ok(Taken { declined, durable }),
            Err(error) => {
                let message = error.to_string();
                self.state().error = Some(error);
                Err(message)
            }
        }
    }

    fn handle_failed(&self, failed: Vec<Failed>) {
        self.fail(failed.into_iter().map(to_failure).collect());
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }
}

fn to_failure(failed: Failed) -> EntryFailure {
    EntryFailure { entry: EntryIndex(failed.entry), cause: failed.cause.into(), detail: failed.detail }
}

/// Where the blocks of a dry run go: none comes.
struct Nowhere;

impl BlockSink for Nowhere {
    fn begin<'a>(&'a self, _: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        Ok(Box::new(Nothing))
    }

    fn sync(&self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Nothing;

impl BlockWriter for Nothing {
    fn write(&mut self, _: &[IoSlice<'_>]) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
