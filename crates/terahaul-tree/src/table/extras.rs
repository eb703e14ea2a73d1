//! What entries carry beyond their rows, in little memory: owners once each, the rest only where there is any.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use terahaul_core::{Changed, EntryIndex, Extra, Hash, Owner, Xattr};

use super::TableFull;

#[derive(Default)]
pub(super) struct Extras {
    owners: Vec<Arc<Owner>>,
    numbers: HashMap<Arc<Owner>, u32>,
    /// The owner that was met last: mostly the next entry has the very same.
    last: Option<(Arc<Owner>, u32)>,
    /// By entry, one more than the owner's number; 0: none. Empty as long as no entry has an owner.
    owner_of: Vec<u32>,
    rest: BTreeMap<EntryIndex, Rest>,
    contents: BTreeMap<EntryIndex, Hash>,
    changes: BTreeMap<EntryIndex, Changed>,
}

#[derive(Default)]
struct Rest {
    same_as: Option<EntryIndex>,
    xattrs: Box<[Xattr]>,
}

impl Extras {
    /// `same_as` is the index that the extra's path stands for.
    pub(super) fn push(
        &mut self,
        index: EntryIndex,
        extra: &Extra,
        same_as: Option<EntryIndex>,
    ) -> Result<(), TableFull> {
        if let Some(owner) = &extra.owner {
            let number = self.number(owner)?;
            self.owner_of.resize(index.0 as usize, 0);
            self.owner_of.push(number + 1);
        }
        if same_as.is_some() || !extra.xattrs.is_empty() {
            self.rest.insert(index, Rest { same_as, xattrs: extra.xattrs.clone().into() });
        }
        if let Some(content) = extra.content {
            self.contents.insert(index, content);
        }
        if let Some(changed) = extra.changed {
            self.changes.insert(index, changed);
        }
        Ok(())
    }

    fn number(&mut self, owner: &Arc<Owner>) -> Result<u32, TableFull> {
        if let Some((last, number)) = &self.last
            && Arc::ptr_eq(last, owner)
        {
            return Ok(*number);
        }
        let number = self.number_of(owner)?;
        self.last = Some((Arc::clone(owner), number));
        Ok(number)
    }

    fn number_of(&mut self, owner: &Arc<Owner>) -> Result<u32, TableFull> {
        if let Some(&known) = self.numbers.get(owner) {
            return Ok(known);
        }
        let number =
            u32::try_from(self.owners.len()).ok().filter(|&number| number < u32::MAX).ok_or(TableFull)?;
        self.owners.push(Arc::clone(owner));
        self.numbers.insert(Arc::clone(owner), number);
        Ok(number)
    }

    pub(super) fn owner(&self, index: EntryIndex) -> Option<&Arc<Owner>> {
        let number = *self.owner_of.get(index.0 as usize)?;
        self.owners.get(number.checked_sub(1)? as usize)
    }

    pub(super) fn same_as(&self, index: EntryIndex) -> Option<EntryIndex> {
        self.rest.get(&index)?.same_as
    }

    /// From this entry on, those that are other names, each behind the first.
    pub(super) fn other_names(&self, from: EntryIndex) -> impl Iterator<Item = (EntryIndex, EntryIndex)> {
        self.rest.range(from..).filter_map(|(&index, rest)| Some((rest.same_as?, index)))
    }

    pub(super) fn content(&self, index: EntryIndex) -> Option<Hash> {
        self.contents.get(&index).copied()
    }

    pub(super) fn changed(&self, index: EntryIndex) -> Option<Changed> {
        self.changes.get(&index).copied()
    }

    pub(super) fn xattrs(&self, index: EntryIndex) -> &[Xattr] {
        self.rest.get(&index).map_or(&[], |rest| &rest.xattrs)
    }
}
