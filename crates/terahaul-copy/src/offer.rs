//! The sender's half of a copy, at whichever end it is: walks, and reads.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terahaul_core::{Entry, EntryIndex, FailureCause};
use terahaul_net::client::{Beginning, Begun};
use terahaul_net::server::Manifest;
use terahaul_store::remedy_of_too_many_files;
use terahaul_tree::{Batch as Found, Filter, Lack, Reading, Roots, Top, TreeSource, walk_reading};
use terahaul_wire::{Batch, BatchBuilder, ErrorCode, Failed, WireError};
use tokio::sync::Notify;

use crate::alike::Asker;
use crate::error::CopyError;
use crate::failures::{Failure, Failures};
use crate::greeting::Name;
use crate::rules::{Compare, Kept, Selection};
use crate::skipped::{Skipped, Walked};

mod ahead;
mod waiting;

pub(crate) use ahead::step_back;
use waiting::Waiting;

/// Threads that list folders ahead of the walk.
const HELPERS: usize = 2;

/// What is sent.
pub(crate) struct Offer {
    roots: Arc<Roots>,
    filter: Filter,
    /// Nobody misses devices, FIFOs and sockets.
    without_specials: bool,
    reading: Reading,
    source: Arc<TreeSource>,
    /// Of the folder whose content is copied.
    top: Option<Top>,
    state: Mutex<State>,
    /// More was found or declared, or the walk has ended.
    grown: Notify,
    /// What waits has become less.
    room: Condvar,
    /// A source stands for its content.
    top_is_content: bool,
    stopped: AtomicBool,
    /// A session has begun.
    in_session: AtomicBool,
    tells_changes: AtomicBool,
}

#[derive(Default)]
struct State {
    ended: bool,
    error: Option<String>,
    skipped: Skipped,
    failed: BTreeMap<u32, Failed>,
    /// Where somebody will ask the receiver what it has: what is not declared before that.
    waiting: Option<Waiting>,
}

impl Offer {
    /// Opens the sources.
    pub(crate) fn open<P: AsRef<Path>>(
        paths: &[P],
        selection: &Selection,
        kept: Kept,
        compare: Compare,
    ) -> Result<Self, CopyError> {
        let filter = selection.filter()?;
        let path = |path: &P| match &selection.list {
            None => path.as_ref().to_owned(),
            // A list names what is in the source.
            Some(_) => path.as_ref().join(""),
        };
        let (mut missing, mut there, mut skipped) = (Vec::new(), Vec::new(), Skipped::default());
        for path in paths.iter().map(path) {
            let Err(error) = path.symlink_metadata() else {
                there.push(path);
                continue;
            };
            let message = match error.kind() {
                ErrorKind::NotFound => "does not exist: check the spelling".to_owned(),
                ErrorKind::NotADirectory => "is not a folder, or not in one: check the spelling".to_owned(),
                _ => {
                    let remedy = remedy_of_too_many_files(&error).unwrap_or(match error.kind() {
                        ErrorKind::PermissionDenied => "check its permissions",
                        _ => "check its disk, and what is mounted there",
                    });
                    format!("cannot be looked at ({error}): {remedy}")
                }
            };
            let name = path.as_os_str().as_bytes().to_vec();
            skipped.add(
                Failure { path: name, cause: FailureCause::Unreadable, message },
                Lack::Unknown,
                None,
            );
            missing.push(path);
        }
        // With none that is there, what is wrong with the first says it.
        let roots = Roots::open_filtered(if there.is_empty() { &missing } else { &there }, &filter)?;
        // Of the only source that was named, whatever became of others.
        let stands_alone = selection.list.is_none() && paths.len() == 1;
        let top = if stands_alone { roots.top(kept.keep())? } else { None };
        let top = top.map(|(top, short)| {
            if let Some(error) = short {
                let name = paths[0].as_ref().as_os_str().as_bytes().to_vec();
                let message = format!("is sent without its attributes ({error})");
                let failure = Failure { path: name, cause: FailureCause::Unsupported, message };
                skipped.add(failure, Lack::Nothing, None);
            }
            top
        });
        let roots = Arc::new(roots);
        let reading = Reading { keep: kept.keep(), content: compare == Compare::Content, changes: true };
        let source = Arc::new(TreeSource::new(Arc::clone(&roots)));
        let state = Mutex::new(State { skipped, ..State::default() });
        let (grown, room) = (Notify::new(), Condvar::new());
        let [stopped, in_session, tells_changes] = [false; 3].map(AtomicBool::new);
        let top_is_content =
            names_of(paths.iter().map(|path| path.as_ref().as_os_str().as_bytes())).is_empty();
        Ok(Self {
            roots,
            filter,
            without_specials: selection.without_specials,
            reading,
            source,
            top,
            state,
            grown,
            room,
            top_is_content,
            stopped,
            in_session,
            tells_changes,
        })
    }

