//! Whether the depot signed what this run has read.

use std::sync::Arc;

use terahaul_core::{ByteCount, EntryIndex, Hash, empty_file_hash};
use terahaul_net::client::Sent;
use terahaul_tree::TreeSource;

use super::feed::Fed;
use crate::api::Api;
use crate::blocking::blocking;
use crate::commands::receipts::fetch;
use crate::exit::{Exit, Failure};
use crate::proof::{RootCheck, check_root, file_hashes};

/// How much of a receipt was compared with what this run has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Files whose hashes were compared.
    pub files: u64,
    /// Whether that is all of them.
    pub all: bool,
}

impl Proven {
    /// For the end of a sentence.
    pub fn describe(self) -> String {
        match (self.all, self.files) {
            (true, _) => ", and every file's hash is that of the bytes read here".into(),
            (false, 0) => {
                "; no file was read from end to end in this run, so none was compared with it".into()
            }
            (false, 1) => ", and the hash of the file read in this run is the one signed".into(),
            (false, files) => {
                format!(", and the hashes of the {files} files read in this run are those signed")
            }
        }
    }
}

/// Compares the root if this run has read everything; otherwise each file it has read with the receipt's entry.
pub async fn check(
    api: &Api,
    source: &Arc<TreeSource>,
    sent: &Sent,
    fed: &Fed,
    on_wait: &dyn Fn(),
) -> Result<Proven, Failure> {
    let (layout, proofs) = &sent.proofs;
    let hashes = file_hashes(layout, |shape| proofs.get(&shape.number).cloned());
    let mut failed = fed.failed.clone();
    failed.extend(sent.failures.iter().map(|failure| failure.entry));
    let arrived = move || (0..).map(EntryIndex).filter(move |index| !failed.contains(index));
    let arrived: Vec<EntryIndex> = arrived().take_while(|index| (index.0 as usize) < hashes.len()).collect();
    let of_entries =
        arrived.iter().filter_map(|index| Some((source.entry(*index)?, hashes[index.0 as usize])));
    let read = || arrived.iter().filter(|index| hashes[index.0 as usize].is_some()).count() as u64;
    match check_root(&sent.statement, of_entries) {
        RootCheck::Same => Ok(Proven { files: read(), all: true }),
        RootCheck::Different => Err(not_what_was_read("the entries")),
        RootCheck::Unknown if read() == 0 => Ok(Proven { files: 0, all: false }),
        RootCheck::Unknown => {
            let receipt = fetch(api, sent.statement.transfer, on_wait).await?;
            if receipt.statement != sent.statement {
                return Err(overtaken());
            }
            let (source, arrived) = (Arc::clone(source), arrived.clone());
            blocking(move || {
                let (mut at, mut files, mut wrong) = (0, 0, None);
                receipt.entries(&mut |signed| {
                    let known = arrived
                        .get(at)
                        .and_then(|index| Some((source.entry(*index)?, hashes[index.0 as usize])));
                    at += 1;
                    let same = known.as_ref().is_some_and(|(entry, hash)| {
                        signed.to_entry().is_ok_and(|other| other == *entry)
                            && known_hash(entry.file_size(), *hash)
                                .is_none_or(|hash| signed.blake3 == Some(hash))
                    });
                    files += u64::from(known.is_some_and(|(_, hash)| hash.is_some()));
                    if !same {
                        wrong = Some(signed.path.escape_debug().to_string());
                    }
                    same
                })?;
                match wrong {
                    None if at == arrived.len() => Ok(Proven { files, all: false }),
                    None => Err(not_what_was_read("the number of entries")),
                    Some(path) => Err(not_what_was_read(&path)),
                }
            })
            .await?
        }
    }
}

fn known_hash(size: Option<ByteCount>, read: Option<Hash>) -> Option<Hash> {
    if size == Some(ByteCount(0)) { Some(empty_file_hash()) } else { read }
}

/// What was signed since is of another run, and says nothing of this one.
fn overtaken() -> Failure {
    Failure::new(
        Exit::Unexpected,
        "another 'terahaul send' of the same files has gone on with this transfer before its receipt was here: let that one finish, and run this one again",
    )
}

fn not_what_was_read(what: &str) -> Failure {
    Failure::new(
        Exit::VerifyFailed,
        format!(
            "the depot signed something else than was sent ({what} differ): do not rely on this transfer, and tell the depot's owner"
        ),
    )
}
