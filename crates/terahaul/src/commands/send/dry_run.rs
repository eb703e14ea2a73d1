//! `terahaul send --dry-run`: what would be sent, and what the depot has already.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use terahaul_core::{Address, BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, Entry, EntryPath, ReceiptEntry};
use terahaul_tree::{Batch, Filter, Roots, walk};

use super::feed::text_of;
use crate::api::{Api, EntryRecord};
use crate::blocking::blocking;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, counted};
use crate::settings::DepotSettings;

/// The entries that an unfinished transfer of the same command has and that have not failed.
#[derive(Default)]
struct Present(HashMap<EntryPath, There>);

/// An entry at the depot.
struct There {
    entry: Entry,
    is_complete: bool,
    /// Bytes of it that are kept there.
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
    let blocks = api.durable_blocks(transfer).await?;
    let keep = |record: EntryRecord| {
        if record.state != "failed"
            && let Ok(entry) = record.entry.to_entry()
        {
            let is_complete = record.state == "complete";
            let size = entry.file_size().unwrap_or_default();
            let durable = match record.address {
                Some(address) if !is_complete => durable_of(address, size, &blocks),
                _ => size,
            };
            present.0.insert(entry.path.clone(), There { entry, is_complete, durable });
        }
        Ok(())
    };
    api.entries(transfer, keep).await?;
    Ok(present)
}

/// How many bytes of a file that is not complete are in durable blocks: a small one has its only block with others.
fn durable_of(address: Address, size: ByteCount, durable: &[BlockRun]) -> ByteCount {
    let (Some(BlockNumber(first)), 0) = (address.block(), address.offset_in_block()) else {
        return ByteCount(0);
    };
    let end = first.saturating_add(size.0.div_ceil(BLOCK_SIZE) as u32);
    let before = durable.partition_point(|run| u64::from(run.first.0) + u64::from(run.count) <= first.into());
    let runs = durable[before..].iter().map_while(|run| run.below(end)?.from(first));
    let bytes = runs.map(|run| {
        let start = u64::from(run.first.0 - first) * BLOCK_SIZE;
        (start + u64::from(run.count) * BLOCK_SIZE).min(size.0) - start
    });
    ByteCount(bytes.sum())
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
            let there = |present: &'_ Present| {
                let there = present.0.get(&entry.path).filter(|there| there.entry.is_as(entry));
                there.map_or((false, ByteCount(0)), |there| (there.is_complete, there.durable))
            };
            let there = self.present.as_ref().map(there);
            let present = there.map(|(is_complete, _)| is_complete);
            self.count.entries += 1;
            self.count.bytes += size;
            self.count.present_bytes += there.map_or(ByteCount(0), |(_, durable)| durable);
            self.output.emit(&Event::Entry { entry: &ReceiptEntry::new(entry, None), present });
        }
    }

    fn finish(self) -> Exit {
        let Count { entries, bytes, present_bytes, failed } = self.count;
        let left = ByteCount(bytes.0 - present_bytes.0);
        let there = if self.present.is_some() {
            format!("; {left} of them are not at the depot yet")
        } else {
            String::new()
        };
        let text = format!("would send {}, {bytes}{there}", counted(entries, "entry", "entries"));
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
