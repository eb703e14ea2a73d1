//! Which entries of a folder are copied.
//!
//! | what says it | in | means |
//! |---|---|---|
//! | [`Filter::new`] | `send`, `receive`, `verify` | globs as in a `.gitignore`; excludes first, then includes |
//! | [`Filter::ordered`] | `cp` | rules as rsync has them: the first that matches decides ([`Rule`]) |
//! | [`Filter::with_list`] | `cp --files-from` | nothing but what a list names |

mod globs;
mod lines;
mod listed;
mod pattern;
mod rules;

use std::collections::BTreeSet;

use terahaul_core::{Entry, EntryKind, EntryPath};

use crate::beneath::split;
use globs::Globs;
pub use lines::LineEnd;
use listed::Listed;
pub use listed::{ListError, read_list};
pub use pattern::PatternError;
use rules::Rules;
pub use rules::{Rule, RuleError, Sense, read_rules};

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
        self.admits_path(entry.path.as_bytes(), entry.kind == EntryKind::Directory)
    }

    /// As [`admits`](Self::admits).
    pub(crate) fn admits_path(&self, path: &[u8], is_folder: bool) -> bool {
        if self.takes_all() {
            return true;
        }
        let above = (0..path.len()).filter(|&at| path[at] == b'/').map(|slash| (&path[..slash], true));
        let itself = [(path, is_folder)];
        let mut inside = false;
        above.chain(itself).all(|(path, is_folder)| {
            let verdict = self.judge(path, is_folder, inside);
            inside |= verdict == Verdict::In;
            verdict != Verdict::Out
        })
    }

    pub(crate) fn takes_all(&self) -> bool {
        self.globs.is_empty() && self.rules.is_empty() && self.listed.is_none() && self.kept.is_empty()
    }

    /// `inside` says that a folder it is in was matched by an include.
    pub(crate) fn judge(&self, path: &[u8], is_folder: bool, inside: bool) -> Verdict {
        let out = self.leaves_out(path, is_folder);
        match &self.listed {
            // As with rsync, rules are for what is listed, and not for what is only on the way to it.
            Some(listed) if !out && (listed.has(path) || self.brings_into(path)) => Verdict::In,
            Some(listed) if is_folder && listed.has_below(path) => Verdict::Maybe,
            Some(_) => Verdict::Out,
            None if out => Verdict::Out,
            None => self.globs.judge(path, is_folder, inside),
        }
    }

    /// Whether the folder that the path is in comes with all that is in it.
    fn brings_into(&self, path: &[u8]) -> bool {
        let (above, _) = split(path);
        !path.is_empty() && self.brings(above)
    }

    /// Whether a list has the folder come with all that is in it: it is listed, or in one that is, and rules leave out nothing between.
    fn brings(&self, folder: &[u8]) -> bool {
        let Some(listed) = self.listed.as_ref().filter(|listed| listed.is_recursive()) else { return false };
        let ends = (0..folder.len()).filter(|&at| folder[at] == b'/').chain([folder.len()]);
        ends.filter(|&end| end > 0).fold(listed.has(b""), |brings, end| {
            let above = &folder[..end];
            (brings || listed.has(above)) && !self.leaves_out(above, true)
        })
    }

    /// Whether rules leave it out, whatever a list says: then nothing touches what has this name, nor what is in it.
    pub(crate) fn leaves_out(&self, path: &[u8], is_folder: bool) -> bool {
        self.rules.excludes(path, is_folder) || self.kept.contains(path)
    }

    /// Whether a list says what is copied.
    pub fn has_list(&self) -> bool {
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
        let listed = self.listed.as_ref()?;
        (!self.brings(path)).then(|| listed.named_in(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(paths: &[&[u8]], recursive: bool) -> Filter {
        Filter::default().with_list(paths.iter().map(|path| Box::from(*path)).collect(), recursive)
    }

    #[test]
    fn only_what_is_listed_is_looked_at() {
        let paths = [&b"a/x"[..], b"a-b", b"a/y/z", b"c", b"a"];
        let plain = listed(&paths, false);
        assert_eq!(plain.names_in(b""), Some(vec![b"a".to_vec(), b"a-b".to_vec(), b"c".to_vec()]));
        assert_eq!(plain.names_in(b"a"), Some(vec![b"x".to_vec(), b"y".to_vec()]));
        assert_eq!(plain.names_in(b"c"), Some(vec![]));
        assert_eq!(plain.judge(b"a/y", true, false), Verdict::Maybe);
        assert_eq!(plain.judge(b"c", true, false), Verdict::In);
        assert_eq!(plain.judge(b"a/other", false, false), Verdict::Out);
        let deep = listed(&paths, true);
        assert_eq!(deep.names_in(b"c"), None);
        assert_eq!(deep.judge(b"a/other/deep", false, false), Verdict::In);
        assert_eq!(deep.judge(b"b", true, false), Verdict::Out);
        for (recursive, judged, names) in [(true, Verdict::In, None), (false, Verdict::Out, Some(vec![]))] {
            let itself = listed(&[b""], recursive);
            assert_eq!((itself.judge(b"a/x", false, false), itself.names_in(b"")), (judged, names));
        }
    }

    /// What is listed in it comes all the same.
    #[test]
    fn a_folder_that_a_rule_leaves_out_of_one_that_comes_whole_brings_what_is_listed_alone() {
        let rule = Rule { sense: Sense::Exclude, pattern: Box::from(&b"sub"[..]) };
        let filter = Filter::ordered(&[rule]).unwrap();
        let filter = filter.with_list(vec![Box::from(&b"foo"[..]), Box::from(&b"foo/sub/c"[..])], true);
        assert_eq!(filter.judge(b"foo/sub", true, true), Verdict::Maybe);
        assert_eq!(filter.names_in(b"foo/sub"), Some(vec![b"c".to_vec()]));
        assert_eq!(filter.judge(b"foo/sub/c", false, true), Verdict::In);
        assert_eq!(filter.judge(b"foo/sub/other", false, true), Verdict::Out);
        assert_eq!(filter.judge(b"foo/other", false, true), Verdict::In);
    }
}
