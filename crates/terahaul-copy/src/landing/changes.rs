//! What becomes of entries, as it is told.
//!
//! A near side that loses its connection may not have heard it. It repeats the batches that it does not know to be accepted: what became of
//! those is told again, and a near side passes over what it has heard.

use std::collections::VecDeque;

use terahaul_core::EntryIndex;
use terahaul_net::client::MOST_UNACCEPTED;
use terahaul_wire::MAX_BATCH_ENTRIES;

use crate::notes::Changed;

/// What may be told again, at most.
const MOST: usize = MOST_UNACCEPTED * MAX_BATCH_ENTRIES;

/// What is changed, by entry: what was not told, and the last of what was.
#[derive(Default)]
pub(super) struct Changes {
    changed: VecDeque<Changed>,
    /// How many of these were told.
    told: usize,
}

impl Changes {
    /// The next entry, if it is changed.
    pub(super) fn add(&mut self, changed: Option<Changed>) {
        self.changed.extend(changed);
    }

    /// What is to be told.
    pub(super) fn take(&mut self) -> Vec<Changed> {
        let untold = self.changed.range(self.told..).copied().collect();
        let past = self.changed.len().saturating_sub(MOST);
        self.changed.drain(..past);
        self.told = self.changed.len();
        untold
    }

    /// What became of this entry and those behind it may not have been heard.
    pub(super) fn repeat_from(&mut self, EntryIndex(first): EntryIndex) {
        self.told = self.told.min(self.changed.partition_point(|changed| changed.entry < first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_have_been_heard_is_told_again_in_order_and_only_so_much_is_kept() {
        let entries = |changes: &mut Changes| changes.take().iter().map(|one| one.entry).collect::<Vec<_>>();
        let add = |changes: &mut Changes, entry| {
            changes.add(Some(Changed { entry, written: true, changes: 0 }));
        };
        let mut changes = Changes::default();
        [1, 3, 5].into_iter().for_each(|entry| add(&mut changes, entry));
        assert_eq!(entries(&mut changes), [1, 3, 5]);
        add(&mut changes, 7);
        changes.repeat_from(EntryIndex(2));
        assert_eq!(entries(&mut changes), [3, 5, 7]);
        changes.repeat_from(EntryIndex(8));
        assert_eq!(entries(&mut changes), [0; 0]);
        (8..8 + 2 * MOST as u32).for_each(|entry| add(&mut changes, entry));
        assert_eq!(entries(&mut changes).len(), 2 * MOST, "none is lost before it was told");
        changes.repeat_from(EntryIndex(0));
        assert_eq!(entries(&mut changes).len(), MOST);
    }
}