    /// The receiver knows when files were last changed.
    pub(crate) fn tell_changes(&self) {
        self.tells_changes.store(true, Ordering::Relaxed);
    }

    /// With a key, somebody will ask the receiver what it has, in fingerprints of that, or say that nobody does.
    pub(crate) fn asking_first(mut self, key: Option<[u8; 32]>) -> Self {
        let asker = key.map(|key| Asker::new(key, self.top_is_content));
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).waiting = asker.map(Waiting::new);
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn source(&self) -> Arc<TreeSource> {
        Arc::clone(&self.source)
    }

    pub(crate) fn top(&self) -> Option<&Top> {
        self.top.as_ref()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The walk ends soon.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Nobody looks between the walk's look at that and its sleep.
        drop(self.state());
        self.room.notify_all();
    }

    /// Walks to the end on this thread, and gives batch after batch to `take`; the last one is empty and has `seal`.
    pub(crate) fn walk(&self, mut take: impl FnMut(Batch) -> Result<(), CopyError>) -> Result<(), CopyError> {
        self.find(|entries| {
            let first = self.source.append(&entries)?;
            take(Batch { first, entries, seal: false })
        })?;
        let first = EntryIndex(self.source.entry_count() as u32);
        take(Batch { first, entries: Vec::new(), seal: true })
    }

    /// Walks to the end for sessions that read the manifest when they like.
    pub(crate) fn walk_ahead(&self) {
        self.walk_looking(|_| ());
    }

    fn walk_looking(&self, mut look: impl FnMut(&[Entry])) {
        let walked = self.find(|entries| {
            look(&entries);
            self.handle_found(entries);
            Ok(())
        });
        self.handle_walked(walked.err().map(|error| error.to_string()));
    }

