//! Files here that stay, and have names in the places of several entries. What one of those gets they all have: where that is not what the
//! sender has, the second of them is written anew, as a file of its own.

use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rustix::fs::Stat;
use terahaul_core::{Entry, EntryKind};

use super::Survey;
use crate::Permissions;
use crate::decision::{Decision, Reason};
use crate::listing::{file_of, is_folder};

/// What is in an entry's place, stays there, and has other names.
pub(super) struct Linked {
    /// By its device and number.
    file: (u64, u64),
    gets: Gets,
    /// Hard links are kept, so no other entry that asks is a name of the same file.
    alone: bool,
}

/// What becomes of something that stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gets {
    Nothing,
    /// Its entry's metadata, which has this hash.
    Metadata(u64),
}

/// What stays in the place of an entry, and may be found by its other names. Of what has none nothing is kept.
#[derive(Default)]
pub(super) struct Staying {
    found: Mutex<HashMap<(u64, u64), Gets>>,
    hasher: RandomState,
}

impl Staying {
    /// Whether it may stay under this name too.
    fn admits(&self, linked: &Linked) -> bool {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match found.entry(linked.file) {
            hash_map::Entry::Vacant(first) => {
                first.insert(linked.gets);
                true
            }
            hash_map::Entry::Occupied(first) => !linked.alone && *first.get() == linked.gets,
        }
    }
}

impl Survey {
    /// What has other names, and so may be in the places of several entries, if this decision lets it stay.
    pub(super) fn linked(&self, entry: &Entry, stat: &Stat, decision: Decision) -> Option<Linked> {
        let gets = match decision {
            _ if !has_other_names(stat) => return None,
            // It stays as it is, whatever it is.
            _ if self.rules.only_new => return None,
            Decision::Skip(Reason::Same) => Gets::Nothing,
            Decision::Metadata(_) => Gets::Metadata(self.hash_of_metadata(entry)),
            Decision::Skip(_) | Decision::Write(_) | Decision::Compare(_) | Decision::Refuse(_) => {
                return None;
            }
        };
        let alone = self.keep.hard_links && matches!(entry.kind, EntryKind::File { .. });
        Some(Linked { file: file_of(stat), gets, alone })
    }

    /// Whether it may stay in this entry's place, too. Asked in the order in which entries are decided.
    pub(super) fn may_stay(&self, linked: &Linked) -> bool {
        self.staying.admits(linked)
    }

    /// Whether what has this status may stay as it is in the place of an entry that is the same.
    pub(super) fn may_stay_as_it_is(&self, stat: &Stat) -> bool {
        let linked = || Linked { file: file_of(stat), gets: Gets::Nothing, alone: false };
        self.rules.only_new || !has_other_names(stat) || self.may_stay(&linked())
    }

    fn hash_of_metadata(&self, entry: &Entry) -> u64 {
        let mode = (self.rules.permissions == Permissions::Exact).then_some(entry.mode);
        let dress = entry.extra.as_ref().map(|extra| (&extra.owner, &extra.xattrs));
        self.staying.hasher.hash_one((entry.mtime, mode, dress))
    }
}

/// What counts as a folder's names are the folders in it.
fn has_other_names(stat: &Stat) -> bool {
    stat.st_nlink > 1 && !is_folder(stat)
}
