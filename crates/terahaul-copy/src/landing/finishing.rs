//! A landing's end: names for what has arrived, and what the source has not removed.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::PoisonError;

use terahaul_core::{ByteCount, FailureCause};
use terahaul_tree::{
    Copying, EntryTable, Published, Refusal, Sweep, Sweeping, Swept, TOO_MUCH, TreeSink, remove_opening_up,
};

use super::Landing;
use crate::error::CopyError;
use crate::failures::Failure;
use crate::notes::{Changed, MOST_REMOVED, Removed};
use crate::rules::Kept;
use crate::summary::Landed;

/// Once nothing is in it any more, the folder for what is not complete goes too, with those above it, as far as they were made for this:
/// the innermost first.
pub(super) fn tidy(made_partial: &[PathBuf]) {
    // Another copy may be using one, and so those above it.
    let _ = made_partial.iter().try_for_each(|made| remove_opening_up(made));
}

impl Landing {
    /// Everything has arrived: makes it durable, gives it its names, and removes what the source has not. Blocks.
    pub(crate) fn finish(&self) -> Result<Landed, CopyError> {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((sink, journal)) = &self.staged else {
            self.tell_destination();
            let (cleared, limited) = self.survey.clear(self.most(), &mut |swept| self.tell_swept(swept));
            let planned = std::mem::take(&mut self.state().planned);
            self.sweep(cleared, &mut |alike, sweep, tell| {
                Ok(self.survey.sweep(&alike.followed_by(&planned)?, sweep, tell))
            });
            let mut state = self.state();
            state.planned = planned;
            state.late.listed.extend(limited.into_iter().map(|path| {
                let message = format!("cannot be placed there ({TOO_MUCH})");
                Failure { path: path.into(), cause: FailureCause::Refused, message }
            }));
            return Ok(state.landed);
        };
        self.inbound.flush()?;
        if journal.is_resumed()
            && let Some(staged) = self.orphan(sink).map_err(CopyError::file(&self.base.folder, "read"))?
        {
            return Err(CopyError::SourceEmptied(staged));
        }
        if !self.inbound.with(|receiver| receiver.is_complete()) {
            return Err(CopyError::Local("not everything has arrived: run the same command again".into()));
        }
        // A block of which nothing is wanted any more may still be arriving: what is in it must not get into a folder that has its name.
        self.inbound.close();
        let rules = self.rules.decision_rules();
        let copying = Copying { rules, filter: &self.spared, most: self.most() };
        self.tell_destination();
        if let Some(top) = &self.asked.top {
            sink.close_top_to_others(top);
        }
        let published = sink.publish_copy(copying, &mut |swept| self.tell_swept(swept))?;
        let Published { files, bytes, folders, links, cleared } = published;
        self.sweep(cleared, &mut |alike, rules, tell| sink.sweep(&self.survey, alike, rules, tell));
        sink.conclude_copy(&rules)?;
        tidy(&self.made_partial);
        let short_of_top = self.settle_top(sink);
        let mut state = self.state();
        let failure = |refusal: Refusal, message: String| {
            let entry = sink.entry(refusal.entry);
            let first = entry.as_ref().and_then(|entry| entry.extra.as_ref()?.same_as.as_ref());
            let known = first.and_then(|first| state.vanished.get(&sink.entry_at(first.as_bytes())?));
            // Nobody could read the file by any of its names that were known.
            let vanished = known.is_some_and(|known| refusal.entry < *known);
            let cause = if vanished { FailureCause::Vanished } else { FailureCause::Refused };
            let path = entry.map(|entry| entry.path.as_bytes().to_vec()).unwrap_or_default();
            Failure { path, cause, message }
        };
        // What was refused at once was named then.
        let late = |refusal: &Refusal| !state.failed.contains_key(&refusal.entry);
        let refused = sink.refusals().into_iter().filter(late).map(|refusal| {
            let message = format!("cannot be placed there ({})", refusal.detail);
            failure(refusal, message)
        });
        let short = sink.shortfalls().into_iter().map(|refusal| {
            let message = format!("was copied, but {}", refusal.detail);
            failure(refusal, message)
        });
        let late: Vec<_> = refused.chain(short).chain(short_of_top).collect();
        state.late.listed.extend(late);
        let (matched, literal) = (ByteCount(self.inbound.copied()), ByteCount(self.inbound.sent()));
        let (bytes, folders) = (ByteCount(bytes), folders + u64::from(self.made));
        state.landed = Landed { files, folders, links, bytes, matched, literal, ..state.landed };
        Ok(state.landed)
    }

    /// Tells what becomes of the destination itself, if that is to be told. Nothing has been done to it by now that would have to be.
    fn tell_destination(&self) {
        let Some(top) = self.asked.top.as_ref().filter(|_| self.rules.itemise) else { return };
        match self.survey.decide_top(top) {
            Ok(decision) => self.state().changes.add(Changed::of_destination(decision)),
            // What then cannot be given to it is named.
            Err(error) => tracing::debug!("nobody knows how the destination itself differs: {error}"),
        }
    }

