//! `terahaul receive --dry-run`: what would be received.

use std::path::Path;

use terahaul_core::{ByteCount, Entry, EntryKind, TransferId};
use terahaul_tree::Filter;

use crate::api::Api;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output};

pub async fn run(
    api: &Api,
    transfer: TransferId,
    dir: &Path,
    filter: &Filter,
    output: &Output,
) -> Result<Exit, Failure> {
    let (mut entries, mut bytes) = (0_u64, ByteCount(0));
    let mut from = Some(0);
    while let Some(at) = from {
        let page = api.entries(transfer, at).await?;
        for record in page.entries.iter().filter(|record| record.state != "failed") {
            let Ok(entry) = record.entry.to_entry() else { continue };
            if !filter.selects(&entry) {
                continue;
            }
            entries += 1;
            bytes += entry.file_size().unwrap_or_default();
            output.emit(&Event::Entry { entry: &record.entry, present: Some(is_there(dir, &entry)) });
        }
        from = page.next.filter(|next| *next > at);
    }
    let text = format!("would receive {entries} entries, {bytes}, into {}", dir.display());
    let result = serde_json::json!({ "dry_run": true, "entries": entries, "bytes": bytes });
    output.emit(&Event::Done { command: "receive", result, text });
    Ok(Exit::Ok)
}

/// Whether something of this kind and size is in its place.
fn is_there(dir: &Path, entry: &Entry) -> bool {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let Ok(found) = dir.join(OsStr::from_bytes(entry.path.as_bytes())).symlink_metadata() else {
        return false;
    };
    match &entry.kind {
        EntryKind::File { size } => found.is_file() && found.len() == size.0,
        EntryKind::Directory => found.is_dir(),
        EntryKind::Symlink { .. } => found.is_symlink(),
    }
}
