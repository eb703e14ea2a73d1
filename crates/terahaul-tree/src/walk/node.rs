//! A piece of the walk: one folder, or some of a huge folder's names.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terahaul_core::{Entry, EntryKind, EntryPath, Extra, FailureCause};

use super::carried::{Carried, Inode};
use super::{Lack, Skipped};
use crate::beneath::{Purpose, joined, open_folder};
use crate::filter::Verdict;
use crate::listing::{Status, cause_of, listed, look_at};
use crate::staging::is_staging_name;
use crate::{Filter, Roots};

/// A folder of more names is looked at in pieces of so many, so that none of them holds up the others.
const NAMES_AT_ONCE: usize = 1024;

pub(super) struct Folder {
    pub(super) root: usize,
    /// The entry's path; empty for a root whose contents are sent.
    pub(super) path: Vec<u8>,
    /// An include has matched it, or a folder it is in.
    pub(super) inside: bool,
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

impl Work {
    pub(super) fn run(self, roots: &Roots, filter: &Filter, carried: &Carried) -> Output {
        let mut output = Output::default();
        let folder = match &self {
            Self::List(folder) | Self::Names(folder, _) => Arc::clone(folder),
        };
        if let Err(error) = self.look(&folder, roots, filter, carried, &mut output) {
            output.skip(roots, &folder, &folder.path, Why::unreadable(&error));
        }
        output.children.reverse();
        output
    }

