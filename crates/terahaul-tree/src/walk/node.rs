//! A piece of the walk: one folder, or some of a huge folder's names, and who looks at it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terahaul_core::Entry;

use super::Skipped;
use super::carried::Inode;
use super::mounts::Found;

pub(super) struct Folder {
    pub(super) root: usize,
    /// The entry's path; empty for a root whose contents are sent.
    pub(super) path: Vec<u8>,
    /// An include has matched it, or a folder it is in.
    pub(super) inside: bool,
    /// How it was found; `None` of a root.
    pub(super) found: Option<Found>,
}

pub(super) enum Work {
    List(Arc<Folder>),
    Names(Arc<Folder>, Vec<Vec<u8>>),
}

#[derive(Default)]
pub(super) struct Output {
    pub(super) found: Vec<Entry>,
    /// Files of several names, by their position in `found`; only where hard links are kept.
    pub(super) inodes: Vec<(usize, Inode)>,
    pub(super) skipped: Vec<Skipped>,
    /// Last first, as a stack takes them.
    pub(super) children: Vec<Arc<Node>>,
}

impl Output {
    /// How much it holds, in entries.
    pub(super) fn weight(&self) -> usize {
        1 + self.found.len() + self.skipped.len() + self.children.len()
    }
}

enum Slot {
    Todo(Work),
    Claimed,
    /// Claimed, and the walk waits for it.
    Awaited,
    Done(Output),
}

pub(super) struct Node {
    /// The folder's own entry, and whether it is sent even if nothing in it is.
    pub(super) entry: Option<(Entry, bool)>,
    slot: Mutex<Slot>,
    done: Condvar,
}

impl Node {
    pub(super) fn new(entry: Option<(Entry, bool)>, work: Work) -> Self {
        Self { entry, slot: Mutex::new(Slot::Todo(work)), done: Condvar::new() }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work, for whoever asks first.
    pub(super) fn claim(&self) -> Option<Work> {
        let mut slot = self.slot();
        if !matches!(*slot, Slot::Todo(_)) {
            return None;
        }
        match std::mem::replace(&mut *slot, Slot::Claimed) {
            Slot::Todo(work) => Some(work),
            Slot::Claimed | Slot::Awaited | Slot::Done(_) => None,
        }
    }

    pub(super) fn finish(&self, output: Output) {
        let before = std::mem::replace(&mut *self.slot(), Slot::Done(output));
        // Waking is a system call even where nobody waits.
        if matches!(before, Slot::Awaited) {
            self.done.notify_one();
        }
    }

    /// What is in it, if it is ready.
    pub(super) fn ready(&self) -> Option<Output> {
        match &mut *self.slot() {
            Slot::Done(output) => Some(std::mem::take(output)),
            _ => None,
        }
    }

    /// Whether somebody has begun to list it.
    pub(super) fn is_claimed(&self) -> bool {
        !matches!(*self.slot(), Slot::Todo(_))
    }

    /// Waits for whoever claimed it.
    pub(super) fn wait(&self) -> Output {
        let mut slot = self.slot();
        loop {
            if let Slot::Done(output) = &mut *slot {
                return std::mem::take(output);
            }
            *slot = Slot::Awaited;
            slot = self.done.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