    /// What an interrupted copy has left of a source of which nothing is to be seen now.
    fn orphan(&self, sink: &TreeSink) -> io::Result<Option<PathBuf>> {
        // Of a list's names, and of those in a source that stands for its content, each may have been removed.
        let by_name = !self.filter.has_list() && self.base.rename.is_none();
        let is_source = |name: &[u8]| by_name && self.asked.names_one(name);
        let state = self.state();
        // What is there as the source has it, the source has.
        let found = state.landed.unchanged > 0;
        sink.orphan(found, is_source, &state.tops_alike)
    }

    /// The folder whose content was copied gives its own time to the receiving one, and what else is kept.
    fn settle_top(&self, sink: &TreeSink) -> Option<Failure> {
        let short = match sink.settle_top(self.asked.top.as_ref()?, self.made) {
            Ok(short) if short.is_empty() => return None,
            Ok(short) => short.join(", and "),
            // It is somebody else's, and nobody has asked for more than that files get there.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && self.rules.kept == Kept::default() =>
            {
                return None;
            }
            Err(error) => format!("its time, permissions or owner could not be set ({error})"),
        };
        let path = self.base.folder.as_os_str().as_bytes().to_vec();
        Some(Failure { path, cause: FailureCause::Refused, message: format!("was copied, but {short}") })
    }

    /// Most files and folders that may be removed.
    fn most(&self) -> Option<u64> {
        self.rules.delete.and_then(|delete| delete.most)
    }

    /// Removes what the source has not, if that was asked for and the source is known whole. `cleared` was removed before.
    fn sweep(&self, cleared: Sweeping, sweep: &mut SweepWith<'_>) {
        {
            let mut state = self.state();
            state.landed.removed += cleared.removed;
            state.landed.limited |= cleared.limited;
        }
        let Some(delete) = self.rules.delete else { return };
        let refuse = |message: String| {
            let path = self.base.folder.as_os_str().as_bytes().to_vec();
            self.state().late.listed.push(Failure { path, cause: FailureCause::Refused, message });
        };
        if self.filter.has_list() {
            return refuse(
                "keeps what the source has not: a list says what is copied, not what is there".into(),
            );
        }
        let (walked, unread) = {
            let state = self.state();
            let unread = state.failed.values().any(|failure| failure.cause == FailureCause::Unreadable);
            (state.walked.clone(), unread)
        };
        let whole = !unread && walked.as_ref().is_some_and(|walked| walked.errors == 0);
        if !whole && !delete.despite_errors {
            return refuse(
                "keeps what the source has not, since the source could not be read whole, or has more FIFOs and devices than can be told: mend that, leave them out by a rule, or give --ignore-errors".into(),
            );
        }
        // What lies at the top belongs to a source that stands for its content.
        let top = self.asked.names.is_empty() && self.base.rename.is_none();
        let most = self.most().map(|most| most.saturating_sub(cleared.removed));
        let filter = self.spared.clone().keeping(&walked.unwrap_or_default().kept);
        let rules = Sweep { filter: &filter, top, most, dry_run: self.rules.dry_run };
        // Once: without what was alike, all of that would go.
        let Some(alike) = self.state().alike.take() else { return };
        match sweep(alike, &rules, &mut |swept| self.tell_swept(swept)) {
            Ok(Sweeping { removed, limited, .. }) => {
                let mut state = self.state();
                state.landed.removed += removed;
                state.landed.limited |= limited;
            }
            Err(error) => refuse(format!("keeps what the source has not: {error}")),
        }
    }

    pub(super) fn tell_swept(&self, swept: Swept<'_>) {
        let mut state = self.state();
        match swept {
            Swept::Removed { path, folder } if self.rules.itemise && state.removed.len() < MOST_REMOVED => {
                state.removed.push(Removed { path: path.to_vec(), folder });
            }
            Swept::Removed { .. } => {}
            Swept::Stays { path, reason } => tracing::debug!("{} stays: {reason}", path.escape_ascii()),
            Swept::Failed { path, error } => {
                let (path, message) = match path.is_empty() {
                    true => (
                        self.base.folder.as_os_str().as_bytes(),
                        format!("keeps what the source has not: {error}"),
                    ),
                    false => {
                        (path, format!("could not be removed, or not be looked into for that ({error})"))
                    }
                };
                let failure = Failure { path: path.to_vec(), cause: FailureCause::Refused, message };
                state.late.add(failure, MOST_LATE);
            }
        }
    }
}

/// What is called with what the sender did not declare, because it was here, and the rules of a sweep.
type SweepWith<'a> = dyn FnMut(EntryTable, &Sweep<'_>, &mut dyn FnMut(Swept<'_>)) -> Result<Sweeping, terahaul_tree::SweepError>
    + 'a;

/// Failures at the end among which one to remove something is named; there may be a million.
pub(super) const MOST_LATE: usize = 1000;
