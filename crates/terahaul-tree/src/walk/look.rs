//! Looking at a folder: what of it is sent, what is skipped and why, and which folders are to be looked at next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::Stat;
use terahaul_core::{Entry, EntryKind, EntryPath, FailureCause};
use terahaul_store::remedy_of_too_many_files;

use super::carried::Carried;
use super::mounts::Found;
use super::node::{Folder, Node, Output, Work};
use super::pseudo::PseudoFileSystems;
use super::{Lack, Skipped};
use crate::beneath::{Purpose, joined, open_folder};
use crate::filter::Verdict;
use crate::listing::{Status, cause_of, listed, look_at};
use crate::roots::Root;
use crate::staging::is_unfinished_name;
use crate::xattrs::is_too_much;
use crate::{Filter, Roots};

/// A folder of more names is looked at in pieces of so many, so that none of them holds up the others.
const NAMES_AT_ONCE: usize = 1024;

/// What is walked, what of it is wanted, and what is read of that.
pub(super) struct Walker<'a> {
    pub(super) roots: &'a Roots,
    pub(super) filter: &'a Filter,
    pub(super) carried: Carried,
    pub(super) pseudo: PseudoFileSystems,
}

impl Walker<'_> {
    /// Looks at the folder, or at those of its names.
    pub(super) fn look(&self, work: Work) -> Output {
        let (Work::List(folder) | Work::Names(folder, _)) = &work;
        let folder = Arc::clone(folder);
        let Some(root) = self.roots.iter().nth(folder.root) else { return Output::default() };
        let mut look = Look { walker: self, root, folder: &folder, output: Output::default() };
        if let Err(error) = look.look(work) {
            look.skip(&folder.path, Why::unlisted(&error));
        }
        look.output.children.reverse();
        look.output
    }
}

struct Look<'a> {
    walker: &'a Walker<'a>,
    root: &'a Root,
    folder: &'a Arc<Folder>,
    output: Output,
}

impl Look<'_> {
    fn look(&mut self, work: Work) -> io::Result<()> {
        let (names, opened) = match work {
            Work::Names(_, names) => (names, None),
            Work::List(_) => self.names()?,
        };
        let passed;
        let at = match &opened {
            Some(opened) => opened.as_fd(),
            None => {
                passed = open_folder(self.root.base(), &self.folder.path, Purpose::Pass)?;
                passed.as_fd()
            }
        };
        let stat = rustix::fs::fstat(at)?;
        if self.folder.found.is_some_and(|found| found.has_gone(at, &stat)) {
            self.skip(&self.folder.path, Why::unmounted());
        } else if names.len() > NAMES_AT_ONCE {
            self.split(names);
        } else {
            names.iter().for_each(|name| self.look_at(at, &stat, name));
        }
        Ok(())
    }

    /// The names that may be wanted, in order, and the folder, where it was opened for them.
    fn names(&self) -> io::Result<(Vec<Vec<u8>>, Option<OwnedFd>)> {
        let (filter, path) = (self.walker.filter, &self.folder.path);
        if let Some(names) = filter.names_in(path) {
            return Ok((names, None));
        }
        let (mut names, opened) = listed(self.root.base(), path)?;
        // What a list names in a folder that comes whole is looked for, too: it may not be there.
        let named = filter.named_in(path);
        if !named.is_empty() {
            names.extend(named);
            names.sort_unstable();
            names.dedup();
        }
        Ok((names, Some(opened)))
    }

    /// Leaves the names to be looked at in pieces.
    fn split(&mut self, names: Vec<Vec<u8>>) {
        let mut names = names.into_iter().peekable();
        while names.peek().is_some() {
            let piece = names.by_ref().take(NAMES_AT_ONCE).collect();
            let work = Work::Names(Arc::clone(self.folder), piece);
            self.output.children.push(Arc::new(Node::new(None, work)));
        }
    }

    /// Looks at `name` in the folder that is open `at` and has the status `folder`.
    fn look_at(&mut self, at: BorrowedFd<'_>, folder: &Stat, name: &[u8]) {
        let path = joined(&self.folder.path, name);
        let looked = look_at(at, name);
        let Some(verdict) = self.judge(&path, &looked) else { return };
        match looked {
            // A receiver refuses each thing in it, since a transfer of that name would believe what it finds there.
            Ok(_) if is_unfinished_name(name) => self.skip(&path, Why::incomplete()),
            // It was made after the roots were compared with each other; the next run sends it.
            Ok((_, Status::Entry { .. })) if self.is_anothers(name) => {}
            Ok((stat, Status::Entry { kind, mtime, mode })) => {
                match self.walker.pseudo.hides_content(at, name, &stat) {
                    Ok(false) => {}
                    Ok(true) => return self.skip(&path, Why::hidden_content()),
                    Err(error) => return self.skip(&path, Why::unreadable(&error)),
                }
                let Some(path) = self.entry_path(path) else { return };
                let (extra, lost) = self.walker.carried.read(at, name, &stat);
                match lost {
                    None => {}
                    Some(error) if is_too_much(&error) => {
                        self.skip(path.as_bytes(), Why::without_attributes(&error));
                    }
                    // An entry without them would have those at the receiver removed.
                    Some(error) => return self.skip(path.as_bytes(), Why::unreadable(&error)),
                }
                let found =
                    (kind == EntryKind::Directory).then(|| Found::at(at, name, stat.st_dev != folder.st_dev));
                self.add(Entry { path, kind, mtime, mode, extra }, &stat, verdict, found);
            }
            Ok((_, Status::Special(what))) => self.skip(&path, Why::special(what)),
            Err(error) => self.skip(&path, Why::unreadable(&error)),
        }
    }

    /// Whether entries of this name come from another root.
    fn is_anothers(&self, name: &[u8]) -> bool {
        self.folder.path.is_empty() && !self.walker.roots.owns(self.folder.root, name)
    }

    /// Whether it is sent, as far as the user says that; `None` if not. What a list says and is not so is named.
    fn judge(&mut self, path: &[u8], looked: &io::Result<(Stat, Status)>) -> Option<Verdict> {
        let filter = self.walker.filter;
        let is_gone = looked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_gone && filter.lists(path) {
            self.skip(path, Why::listed("is in the list, and not there: check the spelling"));
            return None;
        }
        // What a list names and cannot be looked at is named too, even if only something in it was wanted.
        let is_folder = match looked {
            Ok((_, Status::Entry { kind, .. })) => *kind == EntryKind::Directory,
            Ok((_, Status::Special(_))) => false,
            Err(_) => filter.has_list(),
        };
        if !is_folder && filter.lists_below(path) {
            self.skip(path, Why::listed("is no folder, and the list names something in it: check the list"));
        }
        let judged = |is_folder| filter.judge(path, is_folder, self.folder.inside);
        let verdict = match judged(is_folder) {
            // It may be a folder. Left out without a word it would count as one that the source has not.
            Verdict::Out if looked.is_err() && !is_gone => judged(true),
            verdict => verdict,
        };
        (verdict != Verdict::Out).then_some(verdict)
    }

    fn entry_path(&mut self, path: Vec<u8>) -> Option<EntryPath> {
        match EntryPath::new(path.as_slice()) {
            Ok(path) => Some(path),
            Err(error) => {
                let detail = format!("is not sent ({error}): send the folder that it is in by itself");
                self.skip(&path, Why::saying(FailureCause::Unsupported, Lack::Unknown, detail));
                None
            }
        }
    }

    fn add(&mut self, entry: Entry, stat: &Stat, verdict: Verdict, found: Option<Found>) {
        if entry.kind != EntryKind::Directory {
            let position = self.output.found.len();
            self.output.inodes.extend(self.walker.carried.inode(stat).map(|inode| (position, inode)));
            self.output.found.push(entry);
            return;
        }
        let inside = verdict == Verdict::In;
        let path = entry.path.as_bytes().to_vec();
        let work = Work::List(Arc::new(Folder { root: self.folder.root, path, inside, found }));
        self.output.children.push(Arc::new(Node::new(Some((entry, inside)), work)));
    }

    fn skip(&mut self, path: &[u8], why: Why) {
        let (path, entry) = (self.root.display_path(path), EntryPath::new(path).ok());
        let Why { cause, detail, says_all, lack, too_many_files } = why;
        self.output.skipped.push(Skipped { path, entry, cause, detail, says_all, lack, too_many_files });
    }
}