    fn look(
        self,
        folder: &Arc<Folder>,
        roots: &Roots,
        filter: &Filter,
        carried: &Carried,
        output: &mut Output,
    ) -> io::Result<()> {
        let Some(root) = roots.iter().nth(folder.root) else { return Ok(()) };
        let (names, opened) = match self {
            Self::Names(_, names) => (names, None),
            Self::List(_) => match filter.names_in(&folder.path) {
                Some(names) => (names, None),
                None => {
                    let (mut names, opened) = listed(root.base(), &folder.path)?;
                    // What a list names in a folder that comes whole is looked for, too: it may not be there.
                    let named = filter.named_in(&folder.path);
                    if !named.is_empty() {
                        names.extend(named);
                        names.sort_unstable();
                        names.dedup();
                    }
                    (names, Some(opened))
                }
            },
        };
        if names.len() > NAMES_AT_ONCE {
            let mut names = names.into_iter().peekable();
            while names.peek().is_some() {
                let work = Work::Names(Arc::clone(folder), names.by_ref().take(NAMES_AT_ONCE).collect());
                output.children.push(Arc::new(Node::new(None, work)));
            }
            return Ok(());
        }
        let passed;
        let at = match &opened {
            Some(opened) => opened.fd()?,
            None => {
                passed = open_folder(root.base(), &folder.path, Purpose::Pass)?;
                passed.as_fd()
            }
        };
        for name in names {
            if folder.path.is_empty() && !roots.owns(folder.root, &name) {
                // It was made after the roots were compared with each other; the next run sends it.
                continue;
            }
            let path = joined(&folder.path, &name);
            let looked = look_at(at, &name);
            let is_gone = looked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if is_gone && filter.lists(&path) {
                let detail = "is in the list, and not there: check the spelling";
                let why = Why::saying(FailureCause::Unreadable, Lack::Unknown, detail);
                output.skip(roots, folder, &path, why);
                continue;
            }
            // What a list names and is not there is named too, even if only something in it was wanted.
            let is_folder = match &looked {
                Ok((_, Status::Entry { kind, .. })) => *kind == EntryKind::Directory,
                Ok((_, Status::Special(_))) => false,
                Err(_) => filter.has_list(),
            };
            if !is_folder && filter.lists_below(&path) {
                let detail = "is no folder, and the list names something in it: check the list";
                let why = Why::saying(FailureCause::Unreadable, Lack::Unknown, detail);
                output.skip(roots, folder, &path, why);
            }
            let verdict = filter.judge(&path, is_folder, folder.inside);
            if verdict == Verdict::Out {
                continue;
            }
            if is_staging_name(&name) && looked.is_ok() {
                // A receiver refuses each thing in it, since a transfer of that name would believe what it finds there.
                let detail =
                    "is for what another transfer has not completed, and is not sent: end that, or remove it";
                let why = Why::saying(FailureCause::Unsupported, Lack::Nothing, detail);
                output.skip(roots, folder, &path, why);
                continue;
            }
            let (status, extra, inode) = match looked {
                Ok((stat, status @ Status::Entry { .. })) => {
                    let (extra, lost) = carried.read(at, &name, &stat);
                    if let Some(error) = lost {
                        let detail = format!("is sent without its attributes ({error})");
                        let why = Why::saying(FailureCause::Unsupported, Lack::Nothing, detail);
                        output.skip(roots, folder, &path, why);
                    }
                    (Ok(status), extra, carried.inode(&stat))
                }
                Ok((_, special)) => (Ok(special), None, None),
                Err(error) => (Err(error), None, None),
            };
            let before = output.found.len();
            output.add(roots, folder, path, status, extra, verdict);
            if let Some(inode) = inode
                && output.found.len() > before
            {
                output.inodes.push((before, inode));
            }
        }
        Ok(())
    }
}

impl Output {
    fn add(
        &mut self,
        roots: &Roots,
        folder: &Folder,
        path: Vec<u8>,
        status: io::Result<Status>,
        extra: Option<Box<Extra>>,
        verdict: Verdict,
    ) {
        let (kind, mtime, mode) = match status {
            Ok(Status::Entry { kind, mtime, mode }) => (kind, mtime, mode),
            Ok(Status::Special(what)) => {
                let why = Why::of(FailureCause::Unsupported, format!("it is {what}"));
                return self.skip(roots, folder, &path, why);
            }
            Err(error) => return self.skip(roots, folder, &path, Why::unreadable(&error)),
        };
        let entry_path = match EntryPath::new(path.as_slice()) {
            Ok(path) => path,
            Err(error) => {
                let detail = format!("is not sent ({error}): send the folder that it is in by itself");
                let why = Why::saying(FailureCause::Unsupported, Lack::Unknown, detail);
                return self.skip(roots, folder, &path, why);
            }
        };
        let is_folder = kind == EntryKind::Directory;
        let entry = Entry { path: entry_path, kind, mtime, mode, extra };
        if is_folder {
            let inside = verdict == Verdict::In;
            let work = Work::List(Arc::new(Folder { root: folder.root, path, inside }));
            self.children.push(Arc::new(Node::new(Some((entry, inside)), work)));
        } else {
            self.found.push(entry);
        }
    }

    fn skip(&mut self, roots: &Roots, folder: &Folder, path: &[u8], why: Why) {
        if let Some(root) = roots.iter().nth(folder.root) {
            let (path, entry) = (root.display_path(path), EntryPath::new(path).ok());
            let Why { cause, detail, says_all, lack } = why;
            self.skipped.push(Skipped { path, entry, cause, detail, says_all, lack });
        }
    }
}

/// Why something is skipped: what [`Skipped`] has beside where it is.
struct Why {
    cause: FailureCause,
    detail: String,
    says_all: bool,
    lack: Lack,
}

impl Why {
    fn of(cause: FailureCause, detail: String) -> Self {
        let lack = match cause {
            FailureCause::Vanished => Lack::Nothing,
            FailureCause::Unsupported => Lack::Itself,
            _ => Lack::Unknown,
        };
        Self { cause, detail, says_all: false, lack }
    }

    fn unreadable(error: &io::Error) -> Self {
        Self::of(cause_of(error), error.to_string())
    }

    /// Where the words of `cause` do not fit.
    fn saying(cause: FailureCause, lack: Lack, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into(), says_all: true, lack }
    }
}
