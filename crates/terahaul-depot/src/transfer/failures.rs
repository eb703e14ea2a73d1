//! The failures of a finished transfer, a page at a time: there may be as many as entries.

use terahaul_core::{EntryIndex, FailureCause, ReceiptFailure};

use super::entry_list::sentence;
use super::{ManifestBatch, Published};
use crate::DepotError;
use crate::db::StoredFailure;
use crate::depot::Depot;

/// Failures that are read at once.
const PAGE: u32 = 1000;

/// An entry that did not arrive.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which entry.
    pub entry: EntryIndex,
    /// What happened.
    pub cause: FailureCause,
    /// The system's words.
    pub detail: String,
}

/// Reads a transfer's failed entries in order.
struct FailureReader {
    published: Published,
    from: u64,
}

impl FailureReader {
    fn new(published: &Published, from: EntryIndex) -> Self {
        Self { published: published.clone(), from: from.0.into() }
    }

    /// The next page; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<StoredFailure>>, DepotError> {
        let page = self.published.depot()?.inner.db.failures(self.published.id(), self.from, PAGE).await?;
        // Asked afterwards: it is closed before its rows change, and then this is not all.
        if self.published.is_closed() {
            return Err(DepotError::NoTransfer);
        }
        let Some(last) = page.last() else { return Ok(None) };
        self.from = u64::from(last.entry.0) + 1;
        Ok(Some(page))
    }
}

/// Reads what a receipt says did not arrive.
pub(crate) struct NamedFailures {
    failures: FailureReader,
    /// The batch that the last named entry is in.
    batch: Option<ManifestBatch>,
}

impl NamedFailures {
    /// Some more; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<ReceiptFailure>>, DepotError> {
        let Some(page) = self.failures.next().await? else { return Ok(None) };
        let mut named = Vec::new();
        for failure in page.iter().filter(|failure| !failure.superseded) {
            named.push(ReceiptFailure { path: self.path(failure.entry).await?, reason: sentence(failure) });
        }
        Ok(Some(named))
    }

    async fn path(&mut self, entry: EntryIndex) -> Result<String, DepotError> {
        let index = u64::from(entry.0);
        let known = |batch: &ManifestBatch| {
            let at = usize::try_from(index.checked_sub(batch.first)?).ok()?;
            batch.entries.get(at).map(|entry| String::from_utf8_lossy(entry.path.as_bytes()).into_owned())
        };
        if let Some(path) = self.batch.as_ref().and_then(known) {
            return Ok(path);
        }
        self.batch = self.failures.published.manifest(index)?.next().await?;
        let path = self.batch.as_ref().and_then(known);
        path.ok_or_else(|| DepotError::Damaged("a failed entry is not stored".into()))
    }
}

impl Depot {
    /// Some of the entries from `from` on that did not arrive, superseded ones included, in order; none behind the last.
    pub async fn failures(
        &self,
        published: &Published,
        from: EntryIndex,
    ) -> Result<Vec<Failure>, DepotError> {
        let page = FailureReader::new(published, from).next().await?.unwrap_or_default();
        let told = |StoredFailure { entry, cause, detail, .. }| Failure { entry, cause, detail };
        Ok(page.into_iter().map(told).collect())
    }

    /// What a receipt says did not arrive.
    pub(crate) fn named_failures(&self, published: &Published) -> NamedFailures {
        NamedFailures { failures: FailureReader::new(published, EntryIndex(0)), batch: None }
    }
}
