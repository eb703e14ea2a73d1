//! `terahaul send --dry-run`: what would be sent, and what the depot has already.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use terahaul_core::{ByteCount, Entry, EntryPath, ReceiptEntry};
use terahaul_tree::{Batch, Filter, Roots, walk};

use super::feed::text_of;
use crate::api::{Api, EntryRecord};
use crate::blocking::blocking;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output};
use crate::settings::DepotSettings;

/// What an unfinished transfer of the same command has.
#[derive(Default)]
struct Present {
    /// Entries that are complete at the depot.
    complete: HashMap<EntryPath, Entry>,
    /// Bytes that are kept there, those of files that are not complete included.
    durable: ByteCount,
}

pub async fn run(
    roots: Arc<Roots>,
    filter: Filter,
    depot: Option<DepotSettings>,
    resume_key: &str,
    output: &Output,
) -> Result<Exit, Failure> {
    let present = match depot {
        Some(depot) => Some(present(&Api::new(&depot)?, resume_key).await?),
        None => None,
    };
    let output = output.clone();
    blocking(move || {
        let mut listing = Listing { present, output, count: Count::default() };
        walk(&roots, &filter, 0, |batch| {
            listing.handle_batch(batch);
            ControlFlow::Continue(())
        });
        listing.finish()
    })
    .await
}

async fn present(api: &Api, resume_key: &str) -> Result<Present, Failure> {
    let mut present = Present::default();
    let Some(transfer) = api.unfinished(resume_key).await? else { return Ok(present) };
    present.durable = ByteCount(api.transfer(transfer).await?.durable_bytes);
    let keep = |record: EntryRecord| {
        if record.state == "complete"
            && let Ok(entry) = record.entry.to_entry()
        {
            present.complete.insert(entry.path.clone(), entry);
        }
        Ok(())
    };
    api.entries(transfer, keep).await?;
    Ok(present)
}

struct Listing {
    present: Option<Present>,
    output: Output,
    count: Count,
}

#[derive(Default)]
struct Count {
    entries: u64,
    bytes: ByteCount,
    present_bytes: ByteCount,
    failed: u64,
}

impl Listing {
    fn handle_batch(&mut self, batch: Batch) {
        for skipped in &batch.skipped {
            self.count.failed += 1;
            let path = text_of(skipped);
            let message = skipped.message();
            self.output.emit(&Event::Failure { path, cause: skipped.cause.name(), message: &message });
        }
        for entry in &batch.found {
            let size = entry.file_size().unwrap_or_default();
            let present = self.present.as_ref().map(|present| {
                present.complete.get(&entry.path).is_some_and(|there| there.same_content_as(entry))
            });
            self.count.entries += 1;
            self.count.bytes += size;
            if present == Some(true) {
                self.count.present_bytes += size;
            }
            self.output.emit(&Event::Entry { entry: &ReceiptEntry::new(entry, None), present });
        }
    }

    fn finish(self) -> Exit {
        let Count { entries, bytes, present_bytes, failed } = self.count;
        let durable = self.present.as_ref().map_or(ByteCount(0), |present| present.durable);
        // What is there of files that are not complete counts, unless they have changed, which a run finds out.
        let present_bytes = present_bytes.max(durable.min(bytes));
        let left = ByteCount(bytes.0 - present_bytes.0);
        let there = if self.present.is_some() {
            format!("; {left} of them are not at the depot yet")
        } else {
            String::new()
        };
        let text = format!("would send {entries} entries, {bytes}{there}");
        let result = serde_json::json!({
            "dry_run": true,
            "entries": entries,
            "bytes": bytes,
            "present_bytes": self.present.is_some().then_some(present_bytes),
            "failed": failed,
        });
        self.output.emit(&Event::Done { command: "send", result, text });
        if failed == 0 { Exit::Ok } else { Exit::Partial }
    }
}
