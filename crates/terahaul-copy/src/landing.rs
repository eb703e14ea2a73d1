//! The receiver's half of a copy, at whichever end it is: decides what is wanted, and where it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use terahaul_core::{Entry, EntryIndex, EntryPath, FailureCause, Receiver, TransferId};
use terahaul_net::channel::Placement;
use terahaul_net::client::{Destination, DestinationError, Taken};
use terahaul_net::failures::from_failed;
use terahaul_net::session::Telling;
use terahaul_store::{EntryFailure, Inbound, InboundError, MemoryLedger, Nowhere};
use terahaul_tree::{
    EntryTable, FileJournal, Filter, NamePattern, Survey, SurveyError, Top, TreeSink, foretell_unwritable,
    make_folders,
};
use terahaul_wire::{Batch, Failed};

use crate::bases::Bases;
use crate::error::CopyError;
use crate::failures::{Failure, Failures};
use crate::greeting::Name;
use crate::naming::Base;
use crate::notes::{Changed, Item, Note, Removed};
use crate::pull::blocking;
use crate::rules::{Compare, Rules, Selection};
use crate::skipped::Walked;
use crate::summary::Landed;

mod alike;
mod appending;
mod changes;
mod finishing;
mod refused;
mod room;

pub(crate) use appending::{Judged, Looked};
use changes::Changes;
use finishing::tidy;
use room::Wanted;

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

impl Asked {
    /// Whether a source has this name.
    fn names_one(&self, name: &[u8]) -> bool {
        self.names.binary_search_by(|source| source.0.as_slice().cmp(name)).is_ok()
    }
}

/// Where what has no name yet is kept, and the record of it.
type Staged = (Arc<TreeSink>, Arc<FileJournal>);

