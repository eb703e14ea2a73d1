//! What the user asked for, as it travels to the far side: which entries, what is kept of them, and what is done about
//! what is there already.

use minicbor::{Decode, Encode};
use terahaul_tree::decision::{self, MakeWay};
use terahaul_tree::{Filter, Keep, Permissions, Rule, RuleError, Sense};

use crate::greeting::Name;

/// What is done with what is at the destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Rules {
    /// Nothing is written.
    #[n(0)]
    pub dry_run: bool,
    /// Files that are newer there stay.
    #[n(1)]
    pub update: bool,
    /// Nothing is made that is not there.
    #[n(2)]
    pub only_existing: bool,
    /// What is there stays as it is.
    #[n(3)]
    pub only_new: bool,
    /// When a file counts as unchanged.
    #[n(4)]
    pub compare: Compare,
    /// Folders with something in them are replaced by what is no folder.
    #[n(5)]
    pub force: bool,
    /// What is not at the source is removed.
    #[n(6)]
    pub delete: Option<Delete>,
    /// What is kept besides content, times and links.
    #[n(7)]
    pub kept: Kept,
    /// Every change is told.
    #[n(8)]
    pub itemise: bool,
    /// Where what is not complete is kept; beside the destination's names without.
    #[n(9)]
    pub partial_dir: Option<Name>,
}

/// When a file counts as unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Compare {
    /// The same size, and times so many seconds apart at most.
    #[n(0)]
    SizeAndTime(#[n(0)] u32),
    /// The same size.
    #[n(1)]
    Size,
    /// The same content.
    #[n(2)]
    Content,
    /// Never.
    #[n(3)]
    Never,
}

impl Default for Compare {
    fn default() -> Self {
        Self::SizeAndTime(0)
    }
}

/// How what is not at the source is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Delete {
    /// Most files and folders.
    #[n(0)]
    pub most: Option<u64>,
    /// Even if the sources could not be read whole.
    #[n(1)]
    pub despite_errors: bool,
}

/// What is kept of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Kept {
    /// Permission bits, of what exists as well.
    #[n(0)]
    pub permissions: bool,
    /// Users and groups.
    #[n(1)]
    pub owner: bool,
    /// By number.
    #[n(2)]
    pub numeric_ids: bool,
    /// Hard links.
    #[n(3)]
    pub hard_links: bool,
    /// Extended attributes.
    #[n(4)]
    pub xattrs: bool,
    /// Access control lists.
    #[n(5)]
    pub acls: bool,
}

/// Which entries are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Selection {
    /// The first that matches decides.
    #[n(0)]
    pub rules: Vec<Pattern>,
    /// Nothing but these paths below the source.
    #[n(1)]
    pub list: Option<List>,
    /// Devices, FIFOs and sockets, which are never copied, are passed over in silence. Earlier versions name them.
    #[cbor(n(2), default)]
    pub without_specials: bool,
}

/// A filter rule.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Pattern {
    /// Include what matches; otherwise exclude it.
    #[n(0)]
    pub include: bool,
    /// As rsync writes it.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub pattern: Vec<u8>,
}

/// A list of paths.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct List {
    /// Relative to the source.
    #[n(0)]
    pub paths: Vec<Name>,
    /// Folders bring what is in them.
    #[n(1)]
    pub recursive: bool,
}

impl Rules {
    pub(crate) fn decision_rules(&self) -> decision::Rules {
        decision::Rules {
            update: self.update,
            only_existing: self.only_existing,
            only_new: self.only_new,
            compare: match self.compare {
                Compare::SizeAndTime(window) => decision::Compare::SizeAndTime { window },
                Compare::Size => decision::Compare::Size,
                Compare::Content => decision::Compare::Content,
                Compare::Never => decision::Compare::Never,
            },
            make_way: self.make_way(),
            permissions: self.kept.keep().permissions,
            ..decision::Rules::default()
        }
    }

    /// Whether an entry that looks the same at both ends needs nothing. Names of one file refer to each other, and attributes are
    /// not looked at.
    pub(crate) fn tell_alike(&self) -> bool {
        let Kept { hard_links, xattrs, acls, .. } = self.kept;
        matches!(self.compare, Compare::SizeAndTime(_) | Compare::Size) && !(hard_links || xattrs || acls)
    }

    pub(crate) fn make_way(&self) -> MakeWay {
        if self.force || self.delete.is_some() { MakeWay::Whole } else { MakeWay::Empty }
    }
}

impl Kept {
    pub(crate) fn keep(self) -> Keep {
        let Self { permissions, owner, numeric_ids, hard_links, xattrs, acls } = self;
        let permissions = if permissions { Permissions::Exact } else { Permissions::Basic };
        Keep { permissions, owner, numeric_ids, hard_links, xattrs, acls }
    }
}

impl Selection {
    pub(crate) fn filter(&self) -> Result<Filter, RuleError> {
        let rule = |Pattern { include, pattern }: &Pattern| Rule {
            sense: if *include { Sense::Include } else { Sense::Exclude },
            pattern: pattern.as_slice().into(),
        };
        let filter = Filter::ordered(&self.rules.iter().map(rule).collect::<Vec<_>>())?;
        Ok(match &self.list {
            None => filter,
            Some(List { paths, recursive }) => {
                filter.with_list(paths.iter().map(|path| path.0.as_slice().into()).collect(), *recursive)
            }
        })
    }

    /// The names that the entries of a list have at the top; none where it names the source itself, and so everything.
    pub(crate) fn top_names(&self) -> Option<Vec<Name>> {
        let first = |path: &Name| path.0.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let mut names: Vec<_> = self.list.as_ref()?.paths.iter().map(first).collect();
        if names.iter().any(Vec::is_empty) {
            return Some(Vec::new());
        }
        names.sort_unstable();
        names.dedup();
        Some(names.into_iter().map(Name).collect())
    }
}
