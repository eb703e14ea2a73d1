//! Whether what was written is what the depot signed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use terahaul_core::{Entry, EntryIndex, EntryPath, Hash, empty_file_hash};
use terahaul_net::client::Received;
use terahaul_tree::Verdict;

use super::destination::{Folder, MOST_NAMED, kept_for_the_same, record_failure};
use crate::api::Api;
use crate::blocking::blocking;
use crate::commands::receipts::fetch;
use crate::commands::verify::uncompared;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, counted};
use crate::proof::{ReceiptFile, RootCheck, check_root, file_hashes};

/// Checks signature and entries before anything gets its final name. Returns how many files were compared.
///
/// With every file received here, the root alone proves all of them. Otherwise each one received is compared with the
/// depot's receipt, whose root is checked.
pub async fn check(api: &Api, folder: &Arc<Folder>, received: &Received) -> Result<u64, Failure> {
    received
        .statement
        .verify(&received.signature)
        .map_err(|error| Failure::new(Exit::VerifyFailed, error.to_string()))?;
    let (working, statement) = (Arc::clone(folder), received.statement.clone());
    let (known, files, check) = blocking(move || {
        let known = Known::of(&working)?;
        let mut files = 0;
        let entries = known.arrived.iter().filter_map(|index| {
            let entry = working.sink.entry(*index)?;
            // Not by the hashes: of a block of small files, one that failed has one here, too.
            files += u64::from(entry.file_size().is_some() && !known.left_out.contains(index));
            Some((entry, known.hashes.get(index.0 as usize).copied().flatten()))
        });
        let check = check_root(&statement, entries);
        Ok::<_, Failure>((known, files, check))
    })
    .await??;
    match check {
        RootCheck::Same => Ok(files),
        RootCheck::Different => Err(not_signed("the entries")),
        RootCheck::Unknown if known.is_left_out() => Ok(0),
        RootCheck::Unknown => {
            let receipt = receipt_of(api, received).await?;
            let folder = Arc::clone(folder);
            blocking(move || known.compare(&folder, &receipt)).await?
        }
    }
}

/// The receipt with the statement that was received.
async fn receipt_of(api: &Api, received: &Received) -> Result<ReceiptFile, Failure> {
    let receipt = fetch(api, received.statement.transfer, &|| ()).await?;
    match receipt.statement == received.statement {
        true => Ok(receipt),
        false => Err(not_signed("the statements")),
    }
}

/// Reads again what was there already, because its size and time alone prove nothing. Returns how many files.
pub async fn check_skipped(
    api: &Api,
    folder: &Arc<Folder>,
    received: &Received,
    dir: &Path,
    output: &Output,
) -> Result<u64, Failure> {
    let skipped = folder.skipped();
    if skipped.is_empty() {
        return Ok(0);
    }
    let count = counted(skipped.len() as u64, "entry that is", "entries that are");
    output.notice(format!("reading again {count} there already, to compare with the receipt"));
    let receipt = receipt_of(api, received).await?;
    let (folder, dir, output) = (Arc::clone(folder), dir.to_owned(), output.clone());
    blocking(move || read_again(&folder, &skipped, &receipt, &dir, &output)).await?
}

fn read_again(
    folder: &Folder,
    skipped: &BTreeSet<EntryIndex>,
    receipt: &ReceiptFile,
    dir: &Path,
    output: &Output,
) -> Result<u64, Failure> {
    let arrived = Known::of(folder)?.arrived;
    let expected = arrived.iter().filter(|index| skipped.contains(index)).count();
    let mut arrived = arrived.into_iter();
    let (mut entries, mut other) = (Vec::new(), None);
    receipt.entries(&mut |signed| {
        let Some(index) = arrived.next() else { return false };
        if !skipped.contains(&index) {
            return true;
        }
        let is_same = |entry: &Entry| folder.sink.entry(index).as_ref() == Some(entry);
        match signed.to_entry().ok().filter(is_same) {
            Some(entry) => entries.push((entry, signed.blake3)),
            None => other = Some(signed.path.escape_debug().to_string()),
        }
        other.is_none()
    })?;
    if let Some(path) = other {
        return Err(not_signed(&path));
    }
    if entries.len() != expected {
        return Err(not_signed("the number of entries"));
    }
    let (count, mut different) = (entries.len() as u64, Different::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    terahaul_tree::verify(dir, entries.into_iter(), threads, |at, entry, verdict| {
        different.handle(at, entry, verdict);
    })
    .map_err(|error| uncompared(dir, &error))?;
    match different.settle(output) {
        None => Ok(count),
        Some(failure) if folder.is_empty() => Err(failure),
        Some(failure) => Err(kept_for_the_same(failure)),
    }
}

/// How something that is there already is not what was sent; the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Content,
    Unreadable,
    Changed,
}

/// What is there already and is not what was sent.
#[derive(Default)]
struct Different {
    /// By how, and in the transfer's order; there may be a million more.
    named: BTreeMap<(Difference, usize), (EntryPath, String)>,
    counts: BTreeMap<Difference, u64>,
}

