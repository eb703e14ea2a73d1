//! Which entries of a folder are copied.
//!
//! | what says it | in | means |
//! |---|---|---|
//! | [`Filter::new`] | `send`, `receive`, `verify` | globs as in a `.gitignore`; excludes first, then includes |
//! | [`Filter::ordered`] | `cp` | rules as rsync has them: the first that matches decides ([`Rule`]) |
//! | [`Filter::with_list`] | `cp --files-from` | nothing but what a list names |

mod globs;
mod listed;
mod pattern;
mod rules;

use std::collections::BTreeSet;

use terahaul_core::{Entry, EntryKind, EntryPath};

use globs::Globs;
use listed::Listed;
pub use listed::{ListError, read_list};
pub use pattern::PatternError;
use rules::Rules;
pub use rules::{Rule, RuleError, read_rules};

pub use globs::FilterError;

/// Which entries are copied, by their paths as the transfer has them (`src/a/b.o` when `src` is sent).
///
/// What is left out is left out with all that is in it.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    globs: Globs,
    rules: Rules,
    listed: Option<Listed>,
    kept: BTreeSet<Box<[u8]>>,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is left out, with all that is in it.
    Out,
    /// It is sent, with all that is in it and not excluded.
    In,
    /// A folder that is sent only if something in it is.
    Maybe,
}

impl Filter {
    /// Globs as in a `.gitignore`. When there are includes, a file is sent only if one of them matches it or a folder
    /// it is in; folders without such a file are left out too. No globs: everything is sent.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Self, FilterError> {
        Ok(Self { globs: Globs::new(include, exclude)?, ..Self::default() })
    }

    /// Rules of which the first that matches decides. What no rule matches is sent.
    pub fn ordered(rules: &[Rule]) -> Result<Self, RuleError> {
        Ok(Self { rules: Rules::new(rules)?, ..Self::default() })
    }

    /// Nothing but what `paths` names, and the folders on the way to it. With `recursive`, a folder that is named
    /// brings all that is in it.
    pub fn with_list(mut self, paths: Vec<Box<[u8]>>, recursive: bool) -> Self {
        self.listed = Some(Listed::new(paths, recursive));
        self
    }

    /// The same, which leaves these alone as well.
    pub fn keeping(mut self, paths: &[EntryPath]) -> Self {
        self.kept.extend(paths.iter().map(|path| path.as_bytes().into()));
        self
    }

    /// Whether an entry of a manifest is wanted. A folder that is neither included itself nor in one that is counts as
    /// not wanted, although something in it may be.
    pub fn selects(&self, entry: &Entry) -> bool {
        if self.takes_all() {
            return true;
        }
        let path = entry.path.as_bytes();
        let mut inside = false;
        for slash in (0..path.len()).filter(|&at| path[at] == b'/') {
            match self.judge(&path[..slash], true, inside) {
                Verdict::Out => return false,
                Verdict::In => inside = true,
                Verdict::Maybe => {}
            }
        }
        self.judge(path, entry.kind == EntryKind::Directory, inside) == Verdict::In
    }

    /// Whether a walk with this filter could have found an entry of this path, a folder on the way to another included.
    pub fn admits(&self, entry: &Entry) -> bool {
        if self.takes_all() {
            return true;
        }
        let path = entry.path.as_bytes();
        let above = (0..path.len()).filter(|&at| path[at] == b'/').map(|slash| (&path[..slash], true));
        let itself = [(path, entry.kind == EntryKind::Directory)];
        let mut inside = false;
        above.chain(itself).all(|(path, is_folder)| {
            let verdict = self.judge(path, is_folder, inside);
            inside |= verdict == Verdict::In;
            verdict != Verdict::Out
        })
    }

    fn takes_all(&self) -> bool {
        self.globs.is_empty() && self.rules.is_empty() && self.listed.is_none() && self.kept.is_empty()
    }

    /// `inside` says that a folder it is in was matched by an include.
    pub(crate) fn judge(&self, path: &[u8], is_folder: bool, inside: bool) -> Verdict {
        let out = self.leaves_out(path, is_folder);
        match &self.listed {
            // As with rsync, rules are for what is listed, and not for what is only on the way to it.
            Some(listed) => match listed.judge(path, is_folder) {
                Verdict::In if out && is_folder && listed.is_on_the_way(path) => Verdict::Maybe,
                Verdict::In if out => Verdict::Out,
                verdict => verdict,
            },
            None if out => Verdict::Out,
            None => self.globs.judge(path, is_folder, inside),
        }
    }

    /// Whether rules leave it out, whatever a list says: then nothing touches what has this name, nor what is in it.
    pub(crate) fn leaves_out(&self, path: &[u8], is_folder: bool) -> bool {
        self.rules.excludes(path, is_folder) || self.kept.contains(path)
    }

    pub(crate) fn has_list(&self) -> bool {
        self.listed.is_some()
    }

    /// Whether a list names the path, or something below it.
    pub(crate) fn lists(&self, path: &[u8]) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.has(path) || listed.has_below(path))
    }

    /// Whether a list names something below the path.
    pub(crate) fn lists_below(&self, path: &[u8]) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.has_below(path))
    }

    /// The names in the folder `path` that a list says something of.
    pub(crate) fn named_in(&self, path: &[u8]) -> Vec<Vec<u8>> {
        self.listed.as_ref().map(|listed| listed.named_in(path)).unwrap_or_default()
    }

    /// The only names that can be wanted in the folder `path`, where a list says so.
    pub(crate) fn names_in(&self, path: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.listed.as_ref()?.names_in(path)
    }
}