pub(crate) struct Landing {
    base: Base,
    asked: Asked,
    rules: Rules,
    filter: Filter,
    /// With what nothing removes: the folder for what is not complete, where that is below the destination.
    spared: Filter,
    survey: Survey,
    /// `None` in a dry run.
    staged: Option<Staged>,
    /// The receiving folder was not there before.
    made: bool,
    /// The folder for what is not complete and those above it, as far as they were not there before; the innermost first.
    made_partial: Vec<PathBuf>,
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
    /// What the sender has and did not declare, because it is here as it is: where what it has not is to be removed.
    alike: Option<EntryTable>,
    /// The names at the top under which a file or link is of that kind, whatever is to be removed.
    tops_alike: BTreeSet<Vec<u8>>,
    /// Where the entries end that are appended.
    known: EntryIndex,
    wanted: Wanted,
    /// A session's sender wants to hear what is in files that are replaced.
    telling: bool,
    landed: Landed,
    /// Entries that will not arrive.
    failed: BTreeMap<EntryIndex, Failure>,
    /// Of those that have vanished, where the entries ended that were known then: what came later was there later.
    vanished: BTreeMap<EntryIndex, EntryIndex>,
    /// What went wrong at the end.
    late: Failures,
    /// What of the source is not in the manifest, once the sender has said so.
    walked: Option<Walked>,
    /// The first link among the sources themselves.
    named_link: Option<EntryPath>,
    /// What is changed, where that is to be told.
    changes: Changes,
    removed: Vec<Removed>,
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
        let survey =
            Survey::open(&base.folder, rules.decision_rules(), keep, looking).map_err(
                |error| match error {
                    SurveyError::Folder(error) => CopyError::file(&base.folder, "opened")(error),
                    SurveyError::Threads(error) => CopyError::no_thread(error),
                },
            )?;
        let filter = selection.filter()?;
        let receiver = Receiver::resuming(Placement::Accepted.layout(), Default::default(), []);
        let (mut made, mut made_partial) = (false, Vec::new());
        let partial = partial_dir(&base, rules);
        let (staged, inbound) = if rules.dry_run {
            // The folder would be made where it is not there, and what comes be staged in it or elsewhere.
            if partial.is_none() || is_missing(&base.folder) {
                foretell_unwritable(&base.folder)?;
            }
            partial.iter().try_for_each(|partial| foretell_unwritable(partial))?;
            let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default()));
            (None, Arc::new(inbound.map_err(CopyError::no_thread)?))
        } else {
            made = make_folder(&base.folder, asked.top.as_ref());
            let above = partial.iter().flat_map(|partial| partial.ancestors());
            made_partial = above.take_while(|path| is_missing(path)).map(Path::to_owned).collect();
            let staged = stage(&base, partial.as_deref(), key, receiver, rules);
            let (staged, inbound) = staged.inspect_err(|_| tidy(&made_partial))?;
            (Some(staged), inbound)
        };
        let partial = partial.and_then(|partial| path_below(&partial, &base.folder));
        let spared = filter.clone().keeping(partial.as_slice());
        let survey = survey.sparing(spared.clone());
        let resumed = staged.as_ref().is_some_and(|(_, journal)| journal.is_resumed());
        let landed = Landed { resumed, ..Landed::default() };
        let state = State { landed, alike: Some(EntryTable::default()), ..State::default() };
        let rules = rules.clone();
        let bases = staged.as_ref().map(|(sink, _)| Bases::new(sink, &inbound));
        Ok(Self {
            base,
            asked,
            rules,
            filter,
            spared,
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

    /// A sender elsewhere offers the entries from this one on, and may not have heard of them when it did so before.
    pub(crate) fn tell_again_from(&self, first: EntryIndex) {
        self.state().changes.repeat_from(first);
    }

    fn take_changes(&self) -> (Vec<Changed>, Vec<Removed>) {
        let mut state = self.state();
        (state.changes.take(), std::mem::take(&mut state.removed))
    }

    fn entry(&self, index: EntryIndex) -> Option<Entry> {
        match &self.staged {
            Some((sink, _)) => sink.entry(index),
            None => self.state().planned.entry(index),
        }
    }

    /// What was made of what was offered, so far.
    #[cfg(test)]
    pub(crate) fn landed(&self) -> Landed {
        self.state().landed
    }

    /// The first link among what was named, so far; of a list's it says nothing.
    pub(crate) fn named_link(&self) -> Option<EntryPath> {
        self.state().named_link.clone()
    }

    /// What did not arrive.
    pub(crate) fn failures(&self) -> Failures {
        let state = self.state();
        Failures::from(state.failed.values().cloned().collect::<Vec<_>>()).and(state.late.clone())
    }

    /// What of it was found out at the end.
    pub(crate) fn late_failures(&self) -> Failures {
        self.state().late.clone()
    }

    /// The sender has walked to the end.
    pub(crate) fn handle_walked(&self, walked: Walked) {
        self.state().walked = Some(walked);
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
            if cause == FailureCause::Vanished {
                state.vanished.entry(entry).or_insert(known);
            }
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
        tidy(&self.made_partial);
    }
}

/// Opens where what comes is staged. If it cannot be, nothing of it stays.
fn stage(
    base: &Base,
    partial: Option<&Path>,
    key: [u8; 16],
    receiver: Receiver,
    rules: &Rules,
) -> Result<(Staged, Arc<Inbound>), CopyError> {
    let (sink, journal) = TreeSink::open_copy(&base.folder, partial, TransferId(key), rules.kept.keep())?;
    let (sink, journal) = (Arc::new(sink), Arc::new(journal));
    let started = || {
        if rules.compare == Compare::Never {
            // What it left has the size and the time of what is to come, and that is not to count.
            journal.forget_all().map_err(InboundError::Ledger)?;
        }
        Inbound::start(receiver, sink.clone(), journal.clone()).map_err(CopyError::no_thread)
    };
    let inbound = Arc::new(started().inspect_err(|_| {
        let _ = sink.discard_empty();
    })?);
    journal.bind(&inbound, &sink);
    Ok(((sink, journal), inbound))
}

/// Where what is not complete waits, if that was asked for.
fn partial_dir(base: &Base, rules: &Rules) -> Option<PathBuf> {
    let Name(name) = rules.partial_dir.as_ref()?;
    Some(base.folder.join(OsStr::from_bytes(name)))
}

/// Where a folder that is there lies in another, however it was written.
fn path_below(dir: &Path, folder: &Path) -> Option<EntryPath> {
    let [dir, folder] = [dir, folder].map(Path::canonicalize);
    let (dir, folder) = (dir.ok()?, folder.ok()?);
    EntryPath::new(dir.strip_prefix(folder).ok()?.as_os_str().as_bytes()).ok()
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
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
        let _ = make_folders(above);
    }
    let mode = top.mode & 0o777 | 0o700;
    if std::fs::DirBuilder::new().mode(mode).create(folder).is_err() {
        return false;
    }
    // Now and not at the end alone: should this run be interrupted, the next one takes the folder for the user's own.
    if let Err(error) = undo_umask(folder, mode) {
        tracing::debug!("{} gets its permission bits at the end: {error}", folder.display());
    }
    true
}

/// Gives a folder that was just made the permission bits that the umask has taken from it; a set-group-id bit that it has from the
/// folder above stays.
fn undo_umask(folder: &Path, mode: u32) -> io::Result<()> {
    // It could have become a link by now.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(folder, flags, Mode::empty())?;
    let is = Mode::from_raw_mode(rustix::fs::fstat(&made)?.st_mode);
    let shall = Mode::from_raw_mode(mode as _) | is & Mode::SGID;
    if is & (Mode::RWXU | Mode::RWXG | Mode::RWXO | Mode::SGID) != shall {
        rustix::fs::fchmod(&made, shall)?;
    }
    Ok(())
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