impl Different {
    fn handle(&mut self, at: usize, entry: &Entry, verdict: Verdict) {
        let (how, why) = match verdict {
            Verdict::Same => return,
            Verdict::Unreadable(why) => {
                (Difference::Unreadable, format!("is there already and could not be read ({why})"))
            }
            Verdict::Missing | Verdict::OtherKind(_) | Verdict::OtherSize(_) | Verdict::OtherTarget(_) => (
                Difference::Changed,
                "was there already, and was changed or removed while the rest was received".to_owned(),
            ),
            Verdict::OtherContent(_) => {
                (Difference::Content, "has the size and time of what was sent, and other content".to_owned())
            }
        };
        *self.counts.entry(how).or_default() += 1;
        self.named.insert((how, at), (entry.path.clone(), why));
        if self.named.len() > MOST_NAMED {
            self.named.pop_last();
        }
    }

    /// Names them, and says of the gravest how many there are.
    fn settle(&self, output: &Output) -> Option<Failure> {
        // For people the first is named at the end, by the error.
        let said = usize::from(!output.is_json());
        for (&(how, _), (path, message)) in self.named.iter().skip(said) {
            let cause = match how {
                Difference::Content => "exists",
                Difference::Unreadable => "unreadable",
                Difference::Changed => "changed",
            };
            output.emit(&Event::Failure { path: PathText::from(path), cause, message });
        }
        let (&(how, _), (path, why)) = self.named.first_key_value()?;
        let more = match self.counts.get(&how).map_or(0, |count| count - 1) {
            0 => String::new(),
            more => format!(" (and {more} more like it)"),
        };
        let (exit, remedy) = match how {
            Difference::Content => (Exit::VerifyFailed, "--overwrite replaces files"),
            Difference::Unreadable => (Exit::Unexpected, "make it readable, or leave it out (--exclude)"),
            Difference::Changed => (Exit::Unexpected, "run the same command again"),
        };
        Some(Failure::new(exit, format!("{path} {why}{more}: {remedy}")))
    }
}

/// What this end knows of the entries that arrived at the depot.
struct Known {
    arrived: Vec<EntryIndex>,
    /// By entry index, of those that are here.
    hashes: Vec<Option<Hash>>,
    /// Those of which the content is not asked for, is lost, or was here before.
    left_out: BTreeSet<EntryIndex>,
}

impl Known {
    fn of(folder: &Folder) -> Result<Self, Failure> {
        let layout = folder.inbound.with(|receiver| receiver.layout().clone());
        let mut unread = None;
        let mut hashes = file_hashes(&layout, |shape| {
            folder.proof(shape).unwrap_or_else(|error| {
                unread.get_or_insert(error);
                None
            })
        });
        if let Some(error) = unread {
            return Err(record_failure(&error));
        }
        folder.lost_at_depot().into_iter().for_each(|lost| hashes[lost.0 as usize] = None);
        let failed = folder.failed_at_sender();
        let arrived =
            (0..hashes.len() as u32).map(EntryIndex).filter(|index| !failed.contains(index)).collect();
        let missing = folder.unwanted().into_iter().chain(folder.lost_at_depot());
        let left_out = missing.chain(folder.skipped()).collect();
        Ok(Self { arrived, hashes, left_out })
    }

    /// Whether nothing that arrived is to get a name here.
    fn is_left_out(&self) -> bool {
        self.arrived.iter().all(|index| self.left_out.contains(index))
    }

    fn compare(&self, folder: &Folder, receipt: &ReceiptFile) -> Result<u64, Failure> {
        let (mut at, mut files, mut wrong) = (0, 0, None);
        receipt.entries(&mut |signed| {
            let Some(index) = self.arrived.get(at) else {
                at += 1;
                return false;
            };
            at += 1;
            let entry = folder.sink.entry(*index);
            let same_entry =
                entry.as_ref().is_some_and(|entry| signed.to_entry().is_ok_and(|other| other == *entry));
            let hash = match entry.and_then(|entry| entry.file_size()) {
                Some(size) if size.0 == 0 => Some(empty_file_hash()),
                Some(_) => self.hashes[index.0 as usize],
                None => None,
            };
            let unread = self.left_out.contains(index);
            let same = same_entry && (unread || signed.blake3 == hash);
            files += u64::from(same && !unread && hash.is_some());
            if !same {
                wrong = Some(signed.path.escape_debug().to_string());
            }
            same
        })?;
        match wrong {
            None if at == self.arrived.len() => Ok(files),
            None => Err(not_signed("the number of entries")),
            Some(path) => Err(not_signed(&path)),
        }
    }
}

fn not_signed(what: &str) -> Failure {
    Failure::new(
        Exit::VerifyFailed,
        format!(
            "what arrived is not what the depot signed ({what} differ): nothing got its final name; tell the sender"
        ),
    )
}
