//! The walk: finds what is to be sent and declares it, on a plain thread.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use terahaul_core::{Disposition, Entry, EntryIndex, EntryPath, FailureCause, Resume};
use terahaul_net::client::{Sending, Stored};
use terahaul_store::EntryFailure;
use terahaul_tree::{Batch, Filter, Roots, Skipped, TreeSource, walk};
use terahaul_wire::BatchBuilder;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText};

/// Threads that list folders ahead of the walk.
const HELPERS: usize = 2;

/// Everything the walk needs.
pub struct Feed {
    pub sending: Arc<Sending>,
    pub source: Arc<TreeSource>,
    pub roots: Arc<Roots>,
    pub filter: Filter,
    pub interrupt: Interrupt,
    pub output: Output,
}

/// What the walk has found.
#[derive(Debug, Default)]
pub struct Fed {
    /// Entries of an earlier run that failed because something newer stands for them: no loss.
    pub renewed: BTreeSet<EntryIndex>,
    /// All entries that failed before the data did: those of earlier runs, changed ones and vanished ones.
    pub failed: BTreeSet<EntryIndex>,
    /// Things that cannot be sent and were named.
    pub skipped: usize,
}

struct State<'a> {
    feed: &'a Feed,
    resume: Resume,
    /// What failed in an earlier run and was not found yet in this one.
    missed: BTreeSet<EntryPath>,
    builder: BatchBuilder,
    fed: Fed,
}

impl Feed {
    /// Walks to the end. The source has what an earlier run declared already, so that indices are the same.
    pub fn run(self, stored: Stored) -> Result<Fed, Failure> {
        let indexed = || (0..).map(EntryIndex).zip(&stored.entries);
        let live = indexed().filter(|(index, _)| !stored.failed.contains(index));
        let resume = Resume::new(live.map(|(index, entry)| (index, entry.clone())));
        let missed = indexed()
            .filter(|(index, _)| stored.failed.contains(index))
            .map(|(_, entry)| entry.path.clone())
            .collect();
        let fed = Fed { failed: stored.failed.clone(), ..Fed::default() };
        drop(stored);
        let mut state = State { feed: &self, resume, missed, builder: BatchBuilder::default(), fed };
        let mut stopped = None;
        let whole = walk(&self.roots, &self.filter, HELPERS, |batch| {
            if self.interrupt.is_set() {
                return ControlFlow::Break(());
            }
            match state.handle_batch(batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    stopped = Some(failure);
                    ControlFlow::Break(())
                }
            }
        });
        match stopped {
            Some(failure) => Err(failure),
            None if !whole => Err(Failure::new(Exit::Interrupted, "interrupted")),
            None => state.finish(),
        }
    }
}

impl State<'_> {
    fn handle_batch(&mut self, batch: Batch) -> Result<(), Failure> {
        batch.skipped.iter().for_each(|skipped| self.name_skipped(skipped));
        let mut changed = Vec::new();
        for entry in batch.found {
            self.missed.remove(&entry.path);
            match self.resume.handle_found(&entry) {
                Disposition::Known(_) => continue,
                Disposition::New => {}
                Disposition::Changed(index) => changed.push((index, entry.path.clone())),
            }
            self.declare(entry, &mut changed)?;
        }
        self.fail_changed(&mut changed)
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
            self.feed.output.notice(format!("{path} changed since the interrupted run and is sent anew"));
            self.fed.renewed.insert(entry);
            self.fed.failed.insert(entry);
            let detail = "it changed since the interrupted run".to_owned();
            failures.push(EntryFailure { entry, cause: FailureCause::Changed, detail });
        }
        Ok(self.feed.sending.fail(failures)?)
    }

    fn flush(&mut self, seal: bool) -> Result<(), Failure> {
        let entries = self.builder.take();
        self.feed.source.append(&entries).map_err(Failure::usage)?;
        self.feed.sending.append(entries, seal)?;
        Ok(())
    }

    fn finish(mut self) -> Result<Fed, Failure> {
        let mut vanished = Vec::new();
        for (entry, _) in std::mem::take(&mut self.resume).into_vanished() {
            self.fed.failed.insert(entry);
            let detail = "it was there when an earlier run began".to_owned();
            vanished.push(EntryFailure { entry, cause: FailureCause::Vanished, detail });
        }
        if !vanished.is_empty() {
            self.feed.sending.fail(vanished)?;
        }
        for path in std::mem::take(&mut self.missed) {
            let message = "failed in an earlier run and is not there any more: to go on without it, remove this transfer and send again";
            self.name(PathText::from(&path), FailureCause::Vanished, message);
        }
        self.flush(true)?;
        Ok(self.fed)
    }

    fn name_skipped(&mut self, skipped: &Skipped) {
        let path = PathText::from(skipped.path.as_os_str().as_bytes());
        let message = format!("{} ({})", skipped.cause.describe(), skipped.detail);
        self.name(path, skipped.cause, &message);
    }

    fn name(&mut self, path: PathText, cause: FailureCause, message: &str) {
        self.fed.skipped += 1;
        self.feed.output.emit(&Event::Failure { path, cause: cause.name(), message });
    }
}
