//! The walk: finds what is to be sent and declares it, on a plain thread. It begins before the depot is connected, and goes on
//! beyond its first batch once that is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, mpsc};

use terahaul_core::{Disposition, Entry, EntryIndex, EntryKind, EntryPath, FailureCause, Mtime};
use terahaul_net::client::{Begun, Sending, Stored};
use terahaul_store::EntryFailure;
use terahaul_tree::{Batch, Filter, Roots, Skipped, TreeSource, walk};
use terahaul_wire::BatchBuilder;
use tokio::sync::oneshot;

use super::ahead::Ahead;
use super::awaited::{Awaited, Gone, MISSED, VANISHED, say_kept, upwards};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText, counted};

/// Of more entries than these no folder is told again for its time alone: each time that takes one.
const MOST_WITH_NEW_TIMES: usize = terahaul_wire::MAX_ENTRIES as usize / 2;
/// Threads that list folders ahead of the walk.
const HELPERS: usize = 2;

/// Everything the walk needs.
pub struct Feed {
    pub source: Arc<TreeSource>,
    pub roots: Arc<Roots>,
    pub filter: Filter,
    pub interrupt: Interrupt,
    pub output: Output,
    pub ahead: Ahead,
    pub started: mpsc::Receiver<Started>,
}

/// The depot takes entries. The source has what an earlier run declared and what has begun, so that indices are the same.
pub struct Started {
    pub sending: Arc<Sending>,
    pub stored: Stored,
    /// Of these the depot has a part that is not of the files that are there now.
    pub replaced: BTreeSet<EntryIndex>,
    pub begun: Option<Begun>,
}

/// What the walk has found.
#[derive(Debug, Default)]
pub struct Fed {
    /// Entries of an earlier run that failed because something newer stands for them: no loss.
    pub renewed: BTreeSet<EntryIndex>,
    /// All entries that failed before the data did: those of earlier runs, changed ones and vanished ones.
    pub failed: BTreeSet<EntryIndex>,
    /// Folders that failed for what could not be read of them, which was named.
    pub unread: BTreeSet<EntryIndex>,
    /// Things that cannot be sent and were named.
    pub skipped: usize,
    /// Entries of an earlier run that are gone, and all of them at the depot.
    pub kept: usize,
}

struct State<'a> {
    feed: &'a Feed,
    sending: Arc<Sending>,
    awaited: Awaited,
    /// Folders whose new time is not told.
    dated: u64,
    builder: BatchBuilder,
    /// The manifest is declared to its end.
    sealed: bool,
    fed: Fed,
}

impl Feed {
    /// Walks to the end. `found` is told when something is found, and dropped where nothing is.
    pub fn run(self, found: oneshot::Sender<()>) -> Result<Fed, Failure> {
        let mut found = Some(found);
        let mut state = None;
        let mut stopped = None;
        let whole = walk(&self.roots, &self.filter, HELPERS, |batch| {
            // Without globs nobody listens.
            let _ = found.take().map(|found| found.send(()));
            if self.interrupt.is_set() {
                return ControlFlow::Break(());
            }
            match self.take(&mut state, batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    stopped = Some(failure);
                    ControlFlow::Break(())
                }
            }
        });
        match stopped {
            Some(failure) => Err(failure),
            None if !whole => Err(interrupted()),
            None => {
                self.ahead.end();
                drop(found);
                match state {
                    Some(state) => state,
                    None => self.start()?,
                }
                .finish()
            }
        }
    }

    fn take<'a>(&'a self, state: &mut Option<State<'a>>, batch: Batch) -> Result<(), Failure> {
        if let Some(state) = state {
            return state.handle_batch(batch);
        }
        match self.ahead.keep(batch) {
            Ok(()) => Ok(()),
            Err(batch) => state.insert(self.start()?).handle_batch(batch),
        }
    }

    /// Waits for the depot, and goes on with what was found until then.
    fn start(&self) -> Result<State<'_>, Failure> {
        // Whoever connects has failed, and says why.
        let Started { sending, stored, replaced, begun } = self.started.recv().map_err(|_| interrupted())?;
        let awaited = Awaited::new(&stored.entries, &stored.failed, &replaced);
        let path = |index: EntryIndex| Some(stored.entries.get(index.0 as usize)?.path.clone());
        let mut replaced: Vec<_> =
            replaced.difference(&stored.failed).filter_map(|index| Some((*index, path(*index)?))).collect();
        let fed = Fed { failed: stored.failed, ..Fed::default() };
        let sealed = begun.is_some_and(|begun| begun.seal);
        let mut state =
            State { feed: self, sending, awaited, dated: 0, builder: BatchBuilder::default(), sealed, fed };
        state.fail_changed(&mut replaced)?;
        state.handle_batch(self.ahead.take_rest(begun))?;
        Ok(state)
    }
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted")
}