/// Why something is skipped: what [`Skipped`] has beside where it is.
struct Why {
    cause: FailureCause,
    detail: String,
    says_all: bool,
    lack: Lack,
    too_many_files: bool,
}

impl Why {
    fn unreadable(error: &io::Error) -> Self {
        let cause = cause_of(error);
        let lack = if cause == FailureCause::Vanished { Lack::Nothing } else { Lack::Unknown };
        match remedy_of_too_many_files(error) {
            Some(remedy) => {
                let detail = format!("could not be read ({error}): {remedy}, then run the command again");
                Self { too_many_files: true, ..Self::saying(cause, lack, detail) }
            }
            None => Self { cause, detail: error.to_string(), says_all: false, lack, too_many_files: false },
        }
    }

    /// It is declared by now, and nobody knows what was in it.
    fn unlisted(error: &io::Error) -> Self {
        let why = Self::unreadable(error);
        let lack = if why.lack == Lack::Nothing { Lack::Itself } else { why.lack };
        Self { lack, ..why }
    }

    /// It is of a kind that is never sent.
    fn special(what: &str) -> Self {
        let detail = format!("it is {what}");
        let (cause, lack) = (FailureCause::Unsupported, Lack::Itself);
        Self { says_all: false, ..Self::saying(cause, lack, detail) }
    }

    /// What was in it is not there any more, and not removed.
    fn unmounted() -> Self {
        let detail = "is in no mount any more: mount what was there, then run the command again";
        Self::saying(FailureCause::Unreadable, Lack::Unknown, detail)
    }

    /// It would be sent as the empty file that it says it is.
    fn hidden_content() -> Self {
        let detail = "says that it is empty and has content, which its file system makes while it is read, so it is not sent: \
                      write that to an ordinary file with 'cat', and send the file";
        Self::saying(FailureCause::Unsupported, Lack::Itself, detail)
    }

    /// It is what another transfer has not completed.
    fn incomplete() -> Self {
        let detail =
            "is for what another transfer has not completed, and is not sent: end that, or remove it";
        Self::saying(FailureCause::Unsupported, Lack::Nothing, detail)
    }

    fn without_attributes(error: &io::Error) -> Self {
        let detail = format!("is sent without its attributes ({error})");
        Self::saying(FailureCause::Unsupported, Lack::Nothing, detail)
    }

    /// It is not as the list says.
    fn listed(detail: &str) -> Self {
        Self::saying(FailureCause::Unreadable, Lack::Unknown, detail)
    }

    /// Where the words of `cause` do not fit.
    fn saying(cause: FailureCause, lack: Lack, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into(), says_all: true, lack, too_many_files: false }
    }
}