    fn find(&self, mut take: impl FnMut(Vec<Entry>) -> Result<(), CopyError>) -> Result<(), CopyError> {
        let mut failure = None;
        let whole =
            walk_reading(&self.roots, &self.filter, self.reading, HELPERS, |Found { found, skipped }| {
                let mut state = self.state();
                skipped.into_iter().for_each(|skipped| {
                    if self.without_specials && skipped.is_special() {
                        return state.skipped.lack(skipped.lack, skipped.entry);
                    }
                    let message = skipped.message();
                    let path = skipped.path.as_os_str().as_bytes().to_vec();
                    let failure = Failure { path, cause: skipped.cause, message };
                    state.skipped.add(failure, skipped.lack, skipped.entry);
                });
                drop(state);
                failure = take(found).err();
                if failure.is_some() || self.is_stopped() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        match failure {
            Some(error) => Err(error),
            None if !whole => Err(CopyError::Interrupted),
            None => Ok(()),
        }
    }

    /// What cannot be sent, as far as the walk has come.
    pub(crate) fn skipped(&self) -> Failures {
        self.state().skipped.failures().clone()
    }

    /// What of the source is not in the manifest, as far as the walk has come.
    pub(crate) fn walked(&self) -> Walked {
        self.state().skipped.walked().clone()
    }

    pub(crate) fn handle_failed(&self, failed: &[Failed]) {
        self.state().failed.extend(failed.iter().map(|failed| (failed.entry, failed.clone())));
    }

    /// The first of what has failed from an entry on.
    pub(crate) fn failed(&self, from: EntryIndex) -> Vec<Failed> {
        const SOME: usize = 1000;
        self.state().failed.range(from.0..).take(SOME).map(|(_, failed)| failed.clone()).collect()
    }
}

/// Reads an offer's manifest while the walk goes on.
pub(crate) struct OfferManifest {
    offer: Arc<Offer>,
    at: EntryIndex,
    builder: BatchBuilder,
    sealed: bool,
}

impl OfferManifest {
    pub(crate) fn new(offer: Arc<Offer>) -> Self {
        Self { offer, at: EntryIndex(0), builder: BatchBuilder::default(), sealed: false }
    }

    /// Behind what was declared of it when the connection was made.
    pub(crate) fn behind(offer: Arc<Offer>, begun: Option<Begun>) -> Self {
        let mut manifest = Self::new(offer);
        if let Some(Begun { entries, seal }) = begun {
            manifest.at = EntryIndex(entries);
            manifest.sealed = seal;
            // The batches behind the first are larger.
            manifest.builder.take();
        }
        manifest
    }

    /// What it begins with, as far as the walk has come.
    pub(crate) fn beginning(offer: Arc<Offer>) -> Beginning {
        Beginning::new(move || {
            let state = offer.state();
            let ended = state.ended && state.error.is_none();
            drop(state);
            Self::new(Arc::clone(&offer)).batch(ended)
        })
    }

    fn batch(&mut self, ended: bool) -> Option<Batch> {
        let found = EntryIndex(self.offer.source.entry_count() as u32);
        let first = self.at;
        while self.at < found
            && let Some(mut entry) = self.offer.source.entry(self.at)
        {
            self.at.0 += 1;
            if !self.offer.tells_changes.load(Ordering::Relaxed)
                && let Some(mut extra) = entry.extra.take()
            {
                extra.changed = None;
                entry.extra = extra.into_option();
            }
            if self.builder.push(entry) {
                break;
            }
        }
        let seal = ended && self.at == found;
        self.sealed = seal;
        (self.at > first || seal).then(|| Batch { first, entries: self.builder.take(), seal })
    }
}

impl Manifest for OfferManifest {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        let offer = Arc::clone(&self.offer);
        while !self.sealed {
            // Registered before the look, so that nothing that happens in between is missed.
            let grown = offer.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            let (ended, error) = {
                let state = offer.state();
                (state.ended, state.error.clone())
            };
            if let Some(error) = error {
                return Err(WireError::fatal(ErrorCode::Internal, error));
            }
            if let Some(batch) = self.batch(ended) {
                return Ok(Some(batch));
            }
            grown.await;
        }
        Ok(None)
    }
}

/// What may come of the sources, by its name at the top: [`names_of`], or what a list names.
pub(crate) fn names_asked<'a>(selection: &Selection, paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<Name> {
    selection.top_names().unwrap_or_else(|| names_of(paths))
}

/// The names that paths arrive under; none where one of them stands for its content.
pub(crate) fn names_of<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<Name> {
    let mut names = Vec::new();
    for path in paths {
        match path.rsplit(|&b| b == b'/').next().unwrap_or_default() {
            b"" | b"." | b".." => return Vec::new(),
            name => names.push(Name(name.to_vec())),
        }
    }
    names
}

/// Whether there is one source, and it is not a folder. What a list is of is one, also where a link leads to it.
pub(crate) fn is_only_file<P: AsRef<Path>>(paths: &[P], selection: &Selection) -> bool {
    let ([only], None) = (paths, &selection.list) else { return false };
    let ends_as_folder = names_of([only.as_ref().as_os_str().as_bytes()]).is_empty();
    !ends_as_folder && only.as_ref().symlink_metadata().is_ok_and(|found| !found.is_dir())
}