impl State<'_> {
    fn handle_batch(&mut self, batch: Batch) -> Result<(), Failure> {
        batch.skipped.into_iter().try_for_each(|skipped| self.handle_skipped(skipped))?;
        let mut changed = Vec::new();
        for entry in batch.found {
            let (disposition, displaced) = self.awaited.handle_found(&entry);
            self.fed.renewed.extend(displaced);
            match disposition {
                Disposition::Known(_) => continue,
                Disposition::New => {}
                Disposition::Changed(index) if !self.has_room_for(index, &entry) => {
                    self.dated += 1;
                    continue;
                }
                Disposition::Changed(index) => changed.push((index, entry.path.clone())),
            }
            self.declare(entry, &mut changed)?;
        }
        self.fail_changed(&mut changed)
    }

    /// Whether a changed entry is to be told. A folder's time is not worth the end of a transfer that has as many entries as it can have.
    fn has_room_for(&self, known: EntryIndex, found: &Entry) -> bool {
        let source = &self.feed.source;
        let is_folder = |entry: &Entry| entry.kind == EntryKind::Directory;
        let stays_folder = is_folder(found) && source.entry(known).is_some_and(|known| is_folder(&known));
        !stays_folder || source.entry_count() < MOST_WITH_NEW_TIMES
    }

    /// The earlier entry of a path must have failed before the path may be declared again.
    fn declare(&mut self, entry: Entry, changed: &mut Vec<(EntryIndex, EntryPath)>) -> Result<(), Failure> {
        if self.builder.push(entry) {
            self.fail_changed(changed)?;
            self.flush(false)?;
        }
        Ok(())
    }

    fn fail_changed(&mut self, changed: &mut Vec<(EntryIndex, EntryPath)>) -> Result<(), Failure> {
        if changed.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::with_capacity(changed.len());
        for (entry, path) in changed.drain(..) {
            // Any name that comes or goes dates a folder, of which nothing but that is sent.
            let is_folder = |entry: Entry| entry.kind == EntryKind::Directory;
            let detail = match self.feed.source.entry(entry).is_some_and(is_folder) {
                true => "",
                false => "it changed since the interrupted run",
            };
            if !detail.is_empty() {
                self.feed.output.notice(format!(
                    "{path} changed since the interrupted run and is sent anew, in the place of what the depot has of it"
                ));
            }
            self.fed.renewed.insert(entry);
            self.fed.failed.insert(entry);
            let detail = detail.to_owned();
            failures.push(EntryFailure { entry, cause: FailureCause::Changed, detail });
        }
        Ok(self.sending.fail(failures)?)
    }

    fn flush(&mut self, seal: bool) -> Result<(), Failure> {
        let entries = self.builder.take();
        let first = self.feed.source.append(&entries).map_err(Failure::usage)?;
        Ok(self.sending.append(terahaul_wire::Batch { first, entries, seal })?)
    }

    fn finish(mut self) -> Result<Fed, Failure> {
        let mut failures = self.settle_absent();
        self.declare_unread()?;
        if !self.sealed || !self.builder.is_empty() {
            self.flush(true)?;
        }
        failures.extend(self.fail_unread());
        if !failures.is_empty() {
            self.sending.fail(failures)?;
        }
        if self.dated > 0 {
            let folders = counted(self.dated, "folder keeps the time", "folders keep the times");
            self.feed
                .output
                .notice(format!("{folders} of an earlier run: the transfer has room for few entries more"));
        }
        let missed: Vec<_> = self.awaited.take_missed().collect();
        for path in missed {
            self.name(PathText::from(&path), FailureCause::Vanished, MISSED);
        }
        Ok(self.fed)
    }

    /// What is gone fails, but for what the depot has all of.
    fn settle_absent(&mut self) -> Vec<EntryFailure> {
        let mut absent = Vec::new();
        for (entry, _, gone) in self.awaited.take_absent(|entry| self.sending.has_durable(entry)) {
            let (cause, detail) = match gone {
                Gone::Kept => {
                    self.fed.kept += 1;
                    continue;
                }
                Gone::Displaced => {
                    self.fed.renewed.insert(entry);
                    (FailureCause::Changed, "what was a folder above it is none any more")
                }
                Gone::Vanished => (FailureCause::Vanished, VANISHED),
            };
            absent.push(EntryFailure { entry, cause, detail: detail.to_owned() });
        }
        say_kept(self.fed.kept, &self.feed.output);
        self.fed.failed.extend(absent.iter().map(|failure| failure.entry));
        absent
    }

    /// What could not be read and is in no declared folder (globs send none for its own sake) is declared, so that something fails.
    fn declare_unread(&mut self) -> Result<(), Failure> {
        if self.awaited.unread().is_empty() {
            return Ok(());
        }
        // What was found last is looked up, too.
        if !self.builder.is_empty() {
            self.flush(false)?;
        }
        let is_declared = |path: &EntryPath| self.feed.source.find(path).is_some();
        let strange = |path: &&EntryPath| !is_declared(path) && self.folder_of(path).is_none();
        let strange: Vec<_> = self.awaited.unread().keys().filter(strange).cloned().collect();
        for path in strange {
            // Nothing more is known of it, and no end ever makes it.
            let mtime = Mtime { seconds: 0, nanos: 0 };
            let entry = Entry { path, kind: EntryKind::Directory, mtime, mode: 0o755, extra: None };
            self.declare(entry, &mut Vec::new())?;
        }
        Ok(())
    }

    /// The innermost declared folder that it is, or is in.
    fn folder_of(&self, path: &EntryPath) -> Option<EntryIndex> {
        let source = &self.feed.source;
        let is_folder =
            |entry| source.entry(entry).is_some_and(|entry: Entry| entry.kind == EntryKind::Directory);
        upwards(path).filter_map(|path| source.find(&path)).find(|entry| is_folder(*entry))
    }

    /// A folder that could not be read to its end fails, whatever of it arrives: a transfer with a failure is not over, and the next
    /// run sends the rest of it under the same link.
    fn fail_unread(&mut self) -> Vec<EntryFailure> {
        let mut failures = BTreeMap::new();
        for (path, detail) in self.awaited.unread() {
            let Some(entry) = self.folder_of(path) else { continue };
            let (cause, detail) = (FailureCause::Unreadable, detail.clone());
            failures.entry(entry).or_insert(EntryFailure { entry, cause, detail });
        }
        self.fed.failed.extend(failures.keys());
        self.fed.unread.extend(failures.keys());
        failures.into_values().collect()
    }

    fn handle_skipped(&mut self, skipped: Skipped) -> Result<(), Failure> {
        check_top(&skipped)?;
        let message = skipped.message();
        self.name(text_of(&skipped), skipped.cause, &message);
        self.awaited.handle_skipped(skipped);
        Ok(())
    }

    fn name(&mut self, path: PathText, cause: FailureCause, message: &str) {
        self.fed.skipped += 1;
        self.feed.output.emit(&Event::Failure { path, cause: cause.name(), message });
    }
}

/// What it is called in the transfer; otherwise as the user would write it.
pub fn text_of(skipped: &Skipped) -> PathText {
    match &skipped.entry {
        Some(path) => PathText::from(path),
        None => PathText::from(skipped.path.as_os_str().as_bytes()),
    }
}

/// Fails where it is a folder whose content is to be sent, and which cannot be read: nothing is known of what an earlier run has found in it,
/// so none of that may fail.
pub fn check_top(skipped: &Skipped) -> Result<(), Failure> {
    if skipped.cause != FailureCause::Unreadable || !is_top(skipped) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the folder whose content is to be sent cannot be read ({}): check its permissions and run the same command again",
        skipped.detail
    )))
}

/// Whether it is a folder that stands for its content, and not something in one under a path that no entry can have: the walk names
/// only the former with a slash at its end.
fn is_top(skipped: &Skipped) -> bool {
    skipped.entry.is_none() && skipped.path.as_os_str().as_bytes().ends_with(b"/")
}
