//! A landing's beginning: what is made of the entries that the sender offers, batch by batch.
//!
//! They are taken only if they were asked for: nothing above or beside the names that the sources have.

use std::collections::BTreeMap;
use std::io;

use terahaul_core::{
    BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, FailureCause, Hash,
};
use terahaul_store::{EntryFailure, InboundError};
use terahaul_tree::decision::{Decision, Reason};
use terahaul_tree::{Pieces, Places};
use terahaul_wire::Batch;

use super::refused::refusal;
use super::{Asked, Landing, State};
use crate::error::CopyError;
use crate::failures::Failure;
use crate::notes::Changed;

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
    /// Where in the manifest it begins.
    pub(crate) fn first(&self) -> EntryIndex {
        self.batch.first
    }

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

    fn repeat(&self, state: &State, first: EntryIndex, end: EntryIndex) -> Judged {
        let (declined, durable) = self.inbound.with(|receiver| {
            let large =
                (first.0..end.0).filter_map(|entry| receiver.layout().blocks_of_large(EntryIndex(entry)));
            let runs = large.map(|(first, count)| BlockRun { first, count });
            // What an earlier run had left of them may be here only since this session began, which is when the rest was said.
            let durable: Vec<_> = runs.flat_map(|run| receiver.durable().common_with(run)).collect();
            (receiver.declined().range(first..end).copied().collect(), durable)
        });
        let failed = state.failed.range(first..end).map(|(&entry, failure)| EntryFailure {
            entry,
            cause: failure.cause,
            detail: failure.message.clone(),
        });
        Judged { declined, failed: failed.collect(), durable }
    }

    /// Refuses what was not asked for, and gives the only file its new name.
    pub(super) fn admit(&self, entry: Entry) -> Result<Entry, CopyError> {
        let not_asked_for = || CopyError::NotAskedFor(entry.path.to_string());
        let first = entry.path.components().next().unwrap_or_default();
        if !self.is_asked(first) || !self.filter.admits(&entry) {
            return Err(not_asked_for());
        }
        self.note_link(&entry);
        match &self.base.rename {
            None => Ok(entry),
            Some(_) if entry.kind == EntryKind::Directory || entry.path.as_bytes() != first => {
                Err(not_asked_for())
            }
            Some(name) => Ok(Entry { path: name.clone(), ..entry }),
        }
    }

    /// Whether something of this name at the top was asked for.
    pub(super) fn is_asked(&self, first: &[u8]) -> bool {
        let Asked { names, patterns, .. } = &self.asked;
        names.is_empty()
            || self.asked.names_one(first)
            || patterns.iter().any(|pattern| pattern.matches(first))
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
                    "cannot be looked at there ({error}): check the permissions and the disk there"
                )));
            }
        };
        self.enter(state, index, entry)?;
        let wanted = match &self.staged {
            Some((sink, _)) => sink.carry_out(index, decision),
            None => false,
        };
        // What the file system cannot have under its name is named at the end.
        if self.staged.as_ref().is_some_and(|(sink, _)| sink.is_lost(index)) {
            return Ok(Fate::Kept);
        }
        if self.rules.itemise {
            state.changes.add(Changed::of(index, decision));
        }
        match decision {
            Decision::Refuse(refused) => {
                return Ok(Fate::Refused(refusal(refused, self.rules.make_way())));
            }
            // It is not there at all.
            Decision::Skip(Reason::Missing) => {}
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
                state.wanted.handle_sharing(entry.file_size().unwrap_or_default());
            }
        }
        Ok(fate)
    }

    /// A source that was named has one component; without names its content comes.
    fn note_link(&self, entry: &Entry) {
        let is_link = matches!(entry.kind, EntryKind::Symlink { .. });
        if is_link && !self.asked.names.is_empty() && entry.path.components().count() == 1 {
            self.state().named_link.get_or_insert_with(|| entry.path.clone());
        }
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
            receiver.append_batch(sizes.iter().copied(), seal)?;
            receiver.handle_declined(declined.iter().copied());
            for (entry, pieces) in partial {
                let Some((first, count)) = receiver.layout().blocks_of_large(*entry) else { continue };
                for (piece, value) in pieces.iter().filter(|(piece, _)| **piece < count) {
                    let block = BlockNumber(first.0 + piece);
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
}
