//! Files of which the depot has a part, and in whose place another one may have come since.
//!
//! A file of the same size and modification time is the same file. Of one that has arrived whole the depot keeps what it was; of one that has
//! not, it would come to have pieces of two files, and sign them. The status of a file and of the folders that it is in tells, which nobody
//! can date back: where it has changed since the transfer was begun, what the depot has of the file is compared with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terahaul_core::{BlockHasher, BlockNumber, BlockRun, BlockShape, EntryIndex, FailureCause, Hash, Mtime};
use terahaul_net::channel::Outbound;
use terahaul_net::client::Sending;
use terahaul_store::{BlockSource, EntryFailure};
use terahaul_tree::TreeSource;

use crate::api::Api;
use crate::blocking::blocking;
use crate::commands::persist::persist;
use crate::exit::Failure;
use crate::output::{Output, counted};

/// By how much clocks may be apart, and a time stamp be late: comparing a file costs little beside sending it.
const LEEWAY: Duration = Duration::from_secs(60);
/// Blocks whose values are asked for at once, as many as a depot answers.
const VALUES: u32 = 1000;
/// What is read at once.
const READ: usize = 1 << 20;

/// What an earlier run has sent a part of: large files, each with the blocks that the depot has.
pub type Parts = Vec<(EntryIndex, Vec<BlockRun>)>;

/// Those of `parts` that are not of the files that are there now. The others, which are [withheld](Outbound::withhold), are let go, but for
/// what cannot be read: that may be another file by the time that it can, and fails. What has changed or vanished says so when it is to be sent.
pub async fn replaced(
    (api, sending): (&Api, &Arc<Sending>),
    (source, known): (&Arc<TreeSource>, &Arc<Outbound>),
    parts: Parts,
    output: &Output,
) -> Result<BTreeSet<EntryIndex>, Failure> {
    if parts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let transfer = sending.transfer();
    // The session waits for a depot that is out of reach, and so does this.
    let age = persist(&|| (), async || api.age(transfer).await).await?;
    let begun = age.and_then(|age| SystemTime::now().checked_sub(age)?.checked_sub(LEEWAY));
    let looked_at = Arc::clone(source);
    let touched = blocking(move || {
        let is_touched = |entry| match looked_at.place_changed(entry) {
            Ok(at) => is_after(at, begun),
            Err(failure) => failure.cause == FailureCause::Unreadable,
        };
        parts.into_iter().partition::<Parts, _>(|(entry, _)| is_touched(*entry))
    });
    let (touched, untouched) = touched.await?;
    known.let_go(untouched.into_iter().map(|(entry, _)| entry));
    if !touched.is_empty() {
        output.notice(format!(
            "comparing what the depot has of {} that may have changed since the interrupted run",
            counted(touched.len() as u64, "file", "files")
        ));
    }
    let (mut replaced, mut unreadable) = (BTreeSet::new(), Vec::new());
    'touched: for (entry, runs) in touched {
        for run in runs.into_iter().flat_map(in_parts) {
            if sending.has_ended() {
                // Whoever waits for it says why.
                return Ok(replaced);
            }
            let values = persist(&|| (), async || api.block_values(transfer, run.first, run.count).await);
            let values: BTreeMap<BlockNumber, Hash> = values.await?.into_iter().collect();
            let (source, known) = (Arc::clone(source), Arc::clone(known));
            let same = blocking(move || {
                let mut buffer = vec![0; READ];
                let shapes =
                    run.blocks().filter_map(|block| Some((known.shape(block)?, values.get(&block)?)));
                for (shape, value) in shapes {
                    if !has_value(&source, &shape, *value, &mut buffer)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
            match same.await? {
                Ok(true) => continue,
                Ok(false) => drop(replaced.insert(entry)),
                Err(failure) => unreadable.push(failure),
            }
            continue 'touched;
        }
        known.let_go([entry]);
    }
    if !unreadable.is_empty() {
        let sending = Arc::clone(sending);
        blocking(move || sending.fail(unreadable)).await??;
    }
    Ok(replaced)
}

fn is_after(at: Mtime, begun: Option<SystemTime>) -> bool {
    let Some(begun) = begun else { return true };
    let since = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    (at.seconds, at.nanos) > (since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_nanos())
}

fn in_parts(run: BlockRun) -> impl Iterator<Item = BlockRun> {
    let parts = (0..run.count).step_by(VALUES as usize);
    parts.map(move |at| BlockRun { first: BlockNumber(run.first.0 + at), count: VALUES.min(run.count - at) })
}

/// Whether a block of what is there has this value, or is not of the file that it was to be. An error where it cannot be read.
fn has_value(
    source: &TreeSource,
    shape: &BlockShape,
    value: Hash,
    buffer: &mut [u8],
) -> Result<bool, EntryFailure> {
    let mut hasher = BlockHasher::new(shape);
    let read = source.read_block(shape, buffer, &mut |bytes| {
        hasher.update(bytes);
        Ok(())
    });
    match read {
        Ok(failures) if failures.is_empty() => Ok(hasher.finish().value() == value),
        Ok(failures) => {
            let unreadable = failures.into_iter().find(|failure| failure.cause == FailureCause::Unreadable);
            unreadable.map_or(Ok(true), Err)
        }
        // Only who takes what is read has one, and the hasher has none.
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_asked_for_in_parts_that_a_depot_answers() {
        let run = |first, count| BlockRun { first: BlockNumber(first), count };
        assert_eq!(in_parts(run(7, 1)).collect::<Vec<_>>(), [run(7, 1)]);
        assert_eq!(in_parts(run(7, 2001)).collect::<Vec<_>>(), [run(7, 1000), run(1007, 1000), run(2007, 1)]);
    }

    #[test]
    fn only_a_status_that_changed_later_counts_and_any_where_nobody_knows_when_it_began() {
        let at = |seconds| Mtime { seconds, nanos: 0 };
        let begun = UNIX_EPOCH + Duration::from_secs(100);
        assert!(
            is_after(at(101), Some(begun))
                && !is_after(at(100), Some(begun))
                && !is_after(at(-5), Some(begun))
        );
        assert!(is_after(at(-5), None));
    }
}
