//! `terahaul send --dry-run`: what would be sent, and what the depot has already.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use terahaul_core::{
    Address, BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, Disposition, EntryIndex, FailureCause,
    ReceiptEntry, TransferId,
};
use terahaul_net::client::Stored;
use terahaul_tree::{Batch, Filter, Roots, walk};

use super::awaited::{Awaited, Gone, MISSED, VANISHED, say_kept};
use super::feed::{check_top, text_of};
use super::{left, mounted};
use crate::api::{Api, EntryRecord};
use crate::blocking::blocking;
use crate::cli::FilterArgs;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, counted};
use crate::settings::DepotSettings;

/// What an unfinished transfer of the same command has.
#[derive(Default)]
struct Present {
    /// None where there is no such transfer.
    transfer: Option<TransferId>,
    stored: Stored,
    /// Of each entry.
    kept: Vec<Kept>,
}

/// What the depot has of an entry.
#[derive(Clone, Copy, Default)]
struct Kept {
    is_complete: bool,
    bytes: ByteCount,
}

pub async fn run(
    roots: Arc<Roots>,
    (filter, globs): (Filter, FilterArgs),
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
        let is_begun = present.as_ref().is_some_and(|present| present.transfer.is_some());
        let mut listing = Listing::new(present, &roots, output)?;
        let mut handled = Ok(());
        walk(&roots, &filter, 0, |batch| {
            handled = listing.handle_batch(batch);
            if handled.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        handled?;
        if listing.has_nothing() && !is_begun {
            left::check_empty(&globs, &roots)?;
        }
        Ok(listing.finish())
    })
    .await?
}

async fn present(api: &Api, resume_key: &str) -> Result<Present, Failure> {
    let mut present = Present { transfer: api.unfinished(resume_key).await?, ..Present::default() };
    let Some(transfer) = present.transfer else { return Ok(present) };
    let blocks = api.durable_blocks(transfer).await?;
    let keep = |record: EntryRecord| {
        if let Ok(entry) = record.entry.to_entry() {
            let is_complete = record.state == "complete";
            let size = entry.file_size().unwrap_or_default();
            let bytes = match record.address {
                Some(address) if !is_complete => durable_of(address, size, &blocks),
                _ => size,
            };
            if record.state == "failed" {
                present.stored.failed.insert(EntryIndex(present.kept.len() as u32));
            }
            present.stored.entries.push(entry);
            present.kept.push(Kept { is_complete, bytes });
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
    /// Of each entry at the depot, if one is set.
    kept: Option<Vec<Kept>>,
    awaited: Awaited,
    output: Output,
    count: Count,
}

#[derive(Default)]
struct Count {
    entries: u64,
    bytes: ByteCount,
    present_bytes: ByteCount,
    failed: u64,
    /// Gone here, and all of them at the depot.
    kept: usize,
}

impl Listing {
    /// Fails where a run would, because a disk may be missing.
    fn new(present: Option<Present>, roots: &Roots, output: Output) -> Result<Self, Failure> {
        let (mut awaited, count) = (Awaited::default(), Count::default());
        let Some(Present { transfer, stored, kept }) = present else {
            return Ok(Self { kept: None, awaited, output, count });
        };
        if let Some(transfer) = transfer {
            mounted::check(roots, &stored, |entry| kept_of(&kept, entry).is_complete, transfer)?;
            awaited = Awaited::new(&stored.entries, &stored.failed, &BTreeSet::new());
        }
        Ok(Self { kept: Some(kept), awaited, output, count })
    }

    fn handle_batch(&mut self, batch: Batch) -> Result<(), Failure> {
        for skipped in batch.skipped {
            check_top(&skipped)?;
            self.name(text_of(&skipped), skipped.cause, &skipped.message());
            self.awaited.handle_skipped(skipped);
        }
        for entry in &batch.found {
            let (disposition, _) = self.awaited.handle_found(entry);
            let kept = self.kept.as_ref().map(|kept| match disposition {
                Disposition::Known(index) => kept_of(kept, index),
                Disposition::New | Disposition::Changed(_) => Kept::default(),
            });
            self.count.entries += 1;
            self.count.bytes += entry.file_size().unwrap_or_default();
            self.count.present_bytes += kept.unwrap_or_default().bytes;
            let present = kept.map(|kept| kept.is_complete);
            self.output.emit(&Event::Entry { entry: &ReceiptEntry::new(entry, None), present });
        }
        Ok(())
    }

    fn has_nothing(&self) -> bool {
        self.count.entries == 0 && self.count.failed == 0
    }

    fn name(&mut self, path: PathText, cause: FailureCause, message: &str) {
        self.count.failed += 1;
        self.output.emit(&Event::Failure { path, cause: cause.name(), message });
    }

    /// Names what a run would name at its end.
    fn name_gone(&mut self) {
        let at_depot = self.kept.take().unwrap_or_default();
        let gone: Vec<_> = self.awaited.take_absent(|entry| kept_of(&at_depot, entry).is_complete).collect();
        let vanished = FailureCause::Vanished;
        let message = format!("{} ({VANISHED})", vanished.describe());
        for (_, path, gone) in gone {
            match gone {
                Gone::Displaced => {}
                Gone::Kept => self.count.kept += 1,
                Gone::Vanished => self.name(PathText::from(&path), vanished, &message),
            }
        }
        say_kept(self.count.kept, &self.output);
        let missed: Vec<_> = self.awaited.take_missed().collect();
        missed.iter().for_each(|path| self.name(PathText::from(path), vanished, MISSED));
    }

    fn finish(mut self) -> Exit {
        let knows_depot = self.kept.is_some();
        self.name_gone();
        let Count { entries, bytes, present_bytes, failed, kept } = self.count;
        let left = ByteCount(bytes.0 - present_bytes.0);
        let there =
            if knows_depot { format!("; {left} of them are not at the depot yet") } else { String::new() };
        let text = format!("would send {}, {bytes}{there}", counted(entries, "entry", "entries"));
        let result = serde_json::json!({
            "dry_run": true,
            "entries": entries,
            "bytes": bytes,
            "present_bytes": knows_depot.then_some(present_bytes),
            "failed": failed,
            "kept": kept,
        });
        self.output.emit(&Event::Done { command: "send", result, text });
        if failed == 0 { Exit::Ok } else { Exit::Partial }
    }
}

fn kept_of(kept: &[Kept], entry: EntryIndex) -> Kept {
    kept.get(entry.0 as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use terahaul_core::EntryPath;
    use terahaul_tree::{Lack, Skipped};

    use super::*;
    use crate::cli::GlobalArgs;

    /// All that an earlier run had found in it was called gone.
    #[test]
    fn a_dry_run_ends_as_a_run_where_the_named_folder_cannot_be_listed_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[folder.path().join("")]).unwrap();
        let output = Output::new(GlobalArgs { json: false, quiet: true });
        let mut listing = Listing::new(None, &roots, output).unwrap();
        let mut handle = |path: &str| {
            let (entry, cause) = (EntryPath::new(path.as_bytes()).ok(), FailureCause::Unreadable);
            let (path, detail) = (path.into(), "input/output error".into());
            let skipped = Skipped {
                path,
                entry,
                cause,
                detail,
                says_all: false,
                lack: Lack::Unknown,
                too_many_files: false,
            };
            listing.handle_batch(Batch { skipped: vec![skipped], ..Batch::default() })
        };
        assert!(handle("src/below").is_ok(), "the rest is sent");
        assert_eq!(handle("src/").unwrap_err().exit, Exit::Usage);
    }
}
