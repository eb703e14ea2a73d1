//! Where everything is in a transfer's ZIP file.

use std::sync::Arc;

use terahaul_core::EntryIndex;

use super::format::{Item, end_len};
use crate::DepotError;
use crate::transfer::{ManifestBatch, Published};

/// Where a batch of entries begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub first_entry: u64,
    /// In the file.
    pub local: u64,
    /// In the central directory.
    pub central: u64,
}

/// Where everything is. A mark a batch: the rest is worked out on the way.
pub(crate) struct Plan {
    pub(super) marks: Vec<Mark>,
    pub(super) entries: u64,
    pub(super) central_offset: u64,
    pub(super) central_size: u64,
    size: u64,
}

impl Plan {
    /// Bytes in the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The batch to start from for offset `local` in the file.
    pub(super) fn mark_for_local(&self, local: u64) -> Option<Mark> {
        let after = self.marks.partition_point(|mark| mark.local <= local);
        self.marks.get(after.checked_sub(1)?).copied()
    }

    /// The batch to start from for offset `central` in the central directory.
    pub(super) fn mark_for_central(&self, central: u64) -> Option<Mark> {
        let after = self.marks.partition_point(|mark| mark.central <= central);
        self.marks.get(after.checked_sub(1)?).copied()
    }
}

/// The items of a batch, without the entries that failed.
pub(super) fn items<'a>(
    published: &Published,
    batch: &'a ManifestBatch,
) -> impl Iterator<Item = (EntryIndex, Item<'a>)> {
    let indices = (batch.first as u32..).map(EntryIndex);
    let arrived = |(index, _): &(EntryIndex, _)| !published.failed().contains(index);
    indices.zip(&batch.entries).filter(arrived).map(|(index, entry)| (index, Item::new(entry)))
}

/// The plan of a transfer, made once.
pub(crate) async fn plan(published: &Published) -> Result<Arc<Plan>, DepotError> {
    let made = published.zip().get_or_try_init(|| make(published)).await?;
    Ok(Arc::clone(made))
}

async fn make(published: &Published) -> Result<Arc<Plan>, DepotError> {
    let mut marks = Vec::new();
    let (mut entries, mut local, mut central) = (0, 0, 0);
    let mut manifest = published.manifest(0)?;
    while let Some(batch) = manifest.next().await? {
        marks.push(Mark { first_entry: batch.first, local, central });
        for (_, item) in items(published, &batch) {
            central += item.central_len(local);
            local += item.local_len() + item.size + item.descriptor_len();
            entries += 1;
        }
    }
    let size = local + central + end_len(entries, central, local);
    Ok(Arc::new(Plan { marks, entries, central_offset: local, central_size: central, size }))
}
