//! `terahaul receive --dry-run`: what would be received.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terahaul_core::{ByteCount, TransferId};
use terahaul_tree::{ExistingFolder, Filter, OpenError, Overwrite};

use super::destination::{Fate, in_the_way, name_in_the_way};
use super::open_failure;
use crate::api::{Api, EntryRecord};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, counted, printable_path};

/// Looks at entry after entry as a run would.
struct Foretelling<'a> {
    dir: &'a Path,
    folder: ExistingFolder,
    overwrite: Overwrite,
    filter: &'a Filter,
    output: &'a Output,
    sums: Sums,
}

/// What a run would come to.
#[derive(Default)]
struct Sums {
    entries: u64,
    bytes: ByteCount,
    already_there: u64,
    failed: u64,
    blocked: Option<Failure>,
}

pub async fn run(
    api: &Api,
    transfer: TransferId,
    (dir, overwrite): (&Path, Overwrite),
    filter: &Filter,
    output: &Output,
) -> Result<Exit, Failure> {
    // What a run would be told at once.
    if api.transfer(transfer).await?.state == "open" {
        let message = "the transfer is still being sent, so nothing of it can be received yet: try again when it is finished";
        return Err(Failure { code: "conflict".into(), ..Failure::new(Exit::Unexpected, message) });
    }
    let folder = ExistingFolder::open(dir)
        .map_err(|source| open_failure(&OpenError::Unwritable { path: dir.into(), source }))?;
    let mut foretelling = Foretelling { dir, folder, overwrite, filter, output, sums: Sums::default() };
    api.entries(transfer, |record| foretelling.look(&record)).await?;
    let Sums { entries, bytes, already_there, failed, blocked } = foretelling.sums;
    if let Some(blocked) = blocked {
        return Err(blocked);
    }
    let there = match already_there {
        0 => String::new(),
        count => format!("; {count} more {} there already", if count == 1 { "is" } else { "are" }),
    };
    let wanted = counted(entries, "entry", "entries");
    let text = format!("would receive {wanted}, {bytes}, into {}{there}", printable_path(dir));
    let result = serde_json::json!({
        "dry_run": true,
        "entries": entries,
        "bytes": bytes,
        "already_there": already_there,
        "failed": failed,
    });
    output.emit(&Event::Done { command: "receive", result, text });
    Ok(if failed == 0 { Exit::Ok } else { Exit::Partial })
}

impl Foretelling<'_> {
    fn look(&mut self, record: &EntryRecord) -> Result<(), Failure> {
        let Self { dir, folder, overwrite, filter, output, sums } = self;
        let Ok(entry) = record.entry.to_entry() else { return Ok(()) };
        if record.superseded || !filter.selects(&entry) {
            return Ok(());
        }
        if record.state == "failed" {
            let reason = record.reason.as_deref().unwrap_or("for a reason that the depot does not say");
            let message = format!("was not sent: {reason}");
            let path = PathText::from(&entry.path);
            output.emit(&Event::Failure { path, cause: "failed", message: &message });
            sums.failed += 1;
            return Ok(());
        }
        let existing = folder.existing(&entry).map_err(|error| {
            Failure::file("looked at", &dir.join(OsStr::from_bytes(entry.path.as_bytes())), &error)
        })?;
        let fate = Fate::of(&entry, existing, *overwrite);
        let is_there = matches!(fate, Fate::Skipped | Fate::Dressed);
        match fate {
            Fate::InTheWay(obstacle) => {
                sums.blocked.get_or_insert_with(|| in_the_way(&entry.path, &obstacle));
                name_in_the_way(&entry.path, &obstacle, output);
                return Ok(());
            }
            Fate::Skipped | Fate::Dressed => sums.already_there += 1,
            Fate::Wanted | Fate::Declined => {
                sums.entries += 1;
                sums.bytes += entry.file_size().unwrap_or_default();
            }
        }
        output.emit(&Event::Entry { entry: &record.entry, present: Some(is_there) });
        Ok(())
    }
}
